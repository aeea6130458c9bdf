"""managedFields of writes: which manager owns what, for every kind and subresource."""

from functools import lru_cache

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.patch import apply, managed, resets, scale
from vcsync.controlplane.patch.managed import Tracking
from vcsync.controlplane.rest.kind import Kind
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.schema import builtin
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


def track_scale(scope: Scope, new: Object, before: Object, after: Object, manager: str) -> None:
    """Set what a write of its scale leaves in an object's managedFields.

    Args:
        scope: of the request.
        new: the object with its new scale, served; changed in place.
        before: the Scale that it showed.
        after: the Scale that was sent.
        manager: the request's fieldManager; empty: made of the User-Agent.
    """
    resource = scope.kind.resource
    where = scale.path(scope.kind.scale.spec) if scope.kind.scale else scale.REPLICAS
    paths = {resource.api_version: where}
    metadata = new["metadata"]
    old_entries = metadata.get("managedFields")
    shown = {
        **before,
        "metadata": {**before["metadata"], "managedFields": scale.to_scale(old_entries, paths)},
    }
    sent = {**after, "metadata": {**(after.get("metadata") or {}), "managedFields": None}}
    schema = builtin.schema("autoscaling", "v1", "Scale") or _ANYTHING
    tracking = Tracking(schema=schema, api_version="autoscaling/v1", kind="Scale", subresource="scale")
    name = managed.manager_name(manager, scope.agent)
    owners = managed.update(shown, sent, name, scope.context.now, tracking)
    entries = scale.to_parent(old_entries, owners, resource.api_version, paths)
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)


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
    if resource.custom:
        reset, empty = resets.of_custom("status" in resource.subresources, subresource), None
    else:
        reset = resets.of_builtin(resource.group, resource.plural, subresource)
        empty = managed.empty_object(resource.group, resource.version, resource.kind)
    return Tracking(
        schema=kind.schema or _ANYTHING,
        api_version=resource.api_version,
        kind=resource.kind,
        subresource=subresource,
        reset=reset,
        empty=empty,
    )
