"""Events that controllers report, per tenant: a tenant with too many Events loses only its own Events."""

import asyncio
import time
from contextlib import suppress

from vcsync.kube.client import Client
from vcsync.kube.events import EventRecorder, EventType, ObjectRef

IDLE_SECONDS = 1800.0
"""Seconds without an Event after which a tenant's recorder is removed; a repeat then starts a new Event."""


class Reporter:
    """Writes Events of many tenants in the background."""

    def __init__(self, server: Client) -> None:
        """Initialize with the client of the control plane."""
        self._server = server
        self._recorders: dict[tuple[str, str], tuple[EventRecorder, asyncio.Task[None]]] = {}
        self._last: dict[tuple[str, str], float] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                while True:
                    await asyncio.sleep(IDLE_SECONDS / 4)
                    self._forget_idle(time.monotonic())
            finally:
                self._tasks = None

    def emit(  # noqa: PLR0917 - an Event's parts
        self,
        tenant: str,
        component: str,
        about: ObjectRef,
        type: EventType,  # noqa: A002 - the API's word
        reason: str,
        message: str,
        *,
        now: float,
    ) -> None:
        """Report an Event without waiting for its write. Events are dropped while the reporter does not run."""
        if self._tasks is None:
            return
        key = (tenant, component)
        if key not in self._recorders:
            recorder = EventRecorder(self._server.below(f"/tenants/{tenant}"), component)
            self._recorders[key] = (recorder, self._tasks.create_task(self._write(recorder)))
        self._last[key] = time.monotonic()
        self._recorders[key][0].emit(about, type, reason, message, now=now)

    @staticmethod
    async def _write(recorder: EventRecorder) -> None:
        with suppress(asyncio.CancelledError):
            await recorder.run()

    def _forget_idle(self, now: float) -> None:
        for key in [each for each, last in self._last.items() if now - last > IDLE_SECONDS]:
            del self._last[key]
            self._recorders.pop(key)[1].cancel()
