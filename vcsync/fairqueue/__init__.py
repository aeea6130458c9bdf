"""Weighted fair queueing of work items between tenants, with retries, and the worker pool that runs them.

`FairQueue` is the pure core without clock and I/O: the time is an argument of its methods. `WorkerPool` is the asyncio shell
that controllers use.
"""

from vcsync.fairqueue.backoff import Backoff
from vcsync.fairqueue.errors import LastError
from vcsync.fairqueue.queue import FairQueue, QueueStatistics
from vcsync.fairqueue.reconciles import Reconciles
from vcsync.fairqueue.timeline import ObjectName, Timeline, Transition
from vcsync.fairqueue.workers import HandlerCancelledError, WorkerPool

__all__ = [
    "Backoff",
    "FairQueue",
    "HandlerCancelledError",
    "LastError",
    "ObjectName",
    "QueueStatistics",
    "Reconciles",
    "Timeline",
    "Transition",
    "WorkerPool",
]
