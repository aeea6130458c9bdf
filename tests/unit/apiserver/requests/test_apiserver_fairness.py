"""Priority and fairness over HTTP."""

import asyncio

import aiohttp
import msgspec
import pytest

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.flow.dispatcher import Bounds
from vcsync.apiserver.flow.service import Fairness
from vcsync.apiserver.flow.write_limiter import NamespaceWriteLimiter
from vcsync.apiserver.request.caller import Attributes, Caller

BASE = "/api/v1/namespaces/default/configmaps"
JANE = Caller(User("jane", groups=("system:authenticated",)), "a")


@pytest.fixture
async def fairness(store):
    return Fairness(
        store, lambda: "2026-01-01T00:00:00Z", Bounds(seats=2, waiting=0, watches=1, watches_of_user=1)
    )


@pytest.fixture
async def client(store, fairness, everybody):
    class Tenant(everybody):
        async def authenticate(self, certificate, authorization, tenant):
            return JANE

    plane = assemble(store, Tenant(), fairness=fairness)
    await plane.start("127.0.0.1", 0, None)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{plane.server.port}") as session:
        yield session
    await plane.stop()


async def until(reached):
    async with asyncio.timeout(10):
        while not reached():
            await asyncio.sleep(0.01)


async def test_responses_name_their_flow_schema_and_release_their_seat(client, fairness):
    for path in (BASE, "/version", "/apis/no/v1/such", f"{BASE}/none"):
        async with client.get(path) as response:
            assert "X-Kubernetes-PF-FlowSchema-UID" in response.headers
            assert "X-Kubernetes-PF-PriorityLevel-UID" in response.headers
    await until(lambda: fairness.gate.used == 0)


async def test_a_request_without_a_seat_is_refused_with_retry_after(client, fairness):
    await fairness.gate.prepare("a")
    held = fairness.gate.enter("a", JANE, Attributes("get", resource="pods"))
    async with client.get(BASE) as response:
        body = msgspec.json.decode(await response.read())
    assert (response.status, response.headers["Retry-After"]) == (429, "1")
    assert (body["reason"], body["details"]) == ("TooManyRequests", {"retryAfterSeconds": 1})
    held.end()
    async with client.get(BASE) as response:
        assert response.status == 200


async def test_an_open_watch_takes_no_seat_but_is_counted(client, fairness):
    watch = f"{BASE}?watch=1&timeoutSeconds=60"
    async with client.get(watch) as response:
        assert response.status == 200
        await until(lambda: fairness.gate.used == 0)
        async with client.get(watch) as refused:
            assert refused.status == 429
        response.close()
    await until(lambda: fairness.gate.spaces["a"].watching == 0)


async def test_a_third_write_of_a_namespace_waits_and_delays_nothing_else(client, fairness):
    fairness.gate.bounds = Bounds()
    limiter = fairness.gate.write_limiter = NamespaceWriteLimiter(slot_seconds=3600.0, alone_seconds=3600.0)

    async def sent(method, path, name="one"):
        body = None if method == "GET" else {"metadata": {"name": name}}
        async with client.request(method, path, json=body) as response:
            return response.status

    for name in ("default", "other"):
        assert await sent("POST", "/api/v1/namespaces", name) == 201
    (await limiter.acquire(("b", "default"))).release()
    held = [await limiter.acquire(("a", "default")) for _ in range(2)]

    waits = asyncio.create_task(sent("POST", BASE))
    await until(lambda: limiter.waiting("a") == 1)
    for method, path, status in (
        ("GET", BASE, 200),
        ("POST", "/api/v1/namespaces/other/configmaps", 201),
        ("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", 201),
        ("POST", "/api/v1/namespaces/default/pods/one/exec", 404),
    ):
        async with asyncio.timeout(10):
            assert await sent(method, path) == status
    async with client.get("/metrics") as response:
        assert "vcsync_writes_waiting 1" in await response.text()
    assert not waits.done()
    held[0].release()
    async with asyncio.timeout(10):
        assert await waits == 201
    assert limiter.waiting("a") == 0


async def test_slow_senders_do_not_block_other_writes(client, fairness):
    fairness.gate.bounds = Bounds()
    limiter = fairness.gate.write_limiter = NamespaceWriteLimiter(slot_seconds=3600.0, alone_seconds=3600.0)
    (await limiter.acquire(("b", "default"))).release()
    enough = asyncio.Event()

    async def slowly():
        yield b"{"
        await enough.wait()

    async def send(**what):
        async with client.post(BASE, headers={"Content-Type": "application/json"}, **what) as response:
            return response.status

    slow = [asyncio.create_task(send(data=slowly())) for _ in range(5)]
    await until(lambda: fairness.gate.used == 5)
    async with asyncio.timeout(10):
        assert await send(json={"metadata": {"name": "one"}}) == 404  # there is no such namespace
    enough.set()
    assert await asyncio.gather(*slow) == [400] * 5


async def test_the_metrics_of_a_tenant_show_its_levels_and_storage(client):
    async with client.get("/metrics") as response:
        text = await response.text()
    assert 'apiserver_flowcontrol_nominal_limit_seats{priority_level="catch-all"}' in text
    assert 'apiserver_storage_size_bytes{storage_cluster_id="a"}' in text
