"""A tenant's Pods in memory, for tests of the Pod scheduler."""

import json
from collections import Counter
from typing import Any

from vcsync.api.names import SUPER_CLUSTER
from vcsync.kube.cache import Cache
from vcsync.kube.errors import Conflict, NotFound, Status
from vcsync.objects.envelope import Envelope, parse
from vcsync.objects.generated_names import SUFFIX
from vcsync.objects.merge_patch import merge_patch
from vcsync.podscheduler.pods import Pod, slim
from vcsync.podscheduler.tenant import TenantPods
from vcsync.scheduling.snapshot import Health, SuperView

NS = "shop"
SIZE = {"cpu": 100, "memory": 100 * 1024 * 1024 * 1000}


class Tenant:
    """A tenant's Pods in memory, watched by the scheduler under test; `settle` works its queue off."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.views = {super_id: SuperView(super_id, Health.READY, {}) for super_id in ("r1", "r2")}
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.events: list[tuple[str, str]] = []
        self.fail: list[Exception] = []
        self.queue: list[tuple[tuple[str, str], bool]] = []
        self.version = 0
        self.made: Counter[str] = Counter()
        self.now = 0.0
        self.later: list[tuple[tuple[str, str], float]] = []
        self.held: set[str] | None = None  # super clusters that hold the namespace by the ledger; None: all
        self.live: set[str] | None = None  # those that may run its Pods by live reads; None: as is known
        self.restart()

    def restart(self) -> None:
        """Begin a new term, which knows nothing. The caller grants slices and begins."""
        self.queue.clear()
        self.later.clear()
        self.cache = Cache()
        self.pods = TenantPods(
            self, lambda: self.views, self.add, self.add_after, lambda: self.now, holds=self.holds
        )
        for body in self.objects.values():
            self.observe(parse(json.dumps(body).encode()))

    # The API server

    def create(self, name: str, cpu: str = "50m", **fields: Any) -> None:
        """Create a Pod. The last five characters of a generated name are the API server's."""
        self.made[name] += 1
        uid = f"uid-{name}" if self.made[name] == 1 else f"uid-{name}-{self.made[name]}"
        metadata = {"name": name, "namespace": NS, "uid": uid, "labels": fields.pop("labels", {})}
        if fields.pop("generated", False):
            metadata["generateName"] = name[:-SUFFIX]
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        self.store(name, {"metadata": metadata, "spec": {"containers": [container], **fields}})

    def store(self, name: str, body: dict[str, Any]) -> Envelope:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[name] = body
        envelope = parse(json.dumps(body).encode())
        self.observe(envelope)
        return envelope

    def delete(self, name: str) -> None:
        uid = self.objects.pop(name)["metadata"]["uid"]
        self.gone(NS, name, uid)

    def end(self, name: str) -> None:
        """Delete a Pod as a user does. Finalizers keep it, and so does its node."""
        found = self.objects[name]
        if not (found["metadata"].get("finalizers") or found["spec"].get("nodeName")):
            self.delete(name)
            return
        found["metadata"].setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
        self.store(name, found)

    def observe(self, envelope: Envelope) -> None:
        change = self.cache.observe(slim(envelope))
        if change is not None:
            self.pods.observe(change)

    # The arguments of the scheduler

    def add(self, item: tuple[str, str], urgent: bool) -> None:
        if (item, urgent) not in self.queue:
            self.queue.append((item, urgent))

    def add_after(self, item: tuple[str, str], delay: float) -> None:
        self.later.append((item, self.now + delay))

    async def patch(self, namespace: str, name: str, patch: dict[str, Any]) -> None:
        self.patches.append((name, patch))
        if self.fail:
            raise self.fail.pop()
        if namespace != NS or name not in self.objects:
            raise NotFound(Status(404))
        present = self.objects[name]["metadata"]
        if patch["metadata"]["resourceVersion"] != present["resourceVersion"]:
            raise Conflict(Status(409))
        changed = merge_patch(self.objects[name], patch)
        ends = "deletionTimestamp" in changed["metadata"] and not changed["spec"].get("nodeName")
        if ends and not changed["metadata"].get("finalizers"):
            self.delete(name)
        else:
            self.store(name, changed)

    async def patch_claim(self, claim: Envelope, change: dict[str, Any]) -> None:
        raise AssertionError(f"no claim is expected, {claim.name} was patched: {change}")

    async def still_holds(self, namespace: str, super_id: str) -> bool:
        raise AssertionError(f"no claim leaves {super_id}")

    async def may_run(self, namespace: str, super_id: str) -> bool:
        if self.live is not None:
            return super_id in self.live
        return self.holds(namespace, super_id) and super_id in self.views and not self.views[super_id].fenced

    def holds(self, namespace: str, super_id: str) -> bool:
        return namespace == NS and (self.held is None or super_id in self.held)

    async def patch_status(self, namespace: str, name: str, patch: dict[str, Any]) -> None:
        self.patches.append((name, patch))
        if self.fail:
            raise self.fail.pop()
        if namespace != NS or name not in self.objects:
            raise NotFound(Status(404))
        self.store(name, self.objects[name] | {"status": patch["status"]})

    def gone(self, namespace: str, name: str, uid: str) -> None:
        change = self.cache.observe_gone(namespace, name, uid)
        if change is not None:
            self.pods.observe(change)

    def emit(self, pod: Pod, message: str) -> None:
        self.events.append((pod.name, message))

    # Steps of tests

    async def settle(self) -> None:
        for _ in range(1000):
            if not self.queue:
                return
            key, _ = self.queue.pop(0)
            if key[1]:
                await self.pods.schedule(key)
            else:
                self.pods.wake(key[0])
        raise AssertionError("it does not settle")

    def look(self) -> None:
        """Let the scheduler look at the Pods that it is to look at again, and decide on none."""
        while any(not name for (_, name), _ in self.queue):
            namespace = next(namespace for (namespace, name), _ in self.queue if not name)
            self.queue.remove(((namespace, ""), False))
            self.pods.wake(namespace)

    async def pass_time(self) -> None:
        for item, due in self.later:
            self.now = max(self.now, due)
            self.add(item, False)
        self.later.clear()
        await self.settle()

    def home(self, name: str) -> str:
        metadata = self.objects[name]["metadata"]
        label = metadata["labels"].get(SUPER_CLUSTER, "")
        assert metadata.get("annotations", {}).get(SUPER_CLUSTER, "") == label
        return label
