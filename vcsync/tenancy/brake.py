"""Limits the number of deletions for which no request was observed. No I/O.

A control plane that was emptied, restored from a backup or exchanged answers 404 for every object. So does a control plane
whose tenant deleted everything while no watch was open. Only an operator can distinguish the two.
"""

import time
from collections.abc import Awaitable, Callable, Hashable
from datetime import UTC, datetime

import structlog
from msgspec import Struct, field

SMALL = 20
"""Default number of deletions within the window up to which nothing is braked."""
WINDOW_SECONDS = 600.0
"""Length of the window: deletions within this many seconds are counted together."""
RECOUNT_SECONDS = 5.0
"""Seconds for which a count of the objects to delete is reused."""
RELEASE_SECONDS = 900.0
"""Seconds for which an operator's release is valid."""
NEVER = datetime.min.replace(tzinfo=UTC)
"""The time of a release that never happened."""

log = structlog.get_logger(__name__)

Count = Callable[[], Awaitable[tuple[int, int]]]
"""Returns how many objects are to be deleted at present, and how many exist."""


class Brake(Struct, frozen=True):
    """Deletions that are held back until an operator releases them or they are no longer wanted.

    Attributes:
        since: when they were held back.
        tenant: cluster key; "" for objects that belong to no tenant in particular.
        what: the kind of objects, in words.
        wanted: number of objects to delete.
        of: number of objects that exist.
        remedy: the step that the operator should take.
        first: the object that was refused first: the brake ends by itself when neither it nor any later one is to be
            deleted any more.
    """

    since: datetime
    tenant: str
    what: str
    wanted: int
    of: int
    remedy: str
    first: str = ""

    def text(self) -> str:
        """Return what waits, without the remedy."""
        return f"{self.wanted} of {self.of} {self.what}" + (f", first {self.first}" if self.first else "")


class Braked(Exception):
    """A deletion waits for an operator. The text says why."""


class _Window(Struct):
    granted: dict[Hashable, float] = field(default_factory=dict)
    refused: dict[Hashable, float] = field(default_factory=dict)  # when it was asked for last
    counted_at: float = float("-inf")
    standing: int = 0


class _Release(Struct):
    """A tenant's latest release.

    Attributes:
        at: the time that the release states.
        until: monotonic seconds until which it is valid.
        looked: monotonic seconds at which it was checked last.
    """

    at: datetime
    until: float
    looked: float


class Releases:
    """Remembers which releases of brakes a process has seen, and decides how long each one is valid.

    One instance lives as long as the process. The limiters of later terms or sessions use the same instance, so that a
    release neither loses its remaining time nor becomes valid a second time.

    Args:
        clock: monotonic seconds.
        now: returns the current time.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._clock = clock
        self._now = now
        # Never shrinks: a release that has expired must not become valid again.
        self._seen: dict[str, _Release] = {}

    def count(self, tenant: str, at: datetime) -> bool:
        """Return whether a tenant's release is valid now.

        The clocks of the operator and of this process may be wrong. A release that appears between two checks is valid
        from the second check on. A release may also have appeared long ago: it is the first one seen, or the last check
        is longer ago than a release is valid. Its age is then computed from the time that it states.

        Args:
            tenant: cluster key; "" for objects that belong to no tenant.
            at: when the operator released, according to the annotation; `NEVER` if there is no release.
        """
        clock, seen = self._clock(), self._seen.get(tenant)
        if seen is None or at > seen.at:
            fresh = seen is not None and clock - seen.looked < RELEASE_SECONDS
            age = 0.0 if fresh else abs((self._now() - at).total_seconds())
            seen = self._seen[tenant] = _Release(at, clock + RELEASE_SECONDS - age, clock)
        seen.looked = clock
        return at == seen.at and clock < seen.until


class DeletionLimiter:
    """Permits deletions for which no request was observed, unless there are too many within the window.

    Attributes:
        braked: (tenant, kind of objects) -> deletions that are held back.

    Args:
        share: the largest share of the existing objects that may be deleted within the window, 0 to 1. With 1 nothing
            is braked.
        small: number of deletions within the window up to which nothing is braked.
        released: returns when an operator last released a tenant's deletions: `NEVER` if that did not happen, None if it
            is not known.
        releases: remembers the releases; outlives the limiter.
        clock: monotonic seconds.
        now: returns the current time.
        release_others: the option of `vcsync brake release` for objects that belong to no tenant.
    """

    def __init__(
        self,
        share: float,
        *,
        small: int = SMALL,
        released: Callable[[str], datetime | None],
        releases: Releases,
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        release_others: str = "--all",
    ) -> None:
        self._release_others = release_others
        self._share = share
        self._small = small
        self._released = released
        self._releases = releases
        self._clock = clock
        self._now = now
        self._windows: dict[tuple[str, str], _Window] = {}
        self._expired_at = float("-inf")
        self.braked: dict[tuple[str, str], Brake] = {}

    async def require(
        self, tenant: str, what: str, item: Hashable, count: Count, *, small: int | None = None
    ) -> None:
        """Permit one deletion.

        Args:
            tenant: cluster key; "" for objects that belong to no tenant in particular.
            what: the kind of objects, in words: `Pods in the super cluster`.
            item: the object. A repeated request for it is not counted again.
            count: counts the objects; called at most every `RECOUNT_SECONDS`.
            small: number of deletions within the window up to which nothing is braked, for these objects.

        Raises:
            Braked: the deletion has to wait for an operator.
        """
        subject = (tenant, what)
        self._expire()
        if self._is_released(tenant):
            self._forget(subject)
            return
        window = self._windows.setdefault(subject, _Window())
        if subject not in self.braked:
            await self._look(subject, window, item, count, self._small if small is None else small)
        if subject in self.braked:
            # The window may have been forgotten while the objects were counted.
            self._windows.setdefault(subject, window).refused[item] = self._clock()
            brake = self.braked[subject]
            raise Braked(
                f"{brake.wanted} of {brake.of} {what} would be deleted without an observed request: {brake.remedy}"
            )
        window.granted[item] = self._clock()

    def is_braked(self, tenant: str, what: str) -> bool:
        """Return whether such deletions wait for an operator."""
        return (tenant, what) in self.braked and not self._is_released(tenant)

    def unwanted(self, tenant: str, what: str, item: Hashable) -> None:
        """Record that an object is not to be deleted any more. The brake is released if that holds for all of them."""
        self._expire()
        window = self._windows.get((tenant, what))
        if window is None or window.refused.pop(item, None) is None:
            return
        if not window.refused:
            log.info("brake released", tenant=tenant, what=what)
            self._forget((tenant, what))

    def settled(self, tenant: str, what: str) -> None:
        """Record that no object of this kind is to be deleted, and release the brake."""
        if (tenant, what) in self.braked:
            log.info("brake released", tenant=tenant, what=what)
            self._forget((tenant, what))

    def forget(self, tenant: str) -> None:
        """Forget a tenant that is no longer served."""
        for subject in [subject for subject in {**self._windows, **self.braked} if subject[0] == tenant]:
            self._forget(subject)

    def _expire(self) -> None:
        """End the brakes that nobody has run into within the window: what was to be deleted is asked for every minute.

        The objects may have gone without anybody noting that one of them is not to be deleted any more.
        """
        now = self._clock()
        if now - self._expired_at < RECOUNT_SECONDS:
            return
        self._expired_at = now
        for subject in list(self.braked):
            window = self._windows.get(subject)
            if window is None:
                continue
            window.refused = {item: at for item, at in window.refused.items() if now - at < WINDOW_SECONDS}
            if not window.refused:
                log.info("brake released", tenant=subject[0], what=subject[1])
                self._forget(subject)

    async def _look(
        self, subject: tuple[str, str], window: _Window, item: Hashable, count: Count, small: int
    ) -> None:
        now = self._clock()
        window.granted = {item: at for item, at in window.granted.items() if now - at < WINDOW_SECONDS}
        if now - window.counted_at >= RECOUNT_SECONDS:
            wanted, window.standing = await count()
            window.counted_at = self._clock()
            if self._too_many(wanted, window.standing, small):
                self._brake(subject, item, wanted, window.standing)
                return
        going, of = len({*window.granted, item}), window.standing + len(window.granted)
        if self._too_many(going, of, small):
            self._brake(subject, item, going, of)

    def _too_many(self, wanted: int, of: int, small: int) -> bool:
        return wanted > small and wanted > of * self._share

    def _brake(self, subject: tuple[str, str], item: Hashable, wanted: int, of: int) -> None:
        if subject in self.braked:
            return
        tenant, what = subject
        remedy = (
            "check that the tenant's control plane and the meta cluster are complete; if the deletions are "
            f"right, release them with 'vcsync brake release {tenant}'"
            if tenant
            else "check that the meta cluster is complete; if the deletions are right, release them with "
            f"'vcsync brake release {self._release_others}'"
        )
        self.braked[subject] = Brake(self._now(), tenant, what, wanted, of, remedy, _name_of(item))
        log.error(
            "braked", tenant=tenant, what=what, wanted=wanted, of=of, first=_name_of(item), remedy=remedy
        )

    def _is_released(self, tenant: str) -> bool:
        """Return whether an operator's release is valid for a tenant now."""
        at = self._released(tenant)
        return at is not None and self._releases.count(tenant, at)

    def _forget(self, subject: tuple[str, str]) -> None:
        self._windows.pop(subject, None)
        self.braked.pop(subject, None)


def _name_of(item: Hashable) -> str:
    """Return an object of a message: the parts of its name, or its name."""
    parts = item if isinstance(item, tuple) else (item,)
    return "/".join(str(part) for part in parts if part)


def released_at(annotation: str | None) -> datetime:
    """Parse the RFC 3339 time at which an operator released a brake; `NEVER` if there is none or it cannot be parsed."""
    try:
        at = datetime.fromisoformat(annotation or "")
    except ValueError:
        return NEVER
    return at if at.tzinfo is not None else NEVER
