"""Freed amounts are distributed again only after they are cleared, so that capacity is never exceeded."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from vcsync.api import names
from vcsync.api.objects import VirtualCluster
from vcsync.api.specs import VirtualClusterSpec, VirtualClusterStatus
from vcsync.nsscheduler.commit import commit
from vcsync.nsscheduler.reconcile import Inputs, reconcile
from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.resources import Resources, from_quantities
from vcsync.scheduling.snapshot import Health, SuperView
from vcsync.tenancy.distribution import entry_of

from .fakes import ROOT, Interrupted, Meta, Tenant

NAMESPACES = ("shop", "blog")
SIZES = ({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}, {"cpu": "500m", "memory": "3Gi"})
CAPACITY = from_quantities({"cpu": "4", "memory": "8Gi"})
SUPERS = ("r1", "r2")


class World:
    """Tenants' namespaces, the ledger, and super clusters whose tenants use at once all that they are given.

    A look is that of a scheduler that has just started: all it knows is in the ledger.
    """

    def __init__(self) -> None:
        self.meta = Meta()
        self.tenants = {name: Tenant() for name in NAMESPACES}
        self.size = dict.fromkeys(NAMESPACES, SIZES[0])
        self.views = {super_id: SuperView(super_id, Health.READY, CAPACITY) for super_id in SUPERS}
        self.held: dict[tuple[str, str], Resources] = {}
        for name, tenant in self.tenants.items():
            tenant.put(name, {"metadata": {"uid": f"uid-{name}-1"}})

    def want(self, name: str, slices: int) -> None:
        """Set the namespace's quota."""
        size = from_quantities(self.size[name])
        hard = {key: f"{amount * slices}m" for key, amount in size.items()}
        self.tenants[name].hards = [hard] if slices else []

    def lost(self) -> list[str]:
        return [super_id for super_id, view in self.views.items() if view.health is Health.LOST]

    def entries(self) -> dict[str, Entry]:
        found = {name: self.meta.entry(name) for name in NAMESPACES}
        return {name: entry_of(entry) for name, entry in found.items() if entry is not None}

    def look(self, name: str, *, cut_off_at: int | None = None) -> None:
        """Let the scheduler look at a namespace; it may end before one of its writes."""
        ledger = Ledger()
        for other, entry in self.entries().items():
            ledger.put((ROOT, other), entry)
        owner = VirtualCluster(
            name="vc",
            namespace="vcsync",
            uid="vc-uid",
            spec=VirtualClusterSpec(),
            status=VirtualClusterStatus(cluster_namespace=ROOT),
        )
        tenant, placement = self.tenants[name], self.meta.entry(name)
        inputs = Inputs(
            (ROOT, name),
            owner,
            tenant.read(name),
            tuple(tenant.hards),
            placement,
            self.views,
            ledger,
            from_quantities(self.size[name]),
            "spread",
            "2026-01-01T00:00:00Z",
            leaving=dict.fromkeys(self.lost(), 0),
        )
        self.meta.fail_at = None if cut_off_at is None else len(self.meta.writes) + cut_off_at
        try:
            asyncio.run(commit(inputs, reconcile(inputs), self.meta.ledger(), tenant.control_plane()))
        except Interrupted:
            pass
        finally:
            self.meta.fail_at = None
        self.use()

    def use(self) -> None:
        for name, entry in self.entries().items():
            deleting = bool(self.meta.objects[name]["metadata"].get("deletionTimestamp"))
            for super_id, slices in entry.placements.items():
                held = self.held.setdefault((super_id, name), {})
                for key, amount in entry.size.items():
                    held[key] = held.get(key, 0) if deleting else max(held.get(key, 0), amount * slices)

    def clear(self, super_id: str, name: str) -> None:
        """Let a syncer clear what it is to give up, and say so, unless it is lost."""
        placement = self.meta.entry(name)
        if placement is None or super_id in self.lost():
            return
        drain, clear = names.drain_finalizer(super_id), names.clear_finalizer(super_id)
        slices = 0 if placement.deleting else placement.status.placements.get(super_id, 0)
        if slices:
            if super_id not in placement.status.clearing or clear not in placement.finalizers:
                return
            self.held[super_id, name] = {
                key: amount * slices for key, amount in entry_of(placement).size.items()
            }
            gone = {clear}
        else:
            self.held.pop((super_id, name), None)
            gone = {drain, clear}
        kept = [finalizer for finalizer in placement.finalizers if finalizer not in gone]
        self.meta.patch(name, {"metadata": {"finalizers": kept}})

    def total(self, super_id: str) -> Resources:
        total: Resources = {}
        for (where, _), held in self.held.items():
            for key, amount in held.items() if where == super_id else ():
                total[key] = total.get(key, 0) + amount
        return total


@pytest.fixture
def world() -> World:
    return World()


def placed(world: World, name: str) -> dict[str, int]:
    entry = world.entries().get(name)
    return {} if entry is None else entry.placements


def test_amounts_of_shrunk_slices_are_distributed_again_when_they_are_cleared(world: World) -> None:
    world.views = {"r1": world.views["r1"]}
    world.want("shop", 4)
    world.look("shop")
    world.want("shop", 1)
    world.look("shop")
    assert placed(world, "shop") == {"r1": 1}
    world.want("blog", 2)
    world.look("blog")
    assert placed(world, "blog") == {}, "Pods of shop may still use it"
    entry = world.meta.entry("shop")
    assert entry is not None
    assert entry.status.clearing == {"r1": {"cpu": "3", "memory": "3Gi"}}
    world.clear("r1", "shop")
    world.look("shop")
    world.look("blog")
    assert placed(world, "blog") == {"r1": 2}
    entry = world.meta.entry("shop")
    assert entry is not None
    assert entry.status.clearing == {}


def test_amounts_of_moved_slices_are_distributed_again_when_they_are_cleared(world: World) -> None:
    world.views = {"r1": world.views["r1"]}
    world.want("shop", 4)
    world.look("shop")
    world.views["r1"] = SuperView("r1", Health.READY, CAPACITY, draining=True)
    world.views["r2"] = SuperView("r2", Health.READY, CAPACITY)
    world.look("shop")
    assert placed(world, "shop") == {"r2": 4}
    world.views = {"r1": SuperView("r1", Health.READY, CAPACITY)}
    world.want("blog", 4)
    world.look("blog")
    assert placed(world, "blog") == {}
    world.clear("r1", "shop")
    world.look("blog")
    assert placed(world, "blog") == {"r1": 4}


def test_slices_that_left_a_lost_super_cluster_count_there_until_it_has_cleared_them(world: World) -> None:
    world.views = {"r1": world.views["r1"]}
    world.want("shop", 4)
    world.look("shop")
    world.views["r1"] = SuperView("r1", Health.LOST, CAPACITY)
    world.views["r2"] = SuperView("r2", Health.READY, CAPACITY)
    world.look("shop")
    assert placed(world, "shop") == {"r2": 4}
    entry = world.meta.entry("shop")
    assert entry is not None
    assert entry.status.clearing == {"r1": {"cpu": "4", "memory": "4Gi"}}
    world.views["r1"] = SuperView("r1", Health.READY, CAPACITY)
    world.want("blog", 4)
    world.look("blog")
    assert placed(world, "blog") == {}, "Pods of shop may still run there"
    world.clear("r1", "shop")
    world.look("blog")
    assert placed(world, "blog") == {"r1": 4}
    world.look("shop")
    assert placed(world, "shop") == {"r2": 4}, "nothing goes back by itself"


def test_a_namespace_may_get_its_slices_back_before_they_are_cleared(world: World) -> None:
    world.views = {"r1": world.views["r1"]}
    for slices in (4, 1, 4):
        world.want("shop", slices)
        world.look("shop")
    assert placed(world, "shop") == {"r1": 4}
    entry = world.meta.entry("shop")
    assert entry is not None
    assert entry.status.clearing == {}


def test_a_removed_super_cluster_has_nothing_to_clear(world: World) -> None:
    world.want("shop", 2)
    world.look("shop")
    entry = world.meta.entry("shop")
    assert entry is not None
    kept = [one for one in entry.finalizers if names.super_id_of_finalizer(one) != "r1"]
    world.meta.patch("shop", {"metadata": {"finalizers": kept}})  # vcsync super remove r1 --force
    del world.views["r1"]
    world.look("shop")
    entry = world.meta.entry("shop")
    assert entry is not None
    assert entry.status.clearing == {}


def step(world: World, chance: Random) -> None:
    """Let one thing happen: a quota or a size changes, an operator drains or pins, a syncer clears, one is lost or returns."""
    name, super_id = chance.choice(NAMESPACES), chance.choice(SUPERS)
    match chance.choice(("want", "want", "want", "look", "clear", "drain", "lose", "anew", "pin")):
        case "want":
            world.size[name] = chance.choice(SIZES)
            world.want(name, chance.randint(0, 6))
            world.look(name, cut_off_at=chance.choice((None, None, None, 0, 1)))
        case "look":
            world.look(name)
        case "clear":
            world.clear(super_id, name)
        case "drain":
            draining = chance.random() < 0.5
            world.views[super_id] = SuperView(super_id, Health.READY, CAPACITY, draining=draining)
        case "lose":
            health = Health.READY if world.views[super_id].health is Health.LOST else Health.LOST
            world.views[super_id] = SuperView(super_id, health, CAPACITY)
        case "anew":
            found = world.tenants[name].read(name)
            assert found is not None
            number = int(found.uid.rpartition("-")[2]) + 1
            world.tenants[name].put(name, {"metadata": {"uid": f"uid-{name}-{number}"}})
        case "pin" if world.meta.entry(name) is not None:
            pins: dict[str, Any] = {super_id: chance.choice((None, 1, 3))}
            world.meta.patch(name, {"spec": {"pins": pins}})


@pytest.mark.parametrize("seed", range(60))
def test_the_capacity_is_never_exceeded(world: World, seed: int) -> None:
    chance = Random(seed)
    for _ in range(40):
        step(world, chance)
        for super_id in SUPERS:
            for key, amount in world.total(super_id).items():
                assert amount <= CAPACITY[key], (super_id, key)
