"""Room that is promised to Pods while they are created, until they are seen or are not created. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from vcsync.podscheduler.accounting import PodAccounting
from vcsync.scheduling.resources import Resources, add
from vcsync.scheduling.shares import PodDecision

PROMISED_SECONDS = 10.0
"""Seconds for which a promise holds, from the decision and again from the beginning of the write."""
WRITTEN_SECONDS = 600.0
"""Seconds for which the promise to a Pod that was written holds at most, if the Pod is never seen."""


class Birth(Struct, frozen=True, gc=False):
    """The identity of a Pod that has no UID yet, because another process creates it.

    Attributes:
        namespace: its namespace.
        name: its name; empty if the API server generates it.
        prefix: the beginning of a generated name, as `metadata.generateName`; empty for a Pod with a name.
        owners: UIDs of its owners.
        requests: its requests in thousandths, sorted by name.
    """

    namespace: str
    name: str
    prefix: str
    owners: tuple[str, ...]
    requests: tuple[tuple[str, int], ...]


def birth_of(namespace: str, name: str, prefix: str, owners: Iterable[str], requests: Resources) -> Birth:
    """Return what identifies a Pod at its creation."""
    return Birth(namespace, name, "" if name else prefix, tuple(owners), tuple(sorted(requests.items())))


class Promise:
    """The promise to one Pod. Without a super cluster it holds the Pod's turn among the Pods of its namespace.

    Attributes:
        namespace: the Pod's namespace.
        name: its name.
        super_id: the super cluster where it has room; empty if it is to wait.
        requests: its requests in thousandths.
        services: names of the Services that select it and keep their Pods together.
        decision: the decision; None if there was none.
        until: clock seconds at which the promise ends by itself.
        uid: the UID under which the Pod is written as promised; empty until then.
        revision: the revision at which it was written; 0 until then.
        birth: what identifies a Pod that another process writes: the promise ends when such a Pod is seen first. None if
            `writing` notes its UID.
        bound: whether its claims or devices keep it from super clusters, besides the lack of room.
    """

    __slots__ = (
        "_promises",
        "birth",
        "bound",
        "decision",
        "name",
        "namespace",
        "requests",
        "revision",
        "services",
        "super_id",
        "uid",
        "until",
    )

    def __init__(  # noqa: PLR0917 - the parts of a record
        self,
        promises: "Promises",
        namespace: str,
        name: str,
        super_id: str,
        requests: Resources,
        decision: PodDecision | None,
        until: float,
        services: tuple[str, ...],
        birth: Birth | None = None,
        *,
        bound: bool = False,
    ) -> None:
        self.birth = birth
        self.bound = bound
        self._promises = promises
        self.namespace = namespace
        self.name = name
        self.super_id = super_id
        self.requests = requests
        self.services = services
        self.decision = decision
        self.until = until
        self.uid = ""
        self.revision = 0

    def writing(self, uid: str) -> bool:
        """Note the UID under which the Pod is about to be written. Return whether the promise still holds."""
        return self._promises.writing(self, uid)

    def written(self, revision: int) -> None:
        """Note that the Pod was written. The promise holds until the Pod is seen."""
        self._promises.written(self, revision)

    def give_back(self) -> None:
        """Free what was promised, because the Pod is not written. A second call does nothing."""
        self._promises.give_back(self)


class Promises:
    """The promises to the Pods of one tenant that have not been seen yet.

    A promise counts in the share of its super cluster like a Pod. When the Pod is seen, it counts itself.

    A promise ends after a time, whatever becomes of the Pod. A Pod that is seen later than that counts from then on, although its
    room may have been given to others: the share is exceeded by no more than such Pods request.

    Attributes:
        standing: namespace -> its promises, the oldest first.

    Args:
        accounting: the tenant's Pods that have been seen.
        clock: monotonic seconds.
        on_freed: called with a namespace when room there is free again, or a turn has ended.
        on_written: called with every promise to a Pod that was written.
        counts: number of promises by what became of them: `placed` or `left`, and later `given back` or `expired`.
    """

    def __init__(
        self,
        accounting: PodAccounting,
        clock: Callable[[], float],
        on_freed: Callable[[str], None] = lambda _namespace: None,
        on_written: Callable[[Promise], None] = lambda _promise: None,
        counts: Counter[str] | None = None,
    ) -> None:
        self._accounting = accounting
        self._clock = clock
        self._on_freed = on_freed
        self._on_written = on_written
        self.standing: dict[str, dict[Promise, None]] = {}
        self._by_uid: dict[str, Promise] = {}
        self._by_birth: dict[
            tuple[Birth, str], dict[Promise, None]
        ] = {}  # (birth, super cluster) -> promises
        self._named: set[tuple[str, str]] = set()  # (namespace, name) of the Pods with a name in `_by_birth`
        self._turns: dict[str, int] = {}  # namespace -> number of its promises without a super cluster
        self._closed = False
        self._counts = Counter() if counts is None else counts

    def __len__(self) -> int:
        return sum(map(len, self.standing.values()))

    def make(
        self,
        namespace: str,
        name: str,
        requests: Resources,
        decision: PodDecision | None = None,
        services: tuple[str, ...] = (),
        *,
        birth: Birth | None = None,
        bound: bool = False,
    ) -> Promise | None:
        """Promise room for a Pod, on the super cluster of a decision; or its turn, if there is none.

        Args:
            namespace: the Pod's namespace.
            name: its name.
            requests: its requests in thousandths.
            decision: the decision; None if there was none.
            services: Services that keep the Pod together with others.
            birth: what identifies the Pod, if another process writes it.
            bound: whether more than room keeps it from super clusters.

        Returns:
            The promise; None after `close`.
        """
        if self._closed:
            return None
        super_id = (decision.super_id if decision is not None else None) or ""
        until = self._clock() + PROMISED_SECONDS
        promise = Promise(
            self, namespace, name, super_id, requests, decision, until, services, birth, bound=bound
        )
        if super_id:
            self._accounting.reserve(namespace, super_id, requests, services)
        else:
            self._turns[namespace] = self._turns.get(namespace, 0) + 1
        self.standing.setdefault(namespace, {})[promise] = None
        if birth is not None:
            self._by_birth.setdefault((birth, super_id), {})[promise] = None
            if birth.name:
                self._named.add((namespace, birth.name))
        self._counts["placed" if super_id else "left"] += 1
        return promise

    def turns(self, namespace: str) -> Resources | None:
        """Return what the Pods of a namespace request together that are being created, and are to wait for their turn.

        Returns:
            Their requests in thousandths. None if one of them needs more than room.
        """
        total: Resources = {}
        if namespace not in self._turns:
            return total
        for promise in self.standing[namespace]:
            if not promise.super_id:
                if promise.bound or promise.services:
                    return None
                total = add(total, promise.requests)
        return total

    def expects(self, namespace: str, name: str) -> bool:
        """Return whether another process was promised room, or a turn, for the Pod of this name."""
        return (namespace, name) in self._named

    def expecting(self) -> bool:
        """Return whether there is a promise to a Pod that another process writes."""
        return bool(self._by_birth)

    def born(self, birth: Birth, prefix: str, super_id: str, revision: int) -> None:
        """End one promise to a Pod that another process has written, now that the Pod is seen for the first time.

        Args:
            birth: what identifies the Pod by its name.
            prefix: its `metadata.generateName`; empty if it has none.
            super_id: the super cluster that its label names; empty if none. The promise to it names the same one.
            revision: the revision at which it was seen.
        """
        generated = replace(birth, name="", prefix=prefix)
        for each in (birth, generated) if prefix else (birth,):
            found = self._by_birth.get((each, super_id))
            if found:
                promise = next(iter(found))
                promise.name, promise.revision = birth.name, revision
                self._end(promise, "", freed=False)
                if super_id:
                    self._on_written(promise)
                return

    def ends_in(self, namespace: str) -> float:
        """Return the seconds after which the promises of a namespace are to be looked at again."""
        until = min(
            (each.until for each in self.standing.get(namespace, ())),
            default=self._clock() + PROMISED_SECONDS,
        )
        return min(max(until - self._clock(), 0.0), PROMISED_SECONDS)

    def writing(self, promise: Promise, uid: str) -> bool:
        """See `Promise.writing`."""
        if self._stands(promise) and promise.until <= self._clock():
            self._end(promise, "expired")
        self._by_uid.pop(promise.uid, None)
        promise.uid = ""
        if not self._stands(promise):
            return False
        promise.uid = uid
        promise.until = self._clock() + PROMISED_SECONDS
        self._by_uid[uid] = promise
        return True

    def written(self, promise: Promise, revision: int) -> None:
        """See `Promise.written`."""
        promise.revision = revision
        if promise.super_id and promise.uid:
            self._on_written(promise)
        if self._stands(promise):
            promise.until = self._clock() + WRITTEN_SECONDS

    def give_back(self, promise: Promise) -> None:
        """See `Promise.give_back`."""
        if self._stands(promise):
            self._end(promise, "given back")

    def seen(self, uid: str, super_id: str) -> None:
        """End the promise to a Pod that has been seen.

        Args:
            uid: its UID.
            super_id: the super cluster where it counts from now on; empty if it counts nowhere.
        """
        promise = self._by_uid.get(uid)
        if promise is not None:
            self._end(promise, "", freed=promise.super_id != super_id)

    def expire(self, namespace: str, version: int) -> None:
        """End the promises of a namespace whose time is over, or whose Pods were created and deleted unseen.

        Args:
            namespace: the namespace.
            version: the resourceVersion up to which all changes of Pods have been seen.
        """
        now = self._clock()
        for promise in list(self.standing.get(namespace, ())):
            if promise.until <= now or 0 < promise.revision <= version:
                self._end(promise, "expired")

    def close(self) -> None:
        """End all promises, and make no new ones: another term counts what was written."""
        self._closed = True
        for promise in [promise for standing in self.standing.values() for promise in standing]:
            self._end(promise, "", freed=False)

    def _stands(self, promise: Promise) -> bool:
        return promise in self.standing.get(promise.namespace, ())

    def _end(self, promise: Promise, outcome: str, *, freed: bool = True) -> None:
        namespace = promise.namespace
        standing = self.standing[namespace]
        del standing[promise]
        if not standing:
            del self.standing[namespace]
        self._by_uid.pop(promise.uid, None)
        self._forget_birth(promise)
        if promise.super_id:
            self._accounting.free(namespace, promise.super_id, promise.requests, promise.services)
        elif self._turns[namespace] > 1:
            self._turns[namespace] -= 1
        else:
            del self._turns[namespace]
        if outcome:
            self._counts[outcome] += 1
        if freed:
            self._on_freed(namespace)

    def _forget_birth(self, promise: Promise) -> None:
        if promise.birth is None:
            return
        key = promise.birth, promise.super_id
        found = self._by_birth[key]
        del found[promise]
        if not found:
            del self._by_birth[key]
        if promise.birth.name:
            self._named.discard((promise.namespace, promise.birth.name))
