"""The controller of the condition Available: what it checks and when, and what it writes beside other processes."""

import asyncio

import msgspec
import pytest

from vcsync.apimachinery.resources import object_key
from vcsync.apiserver.aggregator import availability_controller
from vcsync.apiserver.aggregator.availability_controller import AvailabilityController
from vcsync.apiserver.discovery.remote_api_services import RemoteApiServices, Served
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.storage.interface import Change, Delete, Put, StoreUnavailable

NAME = "v1.m.io"
KEY = object_key("acme", "apiregistration.k8s.io", "apiservices", "", NAME)
SERVICE_KEY = object_key("acme", "", "services", "shop", "web")
SLICE_KEY = object_key("acme", "discovery.k8s.io", "endpointslices", "shop", "web-1")


class World:
    """A store, and what one process or more know of it."""

    def __init__(self, store):
        self.store = store
        self.checks: list[str] = []
        self.fails: str = ""
        self.forwards = True
        self.ready: object | None = object()
        self.now = "2026-01-01T00:00:00Z"
        self.processes: list[tuple[RemoteApiServices, AvailabilityController]] = []

    def process(self):
        remote = RemoteApiServices(lambda _: self.forwards)

        async def check(service):
            self.checks.append(service.name)
            if self.fails:
                raise CallFailed(self.fails)
            return Served(b"[1]", current=True)

        async def ensure(_):
            return self.ready

        controller = AvailabilityController(
            self.store, remote, check, ensure, lambda: ["acme"], lambda: self.now
        )
        self.processes.append((remote, controller))
        return remote, controller

    async def put(self, key, body):
        value = msgspec.json.encode(body)
        outcome = await self.store.txn([], [Put(key, value)])
        self.publish(Change(outcome.revision, key, value, None, outcome.revision))

    async def delete(self, key):
        outcome = await self.store.txn([], [Delete(key)])
        self.publish(Change(outcome.revision, key, None, b"{}", 1))

    def publish(self, change):
        for remote, controller in self.processes:
            controller.changed((change,))
            remote.apply(change)

    async def spread(self):
        """Publish the last write of the APIService."""
        record, _ = await self.store.get(KEY)
        self.publish(Change(record.revision, KEY, record.value, b"", record.created))

    async def condition(self):
        record, _ = await self.store.get(KEY)
        conditions = (msgspec.json.decode(record.value).get("status") or {}).get("conditions") or [{}]
        return conditions[0].get("status"), conditions[0].get("reason")

    async def register(self, **spec):
        known = {"group": "m.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
        reference = {"namespace": "shop", "name": "web", "port": 443}
        body = {"metadata": {"name": NAME, "uid": "u"}, "spec": {**known, "service": reference, **spec}}
        await self.put(KEY, body)

    async def serve(self):
        await self.put(SERVICE_KEY, {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 443}]}})
        labels = {"kubernetes.io/service-name": "web"}
        await self.put(
            SLICE_KEY,
            {
                "metadata": {"name": "web-1", "labels": labels},
                "ports": [{"port": 1}],
                "endpoints": [{"addresses": []}],
            },
        )


@pytest.fixture
def world(store):
    return World(store)


@pytest.fixture
async def pair(world):
    remote, controller = world.process()
    await remote.load("acme", world.store)
    await world.register()
    return remote, controller


async def test_a_server_that_answers_is_available_and_checked_again_later(world, pair):
    remote, controller = pair
    await world.serve()
    assert await controller.reconcile("acme", NAME) == 30.0
    assert await world.condition() == ("True", "Passed")
    await world.spread()
    assert remote.version(remote.get("acme", NAME)).current


async def test_a_server_that_fails_is_checked_again_soon_and_then_more_slowly(world, pair):
    remote, controller = pair
    await world.serve()
    world.fails = "boom"
    assert [await controller.reconcile("acme", NAME) for _ in range(5)] == [5.0, 10.0, 20.0, 30.0, 30.0]
    assert await world.condition() == ("False", "FailedDiscoveryCheck")
    await world.put(SERVICE_KEY, {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 443}]}})
    assert await controller.reconcile("acme", NAME) == 5.0
    world.fails = ""
    assert await controller.reconcile("acme", NAME) == 30.0
    world.fails = "boom"
    assert await controller.reconcile("acme", NAME) == 5.0
    assert remote.served(remote.get("acme", NAME)).resources == b"[1]"


async def test_a_missing_service_is_not_called(world, pair):
    _, controller = pair
    assert await controller.reconcile("acme", NAME) == 5.0
    assert await world.condition() == ("False", "ServiceNotFound")
    assert world.checks == []


async def test_what_the_operator_refuses_is_not_checked_again(world, pair):
    _, controller = pair
    world.forwards = False
    assert await controller.reconcile("acme", NAME) is None
    assert await world.condition() == ("False", "NotForwarded")
    assert world.checks == []


async def test_a_tenant_that_is_being_deleted_is_left_alone(world, pair):
    _, controller = pair
    world.ready = None
    assert await controller.reconcile("acme", NAME) is None
    assert await world.condition() == (None, None)


async def test_an_api_service_that_is_gone_is_forgotten(world, pair):
    _, controller = pair
    world.fails = "boom"
    await world.serve()
    await controller.reconcile("acme", NAME)
    await world.delete(KEY)
    assert await controller.reconcile("acme", NAME) is None
    assert not controller._failures
    assert not controller._decided
    assert not controller._messages


async def test_an_unchanged_condition_is_not_written(world, pair):
    _, controller = pair
    await world.serve()
    await controller.reconcile("acme", NAME)
    await world.spread()
    revision = await world.store.revision()
    await controller.reconcile("acme", NAME)
    assert await world.store.revision() == revision


async def test_two_processes_with_different_messages_do_not_fight(world, pair):
    _, first = pair
    remote, second = world.process()
    await remote.load("acme", world.store)
    await world.serve()
    revisions = []
    for _ in range(3):
        for each, why in ((first, "EOF"), (second, "context deadline exceeded")):
            world.fails = why
            await each.reconcile("acme", NAME)
            await world.spread()
            revisions.append(await world.store.revision())
    assert len(set(revisions)) == 1
    world.fails = "tls: handshake failure"
    await first.reconcile("acme", NAME)
    await world.spread()
    assert remote.get("acme", NAME).condition.message == "tls: handshake failure"


async def test_a_change_that_is_not_known_yet_is_not_overwritten(world, pair):
    _, controller = pair
    await world.serve()
    record, _ = await world.store.get(KEY)
    await world.store.txn([], [Put(KEY, record.value)])
    await controller.reconcile("acme", NAME)
    assert await world.condition() == (None, None)


async def test_a_store_that_fails_is_an_error_of_the_pool(world, pair, monkeypatch):
    _, controller = pair

    async def get(_):
        raise StoreUnavailable("away")

    monkeypatch.setattr(world.store, "get", get)
    with pytest.raises(StoreUnavailable):
        await controller.reconcile("acme", NAME)


def queued(controller):
    return controller._pool.queue.statistics().delayed + controller._pool.queue.statistics().queued


async def test_own_writes_do_not_cause_checks_but_those_of_others_do(world, pair):
    _, controller = pair
    await world.serve()
    await controller.reconcile("acme", NAME)
    controller._pool.queue.forget_group("acme")
    await world.spread()
    assert queued(controller) == 0
    await world.register()
    assert queued(controller) == 1


@pytest.mark.parametrize(
    ("key", "wakes"),
    [
        (SERVICE_KEY, True),
        (SLICE_KEY, True),
        (object_key("acme", "discovery.k8s.io", "endpointslices", "shop", "any"), True),
        (object_key("acme", "", "services", "shop", "other"), False),
        (object_key("acme", "", "services", "other", "web"), False),
        (object_key("acme", "discovery.k8s.io", "endpointslices", "other", "web-1"), False),
        (object_key("acme", "", "configmaps", "shop", "web"), False),
        (object_key("other", "", "services", "shop", "web"), False),
    ],
)
async def test_changes_of_the_service_and_its_endpoints_cause_checks(world, pair, key, wakes):
    _, controller = pair
    controller._pool.queue.forget_group("acme")
    await world.put(key, {"metadata": {"name": "x"}})
    assert queued(controller) == wakes


async def test_api_services_are_found_at_the_start_and_after_missed_changes(world, monkeypatch):
    monkeypatch.setattr(availability_controller, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(availability_controller, "LEAST_SECONDS", 0.0)
    await world.register()
    await world.serve()
    remote, controller = world.process()
    running = asyncio.create_task(controller.run())
    async with asyncio.timeout(20):
        while await world.condition() != ("True", "Passed"):
            await asyncio.sleep(0)
        await world.put(KEY, {"metadata": {"name": NAME, "uid": "u2"}, "spec": {}})
        await world.register()
        remote.forget("acme")
        controller.resume()
        while await world.condition() != ("True", "Passed"):
            await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_defect_over_one_does_not_stop_the_others(world, monkeypatch):
    monkeypatch.setattr(availability_controller, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(availability_controller, "LEAST_SECONDS", 0.0)
    await world.register()
    await world.serve()
    bad = object_key("acme", "apiregistration.k8s.io", "apiservices", "", "v1.a.io")
    spec = {"group": "a.io", "version": "v1", "service": {"namespace": "shop", "name": "broken", "port": 443}}
    await world.put(bad, {"metadata": {"name": "v1.a.io", "uid": "u"}, "spec": spec})
    await world.store.txn([], [Put(object_key("acme", "", "services", "shop", "broken"), b"[]")])
    _, controller = world.process()
    running = asyncio.create_task(controller.run())
    async with asyncio.timeout(20):
        while await world.condition() != ("True", "Passed"):
            await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_changes_in_a_loop_do_not_cause_checks_in_a_loop(world, pair):
    _, controller = pair
    await world.serve()
    await controller.reconcile("acme", NAME)
    controller._pool.queue.forget_group("acme")
    await world.register()
    due = controller._pool.queue.next_deadline()
    assert due - controller._checked["acme", NAME] >= availability_controller.LEAST_SECONDS
