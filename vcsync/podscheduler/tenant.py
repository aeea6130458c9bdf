"""The Pod scheduler's work for one connected tenant: follows its Pods, decides, and writes to them."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from vcsync.api.names import SUPER_CLUSTER, SUSPENDED
from vcsync.api.refusals import Said
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_CLAIMS, Resource
from vcsync.objects.budget import Budget
from vcsync.objects.envelope import Envelope
from vcsync.objects.times import time_text
from vcsync.podscheduler.accounting import (
    Assign,
    Await,
    FreeName,
    MarkLost,
    PodAccounting,
    Stand,
    Wait,
    Withdraw,
)
from vcsync.podscheduler.claims import Claims, claim_assignment, left_behind
from vcsync.podscheduler.device_claims import DeviceClaims, device_claim_assignment
from vcsync.podscheduler.pods import (
    Key,
    Pod,
    assignment,
    lost,
    name_release,
    read,
    unschedulable,
    withdrawal,
)
from vcsync.podscheduler.promises import Birth, Promise, Promises, birth_of
from vcsync.podscheduler.revisits import ALL, Reason, Revisits
from vcsync.podscheduler.together import KeptServices
from vcsync.podscheduler.turns import filter_steps
from vcsync.scheduling.pods import PodNeeds
from vcsync.scheduling.resources import Resources, add
from vcsync.scheduling.shares import PodDecision
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy.suspension import TENANT_SUSPENDED

_FAILED = "FailedScheduling"
NEW_NAMESPACE_SECONDS = 2.0
"""Seconds until a Pod in a namespace without slices is reported as waiting: a new namespace gets its slices meanwhile."""
MOST_EXPECTED = 1000
"""Most promises of a tenant while another process asks for more, so that a flood of requests takes little memory."""


MOST_USERS = 100
"""Number of Pods of one claim beyond which a change of it looks at them in pieces."""
EVERYWHERE: Key = ("", "")
"""Item of the queue: `wake` for all namespaces."""


class StillHeld(Exception):
    """A Pod or claim cannot leave a super cluster: a live read says that it may still have objects of the namespace."""

    def __init__(self, what: str, super_id: str) -> None:
        super().__init__(f"{what} may still have a copy on super cluster {super_id}")


class PodWriter(Protocol):
    """Writes of the Pod scheduler to a tenant's Pods. The caller's cache has each answer before the method returns."""

    async def patch(self, namespace: str, name: str, change: dict[str, Any]) -> None:
        """Patch a Pod."""

    async def patch_status(self, namespace: str, name: str, change: dict[str, Any]) -> None:
        """Patch a Pod's status, as a strategic merge patch."""

    async def patch_claim(self, claim: Envelope, change: dict[str, Any]) -> None:
        """Patch a PersistentVolumeClaim, unless it does not exist any more."""

    async def patch_device_claim(self, claim: Envelope, change: dict[str, Any]) -> None:
        """Patch a ResourceClaim, unless it does not exist any more."""

    async def still_holds(self, namespace: str, super_id: str) -> bool:
        """Return whether a super cluster may have objects of a namespace, by a live read of the ledger."""

    async def may_run(self, namespace: str, super_id: str) -> bool:
        """Return whether Pods of a namespace may run on a super cluster, by live reads of the ledger and the fence."""

    @property
    def gone(self) -> Callable[[str, str, str], None]:
        """Takes namespace, name and UID of a Pod that the API server no longer has."""
        ...

    def emit(self, pod: Pod, message: str) -> None:
        """Record a Warning about a Pod."""


class Outcome(Struct, frozen=True):
    """The result of scheduling a Pod.

    Attributes:
        kind: `assigned`, `waiting`, `withdrawn` from its super cluster, or `left` if nothing was done.
        super_id: the super cluster it was assigned to; empty otherwise.
        decision: the decision, if one was made.
        latency: seconds from seeing the Pod to having assigned it.
        version: the Pod's resourceVersion that the decision was based on.
    """

    kind: str
    super_id: str = ""
    decision: PodDecision | None = None
    latency: float = 0.0
    version: str = ""


class TenantPods:
    """Counts a tenant's Pods, and schedules them one at a time.

    Nothing is enqueued before `begin`: all Pods must be counted first.

    Args:
        writer: writes to the tenant's Pods.
        views: returns the pool: id -> view of each super cluster.
        add: enqueues `schedule` of a Pod, or `wake` of a namespace if the name is empty: (item, whether it is urgent).
        add_after: the same after a delay: (item, seconds).
        clock: monotonic seconds.
        suspended: returns whether the tenant is suspended, so that its Pods wait for that reason.
        claims: the tenant's claims.
        version: returns the resourceVersion up to which all changes of Pods have been observed.
        on_written: called with every promise to a Pod that was created on its super cluster.
        promise_counts: number of promises by what became of them.
        devices: the tenant's ResourceClaims.
        services: the tenant's Services that keep their Pods together.
        holds: returns whether a super cluster may have objects of a namespace, by the ledger.
        on_unseen: called when a Pod is not followed any more that keeps its name for no super cluster. It may exist.
    """

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        writer: PodWriter,
        views: Callable[[], Mapping[str, SuperView]],
        add: Callable[[Key, bool], None],
        add_after: Callable[[Key, float], None],
        clock: Callable[[], float] = time.monotonic,
        suspended: Callable[[], bool] = lambda: False,
        claims: Claims | None = None,
        version: Callable[[], int] = lambda: 0,
        on_written: Callable[[Promise], None] = lambda _promise: None,
        promise_counts: Counter[str] | None = None,
        devices: DeviceClaims | None = None,
        services: KeptServices | None = None,
        holds: Callable[[str, str], bool] = lambda _namespace, _super_id: True,
        on_unseen: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_unseen = on_unseen
        self._suspended = suspended
        self._claims = claims or Claims()
        self._devices = devices or DeviceClaims()
        self._services = services or KeptServices()
        self.accounting = PodAccounting(self._claims, self._devices, self._services, holds)
        self._writer = writer
        self._views = views
        self._add = add
        self._add_after = add_after
        self._clock = clock
        self._begun = False
        self._revisits: dict[str, Revisits] = {}
        self._everywhere = Revisits(self.accounting.concerned)
        self.promises = Promises(self.accounting, clock, self._freed, on_written, promise_counts)
        self._version = version
        self._checked: set[str] = set()  # namespaces whose promises are looked at again later

    def begin(self) -> None:
        """Enqueue the Pods that need a decision, now that all Pods and shares are counted."""
        self._begun = True
        self._everywhere.ask(ALL)
        self.wake("")

    def observe(self, change: Change) -> None:
        """Count a change of a Pod (in the form of `slim`)."""
        self._seen(change)
        if change.new is None:
            if change.old is not None:
                self._lost_sight(change.old.key)
            return
        pod = read(change.new, self._clock())
        if self.accounting.update(pod):
            self._freed(pod.namespace)
        self._enqueue_unless_settled(pod)

    def _lost_sight(self, key: Key) -> None:
        """Forget a Pod that is gone, or has finished."""
        pod = self.accounting.pods.get(key)
        if pod is not None and pod.keeps_name and not self.may_have_a_copy(pod):
            self._on_unseen()
        if self.accounting.remove(key):
            self._freed(key[0])

    def claim_changed(self, namespace: str, name: str, resource: Resource = PERSISTENT_VOLUME_CLAIMS) -> None:
        """Look again at the Pods that use a claim."""
        users = self.accounting.users(namespace, name, resource, MOST_USERS + 1)
        if len(users) > MOST_USERS:
            self._look_again(Reason(claimants=True), namespace)
            return
        for pod in users:
            self._enqueue_unless_settled(pod)

    def claims_may_move(self, namespace: str) -> None:
        """Look again at the Pods of a namespace that use claims: claims without volume may move."""
        self._look_again(Reason(claimants=True), namespace)

    def grant(self, namespace: str, size: Mapping[str, int], placements: Mapping[str, int]) -> None:
        """Set the slices of a namespace, and look again at its Pods."""
        if self.accounting.grant(namespace, size, placements):
            self._look_again(ALL, namespace)

    def released(self, namespace: str) -> None:
        """Look again at the Pods of a namespace, since its super clusters may not hold it any more."""
        self._look_again(ALL, namespace)

    def pool_changed(self, changed: frozenset[str] | None = None) -> None:
        """Look again at the waiting Pods that a change of the pool concerns, and at those on lost super clusters.

        Args:
            changed: ids of the super clusters that have changed; None if all Pods are concerned.
        """
        lost = any(view.health is Health.LOST for view in self._views().values())
        if self._begun:
            self._everywhere.ask(Reason(pods=lost, claimants=True, supers=changed))
            self._add(EVERYWHERE, False)

    def _look_again(self, reason: Reason, namespace: str) -> None:
        """Enqueue the Pods of a namespace that a change concerns: the first ones at once, the others in later turns."""
        if not self._begun:
            return
        revisits = self._revisits.get(namespace)
        if revisits is None:
            pods = partial(self.accounting.concerned, namespace=namespace)
            revisits = self._revisits[namespace] = Revisits(pods)
        begins = not revisits.pending
        revisits.ask(reason)
        if begins:
            self._go_on(namespace)

    def _go_on(self, namespace: str) -> None:
        revisits = self._revisits.get(namespace)
        if revisits is None:
            return
        self._revisit(revisits)
        if revisits.pending:
            self._add((namespace, ""), False)
        else:
            del self._revisits[namespace]

    def _revisit(self, revisits: Revisits) -> None:
        """Enqueue Pods that are to be looked at again and need a decision, for a bounded number of steps."""
        budget = Budget("a look at Pods")
        for key in revisits:
            pod = None if key is None else self.accounting.pods.get(key)
            budget.spend()
            if pod is not None:
                budget.spend(filter_steps(pod))
                self.accounting.note_refusals(pod)
                self._enqueue_unless_settled(pod, urgent=not pod.needs.node)
            if budget.piece_ended():
                return

    def capacity_changed(self, super_id: str) -> None:
        """Enqueue the Pods that a super cluster has refused, since its nodes or its capacity have changed."""
        for key in self.accounting.refusals.changed(super_id):
            pod = self.accounting.pods.get(key)
            if pod is not None and pod.refused and pod.label != super_id and self._begun:
                self._add_after(key, self.accounting.refusals.until(key, super_id, self._clock()))

    def wake(self, namespace: str) -> None:
        """Enqueue the waiting Pods of a namespace that may fit now, after ending the promises whose time is over.

        This looks at a bounded number of Pods, and enqueues the namespace again if others follow.

        Args:
            namespace: the namespace; empty to look again at Pods of all.
        """
        if not namespace:
            self._revisit(self._everywhere)
            if self._everywhere.pending:
                self._add(EVERYWHERE, False)
            return
        self._go_on(namespace)
        self._checked.discard(namespace)
        self.promises.expire(namespace, self._version())
        self._check_later(namespace)
        now = self._clock()
        for key in self.accounting.fitting(namespace, self._views(), now):
            self._add(key, False)
        for key in self.accounting.tried_sooner(namespace):
            again = self.accounting.refusals.next_end(key, now, without=self.accounting.pods[key].label)
            if again is not None:
                self._add_after(key, again)
        if self.accounting.searching(namespace) or self.accounting.are_tried_sooner(namespace):
            self._add((namespace, ""), False)

    def regroup(self, namespace: str, pods: Iterable[Envelope]) -> None:
        """Note for the Pods of a namespace, as listed, which Services keep them together; and enqueue those that wait."""
        changed = False
        for pod in pods:
            services = self._services.selecting(namespace, pod.labels)
            changed |= self.accounting.regroup(pod.key, pod.resource_version, services)
        if changed:
            self._look_again(Reason(supers=None), namespace)

    def promise(
        self,
        namespace: str,
        name: str,
        needs: PodNeeds,
        labels: Mapping[str, str] | None = None,
        birth: Birth | None = None,
    ) -> Promise | None:
        """Promise room to a Pod that is about to be created, if it would be placed now.

        The Pod has to wait for its turn if other Pods of its namespace want a place, unless its super cluster has room for
        all of them besides: none of them waits longer then, whatever is decided on it. Slices belong to one namespace of one
        tenant, so no Pod of another tenant wants the same room.

        Args:
            namespace: the Pod's namespace.
            name: its name; empty if the API server generates it.
            needs: its needs.
            labels: its labels, by which Services select it.
            birth: what identifies it, if nobody will tell what becomes of it: an API server in another process writes it.

        Returns:
            A promise, without a super cluster if the Pod is to wait; None if Pods are not scheduled at present, or the
            Pod is bound or may not be scheduled. None also to a Pod of another process in a namespace without slices, to
            one whose name another Pod has or is about to have, and to all while the tenant has too many promises.
        """
        if not self._begun or self._suspended() or needs.gated or needs.node:
            return None
        if birth is not None:
            self.promises.expire(namespace, self._version())
            if not self._may_expect(birth):
                return None
        services = self._services.selecting(namespace, labels or {})
        decision, bound = None, bool(needs.claims or needs.devices)
        first = None if bound else self._first(namespace)
        if first is not None:
            verdict = self.accounting.decide(
                Pod(
                    namespace,
                    name,
                    "",
                    "",
                    needs,
                    "",
                    "",
                    deleting=False,
                    waiting_message="",
                    services=services,
                ),
                self._views(),
            )
            if isinstance(verdict, Assign) and self.accounting.leaves_room(
                namespace, verdict.super_id, needs.requests, first
            ):
                decision = verdict.decision
        promise = self.promises.make(
            namespace, name, needs.requests, decision, services, birth=birth, bound=bound
        )
        self._check_later(namespace)
        return promise

    def _first(self, namespace: str) -> Resources | None:
        """Return what Pods request together that are to be placed before a new one; None if it has to wait for them."""
        if not self.accounting.decides_at_once(namespace):
            return None
        seen = self.accounting.undecided(namespace)
        created = None if seen is None else self.promises.turns(namespace)
        return None if seen is None or created is None else add(seen, created)

    def _may_expect(self, birth: Birth) -> bool:
        """Return whether a promise may be made to a Pod that another process creates."""
        namespace, name = birth.namespace, birth.name
        if len(self.promises) >= MOST_EXPECTED or not self.accounting.has_slices(namespace):
            return False
        # Of Pods with one name only one is created, so a second promise would hold room for nobody.
        return not name or not (
            self.promises.expects(namespace, name) or (namespace, name) in self.accounting.pods
        )

    def _seen(self, change: Change) -> None:
        """End the promise to a Pod that has been created: it counts itself from now on."""
        pod = change.new or change.old
        if pod is None:
            return
        super_id = pod.labels.get(SUPER_CLUSTER, "")
        self.promises.seen(pod.uid, super_id)
        first = change.new is not None and (change.old is None or change.old.uid != pod.uid)
        if first and self.promises.expecting():
            birth = birth_of(
                pod.namespace,
                pod.name,
                "",
                [owner.uid for owner in pod.owners],
                read(pod, self._clock()).needs.requests,
            )
            self.promises.born(birth, pod.generate_name, super_id, pod.version)

    def _check_later(self, namespace: str) -> None:
        if namespace not in self._checked and namespace in self.promises.standing:
            self._checked.add(namespace)
            self._add_after((namespace, ""), self.promises.ends_in(namespace))

    async def schedule(self, key: Key) -> Outcome:
        """Decide on a Pod and write the decision.

        Raises:
            KubeError: the decision could not be written, and is not counted.
            StillHeld: the Pod or a claim of it may not leave its super cluster yet, or has to keep its name.
        """
        pod = self.accounting.pods.get(key)
        if pod is None:
            return Outcome("left")
        self.accounting.note_refusals(pod)
        if pod.returned:
            self.accounting.let_go(key)  # its room elsewhere is free for itself now
        verdict = self.accounting.decide(pod, self._views(), self._clock())
        if isinstance(verdict, Assign) and self._suspended() and not pod.needs.node:
            # The namespace scheduler takes the slices away, and may not have done so yet. A decision that was made stays.
            decision = None if pod.label or pod.annotation else verdict.decision
            verdict = None if decision is None else Wait(decision, (SUSPENDED,))
        try:
            if isinstance(verdict, Assign):
                return await self._assign(pod, verdict)
            if isinstance(verdict, Withdraw):
                return await self._withdraw(pod, verdict)
            if isinstance(verdict, Stand | Await):
                return self._stand(pod, verdict) if isinstance(verdict, Stand) else self._await(pod, verdict)
            if isinstance(verdict, Wait):
                return await self._wait(pod, verdict)
            if isinstance(verdict, FreeName):
                await self.free_name(pod)
            if isinstance(verdict, MarkLost):
                change = lost(pod, verdict.out_of_touch, time_text(datetime.now(UTC)))
                await self._writer.patch_status(pod.namespace, pod.name, change)
        except NotFound:
            self._writer.gone(pod.namespace, pod.name, pod.uid)
        return Outcome("left")

    async def _assign(self, pod: Pod, verdict: Assign) -> Outcome:
        freed = self.accounting.assume(pod, verdict.super_id)
        claims = self._claims.unassigned(pod.namespace, pod.needs.claims, verdict.super_id)
        devices = self._devices.unassigned(pod.namespace, pod.needs.devices, verdict.super_id)
        if pod.needs.node:
            # The Pod's creator chose the node. Claims that are elsewhere stay there, and the syncer tells that they lack.
            claims, devices = (
                [each for each in found if SUPER_CLUSTER not in each.labels] for found in (claims, devices)
            )
        if verdict.super_id != pod.label:
            await self._require_gone(pod)
        self._claims.assume(claims, verdict.super_id)
        self._devices.assume(devices, verdict.super_id)
        try:
            # Claims come first. If this process ends in between, the Pod follows them.
            for claim in claims:
                left = left_behind(claim, verdict.super_id)
                if left and await self._writer.still_holds(pod.namespace, left):
                    raise StillHeld(f"claim {claim.name}", left)
                await self._writer.patch_claim(claim, claim_assignment(claim, verdict.super_id))
            for claim in devices:
                await self._writer.patch_device_claim(claim, device_claim_assignment(claim, verdict.super_id))
            await self._writer.patch(pod.namespace, pod.name, assignment(pod, verdict.super_id))
        finally:
            self._claims.settle(claims)
            self._devices.settle(devices)
            if self.accounting.settle(pod.key) or self.accounting.gave_way(pod.namespace) or freed:
                self._freed(pod.namespace)
        if verdict.super_id != pod.label:
            self._tell_label(pod, f"the Pod is placed on {verdict.super_id}")
        return Outcome(
            "assigned", verdict.super_id, verdict.decision, self._clock() - pod.seen_at, pod.version
        )

    def _tell_label(self, pod: Pod, instead: str) -> None:
        """Tell the tenant that the super cluster is not used that the label of a Pod named at its creation.

        A scheduler of the tenant's own may have written the label. Where this scheduler wrote it, the annotation says the same.
        """
        if not pod.label or pod.annotation == pod.label or pod.needs.node:
            return
        share = self.accounting.has_slices(pod.namespace, pod.label)
        why = "cannot take the Pod" if share else f"has no slices of namespace {pod.namespace}"
        self._writer.emit(pod, f"label {SUPER_CLUSTER}: super cluster {pod.label} {why}; {instead}")

    async def _withdraw(self, pod: Pod, verdict: Withdraw) -> Outcome:
        """Take the decision on a Pod back. Its super cluster gives it back as soon as it has no copy, or keeps it if it runs."""
        self.accounting.hold(pod, verdict.super_id)
        try:
            await self._writer.patch(pod.namespace, pod.name, withdrawal(pod, verdict.reason))
        except BaseException:
            if self.accounting.let_go(pod.key):
                self._freed(pod.namespace)
            raise
        why = Said(reason=verdict.reason).why
        begin = (
            f"super cluster {pod.label} refused the Pod"
            if pod.refused
            else f"the Pod leaves super cluster {pod.label}"
        )
        self._writer.emit(
            pod,
            f"{begin}: {why}; it is placed again once {pod.label} has confirmed that it does not run there",
        )
        return Outcome("withdrawn", "", verdict.decision, version=pod.version)

    def _await(self, pod: Pod, verdict: Await) -> Outcome:
        """Leave a Pod on a super cluster that nobody hears from. Room elsewhere is not held for that long."""
        if self.accounting.let_go(pod.key):
            self._freed(pod.namespace)
        if not self.accounting.wait_for_super(pod, verdict.reason):
            return Outcome("left")
        self._writer.emit(pod, verdict.reason)
        return Outcome("waiting", pod.label, version=pod.version)

    def may_have_a_copy(self, pod: Pod) -> bool:
        """Return whether the super cluster that the label of a Pod names may have a copy, by what this process has seen."""
        return self.accounting.is_locked(pod, self._views())

    async def free_name(self, pod: Pod) -> None:
        """Free the name of a Pod of which no super cluster can have a copy. One that is being deleted ends with that.

        Raises:
            KubeError: that could not be read or written.
            StillHeld: its super cluster may have a copy.
        """
        there = pod.bound_to if pod.needs.node else pod.label
        if there and not pod.returned and await self._writer.may_run(pod.namespace, there):
            raise StillHeld("the Pod", there)
        await self._writer.patch(pod.namespace, pod.name, name_release(pod))

    async def _require_gone(self, pod: Pod) -> None:
        """Return if the super cluster that the label of a Pod names cannot have a copy, by its statement or by live reads.

        What this process has seen may be old: the namespace may have got slices there again, or a fence may have ended.

        Raises:
            StillHeld: it may have one.
        """
        if not pod.label or pod.needs.node or pod.returned:
            return
        if await self._writer.may_run(pod.namespace, pod.label):
            raise StillHeld("the Pod", pod.label)

    def _stand(self, pod: Pod, verdict: Stand) -> Outcome:
        """Leave a Pod where it is, and look again when it may be tried elsewhere."""
        now = self._clock()
        again = self.accounting.refusals.next_end(pod.key, now, without=pod.label)
        if again is not None:
            self._add_after(pod.key, again)
        if not self.accounting.stand(pod, verdict.signature):
            return Outcome("left")
        self._writer.emit(pod, _why_it_stands(pod, verdict))
        return Outcome("waiting", pod.label, verdict.decision, version=pod.version)

    async def _wait(self, pod: Pod, verdict: Wait) -> Outcome:
        outcome = Outcome("waiting", "", verdict.decision, version=pod.version)
        message, signature = verdict.decision.reasons(), verdict.signature
        if self._suspended():
            message, signature = TENANT_SUSPENDED, (SUSPENDED,)
        reported = self.accounting.reported(pod)
        if not signature and not pod.waiting_message:
            remaining = pod.seen_at + NEW_NAMESPACE_SECONDS - self._clock()
            if remaining > 0:
                self.accounting.wait_unreported(pod)
                self._add_after(pod.key, remaining)
                return outcome
        if pod.label or pod.annotation:
            # The Pod may not run on the super cluster that its label names, so the label is removed. The answer to the
            # patch enqueues the Pod again.
            await self._require_gone(pod)
            await self._writer.patch(pod.namespace, pod.name, assignment(pod, None))
            self._tell_label(pod, "the Pod waits")
            return outcome
        self.accounting.wait(pod, signature)
        if reported == signature or (reported is None and pod.waiting_message == message):
            return outcome
        now = time_text(datetime.now(UTC))
        try:
            await self._writer.patch_status(pod.namespace, pod.name, unschedulable(pod, message, now))
        except BaseException:
            if self.accounting.reported(pod) is not None:
                self.accounting.wait_unreported(pod)
            raise
        self._writer.emit(pod, message)
        return outcome

    def _enqueue_unless_settled(self, pod: Pod, *, urgent: bool = True) -> None:
        if not self._begun:
            return
        if self.accounting.settled(pod, self._views()):
            self.accounting.stop_standing(pod.key)
        else:
            self._add(pod.key, urgent and self.accounting.reported(pod) is None)

    def _freed(self, namespace: str) -> None:
        if self._begun and self.accounting.search_again(namespace):
            self._add((namespace, ""), False)


def _why_it_stands(pod: Pod, verdict: Stand) -> str:
    """Return in words why a Pod stays where it is."""
    if verdict.unread:
        return f"the Pod keeps super cluster {pod.label} for now: {verdict.unread}"
    message = f"super cluster {pod.label} refuses the Pod: {pod.said[pod.label].why}; it waits there"
    if verdict.decision.explanation:
        message += f", since it can be nowhere else: {verdict.decision.reasons()}"
    return message


class PodClient:
    """Writes Pods to a tenant's control plane; see `PodWriter`.

    Args:
        client: the control plane.
        events: records Events there.
        observe: called with every Pod in an answer of the control plane.
        gone: called with namespace, name and UID of every Pod that the control plane no longer has.
        claims: caches the control plane's claims.
        holders: reads the super clusters live that may have objects of a namespace.
        is_out: reads live whether a super cluster is fenced, or not registered.
        devices: caches the control plane's ResourceClaims.
    """

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        client: Client,
        events: EventRecorder,
        observe: Callable[[Envelope], None],
        gone: Callable[[str, str, str], None],
        claims: Reflector,
        holders: Callable[[str], Awaitable[frozenset[str]]],
        devices: Reflector,
        is_out: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._holders = holders
        self._is_out = is_out
        self._devices = devices
        self._claims = claims
        self._client = client
        self._events = events
        self._observe = observe
        self.gone = gone

    async def patch(self, namespace: str, name: str, change: dict[str, Any]) -> None:
        """Patch a Pod."""
        self._observe(await self._client.patch(PODS, name, change, namespace))

    async def patch_status(self, namespace: str, name: str, change: dict[str, Any]) -> None:
        """Patch a Pod's status, as a strategic merge patch."""
        answer = await self._client.patch(
            PODS, name, change, namespace, kind="strategic", subresource="status"
        )
        self._observe(answer)

    async def patch_claim(self, claim: Envelope, change: dict[str, Any]) -> None:
        """Patch a PersistentVolumeClaim, unless it does not exist any more."""
        await self._patch_claim(PERSISTENT_VOLUME_CLAIMS, self._claims, claim, change)

    async def patch_device_claim(self, claim: Envelope, change: dict[str, Any]) -> None:
        """Patch a ResourceClaim, unless it does not exist any more."""
        await self._patch_claim(RESOURCE_CLAIMS, self._devices, claim, change)

    async def _patch_claim(
        self, resource: Resource, cache: Reflector, claim: Envelope, change: dict[str, Any]
    ) -> None:
        try:
            answer = await self._client.patch(resource, claim.name, change, claim.namespace)
        except NotFound:
            cache.observe_gone(claim.namespace, claim.name, claim.uid)
            return
        cache.observe(answer)

    async def still_holds(self, namespace: str, super_id: str) -> bool:
        """Return whether a super cluster may have objects of a namespace, by a live read of the ledger."""
        return super_id in await self._holders(namespace)

    async def may_run(self, namespace: str, super_id: str) -> bool:
        """Return whether Pods of a namespace may run on a super cluster, by live reads of the ledger and the fence."""
        return await self.still_holds(namespace, super_id) and not await self._is_out(super_id)

    def emit(self, pod: Pod, message: str) -> None:
        """Record a Warning about a Pod."""
        subject = ObjectRef("v1", "Pod", pod.name, pod.namespace, pod.uid)
        self._events.emit(subject, "Warning", _FAILED, message, now=time.time())
