"""Claims of a StatefulSet's Pods: their creation, and the owners that they are deleted with. Pure.

Behaviour: Kubernetes' `pkg/controller/statefulset` (`stateful_pod_control.go`).
"""

from typing import Any

from msgspec import to_builtins

from vcsync.controllers.framework import ownership
from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.framework.plan import Create, Patch, View
from vcsync.controllers.statefulset.objects import StatefulSet, new_claim
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from vcsync.objects.envelope import Envelope, OwnerReference


def missing(view: View, set_: StatefulSet, ordinal: int) -> list[Create]:
    """Return the creations of the claims that a Pod lacks."""
    return [
        new_claim(set_, ordinal, each)
        for each in set_.claims
        if _find(view, set_, set_.claim_name(each, ordinal)) is None
    ]


def hold_up(view: View, set_: StatefulSet, ordinal: int) -> bool:
    """Return whether a Pod cannot be created yet, because a claim of an earlier Pod of its name is being deleted."""
    for template in set_.claims:
        claim = _find(view, set_, set_.claim_name(template, ordinal))
        if claim is None:
            continue
        last = set_.retention.when_scaled == "Delete" and any(
            _is_of_pod(each, set_.pod_name(ordinal)) for each in claim.owners
        )
        if claim.deleting or last:
            return True
    return False


def retained(view: View, set_: StatefulSet, ordinal: int, pod: Envelope | None) -> list[Patch]:
    """Return the patches that set a claim's owners by the set's policy; `pod` None: it is about to be created."""
    patches = []
    for template in set_.claims:
        claim = _find(view, set_, set_.claim_name(template, ordinal))
        owners = None if claim is None else _owners(claim, set_, ordinal, pod)
        if claim is not None and owners is not None:
            metadata = {
                "uid": claim.uid,
                "resourceVersion": claim.resource_version,
                "ownerReferences": owners,
            }
            place = namespace_of(claim), claim.name
            patches.append(Patch(PERSISTENT_VOLUME_CLAIMS, *place, {"metadata": metadata}))
    return patches


def conflicting(view: View, set_: StatefulSet, ordinal: int, pod: Envelope | None) -> list[str]:
    """Return the names of claims with another controller, which do not follow the set's policy."""
    names = [set_.claim_name(each, ordinal) for each in set_.claims]
    found = [(name, _find(view, set_, name)) for name in names]
    return [name for name, claim in found if claim and _is_anothers(claim, set_, ordinal, pod)]


def _find(view: View, set_: StatefulSet, name: str) -> Envelope | None:
    envelope = set_.envelope
    return view.of[PERSISTENT_VOLUME_CLAIMS].get(envelope.tenant, namespace_of(envelope), name)


def _owners(
    claim: Envelope, set_: StatefulSet, ordinal: int, pod: Envelope | None
) -> list[dict[str, Any]] | None:
    """Return the desired owners of a claim; None: it already has them, or they must not change."""
    set_uid, pod_uid = set_.envelope.uid, pod.uid if pod else ""
    ours = [each for each in claim.owners if _is_ours(each, set_, ordinal)]
    if any(each.uid not in (set_uid, pod_uid) for each in _first_of_each(ours)):
        return None
    present = {each.uid for each in claim.owners} & {set_uid, pod_uid}
    others = [to_builtins(each) for each in claim.owners if not _is_ours(each, set_, ordinal)]
    plain = [{name: value for name, value in each.items() if value is not None} for each in others]
    if _is_anothers(claim, set_, ordinal, pod):
        return plain if present else None
    condemned = ordinal not in set_.ordinals
    policy = set_.retention
    wanted = set()
    if policy.when_deleted == "Delete" and not (condemned and policy.when_scaled == "Delete"):
        wanted.add(set_uid)
        plain.append(ownership.reference(STATEFUL_SETS, set_.envelope))
    if policy.when_scaled == "Delete" and condemned and pod is not None:
        wanted.add(pod_uid)
        plain.append(ownership.reference(PODS, pod))
    weak = any(each.uid in present and not each.controller for each in claim.owners)
    return plain if present != wanted or weak else None


def _first_of_each(owners: list[OwnerReference]) -> list[OwnerReference]:
    kinds: dict[str, OwnerReference] = {}
    for each in owners:
        kinds.setdefault(each.kind, each)
    return list(kinds.values())


def _is_of_pod(owner: OwnerReference, name: str) -> bool:
    return (owner.apiVersion, owner.kind, owner.name) == (PODS.api_version, PODS.kind, name)


def _is_ours(owner: OwnerReference, set_: StatefulSet, ordinal: int) -> bool:
    named = (owner.apiVersion, owner.kind, owner.name)
    of_set = named == (STATEFUL_SETS.api_version, STATEFUL_SETS.kind, set_.envelope.name)
    return of_set or _is_of_pod(owner, set_.pod_name(ordinal))


def _is_anothers(claim: Envelope, set_: StatefulSet, ordinal: int, pod: Envelope | None) -> bool:
    policy = set_.retention
    if (policy.when_scaled, policy.when_deleted) == ("Retain", "Retain"):
        return False
    uids = {set_.envelope.uid, pod.uid if pod else ""}
    return any(
        each.uid not in uids if _is_ours(each, set_, ordinal) else bool(each.controller)
        for each in claim.owners
    )
