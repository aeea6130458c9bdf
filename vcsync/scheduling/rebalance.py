"""Moves of placed slices that make the pool better by a score, within a budget. Pure.

The score is the mean of two shares, in millionths; higher is better:

* *Balance*: the whole minus the mean difference in use between two super clusters. The use of a super cluster is the share of
  its capacity that slices have, of the scarcest resource.
* *Grouping*: what the policy wants of a namespace. `spread`: the share of pairs of its slices that are on different super
  clusters. `pack`: the share that are on the same one. `cheap`: the share that is saved of the price of the dearest place.

Only super clusters that take new slices have a part in moves and in the balance.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import combinations

from msgspec import Struct

from vcsync.scheduling.filters import FREE, refusals
from vcsync.scheduling.ledger import Entry, Key
from vcsync.scheduling.resources import Resources, pieces, subtract, times
from vcsync.scheduling.scores import FULL, Candidate, cheapest
from vcsync.scheduling.slices import DIMENSIONS, PODS
from vcsync.scheduling.snapshot import Health, SuperView

DEFAULT_BUDGET = 20
"""Most slices that one rebalance moves."""
_NAMES = (*DIMENSIONS, PODS)


class Move(Struct, frozen=True):
    """Slices of a namespace that go from one super cluster to another."""

    key: Key
    source: str
    target: str
    slices: int


class Score(Struct, frozen=True):
    """The quality of the pool in millionths, as the module says. Higher is better.

    Attributes:
        total: what is compared: the mean of the others.
        balance: how evenly super clusters are used.
        grouping: how well the policy's wish about each namespace's slices is met.
    """

    total: int
    balance: int
    grouping: int


class Rebalance(Struct, frozen=True):
    """The result of `rebalance`.

    Attributes:
        moves: in the order in which they are to be carried out.
        before: the score without them.
        after: the score with all of them.
    """

    moves: tuple[Move, ...]
    before: Score
    after: Score


def takes_part(view: SuperView) -> bool:
    """Return whether slices may come to a super cluster, and leave it for a better place."""
    return (
        view.health is Health.READY
        and not (view.cordoned or view.draining or view.fenced or view.taints)
        and all(view.capacity.get(name, 0) > 0 for name in DIMENSIONS)
    )


class Board:
    """The pool while moves are tried on it. What leaves a super cluster frees nothing there, since its Pods still have to end.

    Args:
        views: id -> view of each super cluster.
        entries: the slices of all namespaces.
        policy: one of `POLICIES`.
        supers: only these super clusters have a part; empty for all.
    """

    def __init__(
        self,
        views: Mapping[str, SuperView],
        entries: Mapping[Key, Entry],
        policy: str,
        supers: Collection[str] = (),
    ) -> None:
        self.views = views
        self.entries = entries
        self.ids = [
            super_id
            for super_id in sorted(views)
            if takes_part(views[super_id]) and (not supers or super_id in supers)
        ]
        self.placements = {key: dict(entries[key].placements) for key in sorted(entries)}
        self._policy = policy
        self._used: dict[str, Resources] = {super_id: {} for super_id in self.ids}
        self._free = {super_id: dict(views[super_id].capacity) for super_id in self.ids}
        self._norm = 0
        self._grouping = 0
        for key, placed in self.placements.items():
            entry = entries[key]
            for super_id in {*placed, *entry.clearing} & self._used.keys():
                _add(self._used[super_id], times(entry.size, placed.get(super_id, 0)))
                self._free[super_id] = subtract(self._free[super_id], entry.holds(super_id))
            self._norm += self._most(key)
            self._grouping += self._wish(key, placed)
        self._uses = {super_id: self._use(super_id, self._used[super_id]) for super_id in self.ids}
        self._pairs = max(1, len(self.ids) * (len(self.ids) - 1) // 2)
        self._uneven = _differences(self._uses.values())

    def score(self) -> Score:
        """Return the present score."""
        norm, pairs = max(1, self._norm), self._pairs
        grouping = self._grouping if self._norm else FULL
        whole = FULL * pairs * norm - self._uneven * norm + grouping * pairs
        return Score(whole // (2 * pairs * norm), FULL + (-self._uneven // pairs), grouping // norm)

    def refuses(self, move: Move) -> str:
        """Return why a move cannot be made; empty if it can."""
        placed = self.placements.get(move.key, {})
        if placed.get(move.source, 0) < move.slices:
            return f"{move.source} has fewer slices of the namespace by now"
        for super_id in (move.source, move.target):
            if super_id not in self.ids:
                return f"{super_id} takes no new slices"
        size = self.entries[move.key].size
        refused = refusals(FREE, self.views[move.target], size)
        if refused:
            return f"{move.target}: {refused[0].message}"
        if self.room(move.key, move.target) < move.slices:
            return f"{move.target} has no room for {move.slices} slices"
        return ""

    def room(self, key: Key, super_id: str) -> int:
        """Return how many more slices of a namespace a super cluster has room for."""
        return pieces(self._free[super_id], self.entries[key].size)

    def gain(self, move: Move) -> int:
        """Return what a possible move adds to the score, in units of this pool; negative if it makes the score worse."""
        evener = self.evener(self.entries[move.key].size, move.source, move.target, move.slices)
        return self.total_gain(self.own_gain(move), evener)

    def total_gain(self, own: int, evener: int) -> int:
        """Return the gain of `own_gain` and `evener` together."""
        return (own if self._norm else 0) * self._pairs + evener * max(1, self._norm)

    def own_gain(self, move: Move) -> int:
        """Return by how much a move improves the grouping of its namespace."""
        placed = self.placements[move.key]
        return self._wish(move.key, _moved(placed, move)) - self._wish(move.key, placed)

    def evener(self, size: Resources, source: str, target: str, slices: int) -> int:
        """Return by how much slices of a size that move make the differences in use smaller."""
        amounts = times(size, slices)
        uses = dict(self._uses)
        uses[source] = self._use(source, subtract(self._used[source], amounts))
        taken = dict(self._used[target])
        _add(taken, amounts)
        uses[target] = self._use(target, taken)
        return self._uneven - _differences(uses.values())

    def make(self, move: Move) -> None:
        """Make a possible move."""
        self._grouping += self.own_gain(move)
        size = self.entries[move.key].size
        self._uneven -= self.evener(size, move.source, move.target, move.slices)
        self.placements[move.key] = _moved(self.placements[move.key], move)
        amounts = times(size, move.slices)
        self._used[move.source] = subtract(self._used[move.source], amounts)
        _add(self._used[move.target], amounts)
        self._free[move.target] = subtract(self._free[move.target], amounts)
        for super_id in (move.source, move.target):
            self._uses[super_id] = self._use(super_id, self._used[super_id])

    def _use(self, super_id: str, used: Mapping[str, int]) -> int:
        capacity = self.views[super_id].capacity
        return max(used.get(name, 0) * FULL // capacity[name] for name in _NAMES if capacity.get(name, 0) > 0)

    def _most(self, key: Key) -> int:
        """Return the largest value of `_wish`, in wholes."""
        entry = self.entries[key]
        total = sum(entry.placements.values())
        if self._policy == "cheap":
            return total * max((self._price(super_id, entry.size) for super_id in self.views), default=0)
        return total if total > 1 else 0

    def _wish(self, key: Key, placed: Mapping[str, int]) -> int:
        """Return how well the policy's wish about a namespace is met: up to `FULL` times `_most`."""
        size = self.entries[key].size
        if self._policy == "cheap":
            paid = sum(
                slices * self._price(super_id, size)
                for super_id, slices in placed.items()
                if super_id in self.views
            )
            return FULL * (self._most(key) - paid)
        total = sum(placed.values())
        if total < 2:
            return 0
        together = FULL * sum(slices * (slices - 1) for slices in placed.values()) // (total - 1)
        return together if self._policy == "pack" else FULL * total - together

    def _price(self, super_id: str, size: Resources) -> int:
        return -cheapest(Candidate(self.views[super_id], {}, 0), size)


def rebalance(
    board: Board,
    movable: Mapping[Key, Mapping[str, int]],
    budget: int,
    away: Mapping[Key, Mapping[str, int]] | None = None,
) -> Rebalance:
    """Return moves after which the score is better. They change the board.

    Each step is the move that gains most per slice: of one slice, or of all that a namespace may move from one super cluster.
    Every step makes the score better. Slices that left a lost super cluster go back first, where that makes it no worse.

    Args:
        board: the pool.
        movable: namespaces whose slices may move -> super cluster -> number of slices that must stay there.
        budget: most slices that move.
        away: namespace -> super cluster -> number of slices that may go back to it.
    """
    before = board.score()
    origin = {key: board.placements[key] for key in movable if key in board.placements}
    steps = returning(board, movable, budget, away or {})
    left = budget - sum(step.slices for step in steps)
    offers = _Offers(board, movable)
    while left > 0 and (step := offers.best(left)) is not None:
        total = board.score().total
        board.make(step)
        if board.score().total <= total:
            board.make(Move(step.key, step.target, step.source, step.slices))
            break
        steps.append(step)
        left -= step.slices
        offers.renew(step.key)
    order = {step.key: None for step in steps}
    moves = [move for key in order for move in _between(key, origin[key], board.placements[key])]
    return Rebalance(tuple(moves), before, board.score())


def returning(
    board: Board,
    movable: Mapping[Key, Mapping[str, int]],
    budget: int,
    away: Mapping[Key, Mapping[str, int]],
) -> list[Move]:
    """Return moves of slices back to where they were before a loss, where they make the score no worse. They change the board.

    Args:
        board: the pool.
        movable: as for `rebalance`.
        budget: most slices that move.
        away: as for `rebalance`.
    """
    moves: list[Move] = []
    for key in sorted(away.keys() & movable.keys() & board.placements.keys()):
        for home in sorted(away[key].keys() & set(board.ids)):
            wanted = away[key][home]
            while wanted > 0 and budget > 0:
                most = min(wanted, budget, board.room(key, home))
                best = _way_home(board, movable[key], key, home, most)
                if best is None:
                    break
                board.make(best)
                moves.append(best)
                wanted -= best.slices
                budget -= best.slices
    return moves


def _way_home(board: Board, stay: Mapping[str, int], key: Key, home: str, most: int) -> Move | None:
    """Return the best move of up to `most` slices to a super cluster; None if there is none that is no worse."""
    found: list[tuple[int, int, str]] = []
    for source in board.ids:
        there = board.placements[key].get(source, 0) - stay.get(source, 0)
        for slices in {1, min(there, most)}:
            move = Move(key, source, home, slices)
            if source != home and 0 < slices <= min(there, most) and not board.refuses(move):
                gain = board.gain(move)
                if gain >= 0:
                    found.append((-slices, -gain, source))
    if not found:
        return None
    slices, _, source = min(found)
    return Move(key, source, home, -slices)


class _Offers:
    """The moves that may gain. A move's part in the balance is the same for all namespaces of a size, so it is computed once."""

    def __init__(self, board: Board, movable: Mapping[Key, Mapping[str, int]]) -> None:
        self._board = board
        self._movable = movable
        self._queues: dict[tuple[tuple[tuple[str, int], ...], str, str, int], list[tuple[int, int, Key]]] = {}
        self._versions: dict[Key, int] = {}
        for key in sorted(movable.keys() & board.placements.keys()):
            self.renew(key)

    def renew(self, key: Key) -> None:
        """Offer the moves of a namespace, instead of those that were offered before."""
        version = self._versions[key] = self._versions.get(key, -1) + 1
        size = tuple(sorted(self._board.entries[key].size.items()))
        for move in self._possible(key):
            queue = self._queues.setdefault((size, move.source, move.target, move.slices), [])
            heappush(queue, (-self._board.own_gain(move), version, key))

    def best(self, budget: int) -> Move | None:
        """Return the possible move of at most `budget` slices that gains most per slice; None if none gains."""
        best: tuple[int, Move] | None = None
        for (size, source, target, slices), queue in sorted(self._queues.items()):
            while queue and queue[0][1] != self._versions[queue[0][2]]:
                heappop(queue)
            if not queue or slices > budget:
                continue
            own, _, key = queue[0]
            move = Move(key, source, target, slices)
            if self._board.room(key, target) < slices:
                continue
            gain = self._board.total_gain(-own, self._board.evener(dict(size), source, target, slices))
            if gain > 0 and (best is None or gain * best[1].slices > best[0] * slices):
                best = gain, move
        return None if best is None else best[1]

    def _possible(self, key: Key) -> Iterator[Move]:
        board, stay = self._board, self._movable[key]
        targets = [
            super_id
            for super_id in board.ids
            if not refusals(FREE, board.views[super_id], board.entries[key].size)
        ]
        for source in board.ids:
            there = board.placements[key].get(source, 0) - stay.get(source, 0)
            for slices in sorted({1, there}) if there > 0 else ():
                for target in targets:
                    if target != source:
                        yield Move(key, source, target, slices)


def _between(key: Key, before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[Move]:
    """Return the moves from one placement of a namespace to another with as many slices."""
    more = {super_id: after[super_id] - before.get(super_id, 0) for super_id in sorted(after)}
    for source in sorted(before):
        leaving = before[source] - after.get(source, 0)
        for target, room in list(more.items()):
            slices = min(leaving, room)
            if slices > 0:
                yield Move(key, source, target, slices)
                leaving -= slices
                more[target] -= slices


def _moved(placed: Mapping[str, int], move: Move) -> dict[str, int]:
    after = dict(placed)
    after[move.source] = after.get(move.source, 0) - move.slices
    after[move.target] = after.get(move.target, 0) + move.slices
    return {super_id: slices for super_id, slices in after.items() if slices}


def _differences(uses: Iterable[int]) -> int:
    """Return the sum of the differences over all pairs."""
    return sum(abs(one - other) for one, other in combinations(uses, 2))


def _add(total: Resources, amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount
