"""What keeps new slices off a super cluster: a table of small tests, each naming its reason."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from vcsync.scheduling.resources import Resources, show
from vcsync.scheduling.slices import PODS
from vcsync.scheduling.snapshot import Health, SuperView

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


class Refusal(Struct, frozen=True):
    """Why a super cluster takes no more: the filter's name and what is missing.

    `message` is for operators. `public` is what a tenant may read instead, where the message tells what others
    have left; empty if it does not.
    """

    filter: str
    message: str
    public: str = ""


_HEALTH_TEXT = {
    Health.LOST: "lost: no heartbeat beyond the grace period",
    Health.UNKNOWN: "has not reported yet",
    Health.SUSPECT: "suspect: heartbeats are missing or it reports not to be ready",
}


def health(view: SuperView, _size: Mapping[str, int]) -> str | None:
    """Only a super cluster in good health gets new slices."""
    return _HEALTH_TEXT.get(view.health)


def cordon(view: SuperView, _size: Mapping[str, int]) -> str | None:
    """An operator keeps everything new off it."""
    return "cordoned" if view.cordoned else None


def drain(view: SuperView, _size: Mapping[str, int]) -> str | None:
    """An operator is emptying it."""
    return "draining" if view.draining else None


def taint(view: SuperView, _size: Mapping[str, int]) -> str | None:
    """Tainted super clusters take only pinned slices."""
    for item in view.taints:
        if item.effect in HARD_EFFECTS:
            return f"taint {item.key}={item.value}:{item.effect}; only pinned slices go there"
    return None


def largest_node(view: SuperView, size: Mapping[str, int]) -> str | None:
    """A slice that fits no node could never be used whole by one Pod; how many Pods it has is another matter."""
    for name in sorted(set(size) - {PODS}):
        most = view.largest_node.get(name)
        if most is not None and size[name] > most:
            return f"a slice has {name} {show(name, size[name])}, its largest node {show(name, most)}"
    return None


Filter = Callable[[SuperView, Mapping[str, int]], str | None]

FREE: tuple[tuple[str, Filter], ...] = (
    ("Health", health),
    ("Cordon", cordon),
    ("Drain", drain),
    ("Taint", taint),
    ("LargestNode", largest_node),
)
"""For slices that may go anywhere. Capacity and the tenant's cap are for `place_slices` to count."""

PINNED: tuple[tuple[str, Filter], ...] = tuple(entry for entry in FREE if entry[0] != "Taint")
"""For slices that an operator pinned to a super cluster: a pin tolerates taints."""


def refusals(filters: tuple[tuple[str, Filter], ...], view: SuperView, size: Resources) -> list[Refusal]:
    """Every filter's objection to a slice of this size on this super cluster."""
    found = ((name, test(view, size)) for name, test in filters)
    return [Refusal(name, message) for name, message in found if message is not None]
