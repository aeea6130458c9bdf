"""The books on one tenant: its shares, which Pod uses which, who waits, and what is to be done with each Pod. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from vcsync.podscheduler.pods import Key, Pod
from vcsync.scheduling.resources import times
from vcsync.scheduling.shares import PodDecision, Share, pick_super
from vcsync.scheduling.snapshot import SuperView


class Assign(Struct, frozen=True):
    """Give the Pod to a super cluster. `decision` is None if there was nothing to choose."""

    super_id: str
    decision: PodDecision | None = None


class Wait(Struct, frozen=True):
    """Let the Pod wait; `signature` is what of the decision is worth telling again if it differs."""

    decision: PodDecision
    signature: tuple[object, ...]


Verdict = Assign | Wait | None
"""None: leave the Pod as it is."""


_UNTOLD = ("untold",)


class Space(Struct):
    """One namespace. `granted`: where it holds slices; `shares` may have more, where Pods still are."""

    shares: dict[str, Share] = {}
    granted: frozenset[str] = frozenset()
    waiting: dict[str, tuple[object, ...]] = {}

    def open_shares(self, without: str = "") -> Iterator[Share]:
        """The shares that Pods may be given, but for one."""
        return (self.shares[super_id] for super_id in self.granted if super_id != without)


class Book:
    """What is known of a tenant's Pods. All amounts in thousandths.

    A Pod counts where it is bound, else where a decision on its way puts it, else where its label says.
    """

    def __init__(self) -> None:
        self.pods: dict[Key, Pod] = {}
        self._spaces: dict[str, Space] = {}
        self._charges: dict[Key, tuple[str, Mapping[str, int]]] = {}
        self._assumed: dict[Key, tuple[str, str]] = {}  # -> (uid, super cluster)

    # What happened

    def see(self, pod: Pod) -> bool:
        """Take in a Pod's present state; True if that freed something of a share."""
        before = self.pods.get(pod.key)
        self.pods[pod.key] = pod
        namesake = before is not None and before.uid != pod.uid
        if before is not None and not namesake:
            pod.seen_at = before.seen_at
        if namesake or pod.deleting or pod.needs.node or pod.needs.gated:
            self._space(pod.namespace).waiting.pop(pod.name, None)
        return self._charge(pod)

    def gone(self, key: Key) -> bool:
        """Forget a Pod; True if that freed something of a share."""
        self.pods.pop(key, None)
        self._assumed.pop(key, None)
        space = self._spaces.get(key[0])
        if space is not None:
            space.waiting.pop(key[1], None)
        freed = self._release(key)
        self._tidy(key[0])
        return freed

    def grant(self, namespace: str, size: Mapping[str, int], placements: Mapping[str, int]) -> bool:
        """Set what a namespace holds: slices of `size` per super cluster; True if that is a change."""
        space = self._space(namespace)
        granted = {super_id: times(size, slices) for super_id, slices in placements.items() if slices > 0}
        if granted == {super_id: space.shares[super_id].capacity for super_id in space.granted}:
            self._tidy(namespace)
            return False
        for super_id in sorted(space.granted - granted.keys()):
            space.shares[super_id].capacity = {}
        for super_id, capacity in granted.items():
            self._share(namespace, super_id).capacity = capacity
        space.granted = frozenset(granted)
        self._tidy(namespace)
        return True

    # What to do

    def settled(self, pod: Pod, views: Mapping[str, SuperView]) -> bool:
        """Whether nothing is to be done with a Pod."""
        if pod.needs.node:
            # One that is being deleted, too: only the syncer that its label names sees it, and brings it to its end.
            return pod.bound_to not in views or pod.label == pod.annotation == pod.bound_to
        if pod.deleting or pod.needs.gated:
            return True
        return self._stands(pod) and pod.annotation == pod.label

    def decide(self, pod: Pod, views: Mapping[str, SuperView]) -> Verdict:
        """What to do with a Pod. Changes nothing; follow up with `assume` or `wait`."""
        if self.settled(pod, views):
            return None
        if pod.needs.node:
            return Assign(pod.bound_to)
        if self._stands(pod):
            return Assign(pod.label)
        space = self._space(pod.namespace)
        labelled = pod.label if pod.label in space.granted else ""
        decision = pick_super(space.open_shares(without=labelled), pod.needs, views)
        if decision.super_id is not None:
            return Assign(decision.super_id, decision)
        if labelled and self._selected(pod):
            return None if pod.annotation == pod.label else Assign(pod.label)
        signature = tuple(
            (entry.super_id, *(refusal.filter for refusal in entry.refusals))
            for entry in decision.explanation
        )
        return Wait(decision, signature)

    def assume(self, pod: Pod, super_id: str) -> None:
        """Count a Pod where it was just decided to go, before anybody else decides."""
        self._assumed[pod.key] = (pod.uid, super_id)
        self._space(pod.namespace).waiting.pop(pod.name, None)
        self._charge(pod)

    def settle(self, key: Key) -> bool:
        """The assumption on a Pod has come true or failed: its object counts again. True if that freed something."""
        self._assumed.pop(key, None)
        pod = self.pods.get(key)
        return pod is not None and self._charge(pod)

    def wait(self, pod: Pod, signature: tuple[object, ...]) -> None:
        """Remember that a Pod waits, and what it was told."""
        self._space(pod.namespace).waiting[pod.name] = signature

    def told(self, pod: Pod) -> tuple[object, ...] | None:
        """What a waiting Pod was told in this process."""
        space = self._spaces.get(pod.namespace)
        return None if space is None else space.waiting.get(pod.name)

    def wait_untold(self, pod: Pod) -> None:
        """Remember that a Pod waits and has not been told why."""
        self._space(pod.namespace).waiting[pod.name] = _UNTOLD

    def waiting(self, namespace: str) -> list[Key]:
        """Pods of a namespace that wait, the longest first."""
        space = self._spaces.get(namespace)
        return [] if space is None else [(namespace, name) for name in space.waiting]

    def waiting_count(self) -> int:
        """How many Pods wait."""
        return sum(len(space.waiting) for space in self._spaces.values())

    def namespaces(self) -> list[str]:
        """Namespaces with shares or Pods."""
        return list(self._spaces)

    def worth_a_try(self, namespace: str) -> Iterable[Key]:
        """Of the Pods that wait those which together would fit what is free now, the longest waiting first."""
        space = self._spaces.get(namespace)
        if space is None or not space.waiting:
            return []
        shares = [
            Share(share.super_id, share.capacity, dict(share.used), share.pods)
            for share in space.open_shares()
        ]
        found = []
        for name in space.waiting:
            pod = self.pods.get((namespace, name))
            if pod is None:
                continue
            share = next((share for share in shares if share.fits(pod.needs.requests)), None)
            if share is not None:
                share.charge(pod.needs.requests)
                found.append(pod.key)
        return found

    def share(self, namespace: str, super_id: str) -> Share | None:
        """What a namespace holds and uses on a super cluster."""
        space = self._spaces.get(namespace)
        return None if space is None else space.shares.get(super_id)

    # Counting

    def _stands(self, pod: Pod) -> bool:
        """Whether a Pod may stay where its label says: its namespace holds slices there and it fits them."""
        space = self._spaces.get(pod.namespace)
        if space is None or pod.label not in space.granted or not self._selected(pod):
            return False
        share = space.shares[pod.label]
        if self._charges.get(pod.key, ("",))[0] != pod.label:
            return share.fits(pod.needs.requests)
        return all(
            share.used.get(name, 0) <= amount
            for name, amount in share.capacity.items()
            if pod.needs.requests.get(name)
        )

    def _selected(self, pod: Pod) -> bool:
        return pod.needs.accepts(pod.label)

    def _counts_at(self, pod: Pod) -> str:
        uid, assumed = self._assumed.get(pod.key, ("", ""))
        return pod.bound_to or (assumed if uid == pod.uid else "") or pod.label

    def _charge(self, pod: Pod) -> bool:
        """Count a Pod where it belongs; True if that freed something elsewhere."""
        place = self._counts_at(pod)
        charge = self._charges.get(pod.key)
        if charge is not None and charge == (place, pod.needs.requests):
            return False
        freed = self._release(pod.key)
        if place:
            self._share(pod.namespace, place).charge(pod.needs.requests)
            self._charges[pod.key] = (place, pod.needs.requests)
        return freed

    def _release(self, key: Key) -> bool:
        charge = self._charges.pop(key, None)
        if charge is None:
            return False
        super_id, requests = charge
        space = self._spaces[key[0]]
        space.shares[super_id].release(requests)
        if super_id not in space.granted and not space.shares[super_id].pods:
            del space.shares[super_id]
        return super_id in space.granted

    def _space(self, namespace: str) -> Space:
        space = self._spaces.get(namespace)
        if space is None:
            space = self._spaces[namespace] = Space({}, frozenset(), {})
        return space

    def _share(self, namespace: str, super_id: str) -> Share:
        shares = self._space(namespace).shares
        if super_id not in shares:
            shares[super_id] = Share(super_id, {}, {})
        return shares[super_id]

    def _tidy(self, namespace: str) -> None:
        space = self._spaces.get(namespace)
        if space is None:
            return
        for super_id in [each for each, share in space.shares.items() if not share.pods]:
            if super_id not in space.granted:
                del space.shares[super_id]
        if not (space.shares or space.waiting):
            del self._spaces[namespace]
