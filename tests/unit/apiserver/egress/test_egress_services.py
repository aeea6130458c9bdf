"""The endpoints of a Service are the ready Pods of its tenant."""

import msgspec
import pytest

from vcsync.apimachinery.resources import object_key
from vcsync.apiserver.egress.failure import CallFailed
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


async def slices(add, *endpoints, name="s", of="web", ports=({"name": "", "port": 8443},)):
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
    await slices(add, endpoint("10.0.0.1", ready=True), endpoint("fd00::1"))
    assert await found(store) == [("10.0.0.1", 8443), ("fd00::1", 8443)]


async def test_a_port_is_found_by_its_name(store, add):
    await shop(add, {"name": "https", "port": 443})
    await slices(
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
    await slices(add, *endpoints)
    assert await refused(store) == 'no endpoints available for service "web"'


async def test_slices_of_other_services_are_ignored(store, add):
    await shop(add)
    await slices(add, endpoint("10.0.0.1"), of="other")
    assert await refused(store) == 'no endpoints available for service "web"'


async def test_another_tenants_pods_are_not_found(store, add):
    await add("services", "web", spec={"ports": [{"port": 443}]})
    await add("pods", "p", tenant="other", status={"podIP": "10.0.0.1"})
    await slices(add, endpoint("10.0.0.1"))
    assert await refused(store) == 'no endpoints available for service "web"'


async def test_missing_services_and_ports_are_reported(store, add):
    assert await refused(store) == 'service "web" not found'
    await shop(add, {"port": 80})
    assert await refused(store) == 'no service port 443 found for service "web"'


async def test_the_number_of_pods_that_are_read_is_limited(store, add):
    await shop(add)
    for at in range(30):
        await add("pods", f"p{at}", status={"podIP": f"10.0.1.{at}"})
    await slices(add, *(endpoint(f"10.0.1.{at}", pod=f"p{at}") for at in range(30)))
    assert len(await found(store)) == 8
