"""The reflector against a real API server behind a proxy that injects every fault that it must survive.

After each fault the cache equals a new list, each deletion was reported exactly once, and a watch that could be resumed
was not replaced by a list.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import pytest

from hack.testbed import Cluster, TestBed
from hack.testbed.faultproxy import FaultProxy
from hack.testbed.faults import (
    Cut,
    Stall,
    Truncate,
    expired,
    next_pages,
    too_many_requests,
    unavailable,
    watches,
)
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.reflector import Reflector, ReflectorStatistics
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES

LABEL = "reflector-test"


class Scene:
    """A namespace, a client that writes to it directly, and a reflector that reads it through the proxy."""

    def __init__(self, cluster: Cluster, proxy: FaultProxy, hand: Client, eye: Client) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.hand = hand
        self.eye = eye
        self.namespace = f"reflector-{uuid.uuid4().hex[:8]}"
        self.selector = f"{LABEL}={self.namespace}"
        self.changes: list[Change] = []
        self.reflector: Reflector
        self.task: asyncio.Task[None]
        self.removed: list[str] = []

    def reflect(self, **options: object) -> None:
        self.reflector = Reflector(
            self.eye,
            CONFIG_MAPS,
            label_selector=self.selector,
            sink=self.changes.append,
            backoff=(0.05, 1.0),
            **options,  # type: ignore[arg-type]
        )
        self.task = asyncio.create_task(self.reflector.run())

    @property
    def statistics(self) -> ReflectorStatistics:
        return self.reflector.statistics()

    async def put(self, *names: str) -> None:
        for name in names:
            metadata = {"name": name, "labels": {LABEL: self.namespace}}
            patch = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": {"x": uuid.uuid4().hex},
            }
            await self.hand.patch(CONFIG_MAPS, name, patch, self.namespace, kind="apply", force=True)

    async def remove(self, *names: str) -> None:
        for name in names:
            await self.hand.delete(CONFIG_MAPS, name, self.namespace)
            self.removed.append(name)

    async def change_everything(self) -> None:
        """Create, change and delete objects; some names are used again for other objects."""
        await self.remove("b", "c")
        await self.put("a", "c", "new")

    async def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.01)

    async def up(self) -> None:
        await self.until(lambda: self.reflector.stale_since is None)

    async def equals_a_fresh_list(self) -> None:
        fresh = await self.hand.list(CONFIG_MAPS, self.namespace, label_selector=self.selector)
        expected = {item.uid: item.resource_version for item in fresh}
        async with asyncio.timeout(30):
            while {item.uid: item.resource_version for item in self.reflector.cache.items()} != expected:
                await asyncio.sleep(0.02)
        assert {item.key: item for item in self.reflector.cache.items()} == {item.key: item for item in fresh}

    def reported_each_deletion_once(self) -> None:
        gone: Counter[str] = Counter()
        for change in self.changes:
            old, new = change.old, change.new
            if old is not None and (new is None or new.uid != old.uid):  # replaced under the same name
                gone[old.name] += 1
        assert gone == Counter(self.removed)

    def reported_no_version_twice(self) -> None:
        seen = [change.new.resource_version for change in self.changes if change.new is not None]
        assert len(seen) == len(set(seen))


@pytest.fixture
async def scene(testbed: TestBed, fault_proxy: Callable[..., Awaitable[FaultProxy]]) -> AsyncIterator[Scene]:
    cluster = testbed.tenants["acme"]
    async with AsyncExitStack() as stack:
        proxy = await fault_proxy(cluster)
        hand = await stack.enter_async_context(
            Client(Connection.from_kubeconfig_file(cluster.kubeconfig), name="hand")
        )
        eye = await stack.enter_async_context(
            Client(Connection.from_kubeconfig_file(proxy.kubeconfig), name="eye", timeout=5.0)
        )
        made = Scene(cluster, proxy, hand, eye)
        await hand.create(NAMESPACES, {"metadata": {"name": made.namespace}})
        await made.put("a", "b", "c", "d", "e")
        yield made
        made.task.cancel()
        with suppress(asyncio.CancelledError):
            await made.task
        await hand.delete(NAMESPACES, made.namespace)


async def finish(scene: Scene) -> None:
    """Check the invariants after a fault, and that the stream works."""
    await scene.equals_a_fresh_list()
    await scene.up()
    await scene.remove("a")
    await scene.put("last")
    await scene.equals_a_fresh_list()
    scene.reported_each_deletion_once()
    scene.reported_no_version_twice()


async def test_an_interrupted_stream_is_resumed(scene: Scene) -> None:
    scene.reflect()
    await scene.up()
    with scene.proxy.fault(Cut(), watches):
        scene.proxy.cut()
        await scene.until(lambda: scene.reflector.stale_since is not None)
        await scene.change_everything()
    await finish(scene)
    assert (scene.statistics.lists, scene.statistics.relists) == (1, 0)
    assert scene.statistics.resumes >= 1


async def test_a_stream_cut_in_the_middle_of_a_line_is_resumed(scene: Scene) -> None:
    scene.reflect()
    await scene.up()
    scene.proxy.inject(Truncate(after_lines=1), watches, times=3)
    scene.proxy.cut()
    await scene.until(lambda: scene.statistics.resumes >= 1)
    await scene.change_everything()
    await scene.until(lambda: scene.statistics.resumes >= 3)
    await finish(scene)
    assert (scene.statistics.lists, scene.statistics.relists) == (1, 0)


@pytest.mark.parametrize("lines", [0, 2])
async def test_a_streaming_list_cut_in_the_middle_begins_again(scene: Scene, lines: int) -> None:
    scene.proxy.inject(Truncate(after_lines=lines), watches, times=1)
    scene.reflect()
    await scene.up()
    assert scene.statistics.lists == 2
    assert len(scene.changes) == 5
    await scene.change_everything()
    await finish(scene)


async def test_a_stalled_stream_is_noticed_and_resumed(scene: Scene) -> None:
    scene.reflect(silence=1.0)
    await scene.up()
    with scene.proxy.fault(Stall(), watches):
        await scene.change_everything()
        await scene.until(lambda: scene.reflector.stale_since is not None)
    await finish(scene)
    assert (scene.statistics.lists, scene.statistics.relists) == (1, 0)


@pytest.mark.parametrize("as_event", [True, False])
async def test_410_on_a_watch_leads_to_one_new_list(scene: Scene, as_event: bool) -> None:
    scene.reflect()
    await scene.up()
    scene.proxy.inject(expired(as_event=as_event), watches, times=1)
    scene.proxy.cut()
    await scene.change_everything()
    await scene.until(lambda: scene.statistics.relists == 1)
    await finish(scene)
    assert (scene.statistics.gone, scene.statistics.relists) == (1, 1)


async def test_410_on_a_continuation_restarts_the_list_without_losing_deletions(scene: Scene) -> None:
    scene.reflect(streaming=False, page_size=2)
    await scene.up()
    scene.proxy.inject(expired(), watches, times=1)
    scene.proxy.inject(expired(), next_pages, times=1)
    scene.proxy.cut()
    await scene.until(lambda: scene.statistics.gone >= 1)
    await scene.change_everything()
    await scene.until(lambda: scene.statistics.relists >= 2)
    await finish(scene)
    assert scene.statistics.gone == 2


async def test_paged_lists_read_all_pages(scene: Scene) -> None:
    scene.reflect(streaming=False, page_size=2)
    await scene.up()
    assert len(scene.reflector.cache) == 5
    await scene.change_everything()
    await finish(scene)
    assert scene.statistics.lists == 1


async def test_429_is_retried_after_the_requested_time(scene: Scene) -> None:
    scene.reflect()
    await scene.up()
    before = len([request for request in scene.proxy.requests if request.is_watch])
    refusals = scene.proxy.inject(too_many_requests(2), watches)
    scene.proxy.cut()
    await scene.until(lambda: "429" in (scene.statistics.last_error or ""))
    await scene.change_everything()
    await asyncio.sleep(1.0)
    assert len([request for request in scene.proxy.requests if request.is_watch]) == before + 1
    scene.proxy.lift(refusals)
    await finish(scene)
    assert (scene.statistics.lists, scene.statistics.relists) == (1, 0)


async def test_a_server_without_its_store_is_waited_for(scene: Scene) -> None:
    scene.reflect()
    await scene.up()
    with scene.proxy.fault(unavailable(), lambda _: True):
        scene.proxy.cut()
        await scene.until(lambda: "503" in (scene.statistics.last_error or ""))
        await scene.change_everything()
    await finish(scene)
    assert scene.statistics.relists == 0


async def test_a_restarted_api_server_is_found_again(scene: Scene) -> None:
    scene.reflect()
    await scene.up()
    await scene.change_everything()
    await scene.equals_a_fresh_list()
    await asyncio.to_thread(scene.cluster.restart_apiserver)
    await scene.remove("d")
    await finish(scene)


async def test_a_compacted_history_is_listed_again_after_a_restart(scene: Scene, testbed: TestBed) -> None:
    scene.reflect()
    await scene.up()
    scene.proxy.refuse()
    scene.proxy.cut()
    await scene.change_everything()
    testbed.compact()
    await asyncio.to_thread(scene.cluster.restart_apiserver)
    await scene.proxy.accept()
    await finish(scene)
    assert scene.statistics.relists >= 1


async def test_refill_adds_and_removes_a_namespace(scene: Scene) -> None:
    accepted: set[str] = set()
    scene.reflect(accept=lambda item: item.namespace in accepted)
    await scene.up()
    assert len(scene.reflector.cache) == 0
    accepted.add(scene.namespace)
    await scene.change_everything()
    await scene.reflector.refill(scene.namespace)
    await scene.equals_a_fresh_list()
    assert scene.statistics.lists == 1
    accepted.clear()
    await scene.reflector.refill(scene.namespace)
    assert len(scene.reflector.cache) == 0


async def test_own_writes_are_visible_immediately_and_reported_once(scene: Scene) -> None:
    scene.reflect()
    await scene.up()
    mine = await scene.eye.patch(CONFIG_MAPS, "a", {"data": {"mine": "1"}}, scene.namespace)
    scene.reflector.observe(mine)
    assert scene.reflector.cache.get(scene.namespace, "a") == mine
    gone = await scene.eye.get(CONFIG_MAPS, "b", scene.namespace)
    assert await scene.eye.delete(CONFIG_MAPS, "b", scene.namespace, uid=gone.uid) is None
    scene.reflector.observe_gone(scene.namespace, "b", gone.uid)
    scene.removed.append("b")
    assert scene.reflector.cache.get(scene.namespace, "b") is None
    await finish(scene)
