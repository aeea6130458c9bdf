"""Sets the managedFields of writes of every kind and subresource."""

from collections.abc import Mapping
from functools import cache, lru_cache, partial

from vcsync.apimachinery.kinds import all_kinds
from vcsync.apimachinery.kinds.common.kind import View
from vcsync.apimachinery.patch import apply, managed, resets, scale
from vcsync.apimachinery.patch.managed import Tracking
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema import builtin, walk
from vcsync.apimachinery.schema.findings import DecodeError
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.request.resource import Kind
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.request.tracked_versions import tracked_versions

_ANYTHING = Schema(type="object", preserve_unknown=True)


def track(scope: Scope, live: Object | None, new: Object, manager: str) -> None:
    """Set the managedFields of an object after a create, an update or a patch other than apply.

    Args:
        scope: Scope of the request.
        live: The current object in its served form, or None for a creation.
        new: The new object in its served form with defaults, changed in place.
        manager: The fieldManager of the request. Empty: derived from the User-Agent.
    """
    entries = managed.update(
        live, new, managed.manager_name(manager, scope.agent), scope.context.now, _tracking(scope)
    )
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)


def managed_fields_to_scale(scope: Scope, current: Object, live: Object) -> None:
    """Set the managedFields of a Scale to the owners of the scaled object's replicas.

    Args:
        scope: Scope of the request.
        current: The Scale of the object, changed in place.
        live: The scaled object in its served form.
    """
    entries = scale.to_scale(live["metadata"].get("managedFields"), _replicas(scope))
    current["metadata"]["managedFields"] = entries


def track_scale(scope: Scope, live: Object, new: Object, manager: str) -> None:
    """Set the managedFields of a Scale after a write other than apply.

    Args:
        scope: Scope of the request.
        live: The current Scale.
        new: The Scale in the request, changed in place.
        manager: The fieldManager of the request. Empty: derived from the User-Agent.
    """
    sent = {**new, "metadata": {**new["metadata"], "managedFields": None}}
    name = managed.manager_name(manager, scope.agent)
    new["metadata"]["managedFields"] = managed.update(live, sent, name, scope.context.now, _scale_tracking())


def apply_scale(scope: Scope, live: Object, wanted: Object, manager: str, force: bool) -> Object:
    """Return the result of applying a Scale; see `patch.apply.apply`."""
    now = scope.context.now
    return apply.apply(live, wanted, manager=manager, force=force, now=now, tracking=_scale_tracking())


def managed_fields_from_scale(scope: Scope, new: Object, after: Object) -> None:
    """Set the managedFields of a scaled object after a write of its Scale.

    Args:
        scope: Scope of the request.
        new: The scaled object in its served form, changed in place.
        after: The new Scale with its managedFields.
    """
    metadata = new["metadata"]
    entries = scale.to_parent(
        metadata.get("managedFields"),
        after["metadata"].get("managedFields"),
        scope.kind.resource.api_version,
        _replicas(scope),
    )
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)


def _replicas(scope: Scope) -> scale.Paths:
    declared = scope.kind.replicas.items()
    return {version: None if path is None else scale.path(path) for version, path in declared}


@cache
def _scale_tracking() -> Tracking:
    return Tracking(
        schema=builtin.schema("autoscaling", "v1", "Scale") or _ANYTHING,
        api_version=scale.SCALE_VERSION,
        kind="Scale",
        subresource="scale",
    )


def track_unstored(scope: Scope, new: Object, manager: str, sort: tuple[str, str, str]) -> None:
    """Set the managedFields of an object that is sent to a subresource and not stored, such as a Binding.

    Args:
        scope: Scope of the request.
        new: The object in the request, changed in place.
        manager: The fieldManager of the request. Empty: derived from the User-Agent.
        sort: Group, version and kind of the object.
    """
    name = managed.manager_name(manager, scope.agent)
    tracking = _unstored_tracking(sort, scope.subresource)
    new["metadata"]["managedFields"] = managed.update(None, new, name, scope.context.now, tracking)


@lru_cache(maxsize=16)
def _unstored_tracking(sort: tuple[str, str, str], subresource: str) -> Tracking:
    group, version, kind = sort
    return Tracking(
        schema=builtin.schema(*sort) or _ANYTHING,
        api_version=f"{group}/{version}" if group else version,
        kind=kind,
        subresource=subresource,
        empty=managed.empty_object(*sort),
    )


def applied(scope: Scope, live: Object | None, wanted: Object, manager: str, force: bool) -> Object:
    """Return the result of applying an object; see `patch.apply.apply`."""
    return apply.apply(
        live, wanted, manager=manager, force=force, now=scope.context.now, tracking=_tracking(scope)
    )


def _tracking(scope: Scope) -> Tracking:
    if scope.kind.resource.custom:
        return _new_tracking(scope.kind, scope.subresource)
    return _builtin_tracking(scope.kind, scope.subresource)


@lru_cache(maxsize=1024)
def _builtin_tracking(kind: Kind, subresource: str) -> Tracking:
    return _new_tracking(kind, subresource)


def _new_tracking(kind: Kind, subresource: str) -> Tracking:
    resource = kind.resource
    versions: frozenset[str] | None = None
    convert = None
    if resource.custom:
        reset, empty = resets.of_custom("status" in resource.subresources, subresource), None
    else:
        reset = all_kinds.reset(resource.group, resource.plural, subresource)
        empty = managed.empty_object(resource.group, resource.version, resource.kind)
        versions = tracked_versions(resource.group, resource.kind)
        if any(each.views for each in all_kinds.KINDS if each.kind == resource.kind):
            shapes = _shapes(resource)
            versions, convert = frozenset(shapes), partial(_converted, shapes)
    return Tracking(
        schema=kind.schema or _ANYTHING,
        api_version=resource.api_version,
        kind=resource.kind,
        subresource=subresource,
        reset=reset,
        empty=empty,
        versions=versions,
        convert=convert,
    )


_Shapes = Mapping[str, tuple[View | None, Schema]]
"""apiVersion -> how the version differs from the storage version (None: not at all), and its schema."""


def _shapes(resource: Resource) -> _Shapes:
    """Return the versions of a built-in kind that its group serves. Field managers do not convert between groups."""
    group, kind = resource.group, resource.kind
    served = [each for each in builtin.resources() if (each.group, each.kind) == (group, kind)]
    declared = all_kinds.by_kind(group, kind)
    views = {} if declared is None else declared.views
    return {
        each.api_version: (
            views.get(each.version),
            builtin.schema(group, each.version, kind) or _ANYTHING,
        )
        for each in served
    }


def _converted(shapes: _Shapes, obj: Object, wanted: str) -> managed.Converted | None:
    """Convert an object to another version. Returns None if a version is unknown or the object does not fit its kind.

    An apply configuration that does not fit is refused later: it is decoded only after its fields have got their owners.
    """
    if wanted not in shapes or obj.get("apiVersion") not in shapes:
        return None
    source, (target, schema) = shapes[obj["apiVersion"]][0], shapes[wanted]
    converted = obj if source is None else source.to_storage(obj)
    converted = converted if target is None else target.from_storage(converted)
    try:
        return walk.normalize({**converted, "apiVersion": wanted}, schema), schema
    except DecodeError:
        return None
