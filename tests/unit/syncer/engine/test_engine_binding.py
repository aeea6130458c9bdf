"""A Pod is bound once: the watch may be behind with what our own binding did."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from engine_paper import PaperApi, refusal

from vcsync.kube.errors import Conflict
from vcsync.kube.resources import PODS
from vcsync.syncer.act import BINDING_SECONDS, Hands, Stale
from vcsync.syncer.kinds.plan import Bind

TENANT = "tenant"


class Bench:
    def __init__(self) -> None:
        self.now = 1000.0
        self.tenant = PaperApi(TENANT)
        self.observed: list[str] = []
        self.hands = Hands(
            tenant_client=self.tenant,  # type: ignore[arg-type]
            super_client=PaperApi("r1"),  # type: ignore[arg-type]
            caches=SimpleNamespace(
                observe=lambda _side, _resource, answer: self.observed.append(answer.name),
                observe_gone=lambda *_: None,
            ),
            ensure_node=_nothing,
            clock=lambda: self.now,
        )

    async def bind(self, uid: str) -> None:
        await self.hands.carry_out(
            Bind("shop", "web", uid, "node-1.r1"),
            None,  # type: ignore[arg-type]
            confirm=_nothing,
            notify=lambda _: None,
        )

    @property
    def bindings(self) -> int:
        return sum(call[0] == "create binding" for call in self.tenant.calls)


async def _nothing(*_: Any) -> None:
    return None


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.tenant.put(PODS, {"metadata": {"name": "web", "uid": "u1"}}, "shop")
    return bench


async def test_a_plan_made_before_the_watch_tells_of_the_binding_does_not_bind_again(bench: Bench) -> None:
    await bench.bind("u1")
    await bench.bind("u1")
    assert bench.bindings == 1


async def test_another_pod_of_the_same_name_is_bound(bench: Bench) -> None:
    await bench.bind("u1")
    await bench.bind("u2")
    assert bench.bindings == 2


async def test_a_binding_that_the_watch_never_shows_is_tried_again(bench: Bench) -> None:
    await bench.bind("u1")
    bench.now += BINDING_SECONDS
    await bench.bind("u1")
    assert bench.bindings == 2


async def test_a_refused_binding_is_not_taken_for_done(bench: Bench) -> None:
    bench.tenant.failures["create binding pods"] = refusal(Conflict, "already assigned", TENANT, code=409)
    with pytest.raises(Stale):
        await bench.bind("u1")
    assert bench.observed == ["web"], "the cache learns what stands instead"
    del bench.tenant.failures["create binding pods"]
    await bench.bind("u1")
    assert bench.bindings == 2
