"""Supervision of roles in one process: a failed role is restarted without affecting the others."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, Protocol

import structlog
from prometheus_client.metrics_core import CounterMetricFamily, Metric

from vcsync.cli.command.errors import explain_error
from vcsync.fairqueue import ObjectName
from vcsync.objects.times import time_text
from vcsync.status import StatusSource, TimelineSource

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
STABLE_SECONDS = 60.0
"""After this many seconds of running, a role's restart delay starts from the beginning."""

_log = structlog.get_logger(__name__)


class Role(StatusSource, Protocol):
    """A long-running part: syncer or scheduler."""

    async def run(self) -> None:
        """Work until cancelled. On cancellation finish work in progress, release the lease, and end."""
        ...


class RoleEndedError(Exception):
    """A role returned without being cancelled."""


MakeRole = Callable[[], AbstractAsyncContextManager[Role]]


class Supervised:
    """One supervised role. Its status is the role's status, or the reason why the role does not run.

    Args:
        name: Its name in logs and in the status, for instance ``syncer/r1``.
        make: Opens the role's resources and creates it; called again for every restart.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self, name: str, make: MakeRole, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._name = name
        self._make = make
        self._sleep = sleep
        self._role: Role | None = None
        self._failures = 0
        self._restarts = 0
        self._last_error: dict[str, Any] | None = None

    async def run(self) -> None:
        """Run the role until cancelled."""
        while True:
            started = time.monotonic()
            error: Exception = RoleEndedError(f"{self._name} ended by itself")
            try:
                async with self._make() as self._role:
                    await self._role.run()
            except Exception as failure:  # noqa: BLE001  the process stands for all roles, whatever one meets
                error = failure
            finally:
                self._role = None
            self._failed(error, time.monotonic() - started)
            await self._sleep(pause(self._failures))

    def _failed(self, error: Exception, lasted: float) -> None:
        self._failures = 1 if lasted >= STABLE_SECONDS else self._failures + 1
        self._restarts += 1
        text = describe(error)
        self._last_error = {"time": time_text(datetime.now(UTC)), "error": text}
        # Log a traceback only of defects, not of errors with a remedy.
        trace = error if explain_error(error) is None else None
        _log.error("role failed", role=self._name, error=text, pause=pause(self._failures), exc_info=trace)

    def ready(self) -> tuple[bool, str]:
        """Return the role's readiness, or why it does not run."""
        if self._role is not None:
            return self._role.ready()
        return False, f"failed: {self._last_error['error']}" if self._last_error else "starts"

    def status(self) -> dict[str, Any]:
        """Return the role's state with its number of restarts."""
        own = {"restarts": self._restarts, "lastFailure": self._last_error}
        return {**(self._role.status() if self._role is not None else {}), **own}

    def timeline(self, tenant: str, name: ObjectName) -> list[dict[str, Any]]:
        """Return the transitions of an object that the role remembers; empty if it does not run or keeps none."""
        return self._role.timeline(tenant, name) if isinstance(self._role, TimelineSource) else []

    def metrics(self) -> Iterable[Metric]:
        """Return the role's metrics and the number of its restarts."""
        restarts = CounterMetricFamily(
            "vcsync_role_restarts", "Number of restarts of the role after failures"
        )
        restarts.add_metric([], float(self._restarts))
        yield restarts
        if self._role is not None:
            yield from self._role.metrics()


class Keeper:
    """A changing set of supervised roles; a mapping of their names for the status server.

    Use it as an async context manager: its exit cancels all roles and waits for their end.

    Args:
        sources: the mapping, if another keeper shares it.
    """

    def __init__(self, sources: dict[str, StatusSource] | None = None) -> None:
        self.sources: dict[str, StatusSource] = {} if sources is None else sources
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> "Keeper":
        """Begin."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel all roles concurrently and wait for their end."""
        for name in list(self._tasks):
            self._tasks[name].cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for name in self._tasks:
            self.sources.pop(name, None)
        self._tasks.clear()

    def names(self) -> Iterator[str]:
        """Return the names of the supervised roles."""
        return iter(tuple(self._tasks))

    def start(self, name: str, make: MakeRole) -> None:
        """Supervise one more role."""
        supervised = Supervised(name, make)
        self.sources[name] = supervised
        self._tasks[name] = asyncio.create_task(supervised.run(), name=name)

    async def stop(self, name: str) -> None:
        """End a role; returns when it has ended."""
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.sources.pop(name, None)


def pause(failures: int) -> float:
    """Return the delay in seconds after this number of failures in a row: 1, 2, 4 ... 60."""
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10)))


def describe(error: BaseException) -> str:
    """Format an error as one line; of a group, its first leaf."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
