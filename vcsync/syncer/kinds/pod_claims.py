"""The claims that a Pod needs in the super cluster before it is created there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vcsync.api import names
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds.metadata import Identity, identify
from vcsync.syncer.kinds.plan import Dependency, TenantContext, View, Wait


def claims_wait(pod: Envelope, spec: Mapping[str, Any], context: TenantContext, view: View) -> Wait | None:
    """Return a Wait for the claims that the super cluster lacks; None if it has the copies of all.

    The copies must be of exactly the tenant's claims: a claim of that name could be the operator's.

    Args:
        pod: the tenant's Pod.
        spec: its spec.
        context: the tenant's settings.
        view: the caches.
    """
    missing = tuple(_missing(pod, spec, context, view))
    if not missing:
        return None
    listed = ", ".join(f"PersistentVolumeClaim {each.name}" for each in missing)
    return Wait(f"waits in super cluster {context.super_id} for {listed}", missing)


def claim_name(pod: str, volume: Mapping[str, Any]) -> str:
    """Return the claim of a Pod's volume, which for ephemeral volumes is named after both; "" if it uses none."""
    if volume.get("ephemeral") is not None:
        return f"{pod}-{volume['name']}"
    return (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""


def _missing(
    pod: Envelope, spec: Mapping[str, Any], context: TenantContext, view: View
) -> Iterator[Dependency]:
    super_namespace = names.super_namespace(context.key, pod.namespace)
    for volume in spec.get("volumes") or ():
        if not (name := claim_name(pod.name, volume)):
            continue
        v = view.tenant(PERSISTENT_VOLUME_CLAIMS, pod.namespace, name)
        p = view.super(PERSISTENT_VOLUME_CLAIMS, super_namespace, name)
        if v is None or (volume.get("ephemeral") is not None and not _was_made_for(pod, v)):
            yield Dependency("tenant", PERSISTENT_VOLUME_CLAIMS, pod.namespace, name)
        elif p is None or p.deleting or identify(v, p, context) is not Identity.OURS:
            yield Dependency("super", PERSISTENT_VOLUME_CLAIMS, super_namespace, name)


def _was_made_for(pod: Envelope, claim: Envelope) -> bool:
    """Return whether a claim was made for an ephemeral volume of this Pod, and not by a user or for an earlier Pod."""
    return any(owner.controller and owner.uid == pod.uid for owner in claim.owners)
