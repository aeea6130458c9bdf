"""How many Pods a slice has room for, by what the pool of super clusters runs. Pure."""

from collections.abc import Mapping

from vcsync.scheduling.resources import Resources, add
from vcsync.scheduling.slices import PODS, slice_pods
from vcsync.scheduling.snapshot import Health, SuperView


def pods_of_pool(size: Resources, views: Mapping[str, SuperView], kept: int | None) -> Resources:
    """How many Pods a slice has by its share of the pool, or those it has `kept` while not all of the pool is well.

    A super cluster whose nodes are not ready says nothing of how many Pods it runs otherwise.
    """
    well = bool(views) and all(view.health is Health.READY for view in views.values())
    return {PODS: kept} if kept is not None and not well else slice_pods(size, whole_pool(views), kept)


def whole_pool(views: Mapping[str, SuperView]) -> Resources:
    """All that may be dealt out on those super clusters that say how many Pods they run (thousandths)."""
    total: Resources = {}
    for view in views.values():
        if view.capacity.get(PODS):
            total = add(total, view.capacity)
    return total
