"""What always holds, and what holds when everything has come to rest."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement
from vcsync.api.refusals import RETURNED, WITHDRAWN, said_by
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.kube.resources import PODS, Resource
from vcsync.objects.quantity import milli
from vcsync.scheduling.resources import Resources, add, times
from vcsync.tenancy.distribution import entry_of

from .api_server import Body, Event, envelope, has_ended
from .setting import NS, SUPERS
from .wire import Request

if TYPE_CHECKING:
    from .world import World

CAPACITY = {"cpu": "400m", "memory": "400Mi", "pods": "8"}
"""Amounts of each super cluster."""


class Broken(AssertionError):
    """An invariant does not hold."""


class Watchdog:
    """Looks at each write, and at everything after each step."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._versions: dict[str, int] = {}
        """UID of a tenant's Pod -> version of the ledger at its creation."""
        self._without: dict[str, int] = {}
        """Super cluster -> last version of the ledger in which it had no slices of the namespace."""
        self._used: Resources = {}
        self._old_orders: list[Request] = []
        world.setting.tenant.admit.append(self._check_tenants)
        world.setting.meta.written.append(self._check_ledger)
        for super_id, each in world.supers.items():
            each.api.admit.append(
                lambda verb, resource, body, who, here=super_id: self._check_copies(
                    verb, resource, body, who, here
                )
            )

    # Every step

    def look(self) -> None:
        """Check that nothing runs twice, and that no role has failed."""
        world = self._world
        if world.setting.crashes:
            raise world.setting.crashes[0]
        uids, places = defaultdict(set), defaultdict(set)
        for super_id, there in world.supers.items():
            for copy in there.copies():
                if there.runs(copy):
                    uid = copy["metadata"]["annotations"][names.UID]
                    uids[uid].add(super_id)
                    if not copy["metadata"]["name"].startswith("web-"):
                        places[copy["metadata"]["name"]].add(super_id)
        for found, what in ((uids, "Pod"), (places, "name")):
            for each, supers in found.items():
                if len(supers) > 1 and each not in world.tampered:
                    raise Broken(f"{what} {each} runs on {', '.join(sorted(supers))}")

    # Deletions

    def _check_tenants(self, verb: str, resource: Resource, body: Body, who: str) -> None:
        metadata = body["metadata"]
        if resource != PODS:
            return
        if verb == "create":
            self._versions[metadata["uid"]] = self._world.setting.meta.version
            return
        if verb != "delete" or who == "user" or "deletionTimestamp" in metadata:
            return
        syncer = who.removeprefix("eviction by ")
        if syncer not in SUPERS:
            if not self._world.setting.spec.get("failover"):
                raise Broken(f"{who} deletes Pod {metadata['name']}, which its policy forbids")
            return
        if self._has_been_drained(syncer, metadata["uid"]) or metadata["uid"] in self._world.tampered:
            return
        if who != syncer:
            raise Broken(f"{syncer} evicts Pod {metadata['name']}, whose slices it has")
        node = body["spec"].get("nodeName", "")
        if node and names.super_cluster_of_node(node) != syncer:
            raise Broken(f"{syncer} deletes Pod {metadata['name']}, which runs on {node}")
        if any(
            copy["metadata"]["annotations"][names.UID] == metadata["uid"]
            for copy in self._world.supers[syncer].copies()
            if "deletionTimestamp" not in copy["metadata"] and not has_ended(copy)
        ):
            raise Broken(f"{syncer} deletes Pod {metadata['name']}, though its copy is there")
        if not node:
            raise Broken(f"{syncer} deletes Pod {metadata['name']}, which is not bound to it")

    def _has_been_drained(self, super_id: str, uid: str) -> bool:
        """Return whether a super cluster had no slices at a time since a Pod was created."""
        return self._without.get(super_id, 0) >= self._versions.get(uid, 0) or self._world.slices_gone(
            super_id
        )

    def _check_copies(self, verb: str, resource: Resource, body: Body, who: str, here: str) -> None:
        """Check that a syncer deletes the copies only of Pods that are not its own any more."""
        if verb != "delete" or resource != PODS or who != here:
            return
        uid = body["metadata"]["annotations"].get(names.UID, "")
        found = [each for each in self._world.tenants_pods() if each["metadata"]["uid"] == uid]
        if not found or uid in self._world.tampered or self._has_been_drained(here, uid):
            return
        metadata = found[0]["metadata"]
        if "deletionTimestamp" in metadata or has_ended(found[0]):
            return
        if names.super_cluster_of_node(found[0]["spec"].get("nodeName", "")) == here:
            raise Broken(f"{here} deletes the copy of Pod {metadata['name']}, which is bound to it")
        state = said_by(metadata.get("annotations", {}), here).state
        if metadata.get("labels", {}).get(names.SUPER_CLUSTER) == here and state not in (WITHDRAWN, RETURNED):
            raise Broken(f"{here} deletes the copy of Pod {metadata['name']}, which is assigned to it")

    # Slices

    def cap_changed(self) -> None:
        """Note the decisions that were made under another cap and may still be written."""
        wire = self._world.setting.wire
        self._old_orders = [each for each in (*wire.waiting, *wire.late) if each.who == "slices"]

    def _check_ledger(self, event: Event) -> None:
        if event.plural != NAMESPACE_PLACEMENTS.plural:
            return
        for super_id in SUPERS:
            if not self._world.placements().get(super_id):
                self._without[super_id] = self._world.setting.meta.version
        if event.after is None:
            self._used = {}
            return
        entry = entry_of(NamespacePlacement.from_envelope(event.envelope))
        others = self._world.slices.others
        for super_id in {**entry.placements, **entry.clearing}:
            most = self._world.capacity(super_id)
            for name, amount in add(entry.holds(super_id), others.get(super_id, {})).items():
                if amount > most.get(name, amount):
                    raise Broken(f"{name} of {super_id}: {amount} of {most[name]} are distributed")
        used: Resources = {}
        for slices in entry.placements.values():
            used = add(used, times(entry.size, slices))
        before, self._used = self._used, used
        wire = self._world.setting.wire
        if any(each in wire.waiting or each in wire.late for each in self._old_orders):
            return
        for name, limit in self._cap().items():
            left = limit - sum(amounts.get(name, 0) for amounts in others.values())
            if used.get(name, 0) > max(left, before.get(name, 0)):
                raise Broken(f"{name}: {used[name]} are distributed, and the cap leaves {left}")

    def free(self, super_id: str) -> int:
        """Return how much CPU of a super cluster is not distributed, in thousandths."""
        found = self._world.entry()
        held = (
            {}
            if found is None
            else entry_of(NamespacePlacement.from_envelope(envelope(found))).holds(super_id)
        )
        return self._world.capacity(super_id)["cpu"] - held.get("cpu", 0)

    def _cap(self) -> dict[str, int]:
        return {name: milli(amount) for name, amount in self._world.setting.spec.get("quota", {}).items()}

    # Rest

    def look_at_rest(self) -> None:
        """Check a pool in which nothing happens any more."""
        self.look()
        self._copies_belong()
        self._pods_wait_with_a_reason()
        self._orders_have_arrived()

    def _copies_belong(self) -> None:
        labels = {each["metadata"]["uid"]: _label(each) for each in self._world.tenants_pods()}
        for super_id, there in self._world.supers.items():
            for copy in there.copies():
                uid = copy["metadata"]["annotations"][names.UID]
                # Nobody follows the label of a Pod that has finished: its tenant may have changed it.
                relabelled = uid in labels and uid in self._world.tampered
                if labels.get(uid) != super_id and not relabelled:
                    said = f"is assigned to {labels[uid] or 'none'}" if uid in labels else "does not exist"
                    raise Broken(f"{super_id} keeps the copy of {copy['metadata']['name']}, which {said}")

    def _pods_wait_with_a_reason(self) -> None:
        world = self._world
        for pod in world.tenants_pods():
            metadata = pod["metadata"]
            if has_ended(pod) or metadata["uid"] in world.tampered:
                continue
            if "deletionTimestamp" in metadata:
                raise Broken(f"Pod {metadata['name']} never ends")
            home = names.super_cluster_of_node(pod["spec"].get("nodeName", ""))
            if home:
                copies = [each["metadata"]["annotations"][names.UID] for each in world.supers[home].copies()]
                if metadata["uid"] not in copies:
                    raise Broken(f"Pod {metadata['name']} is bound to {home}, which does not run it")
            elif not self._reason(pod):
                raise Broken(
                    f"Pod {metadata['name']} waits on {_label(pod) or 'no super cluster'} without a reason"
                )

    def _reason(self, pod: Body) -> str:
        """Return what a tenant can read about a Pod that waits."""
        world, metadata = self._world, pod["metadata"]
        label = _label(pod)
        here = world.syncers[label].reason(NS, metadata["name"]) if label in world.syncers else ""
        conditions = pod["status"].get("conditions", [])
        said = [each.get("message", "") for each in conditions if each["type"] == "PodScheduled"]
        return here or world.pods.told.get(metadata["uid"], "") or "".join(said)

    def _orders_have_arrived(self) -> None:
        world = self._world
        suspended = world.setting.spec.get("suspended", False)
        for super_id, there in world.supers.items():
            if not (suspended or (world.slices.views[super_id].draining and self._is_room())):
                continue
            if world.held_by(super_id):
                raise Broken(f"{super_id} is not drained: {world.drains().get(super_id)}")
            if there.copies():
                raise Broken(f"{super_id} is drained and has copies")
        entry = world.entry()
        for name, limit in self._cap().items():
            if entry is not None and self._used.get(name, 0) > limit:
                raise Broken(f"{name}: {self._used[name]} are distributed at last, and the cap is {limit}")

    def _is_room(self) -> bool:
        """Return whether a super cluster that is not drained could take another slice, so that those of others can leave."""
        found = self._world.entry()
        if found is None:
            return True
        entry = entry_of(NamespacePlacement.from_envelope(envelope(found)))
        for super_id, view in self._world.slices.views.items():
            most = self._world.capacity(super_id)
            after = add(add(entry.holds(super_id), entry.size), self._world.slices.others.get(super_id, {}))
            if not view.draining and all(after.get(name, 0) <= amount for name, amount in most.items()):
                return True
        return not entry.placements


def _label(pod: Body) -> str:
    return pod["metadata"].get("labels", {}).get(names.SUPER_CLUSTER, "")
