"""managedFields of writes: which manager owns what, for every kind and subresource."""

from collections.abc import Mapping
from functools import cache, lru_cache, partial

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.kinds.views import VIEWS, View
from vcsync.controlplane.patch import apply, managed, resets, scale
from vcsync.controlplane.patch.managed import Tracking
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.schema import builtin, walk
from vcsync.controlplane.schema.findings import DecodeError
from vcsync.controlplane.schema.node import Schema

_ANYTHING = Schema(type="object", preserve_unknown=True)


def track(scope: Scope, live: Object | None, new: Object, manager: str) -> None:
    """Set what a create, update or patch (other than apply) leaves in `new`'s managedFields.

    Args:
        scope: of the request.
        live: what stands there, served; None: nothing.
        new: what shall stand there, served, with its defaults; changed in place.
        manager: the request's fieldManager; empty: made of the User-Agent.
    """
    entries = managed.update(
        live, new, managed.manager_name(manager, scope.agent), scope.context.now, _tracking(scope)
    )
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)


def shown_scale(scope: Scope, shown: Object, live: Object) -> None:
    """Let a Scale tell who owns the replicas of the object that it is of."""
    entries = scale.to_scale(live["metadata"].get("managedFields"), _replicas(scope))
    shown["metadata"]["managedFields"] = entries


def track_scale(scope: Scope, shown: Object, new: Object, manager: str) -> None:
    """Set what a write of a Scale leaves in its managedFields.

    Args:
        scope: of the request.
        shown: the Scale as it was shown.
        new: the Scale that was sent; changed in place.
        manager: the request's fieldManager; empty: made of the User-Agent.
    """
    sent = {**new, "metadata": {**new["metadata"], "managedFields": None}}
    name = managed.manager_name(manager, scope.agent)
    new["metadata"]["managedFields"] = managed.update(shown, sent, name, scope.context.now, _of_scale())


def apply_scale(scope: Scope, shown: Object, wanted: Object, manager: str, force: bool) -> Object:
    """Return what applying makes of a Scale; see `patch.apply.apply`."""
    now = scope.context.now
    return apply.apply(shown, wanted, manager=manager, force=force, now=now, tracking=_of_scale())


def own_scale(scope: Scope, new: Object, after: Object) -> None:
    """Set what a write of its scale leaves in an object's managedFields.

    Args:
        scope: of the request.
        new: the object with its new scale, served; changed in place.
        after: the Scale that was written, with its managedFields.
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
def _of_scale() -> Tracking:
    return Tracking(
        schema=builtin.schema("autoscaling", "v1", "Scale") or _ANYTHING,
        api_version=scale.SCALE_VERSION,
        kind="Scale",
        subresource="scale",
    )


def track_part(scope: Scope, new: Object, manager: str, part: tuple[str, str, str]) -> None:
    """Set what is told of the fields of what is sent to a subresource, of which nothing is kept.

    Args:
        scope: of the request.
        new: what was sent; changed in place.
        manager: the request's fieldManager; empty: made of the User-Agent.
        part: group, version and kind of it.
    """
    name = managed.manager_name(manager, scope.agent)
    tracking = _of_part(part, scope.subresource)
    new["metadata"]["managedFields"] = managed.update(None, new, name, scope.context.now, tracking)


@lru_cache(maxsize=16)
def _of_part(part: tuple[str, str, str], subresource: str) -> Tracking:
    group, version, kind = part
    return Tracking(
        schema=builtin.schema(*part) or _ANYTHING,
        api_version=f"{group}/{version}" if group else version,
        kind=kind,
        subresource=subresource,
        empty=managed.empty_object(*part),
    )


def applied(scope: Scope, live: Object | None, wanted: Object, manager: str, force: bool) -> Object:
    """Return what applying makes of what stands there; see `patch.apply.apply`."""
    return apply.apply(
        live, wanted, manager=manager, force=force, now=scope.context.now, tracking=_tracking(scope)
    )


def _tracking(scope: Scope) -> Tracking:
    if scope.kind.resource.custom:
        return _made(scope.kind, scope.subresource)
    return _builtin(scope.kind, scope.subresource)


@lru_cache(maxsize=1024)
def _builtin(kind: Kind, subresource: str) -> Tracking:
    return _made(kind, subresource)


def _made(kind: Kind, subresource: str) -> Tracking:
    resource = kind.resource
    versions, convert = None, None
    if resource.custom:
        reset, empty = resets.of_custom("status" in resource.subresources, subresource), None
    else:
        reset = resets.of_builtin(resource.group, resource.plural, subresource)
        empty = managed.empty_object(resource.group, resource.version, resource.kind)
        if any(resource.kind == kind for _, _, kind in VIEWS):
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
"""By apiVersion: how it differs from the stored one, None: not at all; and its schema."""


def _shapes(resource: Resource) -> _Shapes:
    """Return the versions in which a built-in resource's group serves it: of other groups' nothing is known there."""
    group, kind = resource.group, resource.kind
    served = [each for each in builtin.resources() if (each.group, each.kind) == (group, kind)]
    return {
        each.api_version: (
            VIEWS.get((group, each.version, kind)),
            builtin.schema(group, each.version, kind) or _ANYTHING,
        )
        for each in served
    }


def _converted(shapes: _Shapes, obj: Object, wanted: str) -> managed.Converted | None:
    """Bring an object, which says its version, to another one; None: there is no such version, or it does not fit it.

    What was applied is fitted to its kind only after its owners are known, and refused then.
    """
    if wanted not in shapes or obj.get("apiVersion") not in shapes:
        return None
    here, (there, schema) = shapes[obj["apiVersion"]][0], shapes[wanted]
    found = obj if here is None else here.to_storage(obj)
    found = found if there is None else there.from_storage(found)
    try:
        return walk.normalize({**found, "apiVersion": wanted}, schema), schema
    except DecodeError:
        return None
