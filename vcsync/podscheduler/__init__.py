"""Pod scheduler: one super cluster for every Pod, among those where its namespace holds slices."""

from vcsync.podscheduler.scheduler import PodScheduler
from vcsync.podscheduler.settings import Settings

__all__ = ["PodScheduler", "Settings"]
