"""Events that controllers report, tenant by tenant: one that floods its own loses only its own."""

import asyncio
import time
from contextlib import suppress

from vcsync.kube.client import Client
from vcsync.kube.events import EventRecorder, EventType, ObjectRef

IDLE_SECONDS = 1800.0
"""A tenant's recorder is given up after so long without an Event; by then no repeat is counted on an old one."""


class Reporter:
    """Writes Events of many tenants in the background."""

    def __init__(self, server: Client) -> None:
        """Take the client of the control plane."""
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
        """Report an Event; returns at once. While nothing runs, nothing is reported."""
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
