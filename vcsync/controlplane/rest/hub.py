"""One watch of the whole store, handed out to everybody who watches: by tenant and resource, or all tenants at once."""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

import structlog

from vcsync.controlplane.resources import collection_key
from vcsync.controlplane.rest import stored
from vcsync.controlplane.rest.requestinfo import ALL
from vcsync.controlplane.store.interface import Change, Compacted, Store, StoreError, tenant_of
from vcsync.controlplane.store.telling import Listener, tell

RECENT_EVENTS = 8192
RECENT_BYTES = 16 * 2**20
"""How much of the newest history is kept at hand, for watches that resume."""
MAX_WAITING = 20_000
MAX_WAITING_BYTES = 16 * 2**20
"""Events that wait for one watch, and their size; whoever is slower is cut off and resumes."""
FLUSHED_AT_ONCE = 200
"""Watches that are written to before others in the event loop get their turn."""
PROGRESS_SECONDS = 1.0
RETRY_SECONDS = 1.0

Lost = Callable[[], Awaitable[None]]
"""Called when changes were missed; what is read then is at least as new as where the hub goes on."""
Doubted = Callable[[str], Awaitable[None]]
"""Called when some listener could not take a change of a tenant, so that all of them read that tenant anew."""
Topic = tuple[str, str, str]
"""(tenant, group or `core`, plural)."""
Sink = Callable[[list["Event"]], bool]
"""Takes events on the spot; False: it cannot, and they wait."""
_log = structlog.get_logger()


class Event:
    """One change of one object, shared by all who watch it.

    Attributes:
        encoded: the event's bytes for one way of writing it.
        size: about what it takes of memory, in bytes.
    """

    __slots__ = ("_labels", "change", "encoded", "fields", "size", "tenant")

    def __init__(self, change: Change, tenant: str) -> None:
        """Take a change of a tenant's object."""
        self.change = change
        self.size = 200 + len(change.value or b"") + len(change.previous or b"")
        self.tenant = tenant
        self.encoded: dict[str, bytes] = {}
        self.fields: dict[object, dict[str, str]] = {}
        self._labels: dict[bool, dict[str, str]] = {}

    def labels(self, *, before: bool) -> dict[str, str]:
        """Return the object's labels before or after the change."""
        found = self._labels.get(before)
        if found is None:
            value = self.change.previous if before else self.change.value
            found = self._labels[before] = stored.labels(value) if value else {}
        return found


class Watcher:
    """What waits for one watch.

    Attributes:
        base: what it is given begins after this revision.
        closed: why nothing more comes; empty: it goes on.
    """

    def __init__(self, base: int, due: Callable[["Watcher"], None]) -> None:
        """Begin after a revision; `due` is told when `flush` is to be called soon."""
        self.base = base
        self.closed = ""
        self._due = due
        self._waiting: list[Event] = []
        self._size = 0
        self._wake = asyncio.Event()
        self._sink: Sink | None = None

    def put(self, event: Event) -> None:
        """Let one more event wait."""
        self._size += event.size
        if len(self._waiting) >= MAX_WAITING or self._size > MAX_WAITING_BYTES + event.size:
            self.close("slow")
            return
        self._waiting.append(event)
        if self._sink is None:
            self._wake.set()
        elif len(self._waiting) == 1:
            self._due(self)

    def flush(self) -> None:
        """Give what waits to the sink of whoever is in `wait`; what it does not take ends the waiting."""
        if self._sink is None or not self._waiting:
            return
        try:
            taken = self._sink(self._waiting)
        except Exception:  # noqa: BLE001 - who waits meets the same defect, and tells of it
            taken = False
        if taken:
            self._waiting, self._size = [], 0
        else:
            self._wake.set()

    def close(self, why: str) -> None:
        """Give nothing more."""
        self.closed = self.closed or why
        self._waiting.clear()
        self._wake.set()

    def take(self) -> list[Event]:
        """Return all that waits."""
        self._wake.clear()
        taken, self._waiting, self._size = self._waiting, [], 0
        return taken

    async def wait(self, seconds: float, sink: Sink | None = None) -> None:
        """Return when something waits, it is closed, or so many seconds are over.

        What `sink` takes does not wait: most events of most watches wake nobody.
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


class Hub:
    """Everyone who watches.

    Attributes:
        position: every change up to this revision has been handed out.
    """

    def __init__(
        self,
        store: Store,
        listeners: Sequence[Listener] = (),
        lost: Lost | None = None,
        *,
        doubted: Doubted | None = None,
        defect: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the store and who listens.

        Args:
            store: what is watched.
            listeners: are told of every batch of changes before watches are.
            lost: is called when changes were missed.
            doubted: is called when a listener could not take a change of a tenant.
            defect: counts such changes.
        """
        self._lost = lost
        self._doubted = doubted
        self._defect = defect
        self._store = store
        self._listeners = list(listeners)
        self._in_doubt: set[str] = set()
        self._watchers: dict[Topic, set[Watcher]] = defaultdict(set)
        self._recent: deque[Event] = deque()
        self._recent_bytes = 0
        self._floor = 0
        self._ended = False
        self._due: deque[Watcher] = deque()
        self.position = 0

    async def start(self) -> None:
        """Take up the position; call before `run`."""
        self.position = self._floor = await self._store.revision()

    async def run(self) -> None:
        """Hand out changes until cancelled."""
        while True:
            try:
                async for batch in self._store.watch("", self.position, progress=PROGRESS_SECONDS):
                    if batch:
                        self._publish(batch)
                    self.position = max(self.position, batch.revision)
                    if self._in_doubt:
                        await self._read_anew()
            except Compacted:
                _log.warning("store watch is behind the window of history", position=self.position)
                await self._begin_anew()
            except StoreError as error:
                _log.warning("store watch ended", error=str(error))
                self._restart(self.position)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:  # noqa: BLE001 - without changes nobody could watch any more
                _log.exception("handing out changes failed")
                await self._begin_anew()
                await asyncio.sleep(RETRY_SECONDS)

    async def _read_anew(self) -> None:
        """Have everybody who keeps knowledge in memory read the tenants anew of which some change was too much."""
        for tenant in sorted(self._in_doubt):
            if self._doubted is not None and not tenant.startswith("~"):
                await self._doubted(tenant)
            elif self._lost is not None:
                await self._lost()
            self._in_doubt.discard(tenant)

    async def _begin_anew(self) -> None:
        """Go on from the newest revision; whoever keeps knowledge in memory hears that changes were missed."""
        self._close_all("lost")
        while True:
            try:
                position = await self._store.revision()
                if self._lost is not None:
                    await self._lost()
            except StoreError as error:
                _log.warning("store cannot be read", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._restart(position)
                return

    def close(self) -> None:
        """End every watch, for good."""
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
        self.position = self._floor = position

    def _publish(self, changes: Sequence[Change]) -> None:
        tell(self._listeners, changes, self._failed)
        for change in changes:
            topic = _topic(change.key)
            if topic is None:
                continue
            tenant, group, plural = topic
            event = Event(change, tenant)
            self._remember(event)
            for each in (topic, (ALL, group, plural)):
                for watcher in self._watchers.get(each, ()):
                    watcher.put(event)

    def _failed(self, change: Change, error: Exception) -> None:
        tenant = tenant_of(change.key)
        _log.error("a listener could not take a change", tenant=tenant, key=change.key, exc_info=error)
        self._defect()
        self._in_doubt.add(tenant)

    def _flush_soon(self, watcher: Watcher) -> None:
        """Once the loop comes to it: by then several changes may go out as one."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self._flush)
        self._due.append(watcher)

    def _flush(self) -> None:
        for _ in range(min(FLUSHED_AT_ONCE, len(self._due))):
            self._due.popleft().flush()
        if self._due:
            asyncio.get_running_loop().call_soon(self._flush)

    def _remember(self, event: Event) -> None:
        self._recent.append(event)
        self._recent_bytes += event.size
        while len(self._recent) > RECENT_EVENTS or self._recent_bytes > RECENT_BYTES:
            oldest = self._recent.popleft()
            self._recent_bytes -= oldest.size
            self._floor = oldest.change.revision

    def subscribe(self, topic: Topic) -> Watcher:
        """Begin to keep what comes for somebody."""
        watcher = Watcher(self.position, self._flush_soon)
        if self._ended:
            watcher.close("shutdown")
        self._watchers[topic].add(watcher)
        return watcher

    def unsubscribe(self, topic: Topic, watcher: Watcher) -> None:
        """Keep nothing more for it."""
        watchers = self._watchers.get(topic)
        if watchers is not None:
            watchers.discard(watcher)
            if not watchers:
                del self._watchers[topic]

    async def history(self, topic: Topic, after: int, until: int) -> AsyncIterator[list[Event]]:
        """Give what was handed out before, after one revision up to another.

        Raises:
            Compacted: it is forgotten.
        """
        if after >= until:
            return
        if after >= self._floor:
            yield list(self._replay(topic, after, until))
            return
        tenant, group, plural = topic
        prefix = "" if tenant == ALL else collection_key(tenant, group, plural)
        async for batch in self._store.watch(prefix, after, progress=0.05):
            events = [Event(each, each.key.partition("/")[0]) for each in batch if each.revision <= until]
            yield [each for each in events if _about(each, topic)]
            if batch.revision >= until:
                return

    def _replay(self, topic: Topic, after: int, until: int) -> Iterator[Event]:
        found = []
        for event in reversed(self._recent):
            if event.change.revision <= after:
                break
            if event.change.revision <= until and _about(event, topic):
                found.append(event)
        return reversed(found)


def _topic(key: str) -> Topic | None:
    """Return what a key is about; None: no tenant's object."""
    parts = key.split("/", 3)
    return (parts[0], parts[1], parts[2]) if len(parts) == 4 and not key.startswith("~") else None


def _about(event: Event, topic: Topic) -> bool:
    found = _topic(event.change.key)
    return found is not None and found[1:] == topic[1:] and topic[0] in (found[0], ALL)
