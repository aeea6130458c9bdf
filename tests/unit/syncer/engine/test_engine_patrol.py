"""The patrol enqueues differences that no event reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from engine_paper import PaperApi, PaperCaches
from test_engine_tenant import Session, session

from vcsync.api import names
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds.plan import Wait
from vcsync.syncer.ledger import Ledger
from vcsync.syncer.patrol import Patrol
from vcsync.syncer.tenant import TenantSync
from vcsync.syncer.waiting import Item

__all__ = ["session"]
KEY = "vcsync-1a2b3c-acme"
SETTINGS = Item("configmaps", "shop", "settings")


class Beat:
    """A patrol over a super cluster that holds namespaces only, and what it hands on."""

    def __init__(self, *tenants: TenantSync) -> None:
        self.enqueued: list[tuple[str, Item]] = []
        self.drained: list[tuple[str, str]] = []
        self.meta = PaperApi("meta")
        self.ledger = Ledger(self.meta, "r1", lambda *_: None)  # type: ignore[arg-type]
        self.caches = PaperCaches(NAMESPACES)
        self.patrol = Patrol(
            tenants=lambda: list(tenants),
            caches=self.caches,  # type: ignore[arg-type]
            ledger=self.ledger,
            enqueue=lambda tenant, item: self.enqueued.append((tenant, item)),
            drain=lambda tenant, namespace: self.drained.append((tenant, namespace)),
            period=300.0,
        )

    def hold(self, name: str, **annotations: str) -> None:
        self.caches.reflectors[NAMESPACES].observe(
            Envelope(name, "", f"uid-{name}", "7", annotations=annotations)
        )

    def place(self, namespace: str, slices: int) -> None:
        placed = self.meta.put(
            NAMESPACE_PLACEMENTS,
            {
                "metadata": {
                    "name": namespace,
                    "namespace": KEY,
                    "finalizers": [names.drain_finalizer("r1")],
                },
                "spec": {
                    "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "vc"},
                    "tenant": KEY,
                    "namespace": namespace,
                    "namespaceUID": "ns",
                },
                "status": {"placements": {"r1": slices}},
            },
        )
        self.ledger.reflector.observe(placed)


async def test_a_pair_that_changed_since_it_was_settled_is_enqueued(session: Session) -> None:
    tenant, _ = session()
    tenant.begin()
    tenant.objects.tenant_caches.reflectors[CONFIG_MAPS].observe(Envelope("settings", "shop", "u", "7"))
    beat = Beat(tenant)
    await beat.patrol.round()
    assert beat.enqueued == [("key", SETTINGS)]
    assert (beat.patrol.rounds, beat.patrol.found) == (1, 1)


async def test_parked_items_are_not_enqueued(session: Session) -> None:
    tenant, _ = session()
    tenant.begin()
    tenant.objects.tenant_caches.reflectors[CONFIG_MAPS].observe(Envelope("settings", "shop", "u", "7"))
    tenant._waiting.park("key", SETTINGS, Wait("the super namespace is missing"), now=1.0)
    beat = Beat(tenant)
    await beat.patrol.round()
    assert (beat.enqueued, beat.patrol.found) == ([], 0)


async def test_a_tenant_whose_caches_are_not_filled_is_not_compared(session: Session) -> None:
    tenant, _ = session()
    tenant.objects.tenant_caches.reflectors[CONFIG_MAPS].observe(Envelope("settings", "shop", "u", "7"))
    beat = Beat(tenant)
    await beat.patrol.round()
    assert beat.enqueued == [], "they may hold half of a list"


async def test_only_namespaces_without_ledger_entry_are_drained() -> None:
    beat = Beat()
    beat.place("shop", 1)
    beat.place("leaving", 0)
    for namespace in ("shop", "leaving", "forgotten"):
        annotations = {names.CLUSTER: KEY, names.NAMESPACE: namespace}
        beat.hold(names.super_namespace(KEY, namespace), **annotations)
    beat.hold("of-nobody")
    beat.hold("defaced", **{names.CLUSTER: KEY})
    beat.hold("of-no-tenant", **{names.NAMESPACE: "shop"})
    await beat.patrol.round()
    assert beat.drained == [(KEY, "forgotten")]


def test_rounds_follow_one_another_a_period_apart(
    in_virtual_time: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    begun: list[float] = []

    async def patrol() -> None:
        beat = Beat()
        now = asyncio.get_running_loop().time
        beat.patrol._tenants = lambda: begun.append(now()) or []  # type: ignore[func-returns-value]
        running = asyncio.create_task(beat.patrol.run())
        await asyncio.sleep(650.0)
        running.cancel()

    in_virtual_time(patrol())
    assert [at - begun[0] for at in begun] == [0.0, 300.0, 600.0]
