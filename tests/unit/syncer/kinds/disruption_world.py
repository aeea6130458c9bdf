"""A tenant and super clusters with delayed caches: disruption controllers, evictions and syncers, one step at a time."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from vcsync.api import names
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope, parse
from vcsync.objects.merge_patch import merge_patch
from vcsync.syncer.kinds.disruption_floors import CLOSED
from vcsync.syncer.kinds.plan import Patch, Placement, TenantContext
from vcsync.syncer.kinds.poddisruptionbudget import convert, plan

KEY = "acme-1a2b3c-main"
LABELS = {"app": "web"}
Json = dict[str, Any]


def context(super_id: str) -> TenantContext:
    return TenantContext(
        key=KEY,
        vc_name="main",
        vc_namespace="acme",
        vc_uid="u",
        super_id=super_id,
        api_host="10.0.0.1",
        api_port=443,
    )


class Server:
    """One budget at one API server."""

    def __init__(self, uid: str, spec: Json, metadata: Json) -> None:
        self.stored: Json = {
            "metadata": {
                "name": "web",
                "uid": uid,
                "generation": 1,
                "resourceVersion": "1",
                "annotations": {},
                "labels": {},
                **metadata,
            },
            "spec": spec,
            "status": {},
        }

    @property
    def version(self) -> str:
        return str(self.stored["metadata"]["resourceVersion"])

    def read(self) -> Json:
        return copy.deepcopy(self.stored)

    def patch(self, patch: Mapping[str, Any]) -> bool:
        """Apply a merge patch with its preconditions. Return whether they held."""
        wanted = patch.get("metadata", {}).get("resourceVersion", self.version)
        if wanted != self.version:
            return False
        before = self.stored
        self.stored = merge_patch(self.stored, copy.deepcopy(dict(patch)))
        if self.stored["spec"] != before["spec"]:
            self.stored["metadata"]["generation"] += 1
        self.stored["metadata"]["resourceVersion"] = str(int(self.version) + 1)
        return True


class Controller:
    """A disruption controller. It counts Pods from a cache, and writes with the version of the budget in its cache."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.budget = server.read()
        self.pods: dict[str, bool] = {}

    def see_budget(self) -> None:
        self.budget = self.server.read()

    def count(self) -> bool:
        budget = self.budget
        disrupted = {
            name: when
            for name, when in budget["status"].get("disruptedPods", {}).items()
            if name in self.pods
        }
        healthy = sum(ready for name, ready in self.pods.items() if name not in disrupted)
        desired = budget["spec"]["minAvailable"]
        allowed = max(0, healthy - desired) if self.pods else 0
        status = {
            "observedGeneration": budget["metadata"]["generation"],
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "expectedPods": len(self.pods),
            "disruptedPods": disrupted,
        }
        if status == budget["status"] or budget["metadata"]["resourceVersion"] != self.server.version:
            return False
        self.server.stored["status"] = status
        return self.server.patch({})


class SuperCluster:
    """A super cluster and its syncer."""

    def __init__(self, super_id: str, tenant: Server, spec: Json) -> None:
        self.id = super_id
        self.context = context(super_id)
        annotations = {
            names.CLUSTER: KEY,
            names.UID: "uid-v",
            names.NAMESPACE: "shop",
            names.VC_NAME: "main",
            names.VC_NAMESPACE: "acme",
        }
        labels = {
            names.CONTROLLED: names.TRUE,
            names.VC_NAME: "main",
            names.VC_NAMESPACE: "acme",
        }
        where = {
            "namespace": names.super_namespace(KEY, "shop"),
            "annotations": annotations,
            "labels": labels,
        }
        self.server = Server(f"uid-{super_id}", convert(spec, CLOSED, self.context), where)
        self.controller = Controller(self.server)
        self.pods: dict[str, bool] = {}
        """Name -> whether it is ready; without those that have been evicted or deleted."""
        self.doomed: set[str] = set()
        """Evicted, and not yet deleted."""
        self.cordoned: set[str] = set()
        """Pods on unschedulable nodes."""
        self.tenant = tenant
        self.cached_v = tenant.read()
        self.cached_p = self.server.read()
        self.cached_leaving: dict[str, bool] = {}
        self.in_flight: list[Patch] = []
        self.writes = 0

    def evict(self, name: str) -> bool:
        """Return whether the API server permits an eviction."""
        stored = self.server.stored
        status = stored["status"]
        if not self.pods[name] and stored["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
            del self.pods[name]
            return True
        if status.get("observedGeneration", 0) < stored["metadata"]["generation"]:
            return False
        if status["disruptionsAllowed"] <= 0:
            return False
        disrupted = {**status["disruptedPods"], name: "now"}
        self.server.patch(
            {"status": {"disruptionsAllowed": status["disruptionsAllowed"] - 1, "disruptedPods": disrupted}}
        )
        self.doomed.add(name)
        return True

    def healthy(self) -> int:
        return sum(ready for name, ready in self.pods.items() if name not in self.doomed)

    # --- the syncer; it is the View of its plans

    def see(self, *, v: bool = True, p: bool = True, pods: bool = True) -> None:
        if v:
            self.cached_v = self.tenant.read()
        if p:
            self.cached_p = self.server.read()
        if pods:
            self.cached_leaving = {name: self.pods[name] for name in self.cordoned if name in self.pods}

    def plan(self, world: World) -> None:
        """Decide from the caches. The first write is in flight until `act`."""
        self.world = world
        found = plan(_envelope(self.cached_v), _envelope(self.cached_p), self.context, self)
        assert all(isinstance(action, Patch) for action in found.actions)
        assert len(found.actions) <= 1
        self.in_flight = [action for action in found.actions if isinstance(action, Patch)]

    def act(self) -> bool:
        """Send the write in flight. The answer updates the cache."""
        if not self.in_flight:
            return False
        action = self.in_flight.pop()
        side = self.tenant if action.side == "tenant" else self.server
        if action.side == "tenant":
            assert set(action.patch) == {"metadata"}
        done = side.patch(action.patch)
        self.writes += done
        self.see(v=action.side == "tenant", p=action.side == "super", pods=False)
        return done

    def restart(self) -> None:
        self.in_flight = []
        self.see()

    def tenant_object(self) -> None:
        raise AssertionError("not read")

    def super(self, resource: Resource, namespace: str, name: str) -> None:
        raise AssertionError("not read")

    def placement(self, _: str) -> Placement:
        return Placement(dict.fromkeys(self.world.supers, 1), {}, {})

    def deletion_seen(self, *_: str) -> bool:
        return False

    def on_cordoned_nodes(self, _: str) -> Iterator[Envelope]:
        for name, ready in self.cached_leaving.items():
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
            yield Envelope(name, labels=LABELS, status=json.dumps(status).encode())

    def turn(self, _: float) -> int:
        return self.world.time


class World:
    """Everything. `least` is the smallest number of healthy Pods that the tenant accepted while a copy was open."""

    def __init__(self, minimum: int, pods: Mapping[str, int]) -> None:
        spec: Json = {"minAvailable": minimum, "selector": {"matchLabels": LABELS}}
        self.server = Server("uid-v", spec, {"namespace": "shop"})
        self.controller = Controller(self.server)
        self.supers = {each: SuperCluster(each, self.server, spec) for each in pods}
        self.replicas = sum(pods.values())
        self.least = minimum
        self.time = 0
        self.made = 0
        self.evicted = 0
        self.known: dict[str, tuple[str, bool]] = {}
        """The tenant's Pods: name -> super cluster, and readiness as it was reported."""
        for super_id, count in pods.items():
            for _ in range(count):
                self.supers[super_id].pods[self.make(super_id)] = True
        for _ in range(6):
            self.fair_round()

    def make(self, super_id: str) -> str:
        self.made += 1
        name = f"web-{self.made}"
        self.known[name] = (super_id, False)
        return name

    def healthy(self) -> int:
        return sum(each.healthy() for each in self.supers.values())

    def is_closed(self) -> bool:
        return all(
            each.server.stored["spec"]["minAvailable"] == CLOSED
            and not any(action.side == "super" for action in each.in_flight)
            for each in self.supers.values()
        )

    def demand(self, minimum: int) -> None:
        """The tenant changes `minAvailable`."""
        if self.server.stored["spec"]["minAvailable"] != minimum:
            self.server.patch({"spec": {"minAvailable": minimum}})
        self.least = min(self.least, minimum)

    def see_closed(self) -> None:
        """Forget what the tenant demanded before, once all copies are closed and all syncers have seen the change."""
        generation = self.server.stored["metadata"]["generation"]
        seen = all(each.cached_v["metadata"]["generation"] == generation for each in self.supers.values())
        if seen and self.is_closed():
            self.least = self.server.stored["spec"]["minAvailable"]

    def evict(self, super_id: str, name: str) -> bool:
        there = self.supers[super_id]
        was_ready = there.pods[name]
        if not there.evict(name):
            return False
        self.evicted += 1
        if was_ready:
            assert self.healthy() >= self.least, "more Pods are disrupted than the budget allows"
        return True

    def delete_doomed(self, super_id: str) -> None:
        there = self.supers[super_id]
        for name in there.doomed:
            there.pods.pop(name, None)
        there.doomed.clear()

    def report(self, super_id: str) -> None:
        """The syncer reports the Pods of a super cluster to the tenant."""
        there = self.supers[super_id]
        for name, (owner, _) in list(self.known.items()):
            if owner != super_id:
                continue
            if name in there.pods:
                self.known[name] = (owner, there.pods[name])
            else:
                del self.known[name]

    def replace(self, super_id: str) -> None:
        """The tenant's ReplicaSet creates a missing Pod, which starts in a super cluster."""
        if len(self.known) < self.replicas:
            self.supers[super_id].pods[self.make(super_id)] = False

    def start(self, super_id: str) -> None:
        there = self.supers[super_id]
        for name in there.pods:
            there.pods[name] = True

    def count_in_super(self, super_id: str) -> None:
        there = self.supers[super_id]
        there.controller.pods = dict(there.pods)

    def fair_round(self, *, evict: bool = True, target: str = "") -> bool:
        """Let everybody do everything once. Return whether anything was written."""
        before = self.versions()
        for super_id, there in self.supers.items():
            there.see()
            there.plan(self)
            there.act()
            self.count_in_super(super_id)
            there.controller.see_budget()
            there.controller.count()
            for name in sorted(there.cordoned & set(there.pods) - there.doomed) if evict else ():
                self.evict(super_id, name)
            self.delete_doomed(super_id)
            self.start(super_id)
            self.report(super_id)
        if target:
            while len(self.known) < self.replicas:
                self.replace(target)
        self.controller.pods = {name: ready for name, (_, ready) in self.known.items()}
        self.controller.see_budget()
        self.controller.count()
        return before != self.versions()

    def versions(self) -> list[str]:
        return [self.server.version, *(each.server.version for each in self.supers.values())]

    def claims(self) -> dict[str, Json]:
        return {
            key.removeprefix(names.DISRUPTIONS_PREFIX): json.loads(value)
            for key, value in self.server.stored["metadata"]["annotations"].items()
        }


def _envelope(stored: Json) -> Envelope:
    return parse(json.dumps(stored).encode())


def wander(world: World, random: Random, steps: int) -> None:
    """Let everybody act in an order that a random number generator chooses, each from caches of any age."""
    supers = list(world.supers.values())
    for there in supers:
        there.cordoned = {name for name in there.pods if random.random() < 0.6}
    # In each history others are slow.
    weights = [weight * random.choice((0.1, 1, 1, 3)) for weight in _WEIGHTS]
    for _ in range(steps):
        world.see_closed()
        there = random.choice(supers)
        match random.choices(_ACTS, weights)[0]:
            case "see":
                there.see(v=random.random() < 0.6, p=random.random() < 0.6, pods=random.random() < 0.6)
            case "plan":
                if not there.in_flight:
                    there.plan(world)
            case "act":
                there.act()
            case "restart":
                there.restart()
            case "count":
                if random.random() < 0.7:
                    world.count_in_super(there.id)
                if random.random() < 0.7:
                    there.controller.see_budget()
                there.controller.count()
            case "tenant counts":
                if random.random() < 0.7:
                    world.controller.pods = {name: ready for name, (_, ready) in world.known.items()}
                if random.random() < 0.7:
                    world.controller.see_budget()
                world.controller.count()
            case "evict":
                if found := sorted(set(there.pods) - there.doomed):
                    world.evict(there.id, random.choice(found))
            case "end":
                world.delete_doomed(there.id)
            case "report":
                world.report(there.id)
            case "replace":
                world.replace(there.id)
            case "start":
                world.start(there.id)
            case "cordon":
                there.cordoned = {name for name in there.pods if random.random() < 0.5}
            case "uncordon":
                there.cordoned = set()
            case "change":
                world.demand(random.randint(0, world.replicas))
            case "time":
                world.time += 1


_ACTS, _WEIGHTS = zip(
    *(
        ("see", 8),
        ("plan", 8),
        ("act", 8),
        ("restart", 0.2),
        ("count", 8),
        ("tenant counts", 6),
        ("evict", 8),
        ("end", 3),
        ("report", 4),
        ("replace", 3),
        ("start", 3),
        ("cordon", 0.4),
        ("uncordon", 0.1),
        ("change", 0.2),
        ("time", 0.2),
    ),
    strict=True,
)
