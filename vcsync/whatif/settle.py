"""Decides about all namespaces of a snapshot, with the core of the namespace scheduler, until nothing changes. Pure."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from vcsync.scheduling.ledger import Entry, Key, Ledger
from vcsync.scheduling.place import Decision, SliceRequest, place_slices
from vcsync.scheduling.pool_pods import cap_limits, pods_of_pool
from vcsync.scheduling.resources import Resources, add, from_quantities, subtract, times
from vcsync.scheduling.slices import DIMENSIONS, PODS, slice_pods
from vcsync.scheduling.snapshot import SuperView
from vcsync.whatif.snapshot import NamespaceState, Snapshot, TenantState, views_of

_MOST_ROUNDS = 20
"""Rounds over all namespaces after which the result counts as unsettled."""


class Settled(Struct, frozen=True):
    """The pool after all decisions.

    Attributes:
        views: id -> view of each super cluster.
        ledger: the slices of all namespaces.
        decisions: the last decision about each namespace that did not rest at first. Its placements are those of the ledger.
        waiting: number of slices that wait in namespaces that are decided about.
        rounds: number of rounds over all namespaces, including the last one, which changed nothing.
        settled: whether the last round changed nothing.
    """

    views: dict[str, SuperView]
    ledger: Ledger
    decisions: dict[Key, Decision]
    waiting: int
    rounds: int
    settled: bool


class Core:
    """The inputs of all decisions on one snapshot, parsed once.

    Args:
        snapshot: the state of the pool.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.views = views_of(snapshot)
        self.ledger = Ledger()
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

    def decide(self, key: Key) -> Decision:
        """Return the core's decision on a namespace, given all others as they are in the ledger."""
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
        namespaces rest, and a decision about them would take most of the time.
        """
        present, fixed = self.ledger.get(key), self._requests[key]
        return (
            present is not None
            and present.size == fixed.size
            and not present.clearing
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
        size = self._requests[key].size
        entry = Entry(size, decision.placements, _still_held(present, size, decision.placements))
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

    In each round the tenants take turns, in proportion to their weights. Amounts that a namespace gives up are free at once,
    so that the result is the state after super clusters have cleared them; amounts that they still clear in the snapshot
    stay held.
    """
    core = Core(snapshot)
    decisions: dict[Key, Decision] = {}
    for rounds in range(1, _MOST_ROUNDS + 1):
        changed = False
        for key in core.keys:
            if core.rests(key):
                continue
            decisions[key] = core.decide(key)
            changed |= core.apply(key, decisions[key])
        if not changed:
            return Settled(core.views, core.ledger, decisions, core.waiting(), rounds, settled=True)
    return Settled(core.views, core.ledger, decisions, core.waiting(), _MOST_ROUNDS, settled=False)


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


def _still_held(present: Entry, size: Resources, placements: Mapping[str, int]) -> dict[str, Resources]:
    """Return what super clusters still clear: slices that return there use what was held beyond the present ones."""
    held = {}
    for super_id, amounts in present.clearing.items():
        more = max(0, placements.get(super_id, 0) - present.placements.get(super_id, 0))
        left = {name: amount for name, amount in subtract(amounts, times(size, more)).items() if amount > 0}
        if left:
            held[super_id] = left
    return held
