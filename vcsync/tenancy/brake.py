"""How many deletions that nobody was seen to ask for are believed at once. No I/O.

A control plane that was emptied, restored from a backup or exchanged says of everything that it is not there. So does one
whose tenant deleted everything while nobody watched; only an operator can tell.
"""

from collections.abc import Awaitable, Callable, Hashable
from datetime import UTC, datetime, timedelta

import structlog
from msgspec import Struct, field

SMALL = 20
"""So few deletions at once brake nothing, as a rule."""
WINDOW_SECONDS = 600.0
"""Deletions within so many seconds are at once."""
RECOUNT_SECONDS = 5.0
"""How long a count of what is wanted is believed."""
RELEASE_SECONDS = 900.0
"""How long an operator's word counts."""

log = structlog.get_logger(__name__)

Count = Callable[[], Awaitable[tuple[int, int]]]
"""Returns how many objects are wanted to go at present, and how many stand."""


class Brake(Struct, frozen=True):
    """Deletions that were too many to be believed, until an operator releases them or nobody wants them any more.

    `tenant`: cluster key; "" for namespaces of all tenants. `what`: which objects, in words.
    """

    since: datetime
    tenant: str
    what: str
    wanted: int
    of: int
    remedy: str


class Braked(Exception):
    """A deletion waits for an operator; the text says why."""


class _Window(Struct):
    granted: dict[Hashable, float] = field(default_factory=dict)
    refused: set[Hashable] = field(default_factory=set)
    counted_at: float = float("-inf")
    standing: int = 0


class Gate:
    """Lets deletions pass that the tenant was not seen to ask for, and brakes when there are too many.

    Args:
        share: the largest share of what stands that may go at once, 0 to 1; 1 lets everything pass.
        small: so few at once never brake.
        released: when an operator last said of a tenant that such deletions are right; None: never.
        clock: monotonic seconds.
        now: the time.
    """

    def __init__(
        self,
        share: float,
        *,
        small: int = SMALL,
        released: Callable[[str], datetime | None],
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._share = share
        self._small = small
        self._released = released
        self._clock = clock
        self._now = now
        self._windows: dict[tuple[str, str], _Window] = {}
        self.braked: dict[tuple[str, str], Brake] = {}

    async def require(self, tenant: str, what: str, item: Hashable, count: Count) -> None:
        """Let one deletion pass.

        Args:
            tenant: cluster key; "" for none in particular.
            what: the objects that it is one of, in words: `Pods in the super cluster`.
            item: which one; asked for again, it is not counted again.
            count: see there; asked seldom.

        Raises:
            Braked: it does not.
        """
        subject = (tenant, what)
        if self._is_released(tenant):
            self._forget(subject)
            return
        window = self._windows.setdefault(subject, _Window())
        if subject not in self.braked:
            await self._look(subject, window, count)
        if subject in self.braked:
            window.refused.add(item)
            brake = self.braked[subject]
            raise Braked(
                f"{brake.wanted} of {brake.of} {what} would be deleted, which nobody was seen to ask for: {brake.remedy}"
            )
        window.granted[item] = self._clock()

    def is_braked(self, tenant: str, what: str) -> bool:
        """Whether such deletions wait for an operator."""
        return (tenant, what) in self.braked and not self._is_released(tenant)

    def unwanted(self, tenant: str, what: str, item: Hashable) -> None:
        """Note that an object is not to be deleted after all; when none is, the brake lets go by itself."""
        window = self._windows.get((tenant, what))
        if window is None or item not in window.refused:
            return
        window.refused.discard(item)
        if not window.refused:
            log.info("brake lets go", tenant=tenant, what=what)
            self._forget((tenant, what))

    def forget(self, tenant: str) -> None:
        """Forget a tenant that is not served any more."""
        for subject in [each for each in {**self._windows, **self.braked} if each[0] == tenant]:
            self._forget(subject)

    async def _look(self, subject: tuple[str, str], window: _Window, count: Count) -> None:
        now = self._clock()
        window.granted = {item: at for item, at in window.granted.items() if now - at < WINDOW_SECONDS}
        if now - window.counted_at >= RECOUNT_SECONDS:
            wanted, window.standing = await count()
            window.counted_at = self._clock()
            if self._too_many(wanted, window.standing):
                self._brake(subject, wanted, window.standing)
                return
        if self._too_many(len(window.granted) + 1, window.standing + len(window.granted)):
            self._brake(subject, len(window.granted) + 1, window.standing + len(window.granted))

    def _too_many(self, wanted: int, of: int) -> bool:
        return wanted > self._small and wanted > of * self._share

    def _brake(self, subject: tuple[str, str], wanted: int, of: int) -> None:
        if subject in self.braked:
            return
        tenant, what = subject
        remedy = (
            "check that the tenant's control plane holds what it should; if the deletions are right, release them with "
            f"'vcsync brake release {tenant}'"
            if tenant
            else "check that the meta cluster holds what it should; if the deletions are right, release them with "
            "'vcsync brake release --all'"
        )
        self.braked[subject] = Brake(self._now(), tenant, what, wanted, of, remedy)
        log.error("braked", tenant=tenant, what=what, wanted=wanted, of=of, remedy=remedy)

    def _is_released(self, tenant: str) -> bool:
        at = self._released(tenant)
        return at is not None and abs(self._now() - at) < timedelta(seconds=RELEASE_SECONDS)

    def _forget(self, subject: tuple[str, str]) -> None:
        self._windows.pop(subject, None)
        self.braked.pop(subject, None)


def released_at(annotation: str | None) -> datetime | None:
    """Read when an operator released a brake (RFC 3339); None: never, or in no form that can be read."""
    if not annotation:
        return None
    try:
        at = datetime.fromisoformat(annotation)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None
