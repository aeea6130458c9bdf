"""Carries out requests to move slices, in waves: each is judged again by the leader's own state of the pool."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

import structlog
from msgspec.structs import replace

from vcsync.api.moves import MoveRequest, request_annotation, request_of
from vcsync.api.objects import NamespacePlacement
from vcsync.kube.errors import KubeError, describe
from vcsync.nsscheduler.fence import NotLeading
from vcsync.objects.times import time_text
from vcsync.scheduling.drain_waves import UNDER_WAY_SECONDS
from vcsync.scheduling.failover import SMALLEST_WAVE, in_turn, wave_size
from vcsync.scheduling.ledger import Key, Ledger
from vcsync.scheduling.place import Transfer
from vcsync.scheduling.rebalance import Board, Move
from vcsync.scheduling.snapshot import SuperView

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at the requests."""
ANSWER_SECONDS: Final = 10.0
"""Longest time that a tenant's control plane may take to say which Pods have claims."""
RETRY_SECONDS: Final = 60.0
"""Seconds after which a tenant whose control plane refused or did not answer is asked again. Requests wait for it for
`UNDER_WAY_SECONDS`, since nothing else is asked for while they are open."""
KEPT_SECONDS: Final = 3600
"""Seconds for which a refused request is kept, so that people and the next rebalance see why."""
_SILENT = "its tenant's control plane does not answer"
_UNDECIDED = "nothing was decided about the namespace in time"
_CHANGED = "the namespace has other slices by now than when the moves were asked for"
_WORSE = "the pool has changed, and the moves would make its score worse"

_log = structlog.get_logger(__name__)


class Placements(Protocol):
    """The ledger as it is stored."""

    def asked(self) -> Iterable[NamespacePlacement]:
        """Return the entries with a request."""
        ...

    async def annotate(self, placement: NamespacePlacement, annotations: dict[str, Any]) -> None:
        """Change annotations of an entry, which must still have the version that was read."""


class Transfers:
    """Moves slices as the annotations of ledger entries ask.

    The old place is given up as for any withdrawal: its syncer drains it, and PodDisruptionBudgets are honoured.

    Args:
        views: the pool.
        ledger: the slices of all namespaces.
        policy: the policy for placing slices.
        placements: the stored ledger.
        connected: returns whether a tenant's control plane is followed.
        stateful: returns how many slices of a namespace on a super cluster the Pods with claims need.
        add: enqueues a namespace.
        clock: monotonic seconds.
        now: the present time.
    """

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        views: Mapping[str, SuperView],
        ledger: Ledger,
        policy: str,
        placements: Placements,
        connected: Callable[[str], bool],
        stateful: Callable[[Key, str], Awaitable[int]],
        add: Callable[[Key], None],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._views = views
        self._ledger = ledger
        self._policy = policy
        self._placements = placements
        self._connected = connected
        self._stateful = stateful
        self._add = add
        self._clock = clock
        self._now = now
        self._orders: dict[Key, tuple[Transfer, ...]] = {}
        self._decided: dict[Key, str] = {}
        self._ordered_at: dict[Key, float] = {}
        self._leaving: dict[Key, tuple[frozenset[str], float]] = {}
        """Namespace -> the super clusters that it has left and that drain it, and the monotonic seconds of that decision."""
        self._retry_at: dict[str, float] = {}
        self._silent_since: dict[str, float] = {}
        """Tenant with open requests -> monotonic seconds since when it does not answer, or is not connected."""

    def of(self, key: Key) -> tuple[Transfer, ...]:
        """Return the slices of a namespace that are to move now."""
        return self._orders.get(key, ())

    def note_decided(self, key: Key, transfers: tuple[Transfer, ...], message: str) -> None:
        """Note that a decision with these transfers was written; `message` says what it was."""
        if transfers and transfers == self._orders.get(key):
            self._decided[key] = message

    async def run(self) -> None:
        """Carry out requests until cancelled."""
        while True:
            try:
                await self.look()
            except NotLeading as error:
                _log.warning("requests to move slices wait", **describe(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Note what has been carried out, and begin the next wave.

        An entry that cannot be written, for instance because it has changed, is judged again at the next look.

        Raises:
            NotLeading: another process may lead.
        """
        asked = {}
        for placement in self._placements.asked():
            request = request_of(placement.annotations)
            if request is not None and not await self._forgotten(placement, request):
                asked[placement.namespace, placement.name] = placement, request
        open_ = {key: each for key, each in asked.items() if not each[1].refused}
        self._orders = {key: order for key, order in self._orders.items() if key in open_}
        self._decided = {key: text for key, text in self._decided.items() if key in self._orders}
        self._ordered_at = {key: at for key, at in self._ordered_at.items() if key in self._orders}
        await self._finish(open_)
        await self._give_up(open_)
        pending = {key: each for key, each in open_.items() if key not in self._orders}
        if pending:
            await self._begin(pending)

    async def _forgotten(self, placement: NamespacePlacement, request: MoveRequest) -> bool:
        """Remove a request that was refused long ago. Return whether it is removed."""
        past = time_text(self._now() - timedelta(seconds=KEPT_SECONDS))
        if not request.refused or request.at >= past:
            return False
        await self._write(placement, None)
        return True

    async def _finish(self, open_: dict[Key, tuple[NamespacePlacement, MoveRequest]]) -> None:
        for key, message in list(self._decided.items()):
            placement, request = open_.pop(key)
            left = [each for each in self._orders[key] if self._there(key, each.source) > each.stay]
            if left:
                names = ", ".join(sorted({each.target for each in left}))
                await self._refuse(placement, request, f"{names} could not take the slices: {message}")
            else:
                self._leaving[key] = frozenset(each.source for each in self._orders[key]), self._clock()
                await self._write(placement, None)
                _log.info("slices moved", tenant=key[0], namespace=key[1], placements=message)
            del self._orders[key], self._decided[key]

    async def _give_up(self, open_: dict[Key, tuple[NamespacePlacement, MoveRequest]]) -> None:
        """Refuse what is not carried out since nobody decides, or since a tenant does not answer or its namespaces do not leave.

        Nothing else is asked for while requests are open.
        """
        now = self._clock()
        tenants = {key[0] for key in open_}
        silent = {each for each in tenants if each in self._retry_at or not self._connected(each)}
        self._silent_since = {each: self._silent_since.get(each, now) for each in silent}
        self._retry_at = {each: at for each, at in self._retry_at.items() if each in tenants}
        self._leaving = {key: left for key, left in self._leaving.items() if self._is_leaving(key, left[0])}
        stuck = Counter(key[0] for key, (_, since) in self._leaving.items() if _is_late(since, now))
        for key, (placement, request) in list(open_.items()):
            reason = ""
            if key in self._orders:
                reason = _UNDECIDED if _is_late(self._ordered_at[key], now) else ""
            elif _is_late(self._silent_since.get(key[0], now), now):
                reason = _SILENT
            elif stuck[key[0]] >= SMALLEST_WAVE:
                reason = (
                    f"{stuck[key[0]]} namespaces of its tenant have not left their former super clusters yet"
                )
            if reason:
                self._orders.pop(key, None)
                del open_[key]
                await self._refuse(placement, request, reason)

    async def _begin(self, pending: dict[Key, tuple[NamespacePlacement, MoveRequest]]) -> None:
        now = self._clock()
        leaving = [key for key, (_, since) in self._leaving.items() if not _is_late(since, now)]
        under_way = [*self._orders, *leaving]
        room = wave_size(len(self._ledger)) - len(under_way)
        if room <= 0:
            return
        moves = await self._possible(pending)
        due = (key for key in moves if self._retry_at.get(key[0], now) <= now)
        wave = in_turn(due, room, Counter(key[0] for key in under_way))
        # Together, so that a tenant whose control plane is slow delays the wave by one time limit at most.
        stays = await asyncio.gather(*(self._claims(key, moves[key]) for key in wave))
        for key, stay in zip(wave, stays, strict=True):
            if stay is None:
                self._retry_at[key[0]] = self._clock() + RETRY_SECONDS
                continue
            self._retry_at.pop(key[0], None)
            left = pending[key][1].left
            order = tuple(
                Transfer(each.source, each.target, each.slices, left[each.source]) for each in moves[key]
            )
            short = [each for each in order if each.stay < stay.get(each.source, 0)]
            if short:
                placement, request = pending[key]
                one = short[0].source
                reason = f"Pods with claims need {stay[one]} slices on {one}"
                await self._refuse(placement, replace(request, stay=stay), reason)
                continue
            self._orders[key], self._ordered_at[key] = order, self._clock()
            self._add(key)

    async def _possible(
        self, pending: dict[Key, tuple[NamespacePlacement, MoveRequest]]
    ) -> dict[Key, list[Move]]:
        """Return the moves that can be made and together make the score no worse, in their order. Refuse the others."""
        board = Board(self._views, self._ledger.entries(), self._policy)
        for key, order in self._orders.items():
            for each in order:
                left = min(each.slices, self._there(key, each.source) - each.stay)
                move = Move(key, each.source, each.target, left)
                if move.slices > 0 and not board.refuses(move):
                    board.make(move)
        before = board.score().total
        found: dict[Key, list[Move]] = {}
        for key in sorted(pending, key=lambda key: (pending[key][1].at, pending[key][1].order, key)):
            placement, request = pending[key]
            if not self._connected(key[0]):
                continue
            if self._is_done(key, request):  # an earlier leader has moved them
                await self._write(placement, None)
                continue
            moves = [Move(key, each.source, each.target, each.slices) for each in request.moves]
            reason = _CHANGED if self._has_changed(key, request) else _make(board, moves)
            if reason:
                await self._refuse(placement, request, reason)
            else:
                found[key] = moves
        if board.score().total >= before:
            return found
        for key in found:
            await self._refuse(*pending[key], _WORSE)
        return {}

    async def _claims(self, key: Key, moves: list[Move]) -> dict[str, int] | None:
        """Return how many slices Pods with claims need on each source; None if that is not known at present."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found = {source: await self._stateful(key, source) for source in {m.source for m in moves}}
        except (KubeError, TimeoutError) as error:
            _log.warning("claims cannot be read, so slices stay", tenant=key[0], error=str(error))
            return None
        return {source: slices for source, slices in sorted(found.items()) if slices}

    def _is_done(self, key: Key, request: MoveRequest) -> bool:
        return bool(request.left) and all(
            self._there(key, source) == stay for source, stay in request.left.items()
        )

    def _has_changed(self, key: Key, request: MoveRequest) -> bool:
        """Return whether a namespace has other slices than when its moves were asked for."""
        out = Counter[str]()
        for each in request.moves:
            out[each.source] += each.slices
        return any(
            self._there(key, source) - slices != request.left.get(source) for source, slices in out.items()
        )

    def _there(self, key: Key, super_id: str) -> int:
        entry = self._ledger.get(key)
        return 0 if entry is None else entry.placements.get(super_id, 0)

    def _is_leaving(self, key: Key, supers: frozenset[str]) -> bool:
        """Return whether super clusters that have no slices of a namespace any more still drain it."""
        entry = self._ledger.get(key)
        return entry is not None and any(each in entry.clearing for each in supers - entry.placements.keys())

    async def _refuse(self, placement: NamespacePlacement, request: MoveRequest, reason: str) -> None:
        _log.warning("slices not moved", tenant=placement.namespace, namespace=placement.name, reason=reason)
        await self._write(placement, replace(request, refused=reason))

    async def _write(self, placement: NamespacePlacement, request: MoveRequest | None) -> None:
        try:
            await self._placements.annotate(placement, request_annotation(request))
        except KubeError as error:
            _log.warning("request to move slices not answered", placement=placement.name, **describe(error))


def _is_late(since: float, now: float) -> bool:
    """Return whether something has been under way for too long to hold back others."""
    return now - since >= UNDER_WAY_SECONDS


def _make(board: Board, moves: list[Move]) -> str:
    """Make all moves of a namespace, or none; return why none."""
    for number, move in enumerate(moves):
        reason = board.refuses(move)
        if reason:
            for done in reversed(moves[:number]):
                board.make(Move(done.key, done.target, done.source, done.slices))
            return reason
        board.make(move)
    return ""
