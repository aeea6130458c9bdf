"""Waves in which namespaces leave lost super clusters: which may go next, and how many slices must stay. Pure."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heapreplace
from random import Random

from vcsync.api.specs import DEFAULT_MOVE_SECONDS, Failover
from vcsync.scheduling.ledger import Key, Ledger
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.resources import Resources, add

SMALLEST_WAVE = 10
"""Number of namespaces that may be under way from one super cluster, however few it has."""
WAVE_PERCENT = 5
"""Share of a super cluster's namespaces that may be under way at a time."""


def moves_after(policy: Failover) -> float | None:
    """Return the seconds for which a super cluster has to be lost before slices leave it; None: they stay."""
    if policy.policy == "Stay":
        return None
    return float(DEFAULT_MOVE_SECONDS if policy.after_seconds is None else policy.after_seconds)


def may_leave(policy: Failover, lasts: float) -> bool:
    """Return whether a policy lets slices leave a super cluster that has been lost for `lasts` seconds."""
    after = moves_after(policy)
    return after is not None and lasts >= after


def wave_size(total: int) -> int:
    """Return how many things of `total` may be under way at a time."""
    return max(SMALLEST_WAVE, total * WAVE_PERCENT // 100)


def in_turn(keys: Iterable[Key], most: int, under_way: Mapping[str, int]) -> list[Key]:
    """Return the first namespaces in turns of their tenants: a tenant with many namespaces takes no more turns than others.

    Args:
        keys: namespaces, in their order within each tenant.
        most: how many are returned.
        under_way: cluster key -> number of the tenant's namespaces that have had their turn before.
    """
    found: dict[str, deque[Key]] = {}
    for key in keys:
        found.setdefault(key[0], deque()).append(key)
    turns = [(under_way.get(tenant, 0), place, tenant) for place, tenant in enumerate(found)]
    heapify(turns)
    wave: list[Key] = []
    while turns and len(wave) < most:
        before, place, tenant = turns[0]
        wave.append(found[tenant].popleft())
        if found[tenant]:
            heapreplace(turns, (before + 1, place, tenant))
        else:
            heappop(turns)
    return wave


def next_wave(
    there: Mapping[Key, int],
    released: Mapping[Key, int],
    tried: Collection[Key],
    due: Collection[Key],
    chance: Random,
) -> list[Key]:
    """Return the namespaces that may leave a super cluster next, in random order, and in turns of their tenants.

    Those that were released and not decided yet bound the wave. Those that found no room hold back other namespaces of their own
    tenant only, so that no tenant can keep others from leaving.

    Args:
        there: namespace -> number of its slices on the super cluster.
        released: namespaces of earlier waves -> number of slices that must stay.
        tried: those of them that have been decided since.
        due: namespaces whose policy lets them leave now.
        chance: the source of the order.
    """
    left = [key for key, stay in released.items() if there.get(key, 0) > stay]
    room = max(0, wave_size(len(there)) - sum(key not in tried for key in left))
    stuck = Counter(key[0] for key in left if key in tried)
    waiting = sorted(
        key for key in due if there.get(key) and key not in released and stuck[key[0]] < SMALLEST_WAVE
    )
    return in_turn(chance.sample(waiting, len(waiting)), room, Counter(key[0] for key in left))


def slices_for(amounts: Mapping[str, int], size: Resources) -> int:
    """Return the number of slices that contain some amounts, in thousandths. Resources without a size are ignored."""
    return max((-(-amount // size[name]) for name, amount in amounts.items() if size.get(name)), default=0)


def slices_of_claims(pods: Iterable[PodNeeds], size: Resources) -> int:
    """Return the number of slices that Pods with claims need on a super cluster that has a claim of their namespace.

    One slice is needed at least, since the claim is of no use elsewhere.

    Args:
        pods: the namespace's unfinished Pods there.
        size: amounts of one slice.
    """
    total: Resources = {}
    for each in pods:
        if each.claims:
            total = add(total, each.requests)
    return max(1, slices_for(total, size))


class Departures:
    """The namespaces that may leave lost super clusters. A super cluster that returns keeps those that have not left."""

    def __init__(self) -> None:
        self._released: dict[str, dict[Key, int]] = {}
        self._tried: dict[str, set[Key]] = {}
        self._held = False

    def follow(self, lost: Collection[str], *, held: bool) -> None:
        """Note which super clusters are lost at present.

        Args:
            lost: their ids.
            held: whether most of the pool is out of touch, so that nothing moves.
        """
        self._released = {super_id: found for super_id, found in self._released.items() if super_id in lost}
        self._tried = {super_id: found for super_id, found in self._tried.items() if super_id in lost}
        self._held = held

    def release(self, super_id: str, key: Key, stay: int) -> None:
        """Let a namespace leave a super cluster, but for `stay` slices."""
        self._released.setdefault(super_id, {})[key] = stay

    def released(self, super_id: str) -> Mapping[Key, int]:
        """Return the namespaces that may leave a super cluster, with the number of slices that must stay."""
        return self._released.get(super_id, {})

    def note_tried(self, key: Key) -> None:
        """Note that a namespace has been decided with what it may leave."""
        for super_id in self.leaving(key):
            self._tried.setdefault(super_id, set()).add(key)

    def tried(self, super_id: str) -> Collection[Key]:
        """Return the namespaces that have been decided since they may leave a super cluster."""
        return self._tried.get(super_id, ())

    def leaving(self, key: Key) -> dict[str, int]:
        """Return the super clusters that a namespace may leave, with the number of slices that must stay."""
        if self._held:
            return {}
        return {super_id: found[key] for super_id, found in self._released.items() if key in found}

    def under_way(self, ledger: Ledger) -> set[Key]:
        """Return the namespaces that may leave a super cluster, and have more slices there than must stay."""
        return {
            key
            for super_id, found in self._released.items()
            for key, stay in found.items()
            if (entry := ledger.get(key)) is not None and entry.placements.get(super_id, 0) > stay
        }
