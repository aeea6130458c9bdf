"""Seats as clients see them."""

import asyncio

import aiohttp
import msgspec
import pytest

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.flow.gate import Bounds
from vcsync.controlplane.flow.hands import Hands
from vcsync.controlplane.flow.service import Fairness
from vcsync.controlplane.identity.caller import Attributes, Caller
from vcsync.controlplane.rest.assemble import assemble

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


async def test_answers_tell_what_they_fell_under_and_give_their_seat_back(client, fairness):
    for path in (BASE, "/version", "/apis/no/v1/such", f"{BASE}/none"):
        async with client.get(path) as told:
            assert "X-Kubernetes-PF-FlowSchema-UID" in told.headers
            assert "X-Kubernetes-PF-PriorityLevel-UID" in told.headers
    await until(lambda: fairness.gate.used == 0)


async def test_who_finds_no_seat_is_told_when_to_come_again(client, fairness):
    await fairness.gate.prepare("a")
    held = fairness.gate.enter("a", JANE, Attributes("get", resource="pods"))
    async with client.get(BASE) as told:
        body = msgspec.json.decode(await told.read())
    assert (told.status, told.headers["Retry-After"]) == (429, "1")
    assert (body["reason"], body["details"]) == ("TooManyRequests", {"retryAfterSeconds": 1})
    held.end()
    async with client.get(BASE) as told:
        assert told.status == 200


async def test_a_watch_takes_no_seat_once_it_is_open_but_counts_until_it_ends(client, fairness):
    watch = f"{BASE}?watch=1&timeoutSeconds=60"
    async with client.get(watch) as told:
        assert told.status == 200
        await until(lambda: fairness.gate.used == 0)
        async with client.get(watch) as refused:
            assert refused.status == 429
        told.close()
    await until(lambda: fairness.gate.spaces["a"].watching == 0)


async def test_a_write_waits_while_two_of_its_namespace_are_in_hand_and_nothing_else_does(client, fairness):
    fairness.gate.bounds = Bounds()
    hands = fairness.gate.hands = Hands(seconds=3600.0, alone=3600.0)

    async def sent(method, path, name="one"):
        body = None if method == "GET" else {"metadata": {"name": name}}
        async with client.request(method, path, json=body) as told:
            return told.status

    for name in ("default", "other"):
        assert await sent("POST", "/api/v1/namespaces", name) == 201
    (await hands.take(("b", "default"))).release()
    held = [await hands.take(("a", "default")) for _ in range(2)]

    waits = asyncio.create_task(sent("POST", BASE))
    await until(lambda: hands.waiting("a") == 1)
    for method, path, status in (
        ("GET", BASE, 200),
        ("POST", "/api/v1/namespaces/other/configmaps", 201),
        ("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", 201),
        ("POST", "/api/v1/namespaces/default/pods/one/exec", 404),
    ):
        async with asyncio.timeout(10):
            assert await sent(method, path) == status
    async with client.get("/metrics") as told:
        assert "vcsync_writes_waiting 1" in await told.text()
    assert not waits.done()
    held[0].release()
    async with asyncio.timeout(10):
        assert await waits == 201
    assert hands.waiting("a") == 0


async def test_who_sends_slowly_keeps_nobody_from_writing(client, fairness):
    fairness.gate.bounds = Bounds()
    hands = fairness.gate.hands = Hands(seconds=3600.0, alone=3600.0)
    (await hands.take(("b", "default"))).release()
    enough = asyncio.Event()

    async def slowly():
        yield b"{"
        await enough.wait()

    async def send(**what):
        async with client.post(BASE, headers={"Content-Type": "application/json"}, **what) as told:
            return told.status

    slow = [asyncio.create_task(send(data=slowly())) for _ in range(5)]
    await until(lambda: fairness.gate.used == 5)
    async with asyncio.timeout(10):
        assert await send(json={"metadata": {"name": "one"}}) == 404  # there is no such namespace
    enough.set()
    assert await asyncio.gather(*slow) == [400] * 5


async def test_a_tenants_metrics_tell_of_its_levels_and_of_what_it_keeps(client):
    async with client.get("/metrics") as told:
        text = await told.text()
    assert 'apiserver_flowcontrol_nominal_limit_seats{priority_level="catch-all"}' in text
    assert 'apiserver_storage_size_bytes{storage_cluster_id="a"}' in text
