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
from vcsync.kube.errors import KubeError, describe
from vcsync.kube.reflector_state import InitialEventsLost, ReflectorState, Step
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope, WatchEvent
from vcsync.objects.selectors import parse_selector

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_SHORTEST_WATCH, _LONGEST_WATCH = 300, 600
"""Range of the random duration of watches in seconds, so that not all watches end at the same time."""
_MOST_SKIPPED = 20
"""Most skipped objects that are remembered by name."""
_INITIAL_EVENTS_TIMEOUT = 30.0
"""Seconds without an initial event after which a streaming list fails."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReflectorStatistics:
    """Counters and state of a reflector.

    Attributes:
        objects: Number of objects in the cache.
        lists: Number of lists begun, streaming lists included.
        watches: Number of watch streams opened.
        resumes: Number of those that continued at the version where the stream before ended.
        relists: Number of lists after the first.
        gone: Number of 410 answers: the server did not know the reflector's version any more.
        skipped: (namespace, name) -> reason, for the newest objects that could not be processed.
        skipped_total: Number of objects that could not be processed, repeats included.
        last_error: Text of the last error.
        synced: Whether the cache has been filled once.
        stale_since: `time.monotonic()` at which the stream was lost; None while one is open.
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
    """Keeps `cache` equal to a collection of the server, by a list and a watch.

    Attributes:
        cache: The objects.
        lists_taken: Number of lists that replaced the cache, or one namespace of it.

    Args:
        client: Client of the server.
        resource: The resource to follow.
        namespace: The namespace to follow; empty for all.
        label_selector: Labels that the objects must have.
        field_selector: Fields that the objects must have.
        accept: Filter that returns whether to take an object. It must have no side effects. Call `refill` when its
            answers change.
        project: Returns the part of an object to keep, for example with `envelope.strip`.
        place: Returns the object with the namespace under which it is cached, for streams with objects of many tenants.
            It is not applied to the objects of `observe`.
        sink: Takes every change, synchronously in the event loop, so it must be quick (for example: add a key to a
            queue). If it raises, the object counts as skipped, but the cache holds it.
        keep: Whether to keep the objects in the cache. If false, `sink` gets every object that is listed or changed as
            a new one, and the cache stays empty.
        page_size: Objects in each page of a list.
        silence: Seconds without a byte after which a stream counts as dead. Servers send a bookmark every minute if
            anything changes, and may send nothing for the whole watch otherwise.
        streaming: Whether to begin with streaming lists if the server supports them.
        backoff: Seconds of the first and of the longest pause after failures.
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
        sink: Callable[[Change], None] | None = None,
        keep: bool = True,
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
        self._sink = sink
        self._keep = keep
        self._page_size = page_size
        self._silence = silence
        self._state = ReflectorState(streaming=streaming, base=backoff[0], cap=backoff[1])
        self._synced = asyncio.Event()
        self.lists_taken = 0
        self._stale_since: float | None = time.monotonic()
        self._opened_at: float | None = None
        # Held while the cache is updated from a list or from events of the stream. `refill` holds it too.
        self._updating = asyncio.Lock()
        # Namespace -> version of its last `refill`, until the stream reaches that version. Older events of the
        # namespace are outdated.
        self._refilled: dict[str, int] = {}
        # (namespace, name) -> why the object could not be processed. All other objects are followed as usual.
        self._skipped: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._skipped_total = 0
        # Skipped objects that are in the cache, but for which the sink raised an error.
        self._refused_by_sink: set[tuple[str, str]] = set()

    @property
    def synced(self) -> bool:
        """Whether the cache has been filled once."""
        return self._synced.is_set()

    @property
    def stale_since(self) -> float | None:
        """`time.monotonic()` at which the stream was lost; None while one is open."""
        return self._stale_since

    @property
    def skipped(self) -> int:
        """Number of objects that are currently skipped. At most `_MOST_SKIPPED` are counted."""
        return len(self._skipped)

    @property
    def listing(self) -> bool:
        """Whether changes currently come from a list, so that they may be old. Changes from a watch are recent."""
        return self._state.next() is not Step.WATCH

    @property
    def version(self) -> int:
        """The resourceVersion up to which all changes have been reported; 0 before the first list."""
        return _number(self._state.version)

    async def wait_synced(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Wait up to `timeout` seconds until the cache has been filled once. Return whether it has been."""
        try:
            async with asyncio.timeout(timeout):
                await self._synced.wait()
        except TimeoutError:
            return False
        return True

    def statistics(self) -> ReflectorStatistics:
        """Return the counters and the state."""
        counters = self._state.counters
        return ReflectorStatistics(
            objects=len(self.cache),
            lists=counters.lists,
            watches=counters.watches,
            resumes=counters.resumes,
            relists=counters.relists,
            gone=counters.gone,
            skipped=dict(self._skipped),
            skipped_total=self._skipped_total,
            last_error=counters.last_error,
            synced=self.synced,
            stale_since=self._stale_since,
        )

    async def run(self) -> None:
        """Follow the collection until cancelled. Failures are retried with increasing pauses."""
        state = self._state
        try:
            while True:
                self._opened_at = None
                try:
                    await self._run_step(state.next())
                    pause = state.ended(self._lasted()) if self._opened_at is not None else 0.0
                except KubeError as error:
                    pause = state.failed(error, self._lasted())
                    _log.info(
                        "reflector.failed",
                        endpoint=self.client.name,
                        resource=self.resource.plural,
                        pause=round(pause, 3),
                        **describe(error),
                    )
                except Exception as error:  # noqa: BLE001 - a defect in accept or project must not end the reflector
                    pause = state.failed(error, 0.0)
                    _log.exception(
                        "reflector.broken", endpoint=self.client.name, resource=self.resource.plural
                    )
                if self._opened_at is not None:
                    self._stale_since = time.monotonic()
                await asyncio.sleep(pause)
        finally:
            self._stale_since = self._stale_since or time.monotonic()

    async def refill(self, namespace: str) -> None:
        """Update one namespace after the results of `accept` for its objects have changed.

        Objects that are not accepted any more are dropped, and those accepted now are listed. The sink gets both. Events
        of the stream wait meanwhile, so that the list cannot undo them.

        Raises:
            KubeError: The list failed. Objects that are not accepted have been dropped already; call again.
            ValueError: The resource is not namespaced.
        """
        if not self.resource.namespaced:
            raise ValueError(f"{self.resource.plural} are not namespaced")
        if self.namespace and namespace != self.namespace:
            return
        async with self._updating:
            for item in self.cache.items(namespace):
                if self._accept is not None and not self._accept(item):
                    self._report(self.cache.forget(item))
            items, version = await self._list(namespace, self._state.version or None, self._page_size)
            self.lists_taken += 1
            self._report_all(self.cache.replace(items, _number(version), namespace=namespace))
            if _number(version) > _number(self._state.version):
                self._refilled[namespace] = _number(version)

    def observe(self, envelope: Envelope) -> None:
        """Update the cache with an object from the answer to a write or a read.

        An answer that is older than the stream changes nothing.
        """
        if self.namespace and envelope.namespace != self.namespace:
            return
        known = self.cache.get(envelope.namespace, envelope.name) is not None
        if not known and (self.field_selector or 0 < envelope.version <= _number(self._state.version)):
            # Only the server can evaluate a field selector.
            return
        if self._selector.matches(envelope.labels):
            self._observe(envelope)
        else:
            self._observe_deleted(envelope)

    def observe_gone(self, namespace: str, name: str, uid: str, *, final: bool = True) -> None:
        """Remove an object from the cache that does not exist according to an answer; see `Cache.observe_gone`."""
        change = self.cache.observe_gone(namespace, name, uid, final=final)
        if change is not None:
            self._report(change)

    async def _run_step(self, step: Step) -> None:
        if step is Step.PAGES:
            await self._list_in_pages()
        else:
            await self._follow_stream(initial=step is Step.STREAM)

    async def _list_in_pages(self) -> None:
        state = self._state
        state.listing()
        self._begin_list()
        async with self._updating:
            items, version = await self._list(
                self.namespace, state.list_version or None, self._page_size * state.page_factor
            )
            self._replace_cache(items, version)

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
                    items.extend(self._listed(item))
                listed_at = page.resource_version
        return items, listed_at

    def _replace_cache(self, items: Iterable[Envelope], version: str) -> None:
        state = self._state
        self.lists_taken += 1
        changes = self.cache.replace(items, _number(version), reset=state.reset)
        state.listed(version)
        self._refilled.clear()
        self._report_all(changes)
        self._synced.set()

    async def _follow_stream(self, *, initial: bool) -> None:
        state = self._state
        if initial:
            state.listing()
            self._begin_list()
        batches = self.client.watch_batches(
            self.resource,
            self.namespace,
            resource_version=state.list_version if initial else state.version,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            timeout_seconds=random.randint(_SHORTEST_WATCH, _LONGEST_WATCH),  # noqa: S311
            send_initial_events=initial,
            silence=self._silence,
        )
        async with aclosing(batches):
            if initial:
                async with self._updating:
                    await self._read_initial_events(batches)
            async for batch in batches:
                self._opened()
                self._stale_since = None
                async with self._updating:
                    for event in batch:
                        self._process(event)

    async def _read_initial_events(self, batches: AsyncIterator[Sequence[WatchEvent]]) -> None:
        """Replace the cache by the initial events of a streaming list, and process the events that follow in the same batch."""
        collected: list[Envelope] = []
        while True:
            try:
                async with asyncio.timeout(None if self._opened_at is None else _INITIAL_EVENTS_TIMEOUT):
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
                    self._replace_cache(collected, event.object.resource_version)
                    self._stale_since = None
                    for later in batch[position:]:
                        self._process(later)
                    return

    def _opened(self) -> None:
        if self._opened_at is None:
            self._opened_at = time.monotonic()
            self._state.watching()

    def _collect(self, event: WatchEvent, collected: list[Envelope]) -> bool:
        """Collect an initial event of a streaming list. Return True at the bookmark that ends them."""
        if event.type == "BOOKMARK":
            if event.object.annotations.get(INITIAL_EVENTS_END) != "true":
                raise InitialEventsLost(
                    "streaming lists are not supported", endpoint=self.client.name, ignored=True
                )
            return True
        if event.type == "UNREADABLE":
            collected.extend(self._skip_unreadable(event.object, event.why))
        else:
            collected.extend(self._listed(event.object))
        return False

    def _process(self, event: WatchEvent) -> None:
        envelope = event.object
        try:
            if event.type == "BOOKMARK":
                self._forget_refills(envelope.version)
            elif event.type == "UNREADABLE":
                self._skip(self._placed(envelope), event.why)
            elif not self._is_outdated(envelope := self._placed(envelope)):
                if event.type == "DELETED":
                    self._observe_left(envelope)
                else:
                    self._observe(envelope)
        except Exception as error:  # noqa: BLE001 - one object must not stop all others
            self._skip(envelope, f"{type(error).__name__}: {error}")
        if envelope.resource_version:
            self._state.advanced(envelope.resource_version)

    def _listed(self, item: Envelope) -> Iterator[Envelope]:
        """Yield a listed object in the form to keep, if it is to be kept."""
        try:
            item = self._placed(item)
            kept = self._admit(item)
        except Exception as error:  # noqa: BLE001 - one object must not stop all others
            yield from self._skip_listed(item, f"{type(error).__name__}: {error}")
            return
        self._forget_skipped(item)
        if kept is None:
            return
        if self._keep:
            yield kept
        else:
            self._report(Change(None, kept))

    def _skip_unreadable(self, named: Envelope, why: str) -> Iterator[Envelope]:
        """Skip a listed object of which only the name could be parsed."""
        try:
            named = self._placed(named)
        except Exception:  # noqa: BLE001 - the object's own name is used then
            _log.exception("reflector.place", endpoint=self.client.name, resource=self.resource.plural)
        yield from self._skip_listed(named, why)

    def _skip_listed(self, item: Envelope, why: str) -> Iterator[Envelope]:
        """Skip a listed object. It exists, so its cached state is kept."""
        self._skip(item, why)
        known = self.cache.get(item.namespace, item.name)
        if known is not None:
            yield known

    def _skip(self, item: Envelope, why: str) -> None:
        """Remember an object that cannot be processed."""
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
            self._refused_by_sink.discard(self._skipped.popitem(last=False)[0])

    def _begin_list(self) -> None:
        """Forget skipped objects, since the list brings them again, except those that only the sink refused."""
        for key in [key for key in self._skipped if key not in self._refused_by_sink]:
            del self._skipped[key]

    def _forget_skipped(self, item: Envelope) -> None:
        if self._skipped and item.key not in self._refused_by_sink:
            self._skipped.pop(item.key, None)

    def _is_outdated(self, envelope: Envelope) -> bool:
        """Return whether a list of the namespace is newer than an object of an event."""
        return bool(self._refilled) and envelope.version <= self._refilled.get(envelope.namespace, 0)

    def _forget_refills(self, version: int) -> None:
        if self._refilled:
            self._refilled = {name: until for name, until in self._refilled.items() if until > version}

    def _placed(self, envelope: Envelope) -> Envelope:
        return envelope if self._place is None else self._place(envelope)

    def _admit(self, envelope: Envelope) -> Envelope | None:
        """Return the object in the form to keep; None if it is not accepted."""
        if self._accept is not None and not self._accept(envelope):
            return None
        return envelope if self._project is None else self._project(envelope)

    def _observe(self, envelope: Envelope) -> None:
        kept = self._admit(envelope)
        self._forget_skipped(envelope)
        if kept is None:
            self._observe_refused(envelope)
        elif not self._keep:
            self._report(Change(None, kept))
        elif (change := self.cache.observe(kept)) is not None:
            self._report(change)

    def _observe_refused(self, envelope: Envelope) -> None:
        """Drop an object that is not accepted any more. It still exists, and may be accepted again in the same version."""
        old = self.cache.get(envelope.namespace, envelope.name)
        if old is not None and old.version <= envelope.version:
            self._report(self.cache.forget(old))

    def _observe_left(self, envelope: Envelope) -> None:
        """Drop an object that was deleted or has left the selection.

        A newer answer to a write does not show whether a field selector matches the object again. If it matches, the
        stream reports the object next. If not, the stream does not report it again.
        """
        known = self.cache.get(envelope.namespace, envelope.name) if self.field_selector else None
        if known is not None and known.uid == envelope.uid and known.version > envelope.version:
            self._report(self.cache.forget(known))
        else:
            self._observe_deleted(envelope)

    def _observe_deleted(self, envelope: Envelope) -> None:
        self._forget_skipped(envelope)
        change = self.cache.observe_deleted(envelope)
        if change is not None:
            self._report(change)

    def _report_all(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self._report(change)

    def _report(self, change: Change) -> None:
        if self._sink is None:
            return
        subject = change.new or change.old
        assert subject is not None  # noqa: S101 - a change has at least one side
        try:
            self._sink(change)
        except Exception as error:  # noqa: BLE001 - one object must not stop all others
            known = subject.key in self._skipped
            self._skip(subject, f"not processed: {type(error).__name__}: {error}")
            self._refused_by_sink.add(subject.key)
            if not known:
                _log.exception("reflector.sink", endpoint=self.client.name, resource=self.resource.plural)
            return
        if self._refused_by_sink:
            self._refused_by_sink.discard(subject.key)
        self._forget_skipped(subject)

    def _lasted(self) -> float:
        return 0.0 if self._opened_at is None else time.monotonic() - self._opened_at


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
