"""Computes a rebalance of the stored objects of the meta cluster. Pure."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from vcsync.api.objects import NamespacePlacement, SuperCluster, VirtualCluster, cluster_key
from vcsync.api.specs import FailBack
from vcsync.scheduling.ledger import Entry, Key
from vcsync.scheduling.rebalance import Board, Move, Score, rebalance
from vcsync.scheduling.scores import FULL
from vcsync.tenancy.distribution import entry_of
from vcsync.tenancy.movable import movable
from vcsync.whatif.capture import capture
from vcsync.whatif.snapshot import views_of


class _Part(Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the answer."""


class ShownScore(_Part, frozen=True, kw_only=True):
    """A score as percentages with four digits after the point; see `scheduling.rebalance`."""

    total: str
    balance: str
    grouping: str


class ShownMove(_Part, frozen=True, kw_only=True):
    """Slices of a namespace that go from one super cluster to another."""

    tenant: str
    namespace: str
    source: str
    target: str
    slices: int


class ShownSuper(_Part, frozen=True, kw_only=True):
    """The slices of a super cluster before and after; `moves`: whether it has a part."""

    super_cluster: str
    moves: bool
    slices_before: int
    slices_after: int


class Proposal(_Part, frozen=True, kw_only=True):
    """A rebalance that is not carried out yet.

    Attributes:
        moved: number of slices that move.
        budget: most slices that may.
        before: the score now.
        after: the score when all have moved.
        super_clusters: by id.
        moves: in the order in which they are carried out.
    """

    moved: int
    budget: int
    before: ShownScore
    after: ShownScore
    super_clusters: tuple[ShownSuper, ...]
    moves: tuple[ShownMove, ...]


class Found(Struct, frozen=True):
    """The result of `propose`: the answer for people, the same moves, and the slices that they are about."""

    proposal: Proposal
    moves: tuple[Move, ...]
    entries: Mapping[Key, Entry]


def propose(
    supers: Iterable[SuperCluster],
    virtual_clusters: Iterable[VirtualCluster],
    placements: Iterable[NamespacePlacement],
    *,
    now: datetime,
    policy: str,
    budget: int,
    only: Collection[str] = (),
    fail_back: FailBack = "Never",
) -> Found:
    """Return the moves that make the pool better.

    Args:
        supers: the pool's SuperClusters.
        virtual_clusters: the tenants' VirtualClusters.
        placements: the ledger.
        now: the current time.
        policy: the namespace scheduler's policy, which no object has.
        budget: most slices that move.
        only: the super clusters that have a part; empty for all.
        fail_back: the policy of tenants without one for the way back to super clusters that were lost.
    """
    pool, tenants, ledger = list(supers), list(virtual_clusters), list(placements)
    snapshot = capture(pool, tenants, ledger, now=now, policy=policy, default_slice={})
    views = views_of(snapshot)
    served = {cluster_key(each) for each in tenants if not each.spec.suspended}
    entries = {(each.namespace, each.name): entry_of(each) for each in ledger}
    board = Board(views, entries, policy, only)
    back = {cluster_key(each) for each in tenants if (each.spec.fail_back or fail_back) == "NextRebalance"}
    away = {key: entry.away for key, entry in entries.items() if entry.away and key[0] in back}
    free = {
        key: stay
        for each in ledger
        if (key := (each.namespace, each.name))[0] in served
        and (stay := movable(each, away.get(key, {}))) is not None
    }
    found = rebalance(board, free, budget, away)
    known = snapshot.names()
    proposal = Proposal(
        moved=sum(move.slices for move in found.moves),
        budget=budget,
        before=_score(found.before),
        after=_score(found.after),
        super_clusters=tuple(_super(super_id, entries, board) for super_id in sorted(views)),
        moves=tuple(
            ShownMove(
                tenant=known.get(move.key[0], move.key[0]),
                namespace=move.key[1],
                source=move.source,
                target=move.target,
                slices=move.slices,
            )
            for move in found.moves
        ),
    )
    return Found(proposal, found.moves, entries)


def _score(found: Score) -> ShownScore:
    return ShownScore(
        total=percent(found.total), balance=percent(found.balance), grouping=percent(found.grouping)
    )


def percent(millionths: int) -> str:
    """Return a share in millionths as a percentage, exactly."""
    sign, size = "-" * (millionths < 0), abs(millionths)
    return f"{sign}{size // (FULL // 100)}.{size % (FULL // 100):04d}"


def _super(super_id: str, entries: Mapping[Key, Entry], board: Board) -> ShownSuper:
    return ShownSuper(
        super_cluster=super_id,
        moves=super_id in board.ids,
        slices_before=sum(each.placements.get(super_id, 0) for each in entries.values()),
        slices_after=sum(placed.get(super_id, 0) for placed in board.placements.values()),
    )
