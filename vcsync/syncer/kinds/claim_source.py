"""Sources of claims: another claim (a clone) or a VolumeSnapshot of the same namespace, on the same super cluster.

A copy names its source by name only, and the super cluster's provisioner resolves that name later. So the object of that name
there has to be the copy of the tenant's own, when the claim is created and as long as it has no volume: a claim or a snapshot
of the operator with the same name must never be its source.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from vcsync.api import names
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, VOLUME_SNAPSHOTS, Resource
from vcsync.objects.envelope import Envelope, decode
from vcsync.syncer.kinds.metadata import Identity, identify
from vcsync.syncer.kinds.plan import Dependency, TenantContext, View, Wait

FIELDS: Final = ("dataSource", "dataSourceRef")
"""Fields of a claim's spec that name a source. API servers copy each to the other."""

_KINDS: Final = {(each.group, each.kind): each for each in (PERSISTENT_VOLUME_CLAIMS, VOLUME_SNAPSHOTS)}
"""The kinds of sources that are supported, by API group and kind."""


class _Source(Struct, frozen=True, gc=False, rename="camel"):
    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


class _Spec(Struct, frozen=True, gc=False, rename="camel"):
    data_source: _Source | None = None
    data_source_ref: _Source | None = None


def refusal(source: dict[str, Any]) -> str:
    """Return why a source is refused, with the remedy; empty if it is a claim or a snapshot of the same namespace."""
    if source.get("namespace"):
        return "sources in other namespaces are not supported; remove namespace"
    if (source.get("apiGroup") or "", source.get("kind")) not in _KINDS:
        return (
            "only PersistentVolumeClaims and VolumeSnapshots of the same namespace are supported as sources; "
            "remove it"
        )
    return ""


def _source(claim: Envelope) -> tuple[Resource, str] | None:
    spec = decode(claim.spec, _Spec)
    source = spec.data_source or spec.data_source_ref
    if source is None or not source.name:
        return None
    return _KINDS.get((source.api_group or "", source.kind), PERSISTENT_VOLUME_CLAIMS), source.name


def source_name(claim: Envelope) -> str:
    """Return the name of the claim or snapshot that a claim or its copy is made from; empty if it has no source."""
    source = _source(claim)
    return source[1] if source is not None else ""


def data_source(claim: Envelope) -> dict[str, Any]:
    """Return the source as a field of the copy's spec; empty if the claim has none."""
    source = _source(claim)
    if source is None:
        return {}
    resource, name = source
    group = {"apiGroup": resource.group} if resource.group else {}
    return {"dataSource": {**group, "kind": resource.kind, "name": name}}


def dependencies(v: Envelope, context: TenantContext) -> tuple[Dependency, ...]:
    """Return both objects of the source of a claim."""
    resource, name = _source(v) or (PERSISTENT_VOLUME_CLAIMS, "")
    place = names.super_namespace(context.key, v.namespace)
    return (
        Dependency("tenant", resource, v.namespace, name),
        Dependency("super", resource, place, name),
    )


def source_copy(v: Envelope, context: TenantContext, view: View) -> Envelope | None:
    """Return the copy of the source of a claim; None if the super cluster does not have it.

    An object of that name which is not the copy of exactly the tenant's does not count.
    """
    above, below = dependencies(v, context)
    source = view.tenant(above.resource, above.namespace, above.name)
    copy = view.super(below.resource, below.namespace, below.name)
    if source is None or copy is None or identify(source, copy, context) is not Identity.OURS:
        return None
    return copy


def source_wait(v: Envelope, context: TenantContext, view: View) -> Wait | None:
    """Return a Wait if the source of a claim is not here, or is being deleted; None if it is here or there is none."""
    source = _source(v)
    if source is None:
        return None
    copy = source_copy(v, context, view)
    if copy is not None and not copy.deleting:
        return None
    resource, name = source
    made = "of which it is a clone" if resource == PERSISTENT_VOLUME_CLAIMS else "from which it is restored"
    reason = f"waits in super cluster {context.super_id} for {resource.kind} {name}, {made}"
    return Wait(reason, dependencies(v, context))


def is_elsewhere(v: Envelope, context: TenantContext, view: View) -> bool:
    """Return whether the source of a claim is assigned to another super cluster, so that the claim has to follow it."""
    above = dependencies(v, context)[0]
    source = view.tenant(above.resource, above.namespace, above.name) if above.name else None
    return source is not None and source.labels.get(names.SUPER_CLUSTER, "") not in ("", context.super_id)


def is_swapped(v: Envelope, p: Envelope, context: TenantContext, view: View) -> bool:
    """Return whether the source of a claim is not the one any more that the copy `p` was made from."""
    copy = source_copy(v, context, view)
    return copy is None or copy.uid != p.annotations.get(names.SOURCE_UID, "")
