"""What schedulers know of super clusters when they decide: capacity, health, what keeps slices away."""

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct

from vcsync.kube.quantity import InvalidQuantity, milli
from vcsync.scheduling.resources import Resources


class Health(IntEnum):
    """How far a super cluster is to be trusted; the higher the better."""

    LOST = 0  # silent beyond the grace period
    UNKNOWN = 1  # has never reported
    SUSPECT = 2  # missed heartbeats, or its syncer says that it is not ready
    READY = 3


class Taint(Struct, frozen=True):
    """Keeps slices away: NoSchedule and NoExecute do, PreferNoSchedule makes it the last choice."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class SuperView(Struct, frozen=True):
    """One super cluster. Amounts in thousandths of their unit.

    `capacity`: what may be dealt out. `largest_node`: the most that one node offers; resources it does
    not name are not known. `price`: millionths per hour and unit (a CPU, a GiB), by resource.
    """

    id: str
    health: Health
    capacity: Resources
    largest_node: Resources = {}
    cordoned: bool = False
    draining: bool = False
    taints: tuple[Taint, ...] = ()
    price: Resources = {}


def judge_health(
    *, silent_for: float | None, reachable: bool, ready: bool, suspect_after: float, lost_after: float
) -> Health:
    """Health by seconds since the last heartbeat (None: there was none) and the syncer's own conditions."""
    if silent_for is None:
        return Health.UNKNOWN
    if silent_for >= lost_after:
        return Health.LOST
    if silent_for >= suspect_after or not (reachable and ready):
        return Health.SUSPECT
    return Health.READY


class InvalidHeadroom(ValueError):
    """A SuperCluster's headroom cannot be used; the text names the field and the remedy."""


def capacity_to_deal(
    allocatable: Mapping[str, int], headroom: Mapping[str, str], overcommit: Mapping[str, str]
) -> Resources:
    """What of `allocatable` is dealt out in slices; never below zero.

    Args:
        allocatable: what nodes offer, in thousandths.
        headroom: what the operator keeps back, an amount or a share like `10%`.
        overcommit: how much of the rest is dealt out, like `200%`.

    Raises:
        InvalidHeadroom: for text that is neither amount nor share.
    """
    return {
        name: max(0, amount - _kept_back(name, amount, headroom.get(name)))
        * int(overcommit.get(name, "100%").removesuffix("%"))
        // 100
        for name, amount in allocatable.items()
    }


def _kept_back(name: str, amount: int, text: str | None) -> int:
    if text is None:
        return 0
    try:
        kept = -(-amount * milli(text[:-1]) // 100_000) if text.endswith("%") else milli(text)
    except InvalidQuantity as error:
        raise InvalidHeadroom(
            f"spec.headroom.{name}: {text!r} is neither a quantity like 2 or 4Gi nor a share like 10%"
        ) from error
    if kept < 0:
        raise InvalidHeadroom(f"spec.headroom.{name}: {text!r} is negative; write 0 or more")
    return kept
