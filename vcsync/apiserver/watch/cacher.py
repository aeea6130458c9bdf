"""The watch cache: one watch of the whole store, which distributes changes to all watches of clients.

Its counterpart is apiserver's `storage/cacher`, which has one watch per resource.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from sys import getsizeof

import structlog

from vcsync.apimachinery.resources import collection_key
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.request_info import ALL
from vcsync.apiserver.storage.interface import Change, Compacted, Store, StoreError, tenant_of
from vcsync.apiserver.storage.listeners import Listener, notify
from vcsync.apiserver.watch.forms import EventForms, Forms, forms
from vcsync.process.marks import run_marked

RECENT_EVENTS = 8192
RECENT_BYTES = 16 * 2**20
"""Newest history to keep in memory for watches that resume: number of events, and their size."""
MAX_WAITING = 20_000
MAX_WAITING_BYTES = 16 * 2**20
"""Events that may wait for one watch, and their size. A slower watch is closed; its client resumes it."""
FLUSHED_AT_ONCE = 200
FLUSH_SECONDS = 0.002
"""Watches to flush in one iteration of the event loop, and the time after which the others wait for the next one."""
PROGRESS_SECONDS = 1.0
"""Time after which the store reports its revision if nothing has changed."""
RETRY_SECONDS = 1.0

OnMissed = Callable[[], Awaitable[None]]
"""Called when changes were missed. Reads during the call are at least as new as the position where the cacher continues."""
OnTenantFailed = Callable[[str], Awaitable[None]]
"""Called with a tenant when a listener failed on one of its changes, so that all listeners read that tenant again."""
Topic = tuple[str, str, str]
"""(tenant, group or `core`, plural)."""
Sink = Callable[[list["Event"]], bool]
"""Receives events immediately. Returns False if it cannot, in which case they wait."""
_log = structlog.get_logger()


class Event:
    """One change of one object, shared by all of its watches.

    Args:
        change: The change.
        tenant: Tenant of the object.
        shared: Caches the forms of events. None: the event is for one watch.

    Attributes:
        forms: Encoded forms of the event, and the labels of the object.
        fields: Selectable fields of the object before and after the change, by kind.
        size: Estimated memory in bytes.
    """

    __slots__ = ("change", "fields", "forms", "size", "tenant")

    def __init__(self, change: Change, tenant: str, shared: Forms | None = None) -> None:
        self.change = change
        self.size = 200 + len(change.value or b"") + len(change.previous or b"")
        self.tenant = tenant
        self.forms = EventForms(forms() if shared is None else shared)
        self.fields: dict[object, dict[str, str]] = {}

    def labels(self, *, before: bool) -> dict[str, str]:
        """Return the object's labels before or after the change."""
        key = "labels before" if before else "labels"
        labels: dict[str, str] | None = self.forms.get(key)
        if labels is None:
            value = self.change.previous if before else self.change.value
            labels = stored.labels(value) if value else {}
            self.forms.put(key, labels, sum(map(_label_bytes, labels.items())))
        return labels


class CacheWatcher:
    """The events that wait for one watch.

    Args:
        base: Revision after which the events begin.
        request_flush: Asks for a call of `flush` soon.

    Attributes:
        base: The same revision.
        closed: Why the watch ends, or empty while it continues.
    """

    def __init__(self, base: int, request_flush: Callable[["CacheWatcher"], None]) -> None:
        self.base = base
        self.closed = ""
        self._request_flush = request_flush
        self._waiting: list[Event] = []
        self._size = 0
        self._wake = asyncio.Event()
        self._sink: Sink | None = None

    def put(self, event: Event) -> None:
        """Add an event. Too many waiting events close the watch."""
        self._size += event.size
        if len(self._waiting) >= MAX_WAITING or self._size > MAX_WAITING_BYTES + event.size:
            self.close("slow")
            return
        self._waiting.append(event)
        if self._sink is None:
            self._wake.set()
        elif len(self._waiting) == 1:
            self._request_flush(self)

    def flush(self) -> None:
        """Pass the waiting events to the sink of `wait`. If it does not take them, `wait` returns."""
        if self._sink is None or not self._waiting:
            return
        try:
            taken = run_marked("watch", self._waiting[0].tenant, self._sink, self._waiting)
        except Exception:  # noqa: BLE001 - the task in `wait` meets the same error, and reports it
            taken = False
        if taken:
            self._waiting, self._size = [], 0
        else:
            self._wake.set()

    def close(self, why: str) -> None:
        """Drop the waiting events, and end the watch."""
        self.closed = self.closed or why
        self._waiting.clear()
        self._wake.set()

    def end(self, why: str) -> None:
        """End the watch after its waiting events have been sent."""
        self.closed = self.closed or why
        self._wake.set()

    @property
    def continues(self) -> bool:
        """True while the watch is open or has events to send before it ends."""
        return not self.closed or bool(self._waiting)

    def take(self) -> list[Event]:
        """Remove and return all waiting events."""
        if not self.closed:
            self._wake.clear()
        taken, self._waiting, self._size = self._waiting, [], 0
        return taken

    async def wait(self, seconds: float, sink: Sink | None = None) -> None:
        """Return when an event waits, the watch is closed, or the time is over.

        Events that `sink` takes do not wait, so most events of most watches wake no task.
        """
        if self._wake.is_set():
            return
        self._sink = sink
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return
        finally:
            self._sink = None


class Cacher:
    """Distributes the changes of the store to listeners and watches.

    Args:
        store: The store to watch.
        listeners: Receive every batch of changes before the watches.
        on_missed: Called when changes were missed.
        on_tenant_failed: Called when a listener failed on a change of a tenant.
        on_defect: Counts such failures.
        redefined: Returns the topic of the resource that a change redefines, or None. Its watches end.

    Attributes:
        position: Revision up to which every change has been distributed.
    """

    def __init__(
        self,
        store: Store,
        listeners: Sequence[Listener] = (),
        on_missed: OnMissed | None = None,
        *,
        on_tenant_failed: OnTenantFailed | None = None,
        on_defect: Callable[[], None] = lambda: None,
        redefined: Callable[[Change], Topic | None] = lambda _: None,
    ) -> None:
        self._on_missed = on_missed
        self._on_tenant_failed = on_tenant_failed
        self._on_defect = on_defect
        self._redefined = redefined
        self._store = store
        self._listeners = list(listeners)
        self._failed_tenants: set[str] = set()
        self._watchers: dict[Topic, set[CacheWatcher]] = defaultdict(set)
        self._recent: deque[Event] = deque()
        self._recent_bytes = 0
        self._forms = forms()
        self._oldest_revision = 0
        self._ended = False
        self._to_flush: deque[CacheWatcher] = deque()
        self.position = 0

    async def start(self) -> None:
        """Start at the store's newest revision. Call before `run`.

        Raises:
            StoreError: The store cannot be read.
        """
        self.position = self._oldest_revision = await self._store.revision()

    async def run(self) -> None:
        """Distribute changes until cancelled."""
        while True:
            try:
                async for batch in self._store.watch("", self.position, progress=PROGRESS_SECONDS):
                    if batch:
                        self._publish(batch)
                    self.position = max(self.position, batch.revision)
                    if self._failed_tenants:
                        await self._reload_failed_tenants()
            except Compacted:
                _log.warning("the watch of the store fell behind its history", position=self.position)
                await self._restart_at_newest()
            except StoreError as error:
                _log.warning("the watch of the store ended", error=str(error))
                self._restart(self.position)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:  # noqa: BLE001 - if this task ended, no client could watch any more
                _log.exception("distributing changes failed")
                await self._restart_at_newest()
                await asyncio.sleep(RETRY_SECONDS)

    async def _reload_failed_tenants(self) -> None:
        """Make all listeners read the tenants again on whose changes one of them failed."""
        for tenant in sorted(self._failed_tenants):
            if self._on_tenant_failed is not None and not tenant.startswith("~"):
                await self._on_tenant_failed(tenant)
            elif self._on_missed is not None:
                await self._on_missed()
            self._failed_tenants.discard(tenant)

    async def _restart_at_newest(self) -> None:
        """Continue at the newest revision, and report that changes were missed."""
        self._close_all("lost")
        while True:
            try:
                position = await self._store.revision()
                if self._on_missed is not None:
                    await self._on_missed()
            except StoreError as error:
                _log.warning("cannot read the store", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._restart(position)
                return

    def close(self) -> None:
        """End all watches, and refuse new ones."""
        self._ended = True
        self._close_all("shutdown")

    def _close_all(self, why: str) -> None:
        for watchers in list(self._watchers.values()):
            for each in list(watchers):
                each.close(why)

    def _restart(self, position: int) -> None:
        self._close_all("lost")
        self._recent.clear()
        self._recent_bytes = 0
        self.position = self._oldest_revision = position

    def _publish(self, changes: Sequence[Change]) -> None:
        tenants = {tenant_of(change.key) for change in changes}
        tenant = tenants.pop() if len(tenants) == 1 else ""
        run_marked(
            "change",
            "" if tenant.startswith("~") else tenant,
            notify,
            self._listeners,
            changes,
            self._listener_failed,
        )
        for change in changes:
            topic = _topic(change.key)
            if topic is None:
                continue
            tenant, group, plural = topic
            event = Event(change, tenant, self._forms)
            self._remember(event)
            for each in (topic, (ALL, group, plural)):
                for watcher in self._watchers.get(each, ()):
                    watcher.put(event)
            if (redefined := self._redefined(change)) is not None:
                for watcher in self._watchers.get(redefined, ()):
                    watcher.end("redefined")

    def _listener_failed(self, change: Change, error: Exception) -> None:
        tenant = tenant_of(change.key)
        _log.error("a listener failed on a change", tenant=tenant, key=change.key, exc_info=error)
        self._on_defect()
        self._failed_tenants.add(tenant)

    def _flush_soon(self, watcher: CacheWatcher) -> None:
        """Flush a watcher in the next iteration of the event loop, so that it can receive several events together."""
        if not self._to_flush:
            asyncio.get_running_loop().call_soon(self._flush)
        self._to_flush.append(watcher)

    def _flush(self) -> None:
        since = time.perf_counter()
        for _ in range(min(FLUSHED_AT_ONCE, len(self._to_flush))):
            self._to_flush.popleft().flush()
            if time.perf_counter() - since > FLUSH_SECONDS:
                break
        if self._to_flush:
            asyncio.get_running_loop().call_soon(self._flush)

    def _remember(self, event: Event) -> None:
        self._recent.append(event)
        self._recent_bytes += event.size
        while len(self._recent) > RECENT_EVENTS or self._recent_bytes > RECENT_BYTES:
            oldest = self._recent.popleft()
            self._recent_bytes -= oldest.size
            self._oldest_revision = oldest.change.revision

    def subscribe(self, topic: Topic) -> CacheWatcher:
        """Return a watcher that collects the events of a topic from `position` on."""
        watcher = CacheWatcher(self.position, self._flush_soon)
        if self._ended:
            watcher.close("shutdown")
        self._watchers[topic].add(watcher)
        return watcher

    def unsubscribe(self, topic: Topic, watcher: CacheWatcher) -> None:
        """Stop collecting events for a watcher."""
        watchers = self._watchers.get(topic)
        if watchers is not None:
            watchers.discard(watcher)
            if not watchers:
                del self._watchers[topic]

    async def history(self, topic: Topic, after: int, until: int) -> AsyncIterator[list[Event]]:
        """Yield the events of a topic after one revision up to another.

        Raises:
            Compacted: The store has no history that old.
        """
        if after >= until:
            return
        if after >= self._oldest_revision:
            yield list(self._replay(topic, after, until))
            return
        tenant, group, plural = topic
        prefix = "" if tenant == ALL else collection_key(tenant, group, plural)
        async for batch in self._store.watch(prefix, after, progress=0.05):
            events = [
                Event(each, each.key.partition("/")[0], self._forms)
                for each in batch
                if each.revision <= until
            ]
            yield [each for each in events if _is_about(each, topic)]
            if batch.revision >= until:
                return

    def _replay(self, topic: Topic, after: int, until: int) -> Iterator[Event]:
        events = []
        for event in reversed(self._recent):
            if event.change.revision <= after:
                break
            if event.change.revision <= until and _is_about(event, topic):
                events.append(event)
        return reversed(events)


def _label_bytes(label: tuple[str, str]) -> int:
    return 100 + getsizeof(label[0]) + getsizeof(label[1])


def _topic(key: str) -> Topic | None:
    """Return the topic of a key, or None if it holds no object of a tenant."""
    parts = key.split("/", 3)
    return (parts[0], parts[1], parts[2]) if len(parts) == 4 and not key.startswith("~") else None


def _is_about(event: Event, topic: Topic) -> bool:
    own = _topic(event.change.key)
    return own is not None and own[1:] == topic[1:] and topic[0] in (own[0], ALL)
