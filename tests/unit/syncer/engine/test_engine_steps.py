"""Walks over everything of a tenant let the event loop go, however much there is."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace

import pytest
from test_engine_tenant import Session, session

from vcsync.api import names
from vcsync.kube.envelope import Envelope
from vcsync.kube.resources import PODS, RUNTIME_CLASSES
from vcsync.syncer.kinds.plan import Wait
from vcsync.syncer.kinds.runtime import runtime_class_dependency
from vcsync.syncer.steps import STEP_ITEMS, in_steps
from vcsync.syncer.tenant import TenantSync
from vcsync.syncer.waiting import Item

__all__ = ["session"]
MANY = 5 * STEP_ITEMS
PLACE = names.super_namespace("key", "shop")


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


async def test_a_walk_takes_no_more_than_a_step_at_once() -> None:
    counted = Counted()

    def items() -> Iterator[int]:
        for number in range(MANY + 7):
            counted()
            yield number

    async def walk() -> None:
        assert [item async for item in in_steps(items())] == list(range(MANY + 7))

    assert await counted.during(walk()) <= STEP_ITEMS + 1


def fill(tenant: TenantSync) -> None:
    """Let Pods stand here that the tenant does not have."""
    annotations = {names.CLUSTER: "key", names.NAMESPACE: "shop"}
    labels = {names.CONTROLLED: names.TRUE}
    pods = tenant.world.here.reflectors[PODS]
    for number in range(MANY):
        pods.observe(
            Envelope(f"pod-{number}", PLACE, f"uid-{number}", "7", labels=labels, annotations=annotations)
        )
    tenant.world._ledger.entries = lambda _: iter([SimpleNamespace(namespace="shop")])  # type: ignore[method-assign, assignment, return-value]


@pytest.mark.parametrize("walk", ["unsettled", "lost", "all"])
async def test_a_tenant_with_many_pods_is_walked_over_in_steps(
    session: Session, walk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, asked = session()
    fill(tenant)
    counted = Counted()
    looked: Callable[..., object] = {"unsettled": tenant.world.pair, "all": tenant.world.looks_settled}.get(
        walk, tenant.world.pair
    )

    def counting(*args: object) -> object:
        counted()
        return looked(*args)

    if walk == "lost":
        monkeypatch.setattr(tenant.world, "pair", counting)
        assert await counted.during(tenant.world.lost(tenant.world.kinds["pods"], "super")) <= STEP_ITEMS + 1
    elif walk == "unsettled":
        monkeypatch.setattr(tenant.world, "pair", counting)

        async def found() -> None:
            assert len([item async for item in tenant.reconciler.unsettled()]) == MANY + 1

        assert await counted.during(found()) <= STEP_ITEMS + 1
    else:
        monkeypatch.setattr(tenant.world, "looks_settled", counting)
        assert await counted.during(tenant.enqueue_all()) <= STEP_ITEMS + 1
        assert asked.count(Item("pods", "shop", "pod-0")) == 1
        assert len(asked) == MANY + 1
        assert asked[0] == Item("namespaces", "", "shop"), "what others depend on comes first"
    assert counted.most > 1


async def test_a_runtime_class_makes_only_those_look_again_that_wait_for_it(session: Session) -> None:
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
        tenant.world.theirs.runtime_classes.observe(Envelope(name, "", f"uid-{name}", version, rest=rest))
        tenant.runtime_classes_changed()

    task = asyncio.create_task(tenant._enqueue_woken())
    changed("unused", "runc", "7")
    await _settle()
    assert asked == []
    changed("fast", "kata", "8")
    changed("fast", "kata", "9")
    await _settle()
    assert asked == [Item("pods", "shop", f"new-{number}") for number in range(MANY)]
    asked.clear()
    tenant._here.runtime_classes.observe(Envelope("k", "", "uid-k", "3", rest=b'{"handler":"kata"}'))
    tenant.runtime_classes_changed()
    await _settle()
    assert len(asked) == MANY, "the super cluster has it now"
    task.cancel()
    assert runtime_class_dependency("fast").resource == RUNTIME_CLASSES


async def _settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_many_that_waited_for_one_object_are_woken_in_steps(session: Session) -> None:
    tenant, asked = session()
    many = [Item("pods", "shop", f"web-{number}") for number in range(MANY)]
    steps: list[int] = []

    async def watch() -> None:
        while True:
            steps.append(len(asked))
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(watch()), asyncio.create_task(tenant._enqueue_woken())]
    tenant.look_again(many)
    await _settle()
    for task in tasks:
        task.cancel()
    assert asked == many
    assert max(after - before for before, after in itertools.pairwise(steps)) <= STEP_ITEMS
