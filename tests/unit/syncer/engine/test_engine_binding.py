"""A Pod is bound once, although the watch may report the binding later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from engine_paper import PaperApi, refusal

from vcsync.kube.errors import Conflict
from vcsync.kube.resources import PODS
from vcsync.syncer.executor import BINDING_SECONDS, Executor, Stale
from vcsync.syncer.kinds.plan import Bind

TENANT = "tenant"


class Bench:
    def __init__(self) -> None:
        self.now = 1000.0
        self.tenant = PaperApi(TENANT)
        self.observed: list[str] = []
        self.executor = Executor(
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
        await self.executor.execute(
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


async def test_a_binding_is_not_repeated_before_the_watch_reports_it(bench: Bench) -> None:
    await bench.bind("u1")
    await bench.bind("u1")
    assert bench.bindings == 1


async def test_another_pod_of_the_same_name_is_bound(bench: Bench) -> None:
    await bench.bind("u1")
    await bench.bind("u2")
    assert bench.bindings == 2


async def test_a_binding_that_the_watch_never_reports_is_repeated(bench: Bench) -> None:
    await bench.bind("u1")
    bench.now += BINDING_SECONDS
    await bench.bind("u1")
    assert bench.bindings == 2


async def test_a_refused_binding_is_repeated(bench: Bench) -> None:
    bench.tenant.failures["create binding pods"] = refusal(Conflict, "already assigned", TENANT, code=409)
    with pytest.raises(Stale):
        await bench.bind("u1")
    assert bench.observed == ["web"], "the cache learns what stands instead"
    del bench.tenant.failures["create binding pods"]
    await bench.bind("u1")
    assert bench.bindings == 2


async def test_a_binding_names_the_pod_by_its_uid_and_the_virtual_node(bench: Bench) -> None:
    sent: list[tuple[Any, ...]] = []

    async def create_raw(*arguments: Any, **options: Any) -> bytes:
        sent.append((*arguments, options))
        return b"{}"

    bench.tenant.create_raw = create_raw  # type: ignore[method-assign]
    await bench.bind("u1")
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1.r1"},
    }
    assert sent == [(PODS, body, "shop", {"name": "web", "subresource": "binding"})]
