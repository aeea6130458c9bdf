"""Records Kubernetes Events in the background. Repeats are counted in the first Event."""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from msgspec import Struct

from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, KubeError, NotFound, describe
from vcsync.kube.resources import EVENTS
from vcsync.objects.times import unix_time_text

EventType = Literal["Normal", "Warning"]
_LONGEST_QUEUE = 1000
"""Most Events in the queue."""
_LONGEST_MEMORY = 4096
"""Most written Events that are remembered, in order to count their repeats."""
_FORGOTTEN_AFTER = 1800.0
"""Seconds without a repeat after which a new Event is created. Servers keep Events for an hour."""
_LONGEST_MESSAGE = 1024
"""Most characters of a message that the API accepts."""
_log = structlog.get_logger(__name__)


class ObjectRef(Struct, frozen=True):
    """The object that an event is about. It has no resource version, since events repeat across versions."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    field_path: str = ""


class Occurrence(Struct, frozen=True):
    """The parts of an event that are equal when it repeats."""

    regarding: ObjectRef
    type: EventType
    reason: str
    message: str
    once: bool = False


@dataclass(slots=True)
class _Series:
    """The Event object that counts an occurrence. Times are seconds since 1970."""

    name: str
    count: int
    first: float
    last: float


class EventRecorder:
    """Queues events and writes them in the background, with best effort. Events that cannot be written are counted.

    Args:
        client: Client of the API server.
        component: Name of the reporting component.
        instance: Name of the reporting process; the component by default.
    """

    def __init__(self, client: Client, component: str, *, instance: str = "") -> None:
        self._client = client
        self._component = component
        self._instance = instance or component
        self._waiting: OrderedDict[Occurrence, _Series] = OrderedDict()
        self._written: OrderedDict[Occurrence, _Series] = OrderedDict()
        self._wake = asyncio.Event()
        #: Events dropped because the queue was full.
        self.dropped = 0
        #: Events dropped because the server refused them.
        self.failed = 0

    def emit(
        self,
        regarding: ObjectRef,
        type: EventType,  # noqa: A002 - the API's word
        reason: str,
        message: str,
        *,
        now: float,
        once: bool = False,
    ) -> None:
        """Queue an event.

        Args:
            regarding: The object it is about.
            type: Normal or Warning.
            reason: A machine-readable word in CamelCase.
            message: A human-readable sentence, truncated to 1024 characters.
            now: Unix time in seconds.
            once: Whether the event does not repeat: while its Event exists, no process writes it again.
        """
        occurrence = Occurrence(regarding, type, reason, message[:_LONGEST_MESSAGE], once)
        series = self._waiting.get(occurrence)
        if series is not None:
            series.count += 1
            series.last = now
            return
        if len(self._waiting) >= _LONGEST_QUEUE:
            self._waiting.popitem(last=False)
            self.dropped += 1
        self._waiting[occurrence] = _Series("", 1, now, now)
        self._wake.set()

    async def run(self) -> None:
        """Write queued events until cancelled. Events that are still queued then are written within two seconds or dropped."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self.flush()
        finally:
            if self._waiting:
                await self._flush_remaining()

    async def flush(self) -> None:
        """Write the queued events."""
        while self._waiting:
            occurrence, news = self._waiting.popitem(last=False)
            try:
                await self._write(occurrence, news)
            except KubeError as error:
                self.failed += 1
                _log.debug(
                    "events.failed",
                    endpoint=self._client.name,
                    event_reason=occurrence.reason,
                    **describe(error),
                )

    async def _flush_remaining(self) -> None:
        try:
            async with asyncio.timeout(2.0):
                await self.flush()
        except TimeoutError:
            self.dropped += len(self._waiting)

    async def _write(self, occurrence: Occurrence, news: _Series) -> None:
        known = self._written.get(occurrence)
        if known is not None and occurrence.once:
            return
        if known is not None and news.first - known.last < _FORGOTTEN_AFTER:
            known.count += news.count
            known.last = news.last
            try:
                await self._count(occurrence, known)
            except NotFound:  # it has expired, so a new one is created
                await self._create(occurrence, news)
        else:
            await self._create(occurrence, news)

    async def _count(self, occurrence: Occurrence, series: _Series) -> None:
        patch = {"count": series.count, "lastTimestamp": unix_time_text(series.last)}
        await self._client.patch(EVENTS, series.name, patch, _namespace(occurrence))
        self._written.move_to_end(occurrence)

    async def _create(self, occurrence: Occurrence, series: _Series) -> None:
        series.name = _name(occurrence, series.first)
        try:
            await self._client.create(EVENTS, self._body(occurrence, series), _namespace(occurrence))
        except AlreadyExists:  # the response to the first attempt was lost
            if not occurrence.once:
                await self._count(occurrence, series)
        self._written[occurrence] = series
        self._written.move_to_end(occurrence)
        while len(self._written) > _LONGEST_MEMORY:
            self._written.popitem(last=False)

    def _body(self, occurrence: Occurrence, series: _Series) -> dict[str, Any]:
        regarding = occurrence.regarding
        involved = {
            "apiVersion": regarding.api_version,
            "kind": regarding.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": regarding.uid,
            "fieldPath": regarding.field_path,
        }
        return {
            "metadata": {"name": series.name, "namespace": _namespace(occurrence)},
            "involvedObject": {key: value for key, value in involved.items() if value},
            "type": occurrence.type,
            "reason": occurrence.reason,
            "message": occurrence.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": unix_time_text(series.first),
            "lastTimestamp": unix_time_text(series.last),
            "count": series.count,
        }


def _namespace(occurrence: Occurrence) -> str:
    """Return the namespace of the Event: that of its object, or `default` for cluster-scoped objects."""
    return occurrence.regarding.namespace or "default"


def _name(occurrence: Occurrence, first: float) -> str:
    """Return a name for an occurrence that began at `first`. A repeated create has the same name."""
    facts = f"{occurrence}{'' if occurrence.once else first}".encode()
    return f"{occurrence.regarding.name[:220]}.{hashlib.sha256(facts).hexdigest()[:16]}"
