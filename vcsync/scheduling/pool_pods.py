"""Computes how many Pods a slice has room for, and a tenant's cap, from the capacity of the pool. Pure."""

from collections.abc import Mapping

from vcsync.scheduling.resources import Resources, add, from_quantities
from vcsync.scheduling.slices import DIMENSIONS, PODS, proportional_pods, slice_pods
from vcsync.scheduling.snapshot import Health, SuperView


def pods_of_pool(
    size: Resources, views: Mapping[str, SuperView], kept: int | None, most: int | None = None
) -> Resources:
    """Return how many Pods a slice has, by its share of the pool.

    While not all super clusters are healthy, the number is `kept`: a super cluster without ready nodes reports too few
    Pods.

    Args:
        size: amounts of the slice, in thousandths.
        views: id -> view of each super cluster.
        kept: the present number of Pods, in thousandths; None if there is none.
        most: the largest number of Pods that the slice may have, in thousandths.
    """
    if kept is not None and not is_whole(views):
        return {PODS: kept}
    return slice_pods(size, whole_pool(views), kept, most)


def is_whole(views: Mapping[str, SuperView]) -> bool:
    """Return whether all super clusters are healthy, so that the pool has all the Pods that it reports."""
    return bool(views) and all(view.health is Health.READY for view in views.values())


def whole_pool(views: Mapping[str, SuperView]) -> Resources:
    """Return the capacity of all super clusters that report their number of Pods, in thousandths."""
    total: Resources = {}
    for view in views.values():
        if view.capacity.get(PODS):
            total = add(total, view.capacity)
    return total


def cap_limits(
    cap: Mapping[str, str], reference: Mapping[str, int] | None, views: Mapping[str, SuperView]
) -> Resources:
    """Return the amounts that an operator's cap allows to all slices of a tenant together, in thousandths.

    A cap without Pods limits them in proportion to CPU and memory. Their number is increased by a third, for slices that
    were placed while the pool had more Pods for its size.

    Args:
        cap: the cap, as quantities.
        reference: the first slice of the operator that names its Pods; None if the pool determines them.
        views: id -> view of each super cluster.
    """
    limits = from_quantities({name: cap[name] for name in (*DIMENSIONS, PODS) if name in cap})
    if PODS not in limits and all(name in limits for name in DIMENSIONS):
        pods = proportional_pods(limits, reference or whole_pool(views))
        limits |= {} if pods is None else {PODS: pods if reference else pods * 4 // 3000 * 1000}
    return limits
