"""The claims that a Pod needs in the super cluster before it is created there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vcsync.api import names
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, RESOURCE_CLAIMS, Resource
from vcsync.objects.envelope import Envelope, untyped
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
    missing = (*_missing(pod, spec, context, view), *_missing_devices(pod, spec, context, view))
    if not missing:
        return None
    listed = ", ".join(f"{each.resource.kind} {each.name}" for each in missing)
    return Wait(f"waits in super cluster {context.super_id} for {listed}", missing)


def claim_name(pod: str, volume: Mapping[str, Any]) -> str:
    """Return the claim of a Pod's volume, which for ephemeral volumes is named after both; "" if it uses none."""
    if volume.get("ephemeral") is not None:
        return f"{pod}-{volume['name']}"
    return (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""


def _missing(
    pod: Envelope, spec: Mapping[str, Any], context: TenantContext, view: View
) -> Iterator[Dependency]:
    for volume in spec.get("volumes") or ():
        if not (name := claim_name(pod.name, volume)):
            continue
        made = volume.get("ephemeral") is not None
        yield from _lacking(PERSISTENT_VOLUME_CLAIMS, pod, name, context, view, made=made)


def _missing_devices(
    pod: Envelope, spec: Mapping[str, Any], context: TenantContext, view: View
) -> Iterator[Dependency]:
    if not spec.get("resourceClaims"):
        return
    generated = generated_claims(pod)
    for reference in spec["resourceClaims"]:
        made = not reference.get("resourceClaimName")
        name = device_claim(reference, generated)
        if name:
            yield from _lacking(RESOURCE_CLAIMS, pod, name, context, view, made=made)
        elif name is None:
            yield Dependency("tenant", RESOURCE_CLAIMS, pod.namespace, f"of {reference.get('name', '')}")


def generated_claims(pod: Envelope) -> dict[str, str]:
    """Return the ResourceClaims that were made for a Pod from templates, by the Pod's name for them; "" if it needs none."""
    statuses = untyped(pod.status).get("resourceClaimStatuses") if pod.status else None
    return {each.get("name", ""): each.get("resourceClaimName") or "" for each in statuses or ()}


def device_claim(reference: Mapping[str, Any], generated: Mapping[str, str]) -> str | None:
    """Return the ResourceClaim of an entry of `spec.resourceClaims`; "" if it needs none, None if it is still to be made."""
    return reference.get("resourceClaimName") or generated.get(reference.get("name", ""))


def _lacking(
    resource: Resource, pod: Envelope, name: str, context: TenantContext, view: View, *, made: bool
) -> Iterator[Dependency]:
    """Yield what a Pod waits for until the super cluster has the copy of a claim.

    Args:
        resource: the claim's resource.
        pod: the tenant's Pod.
        name: the claim.
        context: the tenant's settings.
        view: the caches.
        made: whether the claim must have been made for this Pod.
    """
    super_namespace = names.super_namespace(context.key, pod.namespace)
    v = view.tenant(resource, pod.namespace, name)
    p = view.super(resource, super_namespace, name)
    if v is None or (made and not _was_made_for(pod, v)):
        yield Dependency("tenant", resource, pod.namespace, name)
    elif p is None or p.deleting or identify(v, p, context) is not Identity.OURS:
        yield Dependency("super", resource, super_namespace, name)


def _was_made_for(pod: Envelope, claim: Envelope) -> bool:
    """Return whether a claim was made for an ephemeral volume of this Pod, and not by a user or for an earlier Pod."""
    return any(owner.controller and owner.uid == pod.uid for owner in claim.owners)
