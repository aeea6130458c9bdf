"""Filters of the namespace scheduler: each returns why a super cluster cannot take a new slice."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from vcsync.scheduling.resources import Resources, show
from vcsync.scheduling.slices import PODS
from vcsync.scheduling.snapshot import Health, SuperView

HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


class Refusal(Struct, frozen=True):
    """The reason why a super cluster takes no more slices.

    Attributes:
        filter: name of the filter that refused.
        message: the reason, for operators.
        public: the reason for tenants; empty if they may read `message`. It is set if `message` shows amounts that
            depend on other tenants.
    """

    filter: str
    message: str
    public: str = ""


_HEALTH_TEXT = {
    Health.LOST: "lost: no heartbeat beyond the grace period",
    Health.RECOVERING: "recovering: it works again, and gets no slices until it has worked for long enough",
    Health.UNKNOWN: "has not reported yet",
    Health.SUSPECT: "suspect: heartbeats are missing or it reports not to be ready",
}


def health(view: SuperView, _size: Mapping[str, int]) -> str | None:
    """Refuse a super cluster that is not ready."""
    return _HEALTH_TEXT.get(view.health)


def cordon(view: SuperView, _size: Mapping[str, int]) -> str | None:
    """Refuse a super cluster that an operator has cordoned."""
    return "cordoned" if view.cordoned else None


def drain(view: SuperView, _size: Mapping[str, int]) -> str | None:
    """Refuse a super cluster that is being drained."""
    return "draining" if view.draining else None


def taint(view: SuperView, _size: Mapping[str, int]) -> str | None:
    """Refuse a tainted super cluster, which takes only pinned slices."""
    for item in view.taints:
        if item.effect in HARD_EFFECTS:
            return f"taint {item.key}={item.value}:{item.effect}; only pinned slices go there"
    return None


def largest_node(view: SuperView, size: Mapping[str, int]) -> str | None:
    """Refuse slices larger than the largest node, since no Pod could use a whole slice. The number of Pods is ignored."""
    for name, most in sorted(view.largest_node.items()):
        if name != PODS and size.get(name, 0) > most:
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
"""Filters for slices that may go to any super cluster. `place_slices` checks the capacity and the tenant's cap."""

PINNED: tuple[tuple[str, Filter], ...] = tuple(entry for entry in FREE if entry[0] != "Taint")
"""Filters for slices that an operator pinned to a super cluster. A pin tolerates taints."""


def refusals(filters: tuple[tuple[str, Filter], ...], view: SuperView, size: Resources) -> list[Refusal]:
    """Return the refusals of all filters for a slice of `size` on a super cluster."""
    return [Refusal(name, message) for name, test in filters if (message := test(view, size)) is not None]
