"""Evicts Pods from lost super clusters that their slices have left, in waves, and ends those whose end is confirmed."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any, Final, Protocol

import structlog
from msgspec import Struct

from vcsync.api.names import SUPER_CLUSTER_LOST
from vcsync.api.specs import Failover
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, KubeError, NotFound, TooManyRequests, describe
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.resources import PODS
from vcsync.objects.times import time_text
from vcsync.podscheduler.pods import Pod, name_release
from vcsync.podscheduler.stranded import confirmed, replaceable, stranded
from vcsync.scheduling.failover import moves_after, wave_size
from vcsync.scheduling.shares import Share
from vcsync.scheduling.snapshot import SuperView
from vcsync.tenancy import Pool

LOOK_SECONDS: Final = 5.0
"""Seconds between two waves."""
CONCURRENCY: Final = 8
"""Number of requests to a tenant that are outstanding at a time."""
RETRY_SECONDS: Final = 60.0
"""Seconds after which a tenant is asked again that refused a request or did not answer."""
EVICTED: Final = "Evicted"
FENCED: Final = "SuperClusterFenced"

_log = structlog.get_logger(__name__)


class Stand(Struct, frozen=True):
    """The state of one tenant that a wave needs.

    Attributes:
        policy: its policy for lost super clusters.
        pods: its unfinished Pods.
        capacity: returns, for a super cluster, the amounts of each namespace's slices there.
        room: returns, for a namespace and a super cluster, its shares elsewhere that take Pods at once.
        remover: removes its Pods.
        replaces: whether Pods without a node do not wait for a super cluster that may have started them.
    """

    policy: Failover
    pods: Callable[[], Iterable[Pod]]
    capacity: Callable[[str], Mapping[str, Mapping[str, int]]]
    room: Callable[[str, str], list[Share]]
    remover: "Remover"
    replaces: bool = False

    def replaced(self, pods: Collection[Pod], super_id: str, *, lost: bool, fenced: bool) -> list[Pod]:
        """Return the Pods without a node that are replaced elsewhere, of those that can be evicted from a super cluster.

        Those leave that cannot stay there, and from one that is lost also others for which there is room elsewhere.

        Args:
            pods: the Pods.
            super_id: the super cluster, which nobody hears from.
            lost: whether it is lost, and not only suspect.
            fenced: whether it is fenced. Pods that cannot stay there are placed elsewhere as they are then.
        """
        starting = [pod for pod in pods if not (pod.needs.node or pod.needs.claims or pod.deleting)]
        granted = self.capacity(super_id) if starting else {}
        out = [pod for pod in starting if pod.leaving or pod.namespace not in granted]
        if not lost:
            return out
        keys = {pod.key for pod in out}
        rest = [pod for pod in starting if pod.key not in keys]
        found = replaceable(rest, super_id, lambda namespace: self.room(namespace, super_id))
        return found if fenced else out + found

    def leaving(self, pods: Collection[Pod], super_id: str) -> list[Pod]:
        """Return the Pods that have to leave a lost super cluster by the policy, of those that can be evicted from it."""
        out = stranded(pods, super_id, self.capacity(super_id))
        if self.policy.policy == "MoveAfter":
            return out
        keys = {pod.key for pod in out}
        rest = [pod for pod in pods if pod.key not in keys]
        # The slices that are left are those of Pods with claims. Others leave too, where they find room.
        return [pod for pod in out if not pod.needs.claims] + replaceable(
            rest, super_id, lambda namespace: self.room(namespace, super_id)
        )


class Remover(Protocol):
    """Removes Pods of one tenant through its API."""

    async def evict(self, pod: Pod, why: str) -> bool:
        """Evict a Pod. Return whether PodDisruptionBudgets allow that."""
        ...

    async def delete(self, pod: Pod, why: str) -> None:
        """Delete a Pod with its own grace period. It remains until somebody knows that it has ended."""

    async def confirm(self, pod: Pod, why: str) -> None:
        """Remove a Pod that is being deleted, since it does not run any more."""


Work = dict[str, list[Coroutine[Any, Any, None]]]
"""Cluster key of a tenant -> its part of a wave."""


class Evictions:
    """Waves of evictions from the super clusters that are lost.

    Attributes:
        counts: number of Pods by what was done.

    Args:
        pool: the pool.
        is_fenced: returns whether a super cluster is fenced, by a live read.
        tenants: returns the connected tenants, by cluster key.
        chance: the source of the order.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        pool: Pool,
        is_fenced: Callable[[str], Awaitable[bool]],
        tenants: Callable[[], Mapping[str, Stand]],
        chance: Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._is_fenced = is_fenced
        self._tenants = tenants
        self._chance = chance
        self._clock = clock
        # (super cluster, tenant, namespace) -> since when a budget refuses evictions.
        self._refused: dict[tuple[str, str, str], float] = {}
        self._retry_at: dict[str, float] = {}
        self._busy: set[str] = set()
        self._fences: dict[str, tuple[bool, float]] = {}
        self._confirmed: set[str] = set()  # UIDs; finalizers may keep such Pods
        self.counts = {"evicted": 0, "deleted": 0, "confirmed": 0}

    async def run(self) -> None:
        """Evict until cancelled. Each tenant's part of a wave runs by itself, so that a slow tenant delays no other.

        The first wave waits, since an earlier leader may just have begun one.
        """
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                self.look(tasks.create_task)

    def look(self, start: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        """Begin one wave for every super cluster that is lost or not heard from.

        Args:
            start: starts a coroutine.
        """
        lost = self._pool.lost()
        silent = lost.keys() | {view.id for view in self._pool.views.values() if view.out_of_touch}
        self._refused = {each: since for each, since in self._refused.items() if each[0] in lost}
        if not lost:
            self._confirmed.clear()
        for super_id in sorted(silent):
            view = self._pool.views[super_id]
            work: Work = {}
            awake = self._awake()
            if view.fenced and super_id in lost:
                self._confirm(view, awake, work)
            if not self._pool.held:
                self._wave(view, lost.get(super_id), awake, work)
            for tenant, steps in work.items():
                self._busy.add(tenant)
                start(self._work(tenant, steps))

    def _confirm(self, view: SuperView, awake: Mapping[str, Stand], work: Work) -> None:
        """End the Pods that are being deleted on a fenced super cluster."""
        why = f"the operator has confirmed that nothing runs on super cluster {view.id} any more"
        for tenant, stand in awake.items():
            for pod in confirmed(stand.pods(), view.id):
                if pod.uid not in self._confirmed:
                    work.setdefault(tenant, []).append(self._end(view.id, stand.remover, pod, why))

    async def _end(self, super_id: str, remover: Remover, pod: Pod, why: str) -> None:
        if not await self._holds(super_id):
            return
        await remover.confirm(pod, why)
        self._confirmed.add(pod.uid)
        self.counts["confirmed"] += 1

    async def _holds(self, super_id: str) -> bool:
        """Return whether a fence holds, as it was read live within the last `LOOK_SECONDS`.

        The view of a process that is cut off may be old, and the super cluster may run new Pods since.

        Raises:
            KubeError: it could not be read.
        """
        known, read_at = self._fences.get(super_id, (False, float("-inf")))
        if self._clock() - read_at >= LOOK_SECONDS:
            read_at, known = self._clock(), await self._is_fenced(super_id)
            self._fences[super_id] = known, read_at
        return known

    def _wave(self, view: SuperView, lasts: float | None, awake: Mapping[str, Stand], work: Work) -> None:
        """Begin the wave of one super cluster, which has been lost for `lasts` seconds; None: it is not lost."""
        is_ = "is not heard from" if lasts is None else "is lost"
        why = f"super cluster {view.id} {is_}: {view.out_of_touch}"
        total, found = 0, []
        for tenant, stand in awake.items():
            after = moves_after(stand.policy)
            moves = lasts is not None and after is not None and lasts >= after
            if not (moves or stand.replaces):
                continue
            there = [pod for pod in stand.pods() if pod.is_evicted_from(view.id)]
            total += len(there)
            out = {pod.key: pod for pod in stand.leaving(there, view.id)} if moves and there else {}
            if stand.replaces and there:
                replaced = stand.replaced(there, view.id, lost=lasts is not None, fenced=view.fenced)
                out |= {pod.key: pod for pod in replaced}
            found += [(tenant, stand.remover, pod) for pod in out.values()]
        wave = self._chance.sample(found, min(wave_size(total), len(found)))
        if wave:
            _log.info("pods leave a lost super cluster", super_cluster=view.id, pods=len(wave), of=len(found))
        for tenant, remover, pod in wave:
            work.setdefault(tenant, []).append(self._remove(view, tenant, remover, pod, why))

    async def _remove(self, view: SuperView, tenant: str, remover: Remover, pod: Pod, why: str) -> None:
        """Evict a Pod, or delete it if budgets have refused for longer than they may."""
        place = (view.id, tenant, pod.namespace)
        since = self._refused.get(place)
        if view.eviction_seconds and (since is None or self._clock() - since < view.eviction_seconds):
            if await remover.evict(pod, why):
                self.counts["evicted"] += 1
            else:
                self._refused.setdefault(place, self._clock())
            return
        await remover.delete(pod, why)
        self.counts["deleted"] += 1

    def _awake(self) -> dict[str, Stand]:
        """Return the tenants that have no part of an earlier wave, and have not refused a request recently."""
        now = self._clock()
        self._retry_at = {tenant: at for tenant, at in self._retry_at.items() if at > now}
        excluded = self._busy | self._retry_at.keys()
        return {tenant: stand for tenant, stand in self._tenants().items() if tenant not in excluded}

    async def _work(self, tenant: str, steps: list[Coroutine[Any, Any, None]]) -> None:
        """Run a tenant's part of a wave, some requests at a time, until one fails."""
        waiting = iter(steps)

        async def work_off() -> None:
            for step in waiting:
                if tenant in self._retry_at:
                    step.close()
                    continue
                try:
                    await step
                except KubeError as error:
                    self._retry_at[tenant] = self._clock() + RETRY_SECONDS
                    _log.warning("pods stay on a lost super cluster", tenant=tenant, **describe(error))

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(CONCURRENCY, len(steps))):
                    tasks.create_task(work_off())
        finally:
            for step in waiting:
                step.close()
            self._busy.discard(tenant)


class PodRemover:
    """Removes Pods of one tenant; see `Remover`.

    Args:
        client: the tenant's control plane.
        events: records Events there.
        gone: called with namespace, name and UID of every Pod that the control plane no longer has.
    """

    def __init__(self, client: Client, events: EventRecorder, gone: Callable[[str, str, str], None]) -> None:
        self._client = client
        self._events = events
        self._gone = gone

    async def evict(self, pod: Pod, why: str) -> bool:
        """Evict a Pod. Return whether PodDisruptionBudgets allow that.

        Raises:
            KubeError: the control plane refused for another reason, or did not answer.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        try:
            await self._client.create_raw(PODS, body, pod.namespace, name=pod.name, subresource="eviction")
        except NotFound:
            self._gone(pod.namespace, pod.name, pod.uid)
            return True
        except Conflict:  # another Pod has its name
            return True
        except TooManyRequests:
            return False
        ends = "it ends when that is known" if pod.needs.node else "it may have started there and run on"
        self._tell(pod, EVICTED, f"evicted, since {why}; {ends}")
        return True

    async def delete(self, pod: Pod, why: str) -> None:
        """Delete a Pod with its own grace period.

        Raises:
            KubeError: the control plane refused, or did not answer.
        """
        try:
            await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
        except NotFound:
            self._gone(pod.namespace, pod.name, pod.uid)
        except Conflict:  # another Pod has its name
            return
        else:
            self._tell(pod, EVICTED, f"deleted though a PodDisruptionBudget refuses, since {why}")

    async def confirm(self, pod: Pod, why: str) -> None:
        """Remove a Pod that is being deleted. One that finalizers keep is marked as failed, as by the Pod garbage collector.

        Raises:
            KubeError: the control plane refused, or did not answer.
        """
        if pod.keeps_name:  # it was bound just before nobody heard of its super cluster any more
            await self._client.patch(PODS, pod.name, name_release(pod), pod.namespace)
        try:
            left = await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=0)
            if left is not None:
                await self._client.patch(
                    PODS,
                    pod.name,
                    _failed(pod, why),
                    pod.namespace,
                    kind="strategic",
                    subresource="status",
                )
        except (NotFound, Conflict):
            pass
        else:
            self._tell(pod, FENCED, f"ended, since {why}")
        self._gone(pod.namespace, pod.name, pod.uid)

    def _tell(self, pod: Pod, reason: str, message: str) -> None:
        subject = ObjectRef("v1", "Pod", pod.name, pod.namespace, pod.uid)
        self._events.emit(subject, "Warning", reason, message, now=time.time())


def _failed(pod: Pod, why: str) -> dict[str, Any]:
    """Return the strategic merge patch of the status of a Pod that has ended without a report."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": SUPER_CLUSTER_LOST,
        "message": why,
        "lastTransitionTime": time_text(datetime.now(UTC)),
    }
    return {"metadata": {"uid": pod.uid}, "status": {"phase": "Failed", "conditions": [condition]}}
