"""Refuses super clusters that do not have the claims of a Pod, to volumes and devices, and cannot serve them. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from vcsync.scheduling.snapshot import Health, SuperView


class ClaimNeed(Struct, frozen=True, gc=False):
    """One PersistentVolumeClaim or ResourceClaim that a Pod uses.

    Attributes:
        name: its name.
        super_id: the super cluster that has it or is to have it; empty if none does yet.
        storage_class: its StorageClass.
        problem: why no super cluster can serve it; empty if one may.
        returns: super cluster -> how often it has given the claim back, because it could not provision it.
        source: super cluster that has the claim or snapshot from which this one is to be made; empty if there is none.
        restored: whether that is a snapshot.
        most_returns: number of returns above which a super cluster is refused; None for any.
        device_classes: DeviceClasses of a ResourceClaim; None for a PersistentVolumeClaim.
        unread: whether nothing is known of it, for the reason in `problem`.
    """

    name: str
    super_id: str = ""
    storage_class: str = ""
    problem: str = ""
    returns: Mapping[str, int] = {}
    most_returns: int | None = None
    source: str = ""
    restored: bool = False
    device_classes: tuple[str, ...] | None = None
    unread: bool = False


def steps(claims: Sequence[ClaimNeed]) -> list[tuple[ClaimNeed, ...]]:
    """Return the claims of a Pod for each attempt to place it.

    The first refuses super clusters that have given a claim back, the next one those that have done so more than once, and
    so on. The last refuses none for that reason.
    """
    levels = sorted({0, *(count for each in claims for count in each.returns.values())})
    return [tuple(replace(each, most_returns=level) for each in claims) for level in levels]


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
    if claim.source and claim.source != super_id:
        made = "restored from a VolumeSnapshot" if claim.restored else "a clone of one"
        return f"claim {claim.name} is {made} on super cluster {claim.source}"
    return _unable(claim, super_id, view)


def _unable(claim: ClaimNeed, super_id: str, view: SuperView | None) -> str:
    """Return why a super cluster cannot provision a claim; empty if it may be able to."""
    if view is not None and view.health is Health.LOST:
        return f"cannot provision claim {claim.name} while it is lost"
    if claim.device_classes is not None:
        lacking = [each for each in claim.device_classes if view is None or not view.publishes_devices(each)]
        return f"does not publish DeviceClass {', '.join(lacking)} of claim {claim.name}" if lacking else ""
    if view is None or not view.publishes(claim.storage_class):
        return f"does not publish StorageClass {claim.storage_class} of claim {claim.name}"
    returns = claim.returns.get(super_id, 0)
    if claim.most_returns is None or returns <= claim.most_returns:
        return ""
    return f"could not provision claim {claim.name} ({returns} times)"
