"""A third of the tenants hangs or is slow: the other tenants are served nevertheless, over real connections."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import pytest
from aiohttp import web
from hanging_kit import Api, Json, Turns, for_ever, kubeconfig, served

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.nsscheduler import NamespaceScheduler
from vcsync.syncer.service import Syncer

SLOW = 1000
"""So many answers of others a slow tenant waits for with each of its own."""


class World:
    """A meta cluster, a super cluster with room for all, and tenants with a namespace, a quota and a Pod each."""

    def __init__(self, hanging: str, tenants: int, role: str) -> None:
        turns = Turns(SLOW)

        async def hangs(verb: str) -> None:
            if hanging == "slow":
                await turns.slow(verb)
            elif verb == "write" or (verb == "list" and hanging == "lists"):
                await for_ever()

        self.meta = Api()
        self.super = Api()
        self.super.created = self._kubelet
        # Hanging ones come first in every order by name.
        self.hanging = [f"a{number:03}" for number in range(tenants // 3)]
        self.healthy = [f"b{number:03}" for number in range(tenants - tenants // 3)]
        self.accepted = 0
        self.tenants = {name: Api(hangs) for name in self.hanging} | {
            name: Api(turns.fast) for name in self.healthy
        }
        self._deaf = self.hanging if hanging == "everything" else []
        self._role = role

    def fill(self, url: str, deaf_url: str) -> None:
        """Create the servers and their objects."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.meta.put(
            "superclusters",
            {
                "metadata": {"name": "r1"},
                "spec": {"id": "r1"},
                "status": {
                    "allocatable": {"cpu": "4000", "memory": "8000Gi", "pods": "100000"},
                    "largestNode": {"cpu": "64", "memory": "256Gi", "pods": "110"},
                    "conditions": [
                        {"type": kind, "status": "True", "reason": "Ok", "lastTransitionTime": now}
                        for kind in ("Reachable", "Ready")
                    ],
                    "heartbeatTime": now,
                },
            },
        )
        self.super.put(
            "configmaps",
            {"metadata": {"name": names.SUPER_CLUSTER_INFO}, "data": {names.SUPER_CLUSTER_INFO_KEY: "r1"}},
            names.SUPER_CLUSTER_INFO_NAMESPACE,
        )
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        self.super.put("nodes", {"metadata": {"name": "n1"}, "spec": {}, "status": {"conditions": [ready]}})
        for name, api in self.tenants.items():
            self._tenant(name, api, deaf_url if name in self._deaf else f"{url}/t/{name}")

    def _tenant(self, name: str, api: Api, url: str) -> None:
        root = f"root-{name}"
        secret = {
            "metadata": {"name": names.role_secret(self._role)},
            "data": {names.KUBECONFIG_KEY: base64.b64encode(kubeconfig(url)).decode()},
        }
        self.meta.put("secrets", secret, root)
        record = {"metadata": {"name": name}, "status": {"phase": "Running", "clusterNamespace": root}}
        self.meta.put("virtualclusters", record, "vcsync")
        api.put("namespaces", {"metadata": {"name": "kube-system"}})
        self.quota(name, "shop")

    def quota(self, tenant: str, namespace: str) -> None:
        """Create a tenant's namespace with a quota."""
        self.tenants[tenant].put("namespaces", {"metadata": {"name": namespace}})
        hard = {"requests.cpu": "2", "requests.memory": "4Gi"}
        body = {"metadata": {"name": "all"}, "spec": {"hard": hard}}
        self.tenants[tenant].put("resourcequotas", body, namespace)

    def place(self, tenant: str) -> None:
        """Write the placements of a tenant's namespace, like the namespace scheduler."""
        size = {"cpu": "2", "memory": "4Gi", "pods": "10"}
        spec = {
            "virtualCluster": {
                "name": tenant,
                "namespace": "vcsync",
                "uid": f"uid-virtualclusters-vcsync-{tenant}",
            },
            "tenant": f"root-{tenant}",
            "namespace": "shop",
            "namespaceUID": "uid-namespaces--shop",
            "quota": {"cpu": "2", "memory": "4Gi"},
            "sliceSize": size,
            "slices": 1,
        }
        status = {"placements": {"r1": 1}, "sliceSize": size}
        metadata = {"name": "shop", "finalizers": [names.drain_finalizer("r1")]}
        self.meta.put(
            "namespaceplacements", {"metadata": metadata, "spec": spec, "status": status}, f"root-{tenant}"
        )
        self.tenants[tenant].put("serviceaccounts", {"metadata": {"name": "default"}}, "shop")

    def pod(self, tenant: str, name: str) -> None:
        """Create a tenant's Pod that the pod scheduler assigns to this super cluster."""
        spec = {
            "automountServiceAccountToken": False,
            "serviceAccountName": "default",
            "dnsPolicy": "Default",
            "containers": [{"name": "c", "image": "i"}],
        }
        metadata = {"name": name, "labels": {names.SUPER_CLUSTER: "r1"}}
        self.tenants[tenant].put("pods", {"metadata": metadata, "spec": spec, "status": {}}, "shop")

    def _kubelet(self, plural: str, body: Json) -> None:
        """Let a Pod of the super cluster run."""
        if plural != "pods":
            return
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        running = body | {
            "spec": body["spec"] | {"nodeName": "n1"},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [condition]},
        }
        self.super.put("pods", running, body["metadata"]["namespace"])

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request to the cluster in its URL."""
        _, kind, path = request.path.split("/", 2)
        if kind == "t":
            name, inner = path.split("/", 1)
            return await self.tenants[name].answer(request, inner)
        return await (self.meta if kind == "meta" else self.super).answer(request, path)

    def accept(self) -> None:
        """Count a connection that is never answered."""
        self.accepted += 1

    def held(self) -> int:
        """Return the number of the role's requests without an answer."""
        return self.accepted + sum(api.unanswered for api in self.tenants.values())

    def dealt(self) -> list[str]:
        """Return the tenants whose namespace has its slices and the annotation."""
        return [
            name
            for name, api in self.tenants.items()
            if names.PLACEMENTS in api.objects["namespaces", "", "shop"]["metadata"].get("annotations", {})
            and self.meta.objects.get(("namespaceplacements", f"root-{name}", "shop"), {}).get("status")
        ]

    def running(self, pod: str) -> list[str]:
        """Return the tenants whose Pod of that name is bound and Running."""
        found = {name: api.objects.get(("pods", "shop", pod), {}) for name, api in self.tenants.items()}
        return [
            name
            for name, body in found.items()
            if body.get("spec", {}).get("nodeName") == "n1.r1" and body["status"].get("phase") == "Running"
        ]


@asynccontextmanager
async def at_work(world: World) -> AsyncIterator[None]:
    """Run the world's role and its servers."""
    async with served(world.handle, world.accept) as (url, deaf_url):
        world.fill(url, deaf_url)
        async with (
            Client(Connection.from_kubeconfig_bytes(kubeconfig(f"{url}/meta")), name="meta") as meta,
            Client(Connection.from_kubeconfig_bytes(kubeconfig(f"{url}/super")), name="r1") as below,
        ):
            role = (
                Syncer(meta=meta, super_client=below, super_id="r1")
                if world._role == names.ROLE_SYNCER
                else NamespaceScheduler(meta, identity="test", leader_elect=False)
            )
            task = asyncio.create_task(role.run())
            try:
                yield
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def until_all(world: World, done: Callable[[], list[str]]) -> None:
    """Wait until all responsive tenants are done, independent of the duration."""
    async with asyncio.timeout(180):
        while not set(world.healthy) <= set(done()):
            await asyncio.sleep(0.1)


how_they_hang = pytest.mark.parametrize(
    "hanging", [pytest.param("everything", marks=pytest.mark.core), "lists", "writes", "slow"]
)
"""A third of the tenants never answers anything, answers whoever asks for one object only, answers all but writes, or answers
when the others have long been answered."""


@pytest.mark.timeout(400)
@how_they_hang
async def test_namespaces_of_responsive_tenants_are_scheduled_while_a_third_hangs(hanging: str) -> None:
    world = World(hanging, 300, names.ROLE_NSSCHEDULER)
    async with at_work(world):
        await until_all(world, world.dealt)
        assert world.held(), "those that hang were asked"
        assert not set(world.hanging) <= set(world.dealt())

        # Later work is done as well, while the others still hang.
        for name in world.healthy:
            world.quota(name, "later")
        await until_all(
            world,
            lambda: [
                name
                for name in world.healthy
                if ("namespaceplacements", f"root-{name}", "later") in world.meta.objects
            ],
        )
        assert world.held()
        assert not set(world.hanging) <= set(world.dealt())


@pytest.mark.timeout(400)
@how_they_hang
async def test_pods_of_responsive_tenants_run_and_are_reported_while_a_third_hangs(hanging: str) -> None:
    world = World(hanging, 150, names.ROLE_SYNCER)
    for name in world.tenants:
        world.place(name)
        world.pod(name, "first")
    async with at_work(world):
        await until_all(world, lambda: world.running("first"))
        assert world.held(), "those that hang were asked"
        assert not set(world.hanging) <= set(world.running("first"))

        for name in world.tenants:
            world.pod(name, "later")
        await until_all(world, lambda: world.running("later"))
        assert world.held()
        assert not set(world.hanging) <= set(world.running("later"))
