"""What an answer to our own write shows is news like any other: it may hold what somebody else wrote just before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from engine_paper import PaperApi

from vcsync.api import names
from vcsync.kube.envelope import Envelope
from vcsync.kube.resources import RESOURCE_QUOTAS, SERVICES
from vcsync.syncer.caches import SuperCaches
from vcsync.syncer.kinds import KINDS
from vcsync.syncer.kinds.plan import Side
from vcsync.syncer.waiting import Item
from vcsync.syncer.world import World

KEY = "vcsync-1a2b3c-acme"
SERVICE = Item("services", "shop", "front")


@pytest.mark.parametrize(("side", "namespace"), [("tenant", "shop"), ("super", f"{KEY}-shop")])
def test_an_answer_makes_its_item_work_again(side: Side, namespace: str) -> None:
    asked: list[Item] = []

    def enqueue(tenant: str, item: Item) -> None:
        world.enqueue(tenant, item)

    here = SuperCaches(
        PaperApi("r1"),  # type: ignore[arg-type]
        KINDS,
        enqueue=enqueue,
        wake=lambda *_: None,
        on_node=lambda _: None,
    )
    world = World(
        PaperApi("tenant"),  # type: ignore[arg-type]
        key=KEY,
        super_id="r1",
        here=here,
        ledger=SimpleNamespace(open=lambda *_: True),  # type: ignore[arg-type]
        kinds=KINDS,
        enqueue=lambda _, item: asked.append(item),
        wake=lambda *_: None,
    )
    world.ready = True
    answer = Envelope(
        "front",
        namespace,
        "uid",
        "7",
        labels={names.CONTROLLED: names.TRUE},
        annotations={names.CLUSTER: KEY, names.NAMESPACE: "shop"},
    )
    world.observe(side, SERVICES, answer)
    assert SERVICE in asked


def test_pairs_that_lack_a_side_or_are_going_come_before_those_that_stand() -> None:
    here = SuperCaches(
        PaperApi("r1"),  # type: ignore[arg-type]
        KINDS,
        enqueue=lambda *_: None,
        wake=lambda *_: None,
        on_node=lambda _: None,
    )
    world = World(
        PaperApi("tenant"),  # type: ignore[arg-type]
        key=KEY,
        super_id="r1",
        here=here,
        ledger=SimpleNamespace(open=lambda *_: True),  # type: ignore[arg-type]
        kinds=KINDS,
        enqueue=lambda *_: None,
        wake=lambda *_: None,
    )

    def tenant_service(name: str, deleting: str | None = None) -> None:
        world.observe(
            "tenant", SERVICES, Envelope(name, "shop", f"v-{name}", "7", deletion_timestamp=deleting)
        )

    def super_service(name: str) -> None:
        labels = {names.CONTROLLED: names.TRUE}
        annotations = {names.CLUSTER: KEY, names.NAMESPACE: "shop"}
        world.observe(
            "super",
            SERVICES,
            Envelope(name, f"{KEY}-shop", f"p-{name}", "7", labels=labels, annotations=annotations),
        )

    tenant_service("new")
    super_service("lost")
    for name, deleting in (("standing", None), ("going", "2026-01-01T00:00:00Z")):
        tenant_service(name, deleting)
        super_service(name)

    settled = {
        name
        for name in ("new", "lost", "standing", "going")
        if world.looks_settled(Item("services", "shop", name))
    }

    assert settled == {"standing"}


def test_what_is_used_of_a_quota_makes_no_namespace_work() -> None:
    asked: list[Item] = []
    woken: list[object] = []
    here = SuperCaches(
        PaperApi("r1"),  # type: ignore[arg-type]
        KINDS,
        enqueue=lambda _, item: asked.append(item),
        wake=lambda _, dependency: woken.append(dependency),
        on_node=lambda _: None,
    )

    def seen(version: str, hard: str, used: str, **labels: str) -> list[Item]:
        asked.clear()
        quota = Envelope(
            names.SUPER_QUOTA_NAME,
            f"{KEY}-shop",
            "uid",
            version,
            labels={names.CONTROLLED: names.TRUE, **labels},
            annotations={names.CLUSTER: KEY, names.NAMESPACE: "shop"},
            spec=b'{"hard":{"pods":"%b"}}' % hard.encode(),
            status=b'{"used":{"pods":"%b"}}' % used.encode(),
        )
        here.reflectors[RESOURCE_QUOTAS].observe(quota)
        return list(asked)

    namespace = [Item("namespaces", "", "shop")]
    assert seen("1", "5", "0") == namespace
    assert seen("2", "5", "1") == []
    assert seen("3", "6", "1") == namespace
    assert seen("4", "6", "1", other="label") == namespace
    assert len(woken) == 4  # whoever waits for room hears of all of it
