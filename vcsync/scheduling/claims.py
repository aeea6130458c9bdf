"""Refuses super clusters that do not have the claims of a Pod and cannot provision them. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from vcsync.scheduling.snapshot import SuperView


class ClaimNeed(Struct, frozen=True, gc=False):
    """One PersistentVolumeClaim that a Pod uses.

    Attributes:
        name: its name.
        super_id: the super cluster that has it or is to have it; empty if none does yet.
        storage_class: its StorageClass.
        problem: why no super cluster can serve it; empty if one may.
    """

    name: str
    super_id: str = ""
    storage_class: str = ""
    problem: str = ""


def refusal(claims: Sequence[ClaimNeed], super_id: str, view: SuperView | None) -> str | None:
    """Return why the claims of a Pod exclude a super cluster; None if they do not.

    Args:
        claims: the Pod's claims.
        super_id: id of the super cluster.
        view: the super cluster; None if it is not registered.
    """
    reasons = [reason for each in claims if (reason := _refusal(each, super_id, view))]
    return ", ".join(reasons) or None


def _refusal(claim: ClaimNeed, super_id: str, view: SuperView | None) -> str:
    if claim.problem:
        return claim.problem
    if claim.super_id:
        at_home = claim.super_id == super_id
        return "" if at_home else f"claim {claim.name} is on super cluster {claim.super_id}"
    if view is not None and view.publishes(claim.storage_class):
        return ""
    return f"does not publish StorageClass {claim.storage_class} of claim {claim.name}"
