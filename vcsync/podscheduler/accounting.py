"""Counts one tenant's Pods by the share that they use, and decides what is to be done with each. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice

from msgspec import Struct, field

from vcsync.api.refusals import CLAIMS as CLAIMS_ELSEWHERE
from vcsync.api.refusals import NO_ROOM, NOT_PUBLISHED, NOT_SELECTED, SLICES_LEFT
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, RESOURCE_CLAIMS, Resource
from vcsync.podscheduler.claims import Claims
from vcsync.podscheduler.device_claims import DeviceClaims
from vcsync.podscheduler.pods import Key, Pod
from vcsync.podscheduler.refusals import Refusals
from vcsync.podscheduler.revisits import Reason
from vcsync.podscheduler.together import KeptServices
from vcsync.podscheduler.turns import MOST_AHEAD, Room, Usable, serve
from vcsync.podscheduler.waiting import Place, Waiting
from vcsync.scheduling import claims as claim_filter
from vcsync.scheduling.claims import ClaimNeed
from vcsync.scheduling.filters import Refusal
from vcsync.scheduling.resources import Resources, add, times
from vcsync.scheduling.shares import (
    CLAIMS,
    HEALTH,
    KEEP_TOGETHER,
    TURN,
    PodDecision,
    Share,
    pick_super,
    runtime_refusal,
    usable,
)
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.scheduling.together import Kept


class Assign(Struct, frozen=True):
    """Assign the Pod to a super cluster. `decision` is None if there was no choice."""

    super_id: str
    decision: PodDecision | None = None


class Wait(Struct, frozen=True):
    """Let the Pod wait. The reason is reported again when `signature` changes."""

    decision: PodDecision
    signature: tuple[object, ...]


class Withdraw(Struct, frozen=True):
    """Take the decision on a Pod back. Its super cluster may have a copy, and gives the Pod back once it has none.

    Attributes:
        super_id: the super cluster that has room for it now; empty if none has.
        decision: the decision that found it.
        reason: why the Pod is to leave, as `Said.reason`.
    """

    super_id: str
    decision: PodDecision
    reason: str


class Stand(Struct, frozen=True):
    """Leave a Pod where it is, and report why. `signature` is as that of `Wait`.

    Attributes:
        unread: why claims of the Pod are not known. Empty: its super cluster refuses it, and no other one can take it.
    """

    decision: PodDecision
    signature: tuple[object, ...]
    unread: str = ""


class Await(Struct, frozen=True):
    """Leave a Pod that is to leave its super cluster, since nobody hears from that one, which may run the Pod.

    The reason is reported again when it changes.
    """

    reason: str


class FreeName(Struct, frozen=True):
    """Let a Pod that is being deleted end, since no super cluster can have a copy of it."""


class MarkLost(Struct, frozen=True):
    """Report on the Pod that its super cluster is lost."""

    out_of_touch: str


Verdict = Assign | Wait | Withdraw | Stand | Await | FreeName | MarkLost | None
"""None means that nothing is to be done."""


_UNREPORTED = ("unreported",)
"""Signature of a Pod whose reason to wait has not been reported."""
MOST_USERS = 256
"""Number of Pods that are looked at to find one that keeps a ResourceClaim. API servers reserve a claim for no more."""
MOST_UNDECIDED = 100
"""Number of undecided Pods of a namespace beyond which a new one waits. The requests of all are added for each new one."""


MOST_TRIED = 100
"""Number of refused Pods that are to be tried elsewhere sooner, and that one step looks at."""


def _signature(refusal: Refusal) -> tuple[str, ...]:
    """Return by what a refusal differs from an earlier one. Amounts in messages change all the time, names and health do not."""
    named = refusal.filter in (CLAIMS, KEEP_TOGETHER, HEALTH)
    return (refusal.filter, refusal.message) if named else (refusal.filter,)


def _reasons(decision: PodDecision) -> tuple[object, ...]:
    """Return by what the reasons of a decision differ from those of an earlier one."""
    return tuple((entry.super_id, *map(_signature, entry.refusals)) for entry in decision.explanation)


def _lacks_runtime(pod: Pod, views: Mapping[str, SuperView]) -> bool:
    """Return whether the super cluster that a Pod's label names does not publish the Pod's RuntimeClass."""
    return runtime_refusal(pod.needs.runtime_class, pod.label, views) is not None


def _silence(view: SuperView) -> str:
    """Return why nobody hears from a super cluster; empty if its syncer can say what happens there."""
    return view.out_of_touch or ("it is lost" if view.health is Health.LOST else "")


def _await_reason(super_id: str, silence: str) -> str:
    return (
        f"super cluster {super_id} may still run this Pod, and nobody hears from it: {silence}; the Pod stays there until "
        f"{super_id} answers again or its operator fences it"
    )


def _ends_late(super_id: str, silence: str) -> str:
    return (
        f"super cluster {super_id} may still run this Pod, which is being deleted, and nobody hears from it: {silence}; the Pod "
        f"keeps its name until {super_id} answers again or its operator fences it"
    )


def unmarked(pod: Pod, views: Mapping[str, SuperView]) -> bool:
    """Return whether a Pod runs on a super cluster that is lost, and does not say so."""
    view = views.get(pod.bound_to)
    return not pod.marked_lost and view is not None and view.health is Health.LOST


class Space(Struct):
    """One namespace.

    Attributes:
        shares: super cluster -> share, for those with slices and those that still have Pods.
        granted: super clusters on which it has slices.
        waiting: the waiting Pods, each with the signature of the reason that was reported.
        standing: the same of each Pod that stays where it is though that is refused or not certain; see `Stand`.
        round: where the search for Pods that fit goes on: 0 for `waiting` or 1 for `standing`, and the last place; None if it has
            ended.
        again: whether room was freed meanwhile, so that another search follows.
        patient: a Pod that has waited so long that it holds room, as the last search found.
        awaiting: name of each Pod that is to leave and waits until its super cluster has given it back, or that is being deleted
            and keeps its name -> the reason that was reported if nobody hears from that one; empty otherwise.
    """

    shares: dict[str, Share] = {}
    granted: frozenset[str] = frozenset()
    waiting: Waiting = field(default_factory=Waiting)
    standing: Waiting = field(default_factory=Waiting)
    round: tuple[int, Place | None] | None = None
    again: bool = False
    patient: str = ""
    awaiting: dict[str, str] = {}

    def open_shares(self, without: str = "") -> Iterator[Share]:
        """Iterate over the shares that new Pods may use, except for one."""
        return (self.shares[super_id] for super_id in self.granted if super_id != without)


_NO_SPACE = Space()


class PodAccounting:
    """The counts of a tenant's Pods. All amounts are in thousandths.

    A Pod counts on the super cluster that it is bound to. A Pod that is not bound counts on the super cluster of a decision
    that is being written, or else on that of its label.

    A Pod that is not bound and has a label is locked: the super cluster of the label may run a copy. It leaves only when that
    one has given it back, does not hold the namespace any more, is fenced, or is not registered.

    Args:
        claims: the tenant's claims to volumes.
        devices: its ResourceClaims.
        services: its Services that keep their Pods together.
        holds: returns whether a super cluster may have objects of a namespace, by the ledger.
    """

    def __init__(
        self,
        claims: Claims | None = None,
        devices: DeviceClaims | None = None,
        services: KeptServices | None = None,
        holds: Callable[[str, str], bool] = lambda _namespace, _super_id: True,
    ) -> None:
        self._holds = holds
        self._claims = claims or Claims()
        self._devices = devices or DeviceClaims()
        self._services = services or KeptServices()
        self._users: dict[tuple[str, str, str], set[Key]] = {}  # (plural, namespace, claim) -> Pods
        self._claimants: dict[str, dict[str, None]] = {}  # namespace -> names of the Pods that use claims
        self.pods: dict[Key, Pod] = {}
        self._names: dict[str, dict[str, None]] = {}  # namespace -> names of its Pods
        # Namespace -> names of Pods that stay where they are refused, and of which a refusal may end sooner now.
        self._tried_sooner: dict[str, dict[str, None]] = {}
        self.refusals = Refusals()
        self._gave_way: dict[str, set[str]] = {}  # namespace -> names of Pods that gave way to others
        self._held: dict[
            Key, tuple[str, str, Mapping[str, int], tuple[str, ...]]
        ] = {}  # Pod that was withdrawn -> (UID, super cluster, requests, Services) of its room elsewhere
        self._spaces: dict[str, Space] = {}
        self._charges: dict[Key, tuple[str, Mapping[str, int]]] = {}
        self._assumed: dict[Key, tuple[str, str]] = {}  # -> (uid, super cluster)
        self._unplaced: dict[
            str, set[str]
        ] = {}  # namespace -> names of Pods that count nowhere and want a place

    # Changes

    def update(self, pod: Pod) -> bool:
        """Update a Pod, seen now for the first time in this state. Return whether that freed a part of a share."""
        before, now = self.pods.get(pod.key), pod.seen_at
        self._note_claims(before, pod)
        self.pods[pod.key] = pod
        self._names.setdefault(pod.namespace, {})[pod.name] = None
        namesake = before is not None and before.uid != pod.uid
        if before is not None and not namesake:
            pod.seen_at = before.seen_at
        if namesake or pod.deleting or pod.needs.node or pod.needs.gated:
            self._space(pod.namespace).waiting.pop(pod.name)
        if not pod.refused or pod.deleting:
            self.stop_standing(pod.key)
        self._refile(pod)
        ends_late = pod.deleting and pod.keeps_name
        if namesake or not pod.label or ((pod.deleting or pod.needs.node) and not ends_late):
            self._stop_awaiting(pod.key)
        elif pod.leaving or ends_late:
            self._space(pod.namespace).awaiting.setdefault(pod.name, "")
        self._note_refusals(pod, now)
        let_go = not ((pod.leaving or pod.returned) and not pod.deleting) and self.let_go(pod.key)
        return self._charge(pod) or let_go

    def remove(self, key: Key) -> bool:
        """Remove a Pod. Return whether that freed a part of a share."""
        before = self.pods.pop(key, None)
        _forget(self._names, key)
        self._note_claims(before, None)
        if before is not None and before.bound_to:
            # A Pod that never ran there leaves its nodes as they were.
            self._note_changed(before.bound_to, key[0])
        self._assumed.pop(key, None)
        self._note_unplaced(key, unplaced=False)
        space, waited = self._spaces.get(key[0]), False
        if space is not None:
            waited = space.waiting.pop(key[1])
        self.stop_standing(key)
        self._stop_awaiting(key)
        self.refusals.forget(key)
        let_go = self.let_go(key)
        self._services.note(key, "", ())
        freed = self._release(key) or let_go or waited  # others may have given way to it
        self._tidy(key[0])
        return freed

    def grant(self, namespace: str, size: Mapping[str, int], placements: Mapping[str, int]) -> bool:
        """Set the slices of a namespace: their size, and their number by super cluster. Return whether that is a change."""
        space = self._space(namespace)
        granted = {super_id: times(size, slices) for super_id, slices in placements.items() if slices > 0}
        if granted == {super_id: space.shares[super_id].capacity for super_id in space.granted}:
            self._tidy(namespace)
            return False
        for super_id in sorted(space.granted - granted.keys()):
            space.shares[super_id].capacity = {}
        for super_id, capacity in granted.items():
            self._share(namespace, super_id).capacity = capacity
            self._note_changed(super_id, namespace)
        space.granted = frozenset(granted)
        self._tidy(namespace)
        return True

    # Decisions

    def settled(self, pod: Pod, views: Mapping[str, SuperView]) -> bool:
        """Return whether nothing is to be done with a Pod."""
        if pod.bound_to in views:
            # This includes Pods that are being deleted: only the syncer that the label names sees the Pod and deletes it.
            return pod.label == pod.annotation == pod.bound_to and not unmarked(pod, views)
        if pod.deleting:
            return not pod.keeps_name
        if pod.needs.node or pod.needs.gated:
            return True
        if not pod.label or pod.annotation != pod.label or pod.refused or pod.leaving or pod.returned:
            return False
        claims = self._claim_needs(pod, views)
        if self._reason_to_leave(pod, views, tuple(each for each in claims if not each.unread)):
            return False
        return all(each.unread or (each.super_id == pod.label and not each.problem) for each in claims)

    def decide(  # noqa: PLR0911 - each return is a case of its own
        self, pod: Pod, views: Mapping[str, SuperView], now: float = 0.0
    ) -> Verdict:
        """Decide on a Pod. This changes nothing; call `assume`, `wait`, `hold`, `stand` or `wait_for_super` afterwards.

        Args:
            pod: the Pod.
            views: the pool.
            now: monotonic seconds.
        """
        if self.settled(pod, views):
            return None
        if pod.deleting and pod.bound_to not in views:
            return self._end(pod, views)
        if pod.needs.node:
            assigned = pod.label == pod.annotation == pod.bound_to
            return MarkLost(views[pod.bound_to].out_of_touch) if assigned else Assign(pod.bound_to)
        claims = self._claim_needs(pod, views)
        unread = next((each.problem for each in claims if each.unread), "")
        if unread and pod.label:
            # That is no refusal. A copy may run where an earlier scheduler has assigned the Pod.
            return Stand(PodDecision(None, ()), (unread,), unread)
        leaves = self._reason_to_leave(pod, views, claims)
        locked = self.is_locked(pod, views)
        unwanted = bool(leaves) or pod.leaving or (pod.refused and pod.annotation == pod.label)
        if not unwanted and pod.label and not pod.returned:
            return Assign(pod.label)
        if locked and (silence := _silence(views[pod.label])):
            return Await(_await_reason(pod.label, silence))
        if locked and pod.leaving:
            return None  # until the super cluster has given it back
        tries_again = "" if leaves else pod.label
        decision = self._pick(pod, views, now, claims, without=tries_again, last_resort=not tries_again)
        if locked:
            return self._take_back(pod, leaves, decision)
        if decision.super_id is not None:
            return Assign(decision.super_id, decision)
        if tries_again:
            return Assign(pod.label)
        return Wait(decision, _reasons(decision))

    def _end(self, pod: Pod, views: Mapping[str, SuperView]) -> Verdict:
        """Return what is to be done with a Pod that is being deleted and keeps its name.

        Its super cluster ends it once there is no copy. Where that one has nothing to say any more, it ends at once.
        """
        if not self.is_locked(pod, views):
            return FreeName()
        silence = _silence(views[pod.label])
        return Await(_ends_late(pod.label, silence)) if silence else None

    def _take_back(self, pod: Pod, leaves: str, decision: PodDecision) -> Verdict:
        """Return what is to be done with a locked Pod that its super cluster refuses, or that cannot stay there.

        Args:
            pod: the Pod.
            leaves: why it cannot stay, as `Said.reason`; empty if it is only refused.
            decision: where it could be instead.
        """
        if decision.super_id == pod.label or (decision.super_id is None and leaves == NO_ROOM):
            return Assign(pod.label, decision)  # the best there is; the quota there decides about room
        if decision.super_id is None and not leaves:
            return Stand(decision, _reasons(decision))
        reason = pod.said[pod.label].reason if pod.refused else leaves
        return Withdraw(decision.super_id or "", decision, reason)

    def _pick(
        self,
        pod: Pod,
        views: Mapping[str, SuperView],
        now: float,
        claims: tuple[ClaimNeed, ...],
        *,
        without: str,
        last_resort: bool,
    ) -> PodDecision:
        """Select a super cluster for a Pod.

        Args:
            pod: the Pod.
            views: the pool.
            now: monotonic seconds.
            claims: its claims.
            without: id of a super cluster that is not selected.
            last_resort: whether one that has refused the Pod is better than none: the Pod starts there as soon as it can.
        """
        space, kept = self._space(pod.namespace), self._kept(pod, views)
        refused = self.refusals.holding(pod.key, now) if pod.said else {}
        shares = list(space.open_shares(without=without))
        # The room for a Pod that was withdrawn from elsewhere was its own already.
        turns = {} if pod.returned else self._turns(pod, shares, views, now)
        decision = pick_super(shares, pod.needs, views, claims, kept, refused=refused, turns=turns)
        if decision.super_id is None and refused and last_resort:
            decision = pick_super(shares, pod.needs, views, claims, kept, turns=turns)
        return decision

    def assume(self, pod: Pod, super_id: str) -> bool:
        """Count a Pod on the super cluster of a new decision, before the decision is written.

        Returns:
            Whether that freed a part of a share.
        """
        self._assumed[pod.key] = (pod.uid, super_id)
        self._space(pod.namespace).waiting.pop(pod.name)
        return self._charge(pod)

    def hold(self, pod: Pod, super_id: str) -> None:
        """Count a Pod that is withdrawn on the super cluster where it is to go, too; nowhere else if that is empty."""
        self.let_go(pod.key)
        self.stop_standing(pod.key)
        if not super_id:
            return
        self._held[pod.key] = (pod.uid, super_id, pod.needs.requests, pod.services)
        self.reserve(pod.namespace, super_id, pod.needs.requests, pod.services)

    def let_go(self, key: Key) -> bool:
        """Stop counting a Pod where `hold` counted it. Return whether it was counted."""
        held = self._held.pop(key, None)
        if held is not None:
            self.free(key[0], *held[1:])
        return held is not None

    def stand(self, pod: Pod, signature: tuple[object, ...]) -> bool:
        """Record that a Pod stays where it is refused. Return whether the reason differs from the one that was reported."""
        standing = self._space(pod.namespace).standing
        differs = standing.signature(pod.name) != signature
        standing.put(pod, signature)
        return differs

    def wait_for_super(self, pod: Pod, reason: str) -> bool:
        """Record that a Pod waits for a super cluster that nobody hears from. Return whether the reason is a new one."""
        self.stop_standing(pod.key)
        awaiting = self._space(pod.namespace).awaiting
        differs = awaiting.get(pod.name) != reason
        awaiting[pod.name] = reason
        return differs

    def settle(self, key: Key) -> bool:
        """Count a Pod by its object again, after a decision was written or failed.

        Returns:
            Whether that freed a part of a share.
        """
        self._assumed.pop(key, None)
        pod = self.pods.get(key)
        return pod is not None and self._charge(pod)

    def wait(self, pod: Pod, signature: tuple[object, ...]) -> None:
        """Record that a Pod waits, and the signature of the reason that is reported."""
        self._space(pod.namespace).waiting.put(pod, signature)
        if any((TURN,) in entry for entry in signature if isinstance(entry, tuple)):
            self._gave_way.setdefault(pod.namespace, set()).add(pod.name)

    def gave_way(self, namespace: str) -> bool:
        """Return whether Pods of a namespace wait since others were ahead, so that they may fit now. Then forget that."""
        space, names = self._spaces.get(namespace), self._gave_way.pop(namespace, set())
        return space is not None and any(name in space.waiting for name in names)

    def reported(self, pod: Pod) -> tuple[object, ...] | None:
        """Return the signature of the reason that this process reported for a Pod; None if the Pod does not wait."""
        space = self._spaces.get(pod.namespace)
        return None if space is None else space.waiting.signature(pod.name)

    def wait_unreported(self, pod: Pod) -> None:
        """Record that a Pod waits, and that the reason has not been reported."""
        self._space(pod.namespace).waiting.put(pod, _UNREPORTED)

    def waiting(self, namespace: str) -> list[Key]:
        """Return the waiting Pods of a namespace in their order."""
        space = self._spaces.get(namespace)
        return [] if space is None else [(namespace, name) for name in space.waiting]

    def note_refusals(self, pod: Pod) -> None:
        """Note what super clusters say on a Pod that have got slices of its namespace since it was seen."""
        if pod.said:
            self._note_refusals(pod, pod.seen_at)

    def tried_sooner(self, namespace: str) -> list[Key]:
        """Return some Pods that stay where they are refused and may be tried elsewhere sooner, since something has changed there.

        The next call returns others.
        """
        found = [(namespace, name) for name in islice(self._tried_sooner.get(namespace, ()), MOST_TRIED)]
        for key in found:
            _forget(self._tried_sooner, key)
        return found

    def are_tried_sooner(self, namespace: str) -> bool:
        """Return whether `tried_sooner` has any."""
        return namespace in self._tried_sooner

    def _note_changed(self, super_id: str, namespace: str) -> None:
        standing = self._spaces.get(namespace, _NO_SPACE).standing
        for _, name in self.refusals.changed(super_id, namespace):
            if name in standing:
                self._tried_sooner.setdefault(namespace, {})[name] = None

    def _note_refusals(self, pod: Pod, now: float) -> None:
        space = self._spaces.get(pod.namespace)
        self.refusals.note(pod, now, frozenset() if space is None else space.granted)

    def stop_standing(self, key: Key) -> None:
        """Forget that a Pod stays where it is, and the reason that was reported."""
        space = self._spaces.get(key[0])
        if space is not None and space.standing:
            space.standing.pop(key[1])
            _forget(self._tried_sooner, key)

    def _stop_awaiting(self, key: Key) -> None:
        space = self._spaces.get(key[0])
        if space is not None and space.awaiting:
            space.awaiting.pop(key[1], None)

    def standing(self, namespace: str) -> list[Key]:
        """Return the Pods of a namespace that stay where they are; see `Stand`."""
        space = self._spaces.get(namespace)
        return [] if space is None else [(namespace, name) for name in space.standing]

    def concerned(self, reason: Reason, namespace: str | None = None) -> Iterator[Key | None]:
        """Yield the Pods that a change concerns, and None for each that it passes over.

        Of a namespace without slices on the super clusters of the reason, these are the Pods that wait for one of these to
        answer, and those whose claims, RuntimeClass or Services depend on super clusters without slices, too. Pods that are not
        bound and that slices have left are included.

        Args:
            reason: what has changed.
            namespace: the namespace; None for all.
        """
        for each in list(self._names) if namespace is None else (namespace,):
            yield from self._concerned(each, reason)

    def _concerned(self, namespace: str, reason: Reason) -> Iterator[Key | None]:
        space = self._spaces.get(namespace, _NO_SPACE)
        near = reason.supers is None or not space.granted.isdisjoint(reason.supers)
        waiting = dict.fromkeys((*space.waiting.names(), *space.standing.names(), *space.awaiting))
        for name in waiting:
            pod = self.pods.get((namespace, name))
            concerns = pod is not None and (
                near or pod.label in (reason.supers or ()) or _depends_on_all(pod)
            )
            yield (namespace, name) if concerns else None
        if reason.pods or space.shares.keys() - space.granted:
            others = list(self._names.get(namespace, ()))
        else:
            others = list(self._claimants.get(namespace, ())) if reason.claimants else []
        for name in others:
            yield None if name in waiting else (namespace, name)

    def waiting_count(self) -> int:
        """Return how many Pods wait."""
        return sum(len(space.waiting) for space in self._spaces.values())

    def namespaces(self) -> list[str]:
        """Return the namespaces with shares or Pods."""
        return list(self._spaces)

    def fitting(self, namespace: str, views: Mapping[str, SuperView], now: float = 0.0) -> list[Key]:
        """Return waiting Pods that together fit into the free part of the shares, in their order.

        After them come the Pods that fit on another super cluster than the one that refuses them. A call looks at a bounded
        number of Pods. While `searching` says so, the next call continues where this one ends. It begins with the first in the
        order again, since what was freed meanwhile is theirs before it is that of others.

        Args:
            namespace: the namespace.
            views: the pool.
            now: monotonic seconds.
        """
        space = self._spaces.get(namespace)
        if space is None or not (space.waiting or space.standing):
            return []
        room, find = self._room(space, views, now), partial(self._find, namespace)
        line, after = space.round or (0, None)
        found: list[str] = []
        if line or after is not None:
            before = None if after is None or line else (after[0], after[1] + 1, "")
            found, last = serve(space.waiting, find, room, before=before, most=MOST_AHEAD, part=4)
            self._hold_for_patient(space, namespace, room, last, before)
        for number, each in enumerate((space.waiting, space.standing)[line:], line):
            more, after = serve(each, find, room, after=after)
            found += more
            if after is not None:
                space.round = number, after
                break
        else:
            space.round, space.again = (0, None) if space.again else None, False
        if room.held and space.patient not in space.waiting:
            space.patient = next(iter(room.held.values()))
        return [(namespace, name) for name in found]

    def searching(self, namespace: str) -> bool:
        """Return whether a search for Pods that fit has not ended."""
        space = self._spaces.get(namespace)
        return space is not None and space.round is not None

    def search_again(self, namespace: str) -> bool:
        """Note that room was freed, so that the search which is under way is repeated. Return whether Pods wait for room."""
        space = self._spaces.get(namespace)
        if space is None or not (space.waiting or space.standing):
            return False
        space.again = space.round is not None
        return True

    def _room(self, space: Space, views: Mapping[str, SuperView], now: float) -> Room:
        return Room(space.open_shares(), partial(self._usable, views, now), now)

    def _find(self, namespace: str, name: str) -> Pod | None:
        return self.pods.get((namespace, name))

    def _refile(self, pod: Pod) -> None:
        space = self._spaces.get(pod.namespace)
        if space is not None:
            space.waiting.refile(pod)
            space.standing.refile(pod)

    def _hold_for_patient(
        self, space: Space, namespace: str, room: Room, last: Place | None, before: Place | None
    ) -> None:
        """Let the Pod take or hold its room that has waited for long, if it is among those that are not compared."""
        patient = self._find(namespace, space.patient) if space.patient in space.waiting else None
        if patient is None or last is None:
            return
        place = space.waiting.place(patient)
        if last < place and (before is None or place < before):
            room.take(patient)

    def _usable(self, views: Mapping[str, SuperView], now: float, pod: Pod) -> Usable:
        """Return whether anything but the room keeps a Pod from a share, as a function of the share."""
        refused = self.refusals.holding(pod.key, now) if pod.refused else {}
        claims, kept = claim_filter.steps(self._claim_needs(pod, views))[-1], self._kept(pod, views)

        def test(share: Share) -> bool:
            if pod.refused and share.super_id == pod.label:
                return False
            return usable(share, pod.needs, views, claims, kept, refused=refused)

        return test

    def _turns(
        self, pod: Pod, shares: Iterable[Share], views: Mapping[str, SuperView], now: float
    ) -> dict[str, str]:
        """Return the shares with room for a Pod that are not for it, since others wait and are ahead of it."""
        space = self._space(pod.namespace)
        if not (space.waiting and any(share.fits(pod.needs.requests) for share in shares)):
            return {}
        room, before = self._room(space, views, now), space.waiting.place(pod)
        find = partial(self._find, pod.namespace)
        _, last = serve(space.waiting, find, room, before=before, most=MOST_AHEAD)
        self._hold_for_patient(space, pod.namespace, room, last, before)
        return room.refusals(pod)

    def decides_at_once(self, namespace: str) -> bool:
        """Return whether a new Pod of a namespace is decided at once, if it leaves room for those that are `undecided`.

        The namespace has slices then, no Pod of it waits, and none is on a super cluster without slices.
        """
        space = self._spaces.get(namespace)
        if space is None or not space.granted or space.waiting:
            return False
        return space.shares.keys() == space.granted

    def undecided(self, namespace: str) -> Resources | None:
        """Return what the Pods of a namespace request together that have been seen, and are to be placed first.

        Returns:
            Their requests in thousandths. None if there are many, or if one of them needs more than room: its claims,
            devices or Services bind it to super clusters, or it is to leave one.
        """
        names = self._unplaced.get(namespace, ())
        if len(names) > MOST_UNDECIDED:
            return None
        total: Resources = {}
        for name in names:
            pod = self.pods[namespace, name]
            if (
                pod.label
                or pod.annotation
                or pod.said
                or pod.services
                or pod.needs.claims
                or pod.needs.devices
            ):
                return None
            total = add(total, pod.needs.requests)
        return total

    def leaves_room(
        self, namespace: str, super_id: str, requests: Mapping[str, int], others: Mapping[str, int]
    ) -> bool:
        """Return whether a share has room for a Pod and, whatever is decided on them, for all others besides.

        Args:
            namespace: the namespace.
            super_id: the super cluster of the share.
            requests: the Pod's requests in thousandths.
            others: those of the others, together.
        """
        return not others or self._share(namespace, super_id).fits(add(requests, others))

    def has_slices(self, namespace: str, super_id: str = "") -> bool:
        """Return whether a namespace has slices on a super cluster; on any if none is named."""
        space = self._spaces.get(namespace)
        return space is not None and (super_id in space.granted if super_id else bool(space.granted))

    def reserve(
        self, namespace: str, super_id: str, requests: Mapping[str, int], services: tuple[str, ...] = ()
    ) -> None:
        """Count a Pod that is being created."""
        self._services.count(namespace, super_id, services, 1)
        self._share(namespace, super_id).charge(requests)

    def free(
        self, namespace: str, super_id: str, requests: Mapping[str, int], services: tuple[str, ...] = ()
    ) -> None:
        """Stop counting a Pod that `reserve` counted."""
        self._services.count(namespace, super_id, services, -1)
        self._spaces[namespace].shares[super_id].release(requests)
        self._tidy(namespace)

    def users(
        self,
        namespace: str,
        claim: str,
        resource: Resource = PERSISTENT_VOLUME_CLAIMS,
        most: int | None = None,
    ) -> list[Pod]:
        """Return the Pods that use a claim, but no more than `most`."""
        keys = self._users.get((resource.plural, namespace, claim), ())
        return [self.pods[key] for key in islice(keys, most)]

    def share(self, namespace: str, super_id: str) -> Share | None:
        """Return the share of a namespace on a super cluster; None if it has none."""
        space = self._spaces.get(namespace)
        return None if space is None else space.shares.get(super_id)

    def capacities(self, super_id: str) -> dict[str, Mapping[str, int]]:
        """Return the amounts of the slices of each namespace on a super cluster; only namespaces that have some."""
        return {
            namespace: space.shares[super_id].capacity
            for namespace, space in self._spaces.items()
            if super_id in space.granted
        }

    def room_elsewhere(self, namespace: str, super_id: str, views: Mapping[str, SuperView]) -> list[Share]:
        """Return copies of a namespace's shares on other super clusters that take Pods; none while any Pod of it waits.

        Args:
            namespace: the namespace.
            super_id: the super cluster that is left.
            views: the pool.
        """
        space = self._spaces.get(namespace)
        if space is None or space.waiting or self._unplaced.get(namespace):
            return []
        takes = {
            view.id
            for view in views.values()
            if view.health >= Health.RECOVERING and not (view.cordoned or view.draining)
        }
        return [
            Share(share.super_id, share.capacity, dict(share.used), share.pods)
            for share in space.open_shares(without=super_id)
            if share.super_id in takes
        ]

    def regroup(self, key: Key, version: str, services: tuple[str, ...]) -> bool:
        """Set the Services of a Pod that keep their Pods together, if it is still of that resourceVersion.

        Returns:
            Whether other Pods may have more choice now.
        """
        pod = self.pods.get(key)
        if pod is None or pod.version != version or pod.services == services:
            return False
        pod.services = services
        self._refile(pod)
        self._charge(pod)
        return True

    def _kept(self, pod: Pod, views: Mapping[str, SuperView]) -> tuple[Kept, ...]:
        if not pod.services:
            return ()
        granted = self._space(pod.namespace).granted
        return tuple(self._services.kept(pod.namespace, pod.services, granted, views, pod.name))

    def _claim_needs(self, pod: Pod, views: Mapping[str, SuperView]) -> tuple[ClaimNeed, ...]:
        needs = pod.needs
        volumes = self._claims.needs(pod.namespace, needs.claims, views) if needs.claims else ()
        if not needs.devices:
            return volumes
        kept = partial(self._is_kept, pod, views)
        return (*volumes, *self._devices.needs(pod.namespace, needs.devices, views, kept))

    def _is_kept(self, pod: Pod, views: Mapping[str, SuperView], claim: str, super_id: str) -> bool:
        """Return whether another Pod that uses a ResourceClaim may run on a super cluster, so that the claim stays there."""
        users = self._users.get((RESOURCE_CLAIMS.plural, pod.namespace, claim), ())
        others = (self.pods[key] for key in islice(users, MOST_USERS) if key != pod.key)
        return any(
            other.bound_to == super_id or (other.label == super_id and self.is_locked(other, views))
            for other in others
        )

    def _note_claims(self, before: Pod | None, now: Pod | None) -> None:
        """Keep the index of the Pods that use each claim."""
        if before is not None:
            _forget(self._claimants, before.key)
            for claim in _claims_of(before):
                users = self._users[claim]
                users.discard(before.key)
                if not users:
                    del self._users[claim]
        if now is not None:
            if (now.needs.claims or now.needs.devices) and not now.needs.node:
                self._claimants.setdefault(now.namespace, {})[now.name] = None
            for claim in _claims_of(now):
                self._users.setdefault(claim, set()).add(now.key)

    def _left(self, pod: Pod) -> bool:
        return bool(pod.label) and not pod.needs.node and pod.label not in self._space(pod.namespace).granted

    def is_locked(self, pod: Pod, views: Mapping[str, SuperView]) -> bool:
        """Return whether the super cluster that the label of a Pod names may run the Pod, which is not bound."""
        view = views.get(pod.label)
        if view is None or view.fenced or pod.needs.node or pod.returned:
            return False
        return self._holds(pod.namespace, pod.label)

    def _reason_to_leave(
        self, pod: Pod, views: Mapping[str, SuperView], claims: tuple[ClaimNeed, ...]
    ) -> str:
        """Return why a Pod cannot stay where its label says, as `Said.reason`; empty if it can, or has no label.

        A Pod that was placed there stays even if Pods exceed the share: it may run already, and otherwise the quota there
        refuses its copy.
        """
        space = self._spaces.get(pod.namespace)
        if not pod.label:
            return ""
        if space is None or pod.label not in space.granted:
            return SLICES_LEFT
        if not self._selected(pod):
            return NOT_SELECTED
        if claims and claim_filter.refusal(claim_filter.steps(claims)[0], pod.label, views.get(pod.label)):
            return CLAIMS_ELSEWHERE
        if _lacks_runtime(pod, views):
            return NOT_PUBLISHED
        return "" if pod.annotation == pod.label or self._fits(pod, space.shares[pod.label]) else NO_ROOM

    # Counting

    def _fits(self, pod: Pod, share: Share) -> bool:
        """Return whether a Pod, which may count there already, fits into a share."""
        if self._charges.get(pod.key, ("",))[0] != share.super_id:
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
        """Count a Pod on its super cluster. Return whether that freed a part of its share on another one."""
        place = self._counts_at(pod)
        self._note_unplaced(
            pod.key, unplaced=not (place or pod.deleting or pod.needs.gated or pod.needs.node)
        )
        left = self._services.note(pod.key, place, pod.services)
        charge = self._charges.get(pod.key)
        if charge is not None and charge == (place, pod.needs.requests):
            return left
        freed = self._release(pod.key)
        if place:
            self._share(pod.namespace, place).charge(pod.needs.requests)
            self._charges[pod.key] = (place, pod.needs.requests)
        return freed

    def _note_unplaced(self, key: Key, *, unplaced: bool) -> None:
        namespace, name = key
        if unplaced:
            self._unplaced.setdefault(namespace, set()).add(name)
        elif name in (found := self._unplaced.get(namespace, set())):
            found.discard(name)
            if not found:
                del self._unplaced[namespace]

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
            space = self._spaces[namespace] = Space({})
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
        if not (space.shares or space.waiting or space.standing or space.awaiting):
            self._gave_way.pop(namespace, None)
            del self._spaces[namespace]


def _forget(names: dict[str, dict[str, None]], key: Key) -> None:
    """Remove a Pod from names by namespace."""
    found = names.get(key[0])
    if found is not None:
        found.pop(key[1], None)
        if not found:
            del names[key[0]]


def _depends_on_all(pod: Pod) -> bool:
    """Return whether super clusters without slices of its namespace may matter to a Pod."""
    needs = pod.needs
    return bool(needs.claims or needs.devices or needs.runtime_class or pod.services)


def _claims_of(pod: Pod) -> Iterator[tuple[str, str, str]]:
    """Yield (plural, namespace, name) of each claim that a Pod uses."""
    yield from ((PERSISTENT_VOLUME_CLAIMS.plural, pod.namespace, each) for each in pod.needs.claims)
    yield from ((RESOURCE_CLAIMS.plural, pod.namespace, each) for each in pod.needs.devices)
