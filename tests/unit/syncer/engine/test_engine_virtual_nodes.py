"""Leases of virtual nodes are renewed before they expire."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.kube.cache import Cache
from vcsync.kube.errors import NotFound, Status, Unreachable
from vcsync.kube.resources import LEASES, PODS
from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.plan import TenantContext
from vcsync.syncer.nodes import CONCURRENCY, Pace, VirtualNodes
from vcsync.syncer.tenant_objects import TenantObjects

CONTEXT = TenantContext(
    key="acme",
    vc_name="acme",
    vc_namespace="vcsync",
    vc_uid="vc",
    super_id="r1",
    api_host="10.0.0.1",
    api_port=443,
)
NODE = {"metadata": {"name": "n1", "uid": "u1", "resourceVersion": "1"}, "spec": {}, "status": {}}


async def nobody(_node: str) -> bool:
    """No Pod is bound to a virtual node."""
    return False


class Shown:
    """Objects that the tenant sees."""

    def __init__(self) -> None:
        self.cache = Cache()

    def observe(self, _: Envelope) -> None:
        return None


class Tenant:
    """A tenant's API that takes everything."""

    def __init__(self) -> None:
        self.leases: list[dict[str, Any]] = []

    async def create(self, _resource: Any, body: dict[str, Any], _namespace: str = "") -> Envelope:
        return parse(encode({**body, "metadata": {**body["metadata"], "uid": "v1", "resourceVersion": "1"}}))

    async def patch(self, resource: Any, _name: str, patch: dict[str, Any], _namespace: str) -> None:
        assert resource is LEASES
        self.leases.append(patch["spec"])


async def test_a_new_nodes_lease_lasts_until_its_first_renewal() -> None:
    tenant: Any = Tenant()
    shown: Any = Shown()
    nodes = VirtualNodes(
        client=tenant,
        tenant="acme",
        super_id="r1",
        reflector=shown,
        super_node=lambda _: parse(encode(NODE)),
        pods_on=lambda _: 1,
        bound=nobody,
        clock=lambda: 0.0,
    )
    beating = asyncio.create_task(nodes.beat(lambda: Pace(120.0, 60.0)))
    await asyncio.sleep(0)
    await nodes.ensure("n1", CONTEXT)
    beating.cancel()
    assert [each["leaseDurationSeconds"] for each in tenant.leases] == [360]


async def test_no_lease_of_a_lost_super_cluster_is_renewed() -> None:
    tenant, shown = Tenant(), Shown()
    shown.cache.observe(parse(encode({"metadata": {"name": "n1.r1", "uid": "v1", "resourceVersion": "1"}})))
    lost = "its API server has not answered since 2026-01-01T00:00:00Z"
    nodes: Any = VirtualNodes(
        client=tenant,  # type: ignore[arg-type]
        tenant="acme",
        super_id="r1",
        reflector=shown,  # type: ignore[arg-type]
        super_node=lambda _: parse(encode(NODE)),
        pods_on=lambda _: 1,
        bound=nobody,
        clock=lambda: 0.0,
        lost=lambda: lost,
    )
    await nodes._renew("n1.r1", 10.0)
    assert tenant.leases == []
    lost = ""
    await nodes._renew("n1.r1", 10.0)
    assert len(tenant.leases) == 1


@given(
    interval=st.sampled_from([10.0, 30.0]),
    latency=st.floats(0, 0.1),
    refused=st.sets(st.integers(0, 999), max_size=20),
)
@settings(max_examples=5)
def test_a_thousand_leases_are_renewed_in_time_despite_slow_answers(
    in_virtual_time: Callable[[Coroutine[Any, Any, None]], None],
    interval: float,
    latency: float,
    refused: set[int],
) -> None:
    renewed: dict[str, list[float]] = {f"n{number}.r1": [] for number in range(1000)}
    waiting = 0
    most_waiting = 0

    async def world() -> None:
        clock = asyncio.get_running_loop().time
        began = clock()

        async def patch(_resource: Any, name: str, _patch: object, _namespace: str) -> None:
            nonlocal waiting, most_waiting
            waiting += 1
            most_waiting = max(most_waiting, waiting)
            try:
                await asyncio.sleep(latency)
            finally:
                waiting -= 1
            if int(name[1:-3]) in refused and not renewed[name] and clock() - began < interval:
                raise Unreachable("cut")
            renewed[name].append(clock() - began)

        shown: Any = Shown()
        for name in renewed:
            metadata = {"name": name, "uid": f"u-{name}", "resourceVersion": "1"}
            shown.cache.observe(parse(encode({"metadata": metadata})))
        tenant: Any = SimpleNamespace(patch=patch)
        nodes = VirtualNodes(
            client=tenant,
            tenant="acme",
            super_id="r1",
            reflector=shown,
            super_node=lambda _: parse(encode(NODE)),
            pods_on=lambda _: 1,
            bound=nobody,
            clock=clock,
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(5 * interval):
                await nodes.beat(lambda: Pace(interval, 60.0))

    in_virtual_time(world())
    holds = max(40.0, 3 * interval)
    for times in renewed.values():
        assert max(b - a for a, b in pairwise([0.0, *times, 5 * interval])) < holds
    assert most_waiting <= CONCURRENCY


@pytest.mark.parametrize(
    ("pod", "goes"),
    [
        (None, True),
        ({"spec": {"nodeName": "n1.r1"}, "status": {"phase": "Running"}}, False),
        ({"spec": {"nodeName": "n1.r1"}}, False),
        ({"spec": {"nodeName": "n1.r1"}, "status": {"phase": "Succeeded"}}, True),
        ({"spec": {"nodeName": "n2.r1"}, "status": {"phase": "Running", "message": "n1.r1"}}, True),
    ],
)
async def test_virtual_nodes_with_pods_are_kept_when_the_super_cluster_lost_its_data(
    pod: dict[str, Any] | None, goes: bool
) -> None:
    client: Any = SimpleNamespace(name="acme")
    here: Any = SimpleNamespace()
    ledger: Any = SimpleNamespace()
    objects = TenantObjects(
        client,
        key="acme",
        super_id="r1",
        super_caches=here,
        ledger=ledger,
        kinds=KINDS,
        enqueue=lambda *_: None,
        wake=lambda *_: None,
    )
    if pod is not None:
        metadata = {"name": "web", "namespace": "shop", "uid": "w", "resourceVersion": "1"}
        objects.tenant_caches.reflectors[PODS].cache.observe(parse(encode({"metadata": metadata, **pod})))
    shown: Any = Shown()
    shown.cache.observe(parse(encode({"metadata": {"name": "n1.r1", "uid": "u", "resourceVersion": "1"}})))
    shown.observe_gone = lambda *_: None
    deleted: list[str] = []

    async def delete(_resource: object, name: str, *, uid: str) -> None:
        deleted.append(f"{name} {uid}")

    tenant: Any = SimpleNamespace(delete=delete)
    nodes = VirtualNodes(
        client=tenant,
        tenant="acme",
        super_id="r1",
        reflector=shown,
        super_node=lambda _: None,
        pods_on=lambda _: 0,
        bound=objects.has_bound_pods,
        clock=lambda: 0.0,
    )
    assert await nodes._collect("n1.r1", 60.0) is goes
    assert deleted == (["n1.r1 u"] if goes else [])


async def test_a_missing_lease_is_created_with_its_node_as_owner() -> None:
    created: list[tuple[Any, dict[str, Any], str]] = []

    class LeaselessTenant(Tenant):
        async def create(self, resource: Any, body: dict[str, Any], namespace: str = "") -> Envelope:
            created.append((resource, body, namespace))
            answer = await super().create(resource, body, namespace)
            shown.cache.observe(answer)
            return answer

        async def patch(self, *_: Any) -> None:
            raise NotFound(Status(404))

    tenant: Any = LeaselessTenant()
    shown: Any = Shown()
    nodes = VirtualNodes(
        client=tenant,
        tenant="acme",
        super_id="r1",
        reflector=shown,
        super_node=lambda name: parse(encode(NODE)) if name == "n1" else None,
        pods_on=lambda _: 1,
        bound=nobody,
        clock=lambda: 0.0,
    )
    beating = asyncio.create_task(nodes.beat(lambda: Pace(10.0, 60.0)))
    await asyncio.sleep(0)
    await nodes.ensure("n1", CONTEXT)
    beating.cancel()
    assert [(resource.plural, body["metadata"]["name"]) for resource, body, _ in created] == [
        ("nodes", "n1.r1"),
        ("leases", "n1.r1"),
    ]
    _, lease, namespace = created[-1]
    assert (lease["apiVersion"], lease["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert namespace == lease["metadata"]["namespace"] == "kube-node-lease"
    assert lease["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "n1.r1", "uid": "v1"}
    ]
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == ("n1.r1", 40)
    assert datetime.fromisoformat(lease["spec"]["renewTime"]).tzinfo is not None
