"""Retrieves the results of tasks that may outlive the cancellation of all their waiters."""

import asyncio
from typing import Any


def retrieve(done: asyncio.Future[Any]) -> None:
    """Mark the exception of a task as retrieved. Use it as the done callback of tasks awaited through `asyncio.shield`.

    If the waiter is cancelled, no one awaits the task, and asyncio would report "exception was never retrieved".
    """
    if not done.cancelled():
        done.exception()
