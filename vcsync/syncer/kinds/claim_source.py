"""Clones: a claim whose data is to be that of another claim of the same namespace, on the same super cluster.

A copy names its source by name only, and the super cluster's provisioner resolves that name later. So the claim of that name
there has to be the copy of the tenant's own claim, when the clone is created and as long as it has no volume: a claim of the
operator with the same name must never be cloned.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from vcsync.api import names
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS
from vcsync.objects.envelope import Envelope, decode
from vcsync.syncer.kinds.metadata import Identity, identify
from vcsync.syncer.kinds.plan import Dependency, TenantContext, View, Wait

FIELDS: Final = ("dataSource", "dataSourceRef")
"""Fields of a claim's spec that name a source. API servers copy each to the other."""


class _Source(Struct, frozen=True, gc=False, rename="camel"):
    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


class _Spec(Struct, frozen=True, gc=False, rename="camel"):
    data_source: _Source | None = None
    data_source_ref: _Source | None = None


def refusal(source: dict[str, Any]) -> str:
    """Return why a source is refused, with the remedy; empty if it is a claim of the same namespace."""
    if source.get("namespace"):
        return "sources in other namespaces are not supported; remove namespace"
    if source.get("apiGroup") or source.get("kind") != PERSISTENT_VOLUME_CLAIMS.kind:
        return "only PersistentVolumeClaims of the same namespace are supported as sources; remove it"
    return ""


def source_name(claim: Envelope) -> str:
    """Return the name of the claim that a claim or its copy is a clone of; empty if it is not a clone."""
    spec = decode(claim.spec, _Spec)
    source = spec.data_source or spec.data_source_ref
    return source.name if source is not None else ""


def data_source(claim: Envelope) -> dict[str, Any]:
    """Return the source as a field of the copy's spec; empty if the claim is not a clone."""
    name = source_name(claim)
    return {"dataSource": {"kind": PERSISTENT_VOLUME_CLAIMS.kind, "name": name}} if name else {}


def dependencies(v: Envelope, context: TenantContext) -> tuple[Dependency, ...]:
    """Return both objects of the source of a clone."""
    name = source_name(v)
    place = names.super_namespace(context.key, v.namespace)
    return (
        Dependency("tenant", PERSISTENT_VOLUME_CLAIMS, v.namespace, name),
        Dependency("super", PERSISTENT_VOLUME_CLAIMS, place, name),
    )


def source_copy(v: Envelope, context: TenantContext, view: View) -> Envelope | None:
    """Return the copy of the source of a clone; None if the super cluster does not have it.

    A claim of that name which is not the copy of exactly the tenant's claim does not count.
    """
    above, below = dependencies(v, context)
    source = view.tenant(PERSISTENT_VOLUME_CLAIMS, above.namespace, above.name)
    copy = view.super(PERSISTENT_VOLUME_CLAIMS, below.namespace, below.name)
    if source is None or copy is None or identify(source, copy, context) is not Identity.OURS:
        return None
    return copy


def source_wait(v: Envelope, context: TenantContext, view: View) -> Wait | None:
    """Return a Wait if the source of a clone is not here, or is being deleted; None if it is here or there is none."""
    name = source_name(v)
    if not name:
        return None
    copy = source_copy(v, context, view)
    if copy is not None and not copy.deleting:
        return None
    reason = (
        f"waits in super cluster {context.super_id} for PersistentVolumeClaim {name}, of which it is a clone"
    )
    return Wait(reason, dependencies(v, context))


def is_elsewhere(v: Envelope, context: TenantContext, view: View) -> bool:
    """Return whether the source of a clone is assigned to another super cluster, so that the clone has to follow it."""
    above = dependencies(v, context)[0]
    source = view.tenant(PERSISTENT_VOLUME_CLAIMS, above.namespace, above.name) if above.name else None
    return source is not None and source.labels.get(names.SUPER_CLUSTER, "") not in ("", context.super_id)


def is_swapped(v: Envelope, p: Envelope, context: TenantContext, view: View) -> bool:
    """Return whether the source of a clone is not the one any more that the copy `p` was made from."""
    copy = source_copy(v, context, view)
    return copy is None or copy.uid != p.annotations.get(names.SOURCE_UID, "")
