"""The endpoints of a Service are the ready Pods of its tenant."""

import msgspec
import pytest

from vcsync.apimachinery.resources import object_key
from vcsync.apiserver.egress import services
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.networks import Allowed, Networks, parse_network
from vcsync.apiserver.egress.policy import Policy
from vcsync.apiserver.egress.reachable import service_endpoints
from vcsync.apiserver.egress.services import Services
from vcsync.apiserver.egress.target import target_of
from vcsync.apiserver.storage.interface import Put
from vcsync.apiserver.storage.sqlite import open_sqlite

TARGET = target_of("t", {"service": {"namespace": "n", "name": "web"}})


@pytest.fixture
async def store(tmp_path):
    opened = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    yield opened
    await opened.close()


@pytest.fixture
def add(store):
    async def put(plural, name, group="", tenant="t", **content):
        value = {"metadata": {"name": name, **content.pop("metadata", {})}, **content}
        key = object_key(tenant, group, plural, "n", name)
        await store.txn((), (Put(key, msgspec.json.encode(value), None),))

    return put


def endpoint(address, pod="p", **conditions):
    reference = {"kind": "Pod", "name": pod, "namespace": "n"}
    return {"addresses": [address], "targetRef": reference, "conditions": conditions}


async def add_slice(add, *endpoints, name="s", of="web", ports=({"name": "", "port": 8443},)):
    metadata = {"labels": {"kubernetes.io/service-name": of}}
    await add(
        "endpointslices",
        name,
        "discovery.k8s.io",
        metadata=metadata,
        ports=list(ports),
        endpoints=list(endpoints),
    )


async def shop(add, port=None):
    await add("services", "web", spec={"ports": [port or {"port": 443, "targetPort": 8443}]})
    await add("pods", "p", status={"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]})


async def found(store):
    return [(str(each.address), each.port) for each in await Services(store).endpoints(TARGET)]


async def refused(store):
    with pytest.raises(CallFailed) as caught:
        await Services(store).endpoints(TARGET)
    return str(caught.value)


async def test_ready_pods_are_found_at_their_target_port(store, add):
    await shop(add)
    await add_slice(add, endpoint("10.0.0.1", ready=True), endpoint("fd00::1"))
    assert await found(store) == [("10.0.0.1", 8443), ("fd00::1", 8443)]


async def test_a_port_is_found_by_its_name(store, add):
    await shop(add, {"name": "https", "port": 443})
    await add_slice(
        add, endpoint("10.0.0.1"), ports=({"name": "http", "port": 80}, {"name": "https", "port": 9443})
    )
    assert await found(store) == [("10.0.0.1", 9443)]


@pytest.mark.parametrize(
    "endpoints",
    [
        [],
        [endpoint("10.0.0.1", ready=False)],
        [endpoint("10.0.0.2")],
        [endpoint("10.0.0.1", pod="other")],
        [{"addresses": ["10.0.0.1"]}],
        [{"addresses": ["10.0.0.1"], "targetRef": {"kind": "Node", "name": "p"}}],
        [endpoint("web.example.com")],
    ],
)
async def test_addresses_without_a_pod_of_the_tenant_are_ignored(store, add, endpoints):
    await shop(add)
    await add_slice(add, *endpoints)
    assert await refused(store) == 'no endpoints available for service "web"'


async def test_slices_of_other_services_are_ignored(store, add):
    await shop(add)
    await add_slice(add, endpoint("10.0.0.1"), of="other")
    assert await refused(store) == 'no endpoints available for service "web"'


async def test_another_tenants_pods_are_not_found(store, add):
    await add("services", "web", spec={"ports": [{"port": 443}]})
    await add("pods", "p", tenant="other", status={"podIP": "10.0.0.1"})
    await add_slice(add, endpoint("10.0.0.1"))
    assert await refused(store) == 'no endpoints available for service "web"'


async def test_missing_services_and_ports_are_reported(store, add):
    assert await refused(store) == 'service "web" not found'
    await shop(add, {"port": 80})
    assert await refused(store) == 'no service port 443 found for service "web"'


async def test_the_number_of_pods_that_are_read_is_limited(store, add):
    await shop(add)
    for at in range(30):
        await add("pods", f"p{at}", status={"podIP": f"10.0.1.{at}"})
    await add_slice(add, *(endpoint(f"10.0.1.{at}", pod=f"p{at}") for at in range(30)))
    assert len(await found(store)) == 8


@pytest.fixture
def read(store, monkeypatch):
    """Counts records and bytes of EndpointSlices that are in memory at the same time, and all keys that are read."""

    class Read:
        most = total = pods = 0

    range_, get = store.range, store.get

    async def ranged(*args, **settings):
        page = await range_(*args, **settings)
        sizes = [len(each.value) for each in page.records]
        Read.most, Read.total = max(Read.most, sum(sizes)), Read.total + sum(sizes)
        return page

    async def got(key):
        Read.pods += "/pods/" in key
        return await get(key)

    monkeypatch.setattr(store, "range", ranged)
    monkeypatch.setattr(store, "get", got)
    return Read


async def test_large_slices_of_other_services_are_read_within_bounds(store, add, read):
    await shop(add)
    for at in range(12):
        await add_slice(add, endpoint("10.0.0.1", note="x" * 700_000), name=f"large-{at}", of="other")
    assert await refused(store) == 'no endpoints available for service "web"'
    assert read.total < services.MAX_BYTES + services.PAGE * 700_000
    assert read.most < 2 * 1024 * 1024


async def test_slices_with_the_name_of_the_service_are_found_beside_large_ones(store, add, read):
    await shop(add)
    for at in range(12):
        await add_slice(add, endpoint("10.0.0.1", note="x" * 700_000), name=f"large-{at}", of="other")
    await add_slice(add, endpoint("10.0.0.1"), name="web-abcde")
    for at in range(8):  # The limit of endpoints ends the search.
        await add_slice(add, endpoint("fd00::1"), name=f"web-f{at}")
    assert len(await found(store)) == services.MAX_ENDPOINTS
    assert read.total < 10_000


async def test_the_number_of_slices_that_are_read_is_limited(store, add, read, monkeypatch):
    monkeypatch.setattr(services, "MAX_SLICES", 20)
    await shop(add)
    for at in range(30):
        await add_slice(add, endpoint("10.0.0.1"), name=f"a-{at:02}", of="other")
    await add_slice(add, endpoint("10.0.0.1"), name="z")
    assert await refused(store) == 'no endpoints available for service "web"'


async def test_pods_that_do_not_have_the_addresses_are_read_within_bounds(store, add, read):
    await shop(add)
    await add_slice(add, *(endpoint("10.0.0.2") for _ in range(500)), endpoint("10.0.0.1"))
    assert await refused(store) == 'no endpoints available for service "web"'
    assert read.pods == services.MAX_PODS


async def test_endpoints_are_looked_up_for_tenants_with_a_network_only(store, add, read):
    await shop(add)
    await add_slice(add, endpoint("10.0.0.1"))
    policy = Policy(networks=Networks(allowed=[Allowed(parse_network("10.0.0.0/16"), "other")]))
    with pytest.raises(CallFailed, match="the operator of this server does not allow it"):
        await service_endpoints(policy, Services(store), TARGET)
    assert read.total == 0
