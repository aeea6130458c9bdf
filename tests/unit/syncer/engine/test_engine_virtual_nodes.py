"""Virtual nodes: their Leases hold until they are renewed."""

import asyncio
from typing import Any

from vcsync.kube.cache import Cache
from vcsync.kube.envelope import Envelope, encode, parse
from vcsync.kube.resources import LEASES
from vcsync.syncer.kinds.plan import TenantContext
from vcsync.syncer.nodes import Pace, VirtualNodes

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
