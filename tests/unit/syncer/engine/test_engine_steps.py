"""Walks over all objects of a tenant are made in steps, so that the event loop is not blocked."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from test_engine_tenant import Session, session

from vcsync.api import names
from vcsync.kube.resources import PODS, RUNTIME_CLASSES
from vcsync.objects.envelope import Envelope, parse
from vcsync.syncer.kinds.plan import Wait
from vcsync.syncer.kinds.runtime import runtime_class_dependency, runtime_classes
from vcsync.syncer.steps import STEP_ITEMS, StepMeter, in_steps
from vcsync.syncer.tenant import TenantSync
from vcsync.syncer.waiting import Item

__all__ = ["session"]
MANY = 5 * STEP_ITEMS
PLACE = names.super_namespace("key", "shop")
PUBLISHED = Envelope(
    "k", "", "uid-k", "3", labels={names.SUPER_PUBLIC: names.TRUE}, rest=b'{"handler":"kata"}'
)


class Counted:
    """An iterator that notes how many of its items were taken between two turns of the event loop."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    def __call__(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)

    async def turn(self) -> None:
        while True:
            self.now = 0
            await asyncio.sleep(0)

    async def during(self, work: Awaitable[object]) -> int:
        other = asyncio.create_task(self.turn())
        try:
            await work
        finally:
            other.cancel()
        return self.most


async def test_a_walk_is_made_in_steps() -> None:
    counted = Counted()

    def items() -> Iterator[int]:
        for number in range(MANY + 7):
            counted()
            yield number

    async def walk() -> None:
        assert [item async for item in in_steps(items())] == list(range(MANY + 7))

    assert await counted.during(walk()) <= STEP_ITEMS + 1


async def test_a_meter_counts_the_work_of_steps_but_not_the_pauses_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("vcsync.syncer.steps.thread_time", lambda: clock.now)
    meter = StepMeter()

    async def others() -> None:
        while True:
            clock.now += 100.0
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    async for number in in_steps(range(2 * STEP_ITEMS + 1), meter=meter):
        clock.now += 2.0 if number < STEP_ITEMS else 1.0
    other.cancel()
    assert meter.longest_step == 2.0 * STEP_ITEMS
    assert meter.cpu_seconds == 3.0 * STEP_ITEMS + 1.0


def fill(tenant: TenantSync) -> None:
    """Let Pods stand here that the tenant does not have."""
    annotations = {names.CLUSTER: "key", names.NAMESPACE: "shop"}
    labels = {names.CONTROLLED: names.TRUE}
    pods = tenant.objects.super_caches.reflectors[PODS]
    for number in range(MANY):
        pods.observe(
            Envelope(f"pod-{number}", PLACE, f"uid-{number}", "7", labels=labels, annotations=annotations)
        )
    tenant.objects._ledger.entries = lambda _: iter([SimpleNamespace(namespace="shop")])  # type: ignore[method-assign, assignment, return-value]


@pytest.mark.parametrize("walk", ["unsettled", "count_orphans", "all"])
async def test_walks_over_many_pods_are_made_in_steps(
    session: Session, walk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, asked = session()
    fill(tenant)
    counted = Counted()
    looked: Callable[..., object] = {
        "unsettled": tenant.objects.pair,
        "all": tenant.objects.looks_settled,
    }.get(walk, tenant.objects.pair)

    def counting(*args: object) -> object:
        counted()
        return looked(*args)

    if walk == "count_orphans":
        monkeypatch.setattr(tenant.objects, "pair", counting)
        assert (
            await counted.during(tenant.objects.count_orphans(tenant.objects.kinds["pods"], "super"))
            <= STEP_ITEMS + 1
        )
    elif walk == "unsettled":
        monkeypatch.setattr(tenant.objects, "pair", counting)

        async def found() -> None:
            assert len([item async for item in tenant.reconciler.unsettled()]) == MANY + 1

        assert await counted.during(found()) <= STEP_ITEMS + 1
    else:
        monkeypatch.setattr(tenant.objects, "looks_settled", counting)
        assert await counted.during(tenant.enqueue_all()) <= STEP_ITEMS + 1
        assert asked.count(Item("pods", "shop", "pod-0")) == 1
        assert len(asked) == MANY + 1
        assert asked[0] == Item("namespaces", "", "shop"), "what others depend on comes first"
    assert counted.most > 1


async def test_objects_that_both_sides_have_are_walked_over_in_steps_too(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second side yields nothing then, and still takes its time."""
    tenant, _ = session()
    fill(tenant)
    above = tenant.objects.tenant_caches.reflectors[PODS]
    labels = {names.SUPER_CLUSTER: "r1"}
    for number in range(MANY):
        above.observe(Envelope(f"pod-{number}", "shop", f"uid-{number}", "7", labels=labels))
    counted = Counted()
    walked = tenant.objects._super_items

    def counting(*args: Any) -> Iterator[Item]:
        for item in walked(*args):
            counted()
            yield item

    monkeypatch.setattr(tenant.objects, "_super_items", counting)

    async def walk() -> None:
        assert len([item async for item in tenant.reconciler.unsettled()]) == MANY + 1

    assert await counted.during(walk()) <= STEP_ITEMS + 1


async def test_orphans_in_the_super_cluster_are_counted_among_all_objects(session: Session) -> None:
    tenant, _ = session()
    fill(tenant)
    assert await tenant.objects.count_orphans(tenant.objects.kinds["pods"], "super") == (MANY, MANY)
    assert await tenant.objects.count_orphans(tenant.objects.kinds["configmaps"], "super") == (0, 0)


async def test_bound_pods_without_copy_are_counted_as_orphans(session: Session) -> None:
    tenant, _ = session()
    pods = tenant.objects.tenant_caches.reflectors[PODS]
    labels = {names.SUPER_CLUSTER: "r1"}
    for name, spec in (
        ("ran", b'{"nodeName":"n1.r1"}'),
        ("stands", b'{"nodeName":"n1.r1"}'),
        ("waits", b"{}"),
    ):
        pods.observe(Envelope(name, "shop", f"uid-{name}", "7", labels=labels, spec=spec))
    annotations = {names.CLUSTER: "key", names.NAMESPACE: "shop", names.UID: "uid-stands"}
    marked = {names.CONTROLLED: names.TRUE}
    below = Envelope("stands", PLACE, "uid-below", "7", labels=marked, annotations=annotations)
    tenant.objects.super_caches.reflectors[PODS].observe(below)
    assert await tenant.objects.count_orphans(tenant.objects.kinds["pods"], "tenant") == (1, 2)


async def test_objects_whose_source_was_seen_to_be_deleted_are_no_orphans(session: Session) -> None:
    tenant, _ = session()
    fill(tenant)
    objects = tenant.objects
    pods, below = objects.tenant_caches.reflectors[PODS], objects.super_caches.reflectors[PODS]
    labels, marked = {names.SUPER_CLUSTER: "r1"}, {names.CONTROLLED: names.TRUE}
    for name in ("ordinary", "unknown"):
        of = {names.CLUSTER: "key", names.NAMESPACE: "shop", names.UID: f"uid-{name}"}
        below.observe(Envelope(name, PLACE, f"below-{name}", "7", labels=marked, annotations=of))
        pods.observe(
            Envelope(
                name, "shop", f"uid-{name}", "7", labels=labels, deletion_timestamp="2026-05-01T12:00:00Z"
            )
        )
    pods._observe_deleted(Envelope("ordinary", "shop", "uid-ordinary", "8", labels=labels))
    pods._replace_cache([], "9")

    assert await objects.count_orphans(objects.kinds["pods"], "super") == (MANY + 1, MANY + 2)


@pytest.mark.parametrize(
    ("uid", "about", "copied"),
    [
        pytest.param("uid-web", "uid-below", True, id="the-pod-it-stands-for"),
        pytest.param("uid-next", "uid-below", False, id="the-next-pod-of-that-name"),
        pytest.param("", "uid-below", False, id="no-pod-any-more"),
        pytest.param("uid-web", "uid-earlier", False, id="an-earlier-pod-below"),
    ],
)
async def test_an_event_is_copied_only_for_its_own_pod(
    session: Session, uid: str, about: str, copied: bool
) -> None:
    tenant, _ = session()
    if uid:
        labels = {names.SUPER_CLUSTER: "r1"}
        tenant.objects.tenant_caches.reflectors[PODS].observe(
            Envelope("web", "shop", uid, "7", labels=labels)
        )
    annotations = {names.CLUSTER: "key", names.NAMESPACE: "shop", names.UID: "uid-web"}
    below = Envelope(
        "web", PLACE, "uid-below", "7", labels={names.CONTROLLED: names.TRUE}, annotations=annotations
    )
    tenant.objects.super_caches.reflectors[PODS].observe(below)
    regarding = {"apiVersion": "v1", "kind": "Pod", "namespace": PLACE, "name": "web", "uid": about}
    event = {"metadata": {"name": "e", "namespace": PLACE}, "involvedObject": regarding, "reason": "Pulled"}
    assert (tenant.destination(parse(msgspec.json.encode(event))) is not None) is copied


async def test_a_runtime_class_wakes_only_the_pods_that_wait_for_it(session: Session) -> None:
    tenant, asked = session()
    fill(tenant)
    tenant.begin()
    asked.clear()
    waiting = tenant._waiting
    for number in range(MANY):
        waiting.park(
            "key",
            Item("pods", "shop", f"new-{number}"),
            Wait("the tenant has no RuntimeClass fast", (runtime_class_dependency("fast"),)),
            now=1,
        )
    waiting.park(
        "key", Item("pods", "shop", "other"), Wait("has no", (runtime_class_dependency("x"),)), now=1
    )

    def changed(name: str, handler: str, version: str) -> None:
        rest = b'{"handler":"%b"}' % handler.encode()
        tenant.objects.tenant_caches.runtime_classes.observe(
            Envelope(name, "", f"uid-{name}", version, rest=rest)
        )
        tenant.runtime_class_changed(name)

    task = asyncio.create_task(tenant._enqueue_woken())
    changed("unused", "runc", "7")
    await _settle()
    assert asked == []
    changed("fast", "kata", "8")
    changed("fast", "kata", "9")
    await _settle()
    assert asked == [Item("pods", "shop", f"new-{number}") for number in range(MANY)]
    asked.clear()
    tenant._super_caches.runtime_classes.observe(PUBLISHED)
    tenant.runtime_classes_changed()
    await _settle()
    assert len(asked) == MANY, "the super cluster has it now"
    task.cancel()
    assert runtime_class_dependency("fast").resource == RUNTIME_CLASSES


async def test_only_the_changed_runtime_class_is_examined(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []

    def counted(theirs: Iterable[Envelope], here: Iterable[Envelope]) -> dict[str, str]:
        found = [*theirs]
        looked_at.extend(each.name for each in found)
        return runtime_classes(found, here)

    monkeypatch.setattr("vcsync.syncer.tenant.runtime_classes", counted)
    tenant, _ = session()
    cache = tenant.objects.tenant_caches.runtime_classes

    def made(name: str, version: str, handler: str = "kata") -> None:
        rest = b'{"handler":"%b"}' % handler.encode()
        cache.observe(Envelope(name, "", f"uid-{name}", version, rest=rest))
        tenant.runtime_class_changed(name)

    tenant._super_caches.runtime_classes.observe(PUBLISHED)
    for number in range(MANY):
        made(f"c-{number}", "1")
    assert looked_at == [], "the caches are still being filled"
    tenant.begin()
    assert looked_at == [f"c-{number}" for number in range(MANY)]
    assert tenant.context.runtime_classes["c-7"] == "k"
    looked_at.clear()
    made("c-7", "2", "runc")
    assert looked_at == ["c-7"]
    assert tenant.context.runtime_classes["c-7"] == ""
    assert len(tenant.context.runtime_classes) == MANY
    cache.cache.observe_deleted(Envelope("c-7", "", "uid-c-7", "3"))
    tenant.runtime_class_changed("c-7")
    assert "c-7" not in tenant.context.runtime_classes
    assert looked_at == ["c-7"]


async def _settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_many_dependents_of_one_object_are_woken_in_steps(session: Session) -> None:
    tenant, asked = session()
    many = [Item("pods", "shop", f"web-{number}") for number in range(MANY)]
    steps: list[int] = []

    async def watch() -> None:
        while True:
            steps.append(len(asked))
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(watch()), asyncio.create_task(tenant._enqueue_woken())]
    tenant.enqueue_in_steps(many)
    await _settle()
    for task in tasks:
        task.cancel()
    assert asked == many
    assert max(after - before for before, after in itertools.pairwise(steps)) <= STEP_ITEMS
