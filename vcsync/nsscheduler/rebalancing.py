"""Asks for moves: back to super clusters that have returned, and for a rebalance on a schedule."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

import structlog

from vcsync.api.moves import request_annotation, request_of
from vcsync.api.objects import NamespacePlacement
from vcsync.api.specs import FailBack
from vcsync.kube.errors import KubeError, describe
from vcsync.nsscheduler.fence import NotLeading
from vcsync.objects.times import time_text
from vcsync.scheduling.ledger import Key, Ledger
from vcsync.scheduling.rebalance import Board, Move, rebalance, returning, takes_part
from vcsync.scheduling.snapshot import SuperView
from vcsync.tenancy.movable import movable, requests_of

LOOK_SECONDS: Final = 5.0
"""Seconds between two looks at what could move."""
RETRY_SECONDS: Final = 600
"""Seconds after which a way back that was refused is tried again."""
IDLE_SECONDS: Final = 30.0
"""Seconds after which slices that could not go back are looked at again."""

_log = structlog.get_logger(__name__)


class Placements(Protocol):
    """The ledger as it is stored."""

    def asked(self) -> Iterable[NamespacePlacement]:
        """Return the entries with a request to move slices."""
        ...

    def of(self, keys: Iterable[Key]) -> Mapping[Key, NamespacePlacement]:
        """Return the entries of these namespaces that can be read."""
        ...

    async def annotate(self, placement: NamespacePlacement, annotations: dict[str, Any]) -> None:
        """Change annotations of an entry, which must still have the version that was read."""


class Rebalancing:
    """Writes requests, which `Transfers` carries out. It asks for nothing while requests are open.

    Args:
        views: the pool.
        ledger: the slices of all namespaces.
        policy: the policy for placing slices.
        placements: the stored ledger.
        fail_back: returns the policy of a tenant for the way back; None while the tenant is not connected.
        budget: most slices that move at a time.
        every: seconds between two rebalances; None for none.
        clock: monotonic seconds.
        now: the present time.
    """

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        views: Mapping[str, SuperView],
        ledger: Ledger,
        policy: str,
        placements: Placements,
        fail_back: Callable[[str], FailBack | None],
        budget: int,
        every: float | None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._views = views
        self._ledger = ledger
        self._policy = policy
        self._placements = placements
        self._fail_back = fail_back
        self._budget = budget
        self._every = every
        self._clock = clock
        self._now = now
        self._back_at = 0.0
        self._next = None if every is None else clock() + every

    async def run(self) -> None:
        """Ask for moves until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except NotLeading as error:
                _log.warning("moves are not asked for", **describe(error))

    async def look(self) -> None:
        """Ask for the next moves, if it is time for any and those before have been carried out.

        Raises:
            NotLeading: another process may lead.
        """
        due = self._next is not None and self._clock() >= self._next
        back = self._away("WithinBudget") if self._clock() >= self._back_at else {}
        if not (due or back) or self._open():
            return
        # Copies, since another thread computes.
        board = Board(dict(self._views), dict(self._ledger.entries()), self._policy)
        if back:
            stored = self._placements.of(back)
            free = self._movable({key: each for key, each in stored.items() if self._may_ask(each)}, back)
            moves = await asyncio.to_thread(returning, board, free, self._budget, back)
            if not moves:
                self._back_at = self._clock() + IDLE_SECONDS
            await self._ask(board, stored, moves, "return")
        if due and not self._open():
            assert self._every is not None  # noqa: S101 - it is due
            self._next = self._clock() + self._every
            stored = self._placements.of(self._ledger.entries())
            away = self._away("NextRebalance")
            free = self._movable(stored, away)
            found = await asyncio.to_thread(rebalance, board, free, self._budget, away)
            await self._ask(board, stored, found.moves, "rebalance")

    def _open(self) -> bool:
        """Return whether requests are being carried out."""
        requests = (request_of(each.annotations) for each in self._placements.asked())
        return any(request is not None and not request.refused for request in requests)

    def _may_ask(self, placement: NamespacePlacement) -> bool:
        """Return whether slices of a namespace may be asked back: not soon after that was refused."""
        request = request_of(placement.annotations)
        past = time_text(self._now() - timedelta(seconds=RETRY_SECONDS))
        return request is None or request.at < past

    def _away(self, policy: FailBack) -> dict[Key, dict[str, int]]:
        """Return the slices of tenants with a policy that may go back to a super cluster which has returned."""
        ready = {super_id for super_id, view in self._views.items() if takes_part(view)}
        return {
            key: entry.away
            for key, entry in self._ledger.entries().items()
            if entry.away and not ready.isdisjoint(entry.away) and self._fail_back(key[0]) == policy
        }

    def _movable(
        self, stored: Mapping[Key, NamespacePlacement], away: Mapping[Key, Mapping[str, int]]
    ) -> dict[Key, Mapping[str, int]]:
        found = {
            key: movable(each, away.get(key, {}))
            for key, each in stored.items()
            if self._fail_back(key[0]) is not None
        }
        return {key: stay for key, stay in found.items() if stay is not None}

    async def _ask(
        self, board: Board, stored: Mapping[Key, NamespacePlacement], moves: Iterable[Move], why: str
    ) -> None:
        """Write requests. An entry that has changed meanwhile is left out."""
        requests = requests_of(moves, board.entries, self._now())
        for key, request in requests.items():
            try:
                await self._placements.annotate(stored[key], request_annotation(request))
            except KubeError as error:
                _log.warning("moves are not asked for", placement=key, **describe(error))
        if requests:
            _log.info("slices are to move", why=why, namespaces=len(requests))
