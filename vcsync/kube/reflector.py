"""Keeps a cache equal to a collection of an API server, and reports every change."""

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from vcsync.kube.cache import Cache, Change
from vcsync.kube.client import Client
from vcsync.kube.course import Course, InitialEventsLost, Step
from vcsync.kube.envelope import Envelope, WatchEvent
from vcsync.kube.errors import KubeError, describe
from vcsync.kube.resources import Resource
from vcsync.kube.selectors import parse_selector

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_SHORTEST_WATCH, _LONGEST_WATCH = 300, 600  # seconds; random between, so that not all watches end together
_MOST_SKIPPED = 20  # objects that could not be taken are named up to this number
_INITIAL_PATIENCE = 30.0  # seconds without any of a streaming list's initial events
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReflectorStatistics:
    """What a reflector has done and how it stands.

    Attributes:
        objects: in the cache.
        lists: lists begun, streaming ones included.
        watches: streams opened.
        resumes: streams opened that went on where the one before was lost or ended.
        relists: lists after the first.
        gone: times the server no longer knew our version.
        skipped: objects that could not be taken, by namespace and name, and why; the newest of them.
        skipped_total: how often an object could not be taken.
        last_error: what went wrong last.
        synced: the cache has been filled once.
        stale_since: `time.monotonic()` since when no stream is up; None while one is.
    """

    objects: int
    lists: int
    watches: int
    resumes: int
    relists: int
    gone: int
    skipped: Mapping[tuple[str, str], str]
    skipped_total: int
    last_error: str | None
    synced: bool
    stale_since: float | None


class Reflector:
    """Keeps `cache` equal to what the server holds of a resource.

    Args:
        client: the server.
        resource: the type of the objects.
        namespace: their namespace; empty for all.
        label_selector: which labels they must have.
        field_selector: which fields they must have.
        accept: which of them to keep; the others are dropped at the door. When it changes its mind: `refill`.
        project: slims an object before it is kept (`envelope.strip`).
        place: gives an object the namespace it is kept under, where one stream tells of many tenants; what is
            observed from elsewhere has it already.
        on_change: called with every change, in the loop, at once; must be quick (put a key into a queue).
        page_size: objects per page of a list.
        silence: seconds without a byte after which a stream counts as dead. Bookmarks come every minute where
            anything changes; where nothing does, servers may say nothing for as long as the watch lasts.
        streaming: begin with streaming lists where the server offers them.
        backoff: seconds of the first and of the longest pause after failures.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        accept: Callable[[Envelope], bool] | None = None,
        project: Callable[[Envelope], Envelope] | None = None,
        place: Callable[[Envelope], Envelope] | None = None,
        on_change: Callable[[Change], None] | None = None,
        page_size: int = 500,
        silence: float = 200.0,
        streaming: bool = True,
        backoff: tuple[float, float] = (0.2, 30.0),
    ) -> None:
        self.client = client
        self.resource = resource
        self.namespace = namespace
        self.label_selector = label_selector
        self.field_selector = field_selector
        self.cache = Cache()
        self._selector = parse_selector(label_selector)
        self._accept = accept
        self._project = project
        self._place = place
        self._on_change = on_change
        self._page_size = page_size
        self._silence = silence
        self._course = Course(streaming=streaming, base=backoff[0], cap=backoff[1])
        self._synced = asyncio.Event()
        self._stale_since: float | None = time.monotonic()
        self._opened_at: float | None = None
        # Held while a list is taken over or a portion of events is worked in; `refill` holds it too.
        self._turn = asyncio.Lock()
        # Namespaces that were listed anew at a version the stream has not reached: older news of them are
        # settled.
        self._settled: dict[str, int] = {}
        # What could not be taken, and why: it is skipped, and everything else goes on.
        self._skipped: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._skipped_total = 0

    @property
    def synced(self) -> bool:
        """Whether the cache has been filled once."""
        return self._synced.is_set()

    @property
    def stale_since(self) -> float | None:
        """`time.monotonic()` since when no stream is up; None while one is."""
        return self._stale_since

    async def wait_synced(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Wait until the cache has been filled once; False if that took longer than `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            return False
        return True

    def statistics(self) -> ReflectorStatistics:
        """Return what has happened so far."""
        tally = self._course.tally
        return ReflectorStatistics(
            objects=len(self.cache),
            lists=tally.lists,
            watches=tally.watches,
            resumes=tally.resumes,
            relists=tally.relists,
            gone=tally.gone,
            skipped=dict(self._skipped),
            skipped_total=self._skipped_total,
            last_error=tally.last_error,
            synced=self.synced,
            stale_since=self._stale_since,
        )

    async def run(self) -> None:
        """Reflect until cancelled. No failure ends it; each is followed by a pause, longer each time."""
        course = self._course
        try:
            while True:
                self._opened_at = None
                try:
                    await self._take(course.next())
                    pause = course.ended(self._lasted()) if self._opened_at is not None else 0.0
                except KubeError as error:
                    pause = course.failed(error, self._lasted())
                    _log.info(
                        "reflector.failed",
                        endpoint=self.client.name,
                        resource=self.resource.plural,
                        pause=round(pause, 3),
                        **describe(error),
                    )
                except Exception as error:  # noqa: BLE001 - a fault in accept or project must not end it
                    pause = course.failed(error, 0.0)
                    _log.exception(
                        "reflector.broken", endpoint=self.client.name, resource=self.resource.plural
                    )
                if self._opened_at is not None:
                    self._stale_since = time.monotonic()
                await asyncio.sleep(pause)
        finally:
            self._stale_since = self._stale_since or time.monotonic()

    async def refill(self, namespace: str) -> None:
        """Bring one namespace in line after `accept` has changed its mind about it.

        What is refused now is dropped and what is accepted now is listed; both are reported. The stream waits
        meanwhile, so that nothing it brings can be lost or undone by the list.

        Raises:
            KubeError: the list failed; what is refused is dropped already. Call again.
        """
        if not self.resource.namespaced:
            raise ValueError(f"{self.resource.plural} are not namespaced")
        if self.namespace and namespace != self.namespace:
            return
        async with self._turn:
            for item in self.cache.items(namespace):
                if self._accept is not None and not self._accept(item):
                    self._report(self.cache.forget(item))
            items, version = await self._list(namespace, self._course.version or None, self._page_size)
            self._report_all(self.cache.replace(items, _number(version), namespace=namespace))
            if _number(version) > _number(self._course.version):
                self._settled[namespace] = _number(version)

    def observe(self, envelope: Envelope) -> None:
        """Take note of an object as the answer to our own write (or a read) showed it.

        What the stream has passed already changes nothing: it knows better.
        """
        if self.namespace and envelope.namespace != self.namespace:
            return
        known = self.cache.get(envelope.namespace, envelope.name) is not None
        if not known and (self.field_selector or 0 < envelope.version <= _number(self._course.version)):
            return  # whether a field selector picks it, only the server can tell
        if self._selector.matches(envelope.labels):
            self._observe(envelope)
        else:
            self._observe_deleted(envelope)

    def observe_gone(self, namespace: str, name: str, uid: str, *, for_good: bool = True) -> None:
        """Take note that the object with this uid exists no more, as our own request showed; see `Cache.observe_gone`."""
        change = self.cache.observe_gone(namespace, name, uid, for_good=for_good)
        if change is not None:
            self._report(change)

    async def _take(self, step: Step) -> None:
        if step is Step.PAGES:
            await self._take_pages()
        else:
            await self._take_stream(initial=step is Step.STREAM)

    async def _take_pages(self) -> None:
        course = self._course
        course.listing()
        async with self._turn:
            items, version = await self._list(
                self.namespace, course.list_version or None, self._page_size * course.page_factor
            )
            self._take_over(items, version)

    async def _list(self, namespace: str, version: str | None, limit: int) -> tuple[list[Envelope], str]:
        items: list[Envelope] = []
        listed_at = ""
        pages = self.client.pages(
            self.resource,
            namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            limit=limit,
            resource_version=version,
            on_unreadable=lambda named, why: items.extend(self._skip_unreadable(named, why)),
        )
        async with aclosing(pages):
            async for page in pages:
                for item in page.items:
                    items.extend(self._take_listed(item))
                listed_at = page.resource_version
        return items, listed_at

    def _take_over(self, items: Iterable[Envelope], version: str) -> None:
        course = self._course
        changes = self.cache.replace(items, _number(version), reset=course.reset)
        course.listed(version)
        self._settled.clear()
        self._report_all(changes)
        self._synced.set()

    async def _take_stream(self, *, initial: bool) -> None:
        course = self._course
        if initial:
            course.listing()
        batches = self.client.watch_batches(
            self.resource,
            self.namespace,
            resource_version=course.list_version if initial else course.version,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            timeout_seconds=random.randint(_SHORTEST_WATCH, _LONGEST_WATCH),  # noqa: S311
            send_initial_events=initial,
            silence=self._silence,
        )
        async with aclosing(batches):
            if initial:
                async with self._turn:
                    await self._take_initial(batches)
            async for batch in batches:
                self._opened()
                self._stale_since = None
                async with self._turn:
                    for event in batch:
                        self._work_in(event)

    async def _take_initial(self, batches: AsyncIterator[Sequence[WatchEvent]]) -> None:
        """Take over the initial events of a streaming list, and what came after them in the same portion."""
        collected: list[Envelope] = []
        while True:
            try:
                async with asyncio.timeout(None if self._opened_at is None else _INITIAL_PATIENCE):
                    batch = await anext(batches, None)
            except TimeoutError:
                batch = None
            if batch is None:
                raise InitialEventsLost(
                    "the initial events did not come to an end", endpoint=self.client.name
                )
            self._opened()
            for position, event in enumerate(batch, 1):
                if self._collect(event, collected):
                    self._take_over(collected, event.object.resource_version)
                    self._stale_since = None
                    for later in batch[position:]:
                        self._work_in(later)
                    return

    def _opened(self) -> None:
        if self._opened_at is None:
            self._opened_at = time.monotonic()
            self._course.watching()

    def _collect(self, event: WatchEvent, collected: list[Envelope]) -> bool:
        """Gather the initial events of a streaming list; True at the bookmark that ends them."""
        if event.type == "BOOKMARK":
            if event.object.annotations.get(INITIAL_EVENTS_END) != "true":
                raise InitialEventsLost(
                    "streaming lists are not supported", endpoint=self.client.name, ignored=True
                )
            return True
        if event.type == "UNREADABLE":
            collected.extend(self._skip_unreadable(event.object, event.why))
        else:
            collected.extend(self._take_listed(event.object))
        return False

    def _work_in(self, event: WatchEvent) -> None:
        envelope = event.object
        try:
            if event.type == "BOOKMARK":
                self._forget_settled(envelope.version)
            elif event.type == "UNREADABLE":
                self._skip(self._placed(envelope), event.why)
            elif not self._is_settled(envelope := self._placed(envelope)):
                if event.type == "DELETED":
                    self._observe_left(envelope)
                else:
                    self._observe(envelope)
                self._taken(envelope)
        except Exception as error:  # noqa: BLE001 - one object must not keep all others from coming
            self._skip(envelope, f"{type(error).__name__}: {error}")
        if envelope.resource_version:
            self._course.advanced(envelope.resource_version)

    def _take_listed(self, item: Envelope) -> Iterator[Envelope]:
        """Yield a listed object as it is to be kept, if it is wanted."""
        try:
            item = self._placed(item)
            kept = self._admit(item)
        except Exception as error:  # noqa: BLE001 - one object must not keep all others from coming
            yield from self._skip_listed(item, f"{type(error).__name__}: {error}")
            return
        self._taken(item)
        if kept is not None:
            yield kept

    def _skip_unreadable(self, named: Envelope, why: str) -> Iterator[Envelope]:
        """Skip a listed object of which only the name could be read."""
        try:
            named = self._placed(named)
        except Exception:  # noqa: BLE001 - then its own name has to do
            _log.exception("reflector.place", endpoint=self.client.name, resource=self.resource.plural)
        yield from self._skip_listed(named, why)

    def _skip_listed(self, item: Envelope, why: str) -> Iterator[Envelope]:
        """Skip a listed object. It is there, so that what is known of it stays."""
        self._skip(item, why)
        known = self.cache.get(item.namespace, item.name)
        if known is not None:
            yield known

    def _skip(self, item: Envelope, why: str) -> None:
        """Note an object that cannot be taken."""
        self._skipped_total += 1
        if self._skipped.get(item.key) != why:
            _log.error(
                "reflector.skipped",
                endpoint=self.client.name,
                resource=self.resource.plural,
                namespace=item.namespace,
                name=item.name,
                error=why,
            )
        self._skipped[item.key] = why
        self._skipped.move_to_end(item.key)
        if len(self._skipped) > _MOST_SKIPPED:
            self._skipped.popitem(last=False)

    def _taken(self, item: Envelope) -> None:
        if self._skipped:
            self._skipped.pop(item.key, None)

    def _is_settled(self, envelope: Envelope) -> bool:
        """Whether a list of the namespace has told more than this event already."""
        return bool(self._settled) and envelope.version <= self._settled.get(envelope.namespace, 0)

    def _forget_settled(self, version: int) -> None:
        if self._settled:
            self._settled = {name: until for name, until in self._settled.items() if until > version}

    def _placed(self, envelope: Envelope) -> Envelope:
        return envelope if self._place is None else self._place(envelope)

    def _admit(self, envelope: Envelope) -> Envelope | None:
        """Return the object as it is to be kept, None if it is not wanted."""
        if self._accept is not None and not self._accept(envelope):
            return None
        return envelope if self._project is None else self._project(envelope)

    def _observe(self, envelope: Envelope) -> None:
        kept = self._admit(envelope)
        if kept is None:
            self._observe_refused(envelope)
        elif (change := self.cache.observe(kept)) is not None:
            self._report(change)

    def _observe_refused(self, envelope: Envelope) -> None:
        """Drop what is not wanted any more; it is not gone and may be wanted again, in this very version."""
        old = self.cache.get(envelope.namespace, envelope.name)
        if old is not None and old.version <= envelope.version:
            self._report(self.cache.forget(old))

    def _observe_left(self, envelope: Envelope) -> None:
        """Drop what is gone, or has left the selection.

        The answer to a write of ours that is newer does not tell whether a field selector picks the object again: if it
        does, the stream tells so next; else it will never speak of it again.
        """
        known = self.cache.get(envelope.namespace, envelope.name) if self.field_selector else None
        if known is not None and known.uid == envelope.uid and known.version > envelope.version:
            self._report(self.cache.forget(known))
        else:
            self._observe_deleted(envelope)

    def _observe_deleted(self, envelope: Envelope) -> None:
        change = self.cache.observe_deleted(envelope)
        if change is not None:
            self._report(change)

    def _report_all(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self._report(change)

    def _report(self, change: Change) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(change)
        except Exception:  # noqa: BLE001 - a broken handler must not end it
            _log.exception("reflector.on_change", endpoint=self.client.name, resource=self.resource.plural)

    def _lasted(self) -> float:
        return 0.0 if self._opened_at is None else time.monotonic() - self._opened_at


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
