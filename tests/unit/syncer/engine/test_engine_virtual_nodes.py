"""Virtual nodes: their Leases hold until they are renewed."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.kube.cache import Cache
from vcsync.kube.envelope import Envelope, encode, parse
from vcsync.kube.errors import Unreachable
from vcsync.kube.resources import LEASES
from vcsync.syncer.kinds.plan import TenantContext
from vcsync.syncer.nodes import AT_ONCE, Pace, VirtualNodes

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


class Shown:
    """What the tenant is shown."""

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


async def test_a_new_nodes_lease_holds_longer_than_until_its_first_beat() -> None:
    tenant: Any = Tenant()
    shown: Any = Shown()
    nodes = VirtualNodes(
        client=tenant,
        tenant="acme",
        super_id="r1",
        reflector=shown,
        super_node=lambda _: parse(encode(NODE)),
        pods_on=lambda _: 1,
        clock=lambda: 0.0,
    )
    beating = asyncio.create_task(nodes.beat(lambda: Pace(120.0, 60.0)))
    await asyncio.sleep(0)
    await nodes.ensure("n1", CONTEXT)
    beating.cancel()
    assert [each["leaseDurationSeconds"] for each in tenant.leases] == [360]


@given(
    interval=st.sampled_from([10.0, 30.0]),
    latency=st.floats(0, 0.1),
    refused=st.sets(st.integers(0, 999), max_size=20),
)
@settings(max_examples=5)
def test_a_thousand_leases_are_renewed_in_time_however_long_each_answer_takes(
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
            clock=clock,
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(5 * interval):
                await nodes.beat(lambda: Pace(interval, 60.0))

    in_virtual_time(world())
    holds = max(40.0, 3 * interval)
    for times in renewed.values():
        assert max(b - a for a, b in pairwise([0.0, *times, 5 * interval])) < holds
    assert most_waiting <= AT_ONCE
