"""Decides about all namespaces of a snapshot, with the core of the namespace scheduler, until nothing changes. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping
from random import Random

from msgspec import Struct

from vcsync.scheduling.failover import Departures, may_leave, next_wave
from vcsync.scheduling.ledger import Entry, Key, Ledger
from vcsync.scheduling.place import Decision, SliceRequest, place_slices
from vcsync.scheduling.pool_pods import cap_limits, pods_of_pool
from vcsync.scheduling.resources import Resources, add, from_quantities, subtract, times
from vcsync.scheduling.slices import DIMENSIONS, PODS, slice_pods
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.whatif.losses import lost_for, nothing_moves
from vcsync.whatif.snapshot import NamespaceState, Snapshot, TenantState, views_of

_MOST_ROUNDS = 20
"""Rounds over all namespaces after which the result counts as unsettled."""
_SEED = 0
"""The scheduler lets namespaces leave in random order. The same question has the same answer."""


class Settled(Struct, frozen=True):
    """The pool after all decisions.

    Attributes:
        views: id -> view of each super cluster.
        ledger: the slices of all namespaces.
        decisions: the last decision about each namespace that did not rest at first. Its placements are those of the ledger.
        waiting: number of slices that wait in namespaces that are decided about.
        rounds: number of rounds over all namespaces, including the last one, which changed nothing.
        settled: whether the last round changed nothing.
        departures: the namespaces that were let leave lost super clusters.
        held: whether nothing may leave them, since most of the pool is out of touch.
        waves: lost super cluster -> number of waves in which namespaces were let leave it.
    """

    views: dict[str, SuperView]
    ledger: Ledger
    decisions: dict[Key, Decision]
    waiting: int
    rounds: int
    settled: bool
    departures: Departures
    held: bool
    waves: dict[str, int]

    def is_lost(self, super_id: str) -> bool:
        """Return whether a super cluster is lost."""
        return self.views[super_id].health is Health.LOST


class Core:
    """The inputs of all decisions on one snapshot, parsed once.

    Attributes:
        views: id -> view of each super cluster.
        ledger: the slices of all namespaces.
        lost: ids of the super clusters that are lost.
        held: whether nothing may leave them, since most of the pool is out of touch.
        departures: the namespaces that may leave them.

    Args:
        snapshot: the state of the pool.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.views = views_of(snapshot)
        self.ledger = Ledger()
        self.lost = {super_id for super_id, view in self.views.items() if view.health is Health.LOST}
        self.held = nothing_moves(snapshot.super_clusters, snapshot.patience)
        self.departures = Departures()
        self.departures.follow(self.lost, held=self.held)
        self._lasts = {
            each.id: lost_for(each, snapshot.patience)
            for each in snapshot.super_clusters
            if each.id in self.lost
        }
        self._claims = {
            (each.key, super_id): counts.slices
            for each in snapshot.namespaces
            for super_id, counts in each.pods.items()
        }
        self._policy = snapshot.policy
        self._default = from_quantities(snapshot.default_slice)
        self._tenants = {each.key: each for each in snapshot.tenants}
        self._references = {key: self._reference(each) for key, each in self._tenants.items()}
        self._caps = {
            key: cap_limits(each.quota, self._references[key], self.views) if each.quota else {}
            for key, each in self._tenants.items()
        }
        self._requests: dict[Key, SliceRequest] = {}
        for namespace in snapshot.namespaces:
            self.ledger.put(namespace.key, _entry(namespace, self.views))
        for namespace in _in_turn(snapshot):
            self._requests[namespace.key] = SliceRequest(
                namespace.slices, self._size(namespace), pins=namespace.pins, policy=self._policy
            )

    @property
    def keys(self) -> tuple[Key, ...]:
        """The namespaces that are decided about, in their order."""
        return tuple(self._requests)

    def stay(self, key: Key, super_id: str) -> int:
        """Return how many slices must stay on a lost super cluster: those of Pods with claims, as far as these are known."""
        moves_all = self._tenants[key[0]].failover.policy == "MoveAfter"
        return 0 if moves_all else self._claims.get((key, super_id), 0)

    def may_leave(self, key: Key, lasts: float = float("inf")) -> bool:
        """Return whether the tenant's policy lets a namespace leave a super cluster that has been lost for some seconds."""
        return key in self._requests and may_leave(self._tenants[key[0]].failover, lasts)

    def leaving_now(self, key: Key) -> dict[str, int]:
        """Return the lost super clusters that a namespace may leave at the time of the snapshot, and the slices that must stay.

        A super cluster is left out if it is not known what must stay.
        """
        tenant = self._tenants[key[0]]
        if self.held or not (tenant.pods_known or tenant.failover.policy == "MoveAfter"):
            return {}
        return {
            super_id: self.stay(key, super_id)
            for super_id, lasts in sorted(self._lasts.items())
            if self.may_leave(key, lasts)
        }

    def decide(self, key: Key, leaving: Mapping[str, int] | None = None) -> Decision:
        """Return the core's decision on a namespace, given all others as they are in the ledger.

        Args:
            key: the namespace.
            leaving: lost super cluster that it may leave -> number of slices that must stay; None for what `departures` say.
        """
        present = self.ledger.get(key)
        assert present is not None  # noqa: S101 - every namespace has an entry
        fixed = self._requests[key]
        request = SliceRequest(
            fixed.slices,
            fixed.size,
            current=present.placements,
            current_size=present.size,
            pins=fixed.pins,
            clearing=present.clearing,
            tenant_free=subtract(self._caps[key[0]], self.ledger.used_by(key[0], without=key)),
            tenant_clearing=self.ledger.cleared_by(key[0], without=key),
            policy=fixed.policy,
            leaving=self.departures.leaving(key) if leaving is None else leaving,
        )
        allocated = {super_id: self.ledger.allocated(super_id, without=key) for super_id in self.views}
        return place_slices(self.views, allocated, request)

    def waiting(self) -> int:
        """Return how many slices wait in the namespaces that are decided about."""
        entries = ((self.ledger.get(key), request) for key, request in self._requests.items())
        return sum(
            request.slices - sum(entry.placements.values()) for entry, request in entries if entry is not None
        )

    def rests(self, key: Key) -> bool:
        """Return whether the core would certainly leave a namespace as it is.

        All its slices are placed, in the right size, where they may stay, with their pins and within the tenant's cap. Most
        namespaces rest, and a decision about them would take most of the time. What a lost super cluster has to clear draws no
        slices back to it.
        """
        present, fixed = self.ledger.get(key), self._requests[key]
        return (
            present is not None
            and present.size == fixed.size
            and present.clearing.keys() <= self.lost
            and not any(
                present.placements.get(super_id, 0) > stay
                for super_id, stay in self.departures.leaving(key).items()
            )
            and sum(present.placements.values()) == fixed.slices
            and all(super_id in self.views for super_id in present.placements)
            and not any(self.views[super_id].draining for super_id in present.placements)
            and not any(
                slices > present.placements.get(super_id, 0)
                for super_id, slices in fixed.pins.items()
                if super_id in self.views
            )
            and (not self._caps[key[0]] or self._within_cap(key[0]))
        )

    def _within_cap(self, tenant: str) -> bool:
        held = add(self.ledger.used_by(tenant), self.ledger.cleared_by(tenant))
        return all(held.get(name, 0) <= amount for name, amount in self._caps[tenant].items())

    def apply(self, key: Key, decision: Decision) -> bool:
        """Count a decision. Return whether it changes anything."""
        present = self.ledger.get(key)
        assert present is not None  # noqa: S101 - as above
        held = _still_held(present, decision.size, decision.placements, self.lost)
        entry = Entry(decision.size, decision.placements, held)
        return self.ledger.put(key, entry)

    def _reference(self, tenant: TenantState) -> Resources | None:
        """Return the first slice of the operator with a number of Pods; None if the pool determines it."""
        own = from_quantities(tenant.slice_size or {})
        return next((size for size in (own, self._default) if PODS in size), None)

    def _size(self, namespace: NamespaceState) -> Resources:
        """Return the amounts of a slice. Its Pods depend on the pool, as in the scheduler."""
        size = from_quantities(namespace.slice_size)
        kept = size.get(PODS)
        compute = {name: size[name] for name in DIMENSIONS if name in size}
        reference = self._references[namespace.tenant]
        if len(compute) < len(DIMENSIONS):
            return size
        pods = slice_pods(compute, reference) if reference else pods_of_pool(compute, self.views, kept)
        return compute | pods


def settle(snapshot: Snapshot) -> Settled:
    """Decide about all namespaces, round after round, until a round changes nothing.

    In each round the tenants take turns, in proportion to their weights. Then namespaces leave lost super clusters in waves where
    their tenants' policies let them, whatever time that takes. Amounts that a namespace gives up are free at once, so that the
    result is the state after super clusters have cleared them; amounts that they still clear in the snapshot stay held, and so
    does what leaves a lost super cluster, which clears nothing.
    """
    core = Core(snapshot)
    decisions: dict[Key, Decision] = {}
    waves: Counter[str] = Counter()
    chance = Random(_SEED)  # noqa: S311 - an order, not a secret

    def settled(rounds: int, *, calm: bool) -> Settled:
        return Settled(
            core.views,
            core.ledger,
            decisions,
            core.waiting(),
            rounds,
            settled=calm,
            departures=core.departures,
            held=core.held,
            waves=dict(waves),
        )

    for rounds in range(1, _MOST_ROUNDS + 1):
        changed = False
        for key in core.keys:
            if core.rests(key):
                continue
            decisions[key] = core.decide(key)
            changed |= core.apply(key, decisions[key])
        while wave := _next_waves(core, waves, chance):
            changed = True
            for key in wave:
                decisions[key] = core.decide(key)
                core.apply(key, decisions[key])
                core.departures.note_tried(key)
        if not changed:
            return settled(rounds, calm=True)
    return settled(_MOST_ROUNDS, calm=False)


def _next_waves(core: Core, waves: Counter[str], chance: Random) -> list[Key]:
    """Let the next namespaces leave each lost super cluster, count the waves, and return the namespaces."""
    found: dict[Key, None] = {}
    for super_id in sorted(core.lost) if not core.held else ():
        there = {
            key: entry.placements[super_id]
            for key in core.ledger.on(super_id)
            if (entry := core.ledger.get(key)) is not None
        }
        departures = core.departures
        due = [key for key in there if core.may_leave(key)]
        wave = next_wave(there, departures.released(super_id), departures.tried(super_id), due, chance)
        for key in wave:
            departures.release(super_id, key, core.stay(key, super_id))
        waves[super_id] += bool(wave)
        found |= dict.fromkeys(wave)
    return list(found)


def _in_turn(snapshot: Snapshot) -> list[NamespaceState]:
    """Return the namespaces to decide about: in turns of their tenants, as many at a time as the weight says."""
    tenants = {each.key: each for each in snapshot.tenants}
    before: Counter[str] = Counter()
    found = []
    for namespace in sorted(snapshot.namespaces, key=lambda each: each.key):
        tenant = tenants[namespace.tenant]
        if namespace.leaving or tenant.suspended or not namespace.slice_size:
            continue
        found.append((before[tenant.key] // tenant.weight, namespace.key, namespace))
        before[tenant.key] += 1
    return [namespace for _, _, namespace in sorted(found, key=lambda each: each[:2])]


def _entry(namespace: NamespaceState, views: Mapping[str, SuperView]) -> Entry:
    """Return what a namespace holds. Super clusters that are gone hold nothing to clear."""
    return Entry(
        from_quantities(namespace.placed_slice_size or namespace.slice_size),
        {super_id: slices for super_id, slices in namespace.placements.items() if slices},
        {
            super_id: from_quantities(amounts)
            for super_id, amounts in namespace.clearing.items()
            if super_id in views
        },
    )


def _still_held(
    present: Entry, size: Resources, placements: Mapping[str, int], lost: Collection[str]
) -> dict[str, Resources]:
    """Return what super clusters still clear: slices that return there use what was held beyond the present ones.

    A lost super cluster still holds all that leaves it.
    """
    held = {}
    for super_id in {**present.clearing, **present.placements}:
        if super_id in lost:
            amounts, used = present.holds(super_id), placements.get(super_id, 0)
        else:
            amounts = present.clearing.get(super_id, {})
            used = max(0, placements.get(super_id, 0) - present.placements.get(super_id, 0))
        left = {name: amount for name, amount in subtract(amounts, times(size, used)).items() if amount > 0}
        if left:
            held[super_id] = left
    return held
