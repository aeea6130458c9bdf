"""Everything together: a tenant, super clusters, syncers, schedulers and their operator."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS
from vcsync.api.specs import Failover
from vcsync.kube.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS
from vcsync.scheduling.place import Transfer
from vcsync.scheduling.resources import Resources, from_quantities
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.syncer.executor import UNANSWERED_SECONDS

from .api_server import Body
from .invariants import CAPACITY, Watchdog
from .process import Process
from .schedulers import NamespaceScheduler, PodScheduler
from .setting import KEY, NS, SUPERS, Setting
from .super_cluster import SuperCluster
from .syncer import Syncer
from .wire import AT_ONCE

SIZES = (
    '{"cpu":"100m","memory":"100Mi"}',
    '{"cpu":"200m","memory":"200Mi"}',
    '{"cpu":"30m","memory":"30Mi"}',
    '{"cpu":"1m","memory":"1Mi"}',
)
ROUNDS = 400
"""Most times that something is written until a pool comes to rest."""
QUIET_SECONDS = 1300.0
"""Seconds without a write after which a pool is at rest. Longer than any patience of an operator's order."""


class World:
    """A pool.

    Attributes:
        supers: the super clusters as they are.
        syncers: the syncer of each, unless its fence has stopped it.
        pods: the leader of the Pod scheduler.
        slices: the leader of the namespace scheduler.
        tampered: UIDs of Pods, and names, about which the tenant has lied or for which it answers itself.
    """

    def __init__(
        self, *, bound_status: bool = False, skews: dict[str, float] | None = None, moves: bool = True
    ) -> None:
        self.setting = setting = Setting(bound_status=bound_status, skews=skews or {})
        if moves:
            setting.spec["failover"] = Failover(policy="MoveAfter", after_seconds=0)
        self.supers = {super_id: SuperCluster(super_id) for super_id in SUPERS}
        for super_id in SUPERS:
            body = {"metadata": {"name": super_id}, "spec": {"id": super_id}}
            setting.meta.create(SUPER_CLUSTERS, body)
        metadata = {"name": NS, "annotations": {names.SLICE: SIZES[0]}}
        setting.tenant.create(NAMESPACES, {"metadata": metadata})
        setting.tenant.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, NS)
        self.tampered: set[str] = set()
        self.watchdog = Watchdog(self)
        self._terms = 0
        self._views = {super_id: _view(super_id) for super_id in SUPERS}
        self.syncers: dict[str, Syncer] = {}
        self.pods = PodScheduler(setting, self._views)
        self.slices = NamespaceScheduler(setting, self._views, self._terms)
        for super_id in SUPERS:
            self.syncers[super_id] = Syncer(setting, self.supers[super_id])
        self.order(4)
        self.settle_slices()

    def close(self) -> None:
        for process in self.processes():
            process.end()
        self.setting.close()

    def processes(self) -> list[Process]:
        return [self.slices, self.pods, *self.syncers.values()]

    def settle_slices(self) -> None:
        """Let the beginning be a namespace that has its slices."""
        for _ in range(4):
            for process in self.processes():
                process.work()

    # The tenant

    def order(self, slices: int, size: str = "") -> None:
        """Change the quota, and perhaps the size of slices."""
        self.setting.hards = [{"cpu": f"{slices}00m", "memory": f"{slices}00Mi"}] if slices else []
        if size:
            patch = {"metadata": {"annotations": {names.SLICE: size}}}
            self.setting.tenant.patch(NAMESPACES, NS, patch, who="user")
        self.slices.add(NS)

    def create(self, name: str, cpu: int, *, generated: bool, **metadata: Any) -> None:
        if self.setting.tenant.find(PODS, name, NS) is not None:
            return
        requests = {"cpu": f"{cpu}m", "memory": f"{cpu}Mi"}
        spec = {
            "containers": [{"name": "app", "image": "acme/app:1", "resources": {"requests": requests}}],
            "serviceAccountName": "default",
            "automountServiceAccountToken": False,
            "dnsPolicy": "Default",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
        }
        metadata |= {"name": name} | ({"generateName": "web-"} if generated else {})
        self.setting.tenant.create(PODS, {"metadata": metadata, "spec": spec}, NS, "user")

    def delete(self, pod: Body, *, force: bool) -> None:
        """Delete a Pod as a user. Who does that by force, and with a node, answers for its namesakes."""
        metadata = pod["metadata"]
        if force and pod["spec"].get("nodeName"):
            self.tampered |= {metadata["name"], metadata["uid"]}
        grace = 0 if force else None
        self.setting.tenant.delete(PODS, metadata["name"], NS, grace_seconds=grace, who="user")

    def tenants_pods(self) -> list[Body]:
        return list(self.setting.tenant.every(PODS))

    # The operator, and what schedulers believe

    def judge(self, which: str, super_id: str, health: Health) -> None:
        scheduler = self.pods if which == "pods" else self.slices
        away = "since noon" if health in (Health.LOST, Health.SUSPECT) else ""
        scheduler.judge(super_id, health=health, out_of_touch=away)

    def drain(self, super_id: str, *, draining: bool) -> None:
        self._judge_all(super_id, draining=draining)

    def _judge_all(self, super_id: str, **changes: Any) -> None:
        self._views[super_id] = replace(self._views[super_id], **changes)
        self.pods.judge(super_id, **changes)
        self.slices.judge(super_id, **changes)

    def leave(self, super_id: str) -> None:
        """Let slices leave a super cluster that the namespace scheduler takes for lost."""
        if self.slices.views[super_id].health is Health.LOST:
            self.slices.leaving[super_id] = 0
            self.slices.add(NS)

    def transfer(self, source: str, target: str) -> None:
        placed = self.placements().get(source, 0)
        if placed and source != target:
            self.slices.transfers = (Transfer(source, target, 1, placed - 1),)
            self.slices.add(NS)

    def fence(self, super_id: str) -> None:
        """Switch the nodes of a super cluster off, and say so. Its syncer hears of it later."""
        self.supers[super_id].off = True
        self.setting.meta.patch(SUPER_CLUSTERS, super_id, {"spec": {"fenced": True}}, who="operator")
        self._judge_all(super_id, fenced=True, health=Health.LOST, out_of_touch="since noon")

    def hear_fence(self, super_id: str) -> None:
        """Let a syncer stop, since its super cluster is fenced."""
        if self.fenced(super_id) and super_id in self.syncers:
            self._end(self.syncers.pop(super_id))

    def fenced(self, super_id: str) -> bool:
        found = self.setting.meta.find(SUPER_CLUSTERS, super_id)
        return bool(found and found["spec"].get("fenced"))

    def unfence(self, super_id: str) -> None:
        """Act as `vcsync super unfence`: delete what tenants do not have any more, wait for its end, and let the syncer begin."""
        if not self.fenced(super_id):
            return
        self.hear_fence(super_id)
        there = self.supers[super_id]
        wanted = {
            pod["metadata"]["uid"]
            for pod in self.tenants_pods()
            if pod["metadata"].get("labels", {}).get(names.SUPER_CLUSTER) == super_id
            and "deletionTimestamp" not in pod["metadata"]
        }
        for copy in there.copies():
            if copy["metadata"]["annotations"][names.UID] not in wanted:
                there.api.delete(
                    PODS, copy["metadata"]["name"], copy["metadata"]["namespace"], grace_seconds=0
                )
        there.off = False
        self.setting.meta.patch(SUPER_CLUSTERS, super_id, {"spec": {"fenced": False}}, who="operator")
        self._judge_all(super_id, fenced=False, health=Health.READY, out_of_touch="")
        self.syncers[super_id] = Syncer(self.setting, there)

    def suspend(self, *, suspended: bool) -> None:
        self.setting.spec["suspended"] = suspended
        self.settings_changed()

    def cap(self, cpu: int) -> None:
        """Limit what the tenant may have; 0 for no limit."""
        self.setting.spec["quota"] = {"cpu": f"{cpu}m"} if cpu else {}
        self.watchdog.cap_changed()
        self.settings_changed()

    def clear_other(self, cpu: int) -> None:
        """Let another namespace of the tenant still hold so much of r3, of slices that it has lost."""
        if cpu <= self.watchdog.free("r3"):
            self.slices.others = {"r3": {"cpu": cpu}} if cpu else {}
            self.slices.add(NS)

    def grow(self, super_id: str) -> None:
        """Let the nodes of a super cluster take more Pods."""
        capacity = {**self._views[super_id].capacity, "pods": 40_000}
        self._judge_all(super_id, capacity=capacity)
        self.slices.add(NS)

    def capacity(self, super_id: str) -> Resources:
        return self._views[super_id].capacity

    def settings_changed(self) -> None:
        self.pods.settings_changed()
        self.slices.add(NS)

    # Processes

    def restart(self, which: str) -> None:
        """Let another process begin, with what its predecessor has stored."""
        if which == "pods":
            self.pods.end()
            self.pods = PodScheduler(self.setting, self.pods.views)
        elif which == "slices":
            before = self.slices
            before.end()
            self._terms += 1
            self.slices = NamespaceScheduler(self.setting, before.views, self._terms)
            self.slices.connected, self.slices.others = before.connected, before.others
        elif which in self.syncers:
            self._end(self.syncers[which])
            self.syncers[which] = Syncer(self.setting, self.supers[which])

    def _end(self, syncer: Syncer) -> None:
        """End a syncer. Its creations arrive before the next one begins, which does not know of them."""
        syncer.end()
        wire = self.setting.wire
        for request in [
            each for each in wire.late if each.who == syncer.name and each.what.startswith("create pods")
        ]:
            wire.late.remove(request)
            request.execute()

    def pass_time(self, seconds: float) -> None:
        self.setting.now += seconds
        self.setting.wire.forget(self.setting.now - UNANSWERED_SECONDS)

    # Rest

    def heal(self) -> None:
        """End all failures: everybody works and reaches everybody, and no request is on its way."""
        for super_id in SUPERS:
            self.unfence(super_id)
            self.supers[super_id].full = False
            for which in ("pods", "slices"):
                self.judge(which, super_id, Health.READY)
        self.slices.leaving.clear()
        for request in list(self.setting.wire.waiting):
            request.reply()
            self.setting.settle(AT_ONCE)
        for request in self.setting.wire.late:
            request.execute()
        self.setting.wire.late.clear()

    def settle(self) -> None:
        """Let everything work until nothing changes any more."""
        changes, quiet_since, before = 0, self.setting.now, self._written()
        while changes < ROUNDS:
            for process in self.processes():
                process.work()
            for each in self.supers.values():
                each.work()
            self.watchdog.look()
            if self._written() != before:
                changes, quiet_since, before = changes + 1, self.setting.now, self._written()
                continue
            if self.setting.now - quiet_since > QUIET_SECONDS:
                return
            due = [when for process in self.processes() for when in process.later.values()]
            self.pass_time(max(0.1, min([*due, quiet_since + QUIET_SECONDS + 1]) - self.setting.now))
        raise AssertionError("the pool never comes to rest")

    def _written(self) -> int:
        servers = [self.setting.tenant, self.setting.meta, *(each.api for each in self.supers.values())]
        return sum(len(each.log) for each in servers)

    # The ledger

    def entry(self) -> Body | None:
        return self.setting.meta.find(NAMESPACE_PLACEMENTS, NS, KEY)

    def placements(self) -> dict[str, int]:
        entry = self.entry()
        return {} if entry is None else dict(entry.get("status", {}).get("placements") or {})

    def held_by(self, super_id: str) -> bool:
        """Return whether a super cluster may have objects of the namespace, by the ledger."""
        entry = self.entry()
        finalizers = [] if entry is None else entry["metadata"].get("finalizers", [])
        return super_id in self.placements() or names.drain_finalizer(super_id) in finalizers

    def slices_gone(self, super_id: str) -> bool:
        """Return whether a super cluster has no slices of the namespace."""
        return not self.placements().get(super_id)

    def drains(self) -> dict[str, str]:
        """Return why the namespace is not drained, by super cluster."""
        found = {name: syncer.drain.reasons.get((KEY, NS), "") for name, syncer in self.syncers.items()}
        return {name: reason for name, reason in found.items() if reason}


def _view(super_id: str) -> SuperView:
    return SuperView(super_id, Health.READY, from_quantities(CAPACITY))
