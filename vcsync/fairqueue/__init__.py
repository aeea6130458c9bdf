"""Weighted fair queueing of work items between tenants, with retries, and the worker pool that runs them.

`FairQueue` is the pure core: it has neither a clock nor I/O, every method is told the time.
`WorkerPool` is the asyncio around it and what controllers use.
"""

from vcsync.fairqueue.backoff import Backoff
from vcsync.fairqueue.errors import LastError
from vcsync.fairqueue.queue import FairQueue, QueueStatistics
from vcsync.fairqueue.workers import HandlerCancelledError, WorkerPool

__all__ = ["Backoff", "FairQueue", "HandlerCancelledError", "LastError", "QueueStatistics", "WorkerPool"]
