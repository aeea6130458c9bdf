"""Recording Kubernetes Events: never in the way of who reports, repeats counted instead of repeated."""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import structlog
from msgspec import Struct

from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, KubeError, NotFound, describe
from vcsync.kube.resources import EVENTS

EventType = Literal["Normal", "Warning"]
_LONGEST_QUEUE = 1000  # events waiting to be written
_LONGEST_MEMORY = 4096  # events written, whose repeats are counted on them
_FORGOTTEN_AFTER = (
    1800.0  # seconds without a repeat after which a new Event begins; servers keep them an hour
)
_LONGEST_MESSAGE = 1024  # characters the API takes
_log = structlog.get_logger(__name__)


class ObjectRef(Struct, frozen=True):
    """The object an event is about; without its version, or no event would ever repeat."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    field_path: str = ""


class Occurrence(Struct, frozen=True):
    """What is the same when an event repeats."""

    regarding: ObjectRef
    type: EventType
    reason: str
    message: str


@dataclass(slots=True)
class _Series:
    """The Event object that counts an occurrence. Times are unix seconds."""

    name: str
    count: int
    first: float
    last: float


class EventRecorder:
    """Takes events at once and writes them in the background. Best effort: what cannot be written is counted.

    Args:
        client: the API server to write to.
        component: who reports.
        instance: which process of it; default the component.
    """

    def __init__(self, client: Client, component: str, *, instance: str = "") -> None:
        self._client = client
        self._component = component
        self._instance = instance or component
        self._waiting: OrderedDict[Occurrence, _Series] = OrderedDict()
        self._written: OrderedDict[Occurrence, _Series] = OrderedDict()
        self._wake = asyncio.Event()
        #: Events given up because too many waited.
        self.dropped = 0
        #: Events given up because the server did not take them.
        self.failed = 0

    def emit(self, regarding: ObjectRef, type: EventType, reason: str, message: str, *, now: float) -> None:  # noqa: A002 - the API's word
        """Report an event; returns at once.

        Args:
            regarding: the object it is about.
            type: Normal or Warning.
            reason: a word in CamelCase for machines.
            message: a sentence for people; cut at 1024 characters.
            now: unix time in seconds.
        """
        occurrence = Occurrence(regarding, type, reason, message[:_LONGEST_MESSAGE])
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
        """Write what is reported until cancelled; what still waits then is tried once more, briefly."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self.flush()
        finally:
            if self._waiting:
                await self._last_words()

    async def flush(self) -> None:
        """Write what waits now."""
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

    async def _last_words(self) -> None:
        try:
            async with asyncio.timeout(2.0):
                await self.flush()
        except TimeoutError:
            self.dropped += len(self._waiting)

    async def _write(self, occurrence: Occurrence, news: _Series) -> None:
        known = self._written.get(occurrence)
        if known is not None and news.first - known.last < _FORGOTTEN_AFTER:
            known.count += news.count
            known.last = news.last
            try:
                await self._count(occurrence, known)
            except NotFound:  # it has expired; begin again
                await self._create(occurrence, news)
        else:
            await self._create(occurrence, news)

    async def _count(self, occurrence: Occurrence, series: _Series) -> None:
        patch = {"count": series.count, "lastTimestamp": _timestamp(series.last)}
        await self._client.patch(EVENTS, series.name, patch, _namespace(occurrence))
        self._written.move_to_end(occurrence)

    async def _create(self, occurrence: Occurrence, series: _Series) -> None:
        series.name = _name(occurrence, series.first)
        try:
            await self._client.create(EVENTS, self._body(occurrence, series), _namespace(occurrence))
        except AlreadyExists:  # the answer to our first try was lost
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
            "firstTimestamp": _timestamp(series.first),
            "lastTimestamp": _timestamp(series.last),
            "count": series.count,
        }


def _namespace(occurrence: Occurrence) -> str:
    """Return where the Event goes: beside its object, or `default` for objects without a namespace."""
    return occurrence.regarding.namespace or "default"


def _name(occurrence: Occurrence, first: float) -> str:
    """Return a name of its own for this event and beginning, so that a repeated create is recognised."""
    facts = f"{occurrence}{first}".encode()
    return f"{occurrence.regarding.name[:220]}.{hashlib.sha256(facts).hexdigest()[:16]}"


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
