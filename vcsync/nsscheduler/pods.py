"""Computes how many Pods a slice has room for, from the capacity of the pool. Pure."""

from collections.abc import Mapping

from vcsync.scheduling.resources import Resources, add
from vcsync.scheduling.slices import PODS, slice_pods
from vcsync.scheduling.snapshot import Health, SuperView


def pods_of_pool(size: Resources, views: Mapping[str, SuperView], kept: int | None) -> Resources:
    """Return how many Pods a slice has, by its share of the pool.

    While not all super clusters are healthy, the number is `kept`: a super cluster without ready nodes reports too few
    Pods.

    Args:
        size: amounts of the slice, in thousandths.
        views: id -> view of each super cluster.
        kept: the present number of Pods, in thousandths; None if there is none.
    """
    healthy = bool(views) and all(view.health is Health.READY for view in views.values())
    return {PODS: kept} if kept is not None and not healthy else slice_pods(size, whole_pool(views), kept)


def whole_pool(views: Mapping[str, SuperView]) -> Resources:
    """Return the capacity of all super clusters that report their number of Pods, in thousandths."""
    total: Resources = {}
    for view in views.values():
        if view.capacity.get(PODS):
            total = add(total, view.capacity)
    return total
