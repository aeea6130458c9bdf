"""The state of one decision on a namespace's slices: where more of them may go, within capacity and the tenant's cap. Pure."""

from bisect import bisect_right
from collections.abc import Mapping

from vcsync.scheduling.filters import FREE, Refusal, refusals
from vcsync.scheduling.resources import Resources, add, pieces, subtract, times
from vcsync.scheduling.scores import Candidate, score
from vcsync.scheduling.slices import PODS

POD = 1000
"""One Pod, in thousandths."""


class Placing:
    """The state of one decision while it is made.

    What a namespace holds on a super cluster counts against the cap of its tenant there, whether its slices stay or go, since
    Pods may still use it. So slices are new for the cap only beyond what is held where they are placed.

    Attributes:
        candidates: the super clusters, in order of ids.
        size: amounts of one slice, in thousandths.
        left: number of slices that may still be placed.
        beyond_cap: number of slices that may be placed in spite of the cap, since they leave another super cluster for that.
        kept: super cluster -> number of slices that were there before.

    Args:
        candidates: see above.
        size: see above.
        policy: one of `POLICIES`.
        left: see above.
        held: super cluster -> amounts that the namespace holds there, with or without slices.
        free_of_cap: amounts that the cap leaves beside all that others and this namespace hold; negative for less.
    """

    def __init__(
        self,
        candidates: Mapping[str, Candidate],
        size: Resources,
        policy: str,
        *,
        left: int,
        held: Mapping[str, Resources],
        free_of_cap: Resources,
    ) -> None:
        self.candidates = candidates
        self.size = size
        self.left = left
        self.beyond_cap = 0
        self.kept: dict[str, int] = {}
        self._policy = policy
        self._held = held
        self._free_of_cap = {name: max(0, amount) for name, amount in free_of_cap.items() if name in size}
        self._refusals: dict[str, list[Refusal]] = {}
        self._scores: dict[str, int] = {}

    def room(self, super_id: str) -> int:
        """Return how many more slices may be placed on a super cluster."""
        room = min(self.left, pieces(self.candidates[super_id].free, self.size))
        return min(room, self.beyond_cap + self.within_cap(super_id)) if room else 0

    def within_cap(self, super_id: str) -> int:
        """Return how many more slices the cap allows on a super cluster, but no more than may be placed."""
        if not self._free_of_cap:
            return self.left
        free = add(self._free_of_cap, self.unused(super_id))
        return min(self.left, pieces(free, {name: self.size[name] for name in free}))

    def unused(self, super_id: str) -> Resources:
        """Return what the namespace holds on a super cluster beyond its slices there, of what the cap limits."""
        candidate = self.candidates.get(super_id)
        slices = 0 if candidate is None else candidate.slices
        held = self._held.get(super_id, {})
        return {name: max(0, held.get(name, 0) - self.size[name] * slices) for name in self._free_of_cap}

    def refusals(self, super_id: str) -> list[Refusal]:
        """Return why a super cluster takes no new slices but pinned ones, apart from its room."""
        found = self._refusals.get(super_id)
        if found is None:
            found = refusals(FREE, self.candidates[super_id].view, self.size)
            self._refusals[super_id] = found
        return found

    def score(self, super_id: str) -> int:
        """Return a super cluster's score for one more slice."""
        found = self._scores.get(super_id)
        if found is None:
            found = score(self._policy, self.candidates[super_id], self.size)
            self._scores[super_id] = found
        return found

    def take(self, super_id: str, slices: int) -> None:
        """Place slices on a super cluster."""
        if slices <= 0:
            return
        if self._free_of_cap:
            counted = min(slices, self.within_cap(super_id))
            self.beyond_cap = max(0, self.beyond_cap - (slices - counted))
            unused = self.unused(super_id)
            for name in self._free_of_cap:
                self._free_of_cap[name] -= max(0, self.size[name] * counted - unused[name])
        self._scores.pop(super_id, None)
        candidate = self.candidates[super_id]
        candidate.slices += slices
        candidate.free = subtract(candidate.free, times(self.size, slices))
        self.left -= slices

    def keep(self, super_id: str, slices: int) -> None:
        """Keep slices on a super cluster, as many as are left and within the cap."""
        slices = min(slices, self.within_cap(super_id))
        self.take(super_id, slices)
        self.kept[super_id] = self.kept.get(super_id, 0) + slices

    def add_pods(self, most: int) -> None:
        """Let slices have more Pods, as far as these fit on each super cluster that has slices, and into the cap.

        A part of what is wanted is given only if it adds more than a quarter, so that not each Pod that becomes free changes
        namespaces.

        Args:
            most: the most Pods that a slice may have, in thousandths.
        """
        pods = self.size[PODS]
        placed = {super_id: each.slices for super_id, each in self.candidates.items() if each.slices}
        fit = [
            self.candidates[super_id].free[PODS] // slices
            for super_id, slices in placed.items()
            if PODS in self.candidates[super_id].free
        ]
        more = min(most - pods, max(0, min(fit, default=most)) // POD * POD)
        if PODS in self._free_of_cap:
            unused = {super_id: self.unused(super_id)[PODS] for super_id in placed}

            def new(each: int) -> int:
                return sum(max(0, slices * each - unused[super_id]) for super_id, slices in placed.items())

            steps = range(0, more + POD, POD)
            more = steps[bisect_right(steps, self._free_of_cap[PODS], key=new) - 1]
        if not more or (pods + more < most and more * 4 <= pods):
            return
        self.size = add(self.size, {PODS: more})
        for candidate in self.candidates.values():
            candidate.free = subtract(candidate.free, {PODS: more * candidate.slices})
        self._refusals.clear()
        self._scores.clear()
