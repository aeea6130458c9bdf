"""The namespace scheduler lets namespaces leave super clusters that drain in waves."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from vcsync.nsscheduler.drains import Drains
from vcsync.scheduling.ledger import Entry, Ledger
from vcsync.scheduling.snapshot import Health, SuperView

CPU = {"cpu": 1000}
ACME = [("acme", f"ns-{number:02}") for number in range(25)]


class World:
    """A pool with two super clusters, and a ledger."""

    def __init__(self) -> None:
        pool: Any = SimpleNamespace(views={})
        self.views = pool.views
        self.ledger = Ledger()
        self.added: list[tuple[str, str]] = []
        self.drains = Drains(pool, self.ledger, self.added.append, Random(7), lambda: 0.0)
        self.show("r1", draining=True)
        self.show("r2")
        for key in ACME:
            self.ledger.put(key, Entry(CPU, {"r1": 1}))

    def show(self, super_id: str, health: Health = Health.READY, *, draining: bool = False) -> None:
        self.views[super_id] = SuperView(super_id, health, CPU, draining=draining)

    def move(self, key: tuple[str, str], *, cleared: bool = False) -> None:
        self.ledger.put(key, Entry(CPU, {"r2": 1}, {} if cleared else {"r1": CPU}))

    def take(self) -> list[tuple[str, str]]:
        taken, self.added[:] = list(self.added), []
        return taken


@pytest.fixture
def world() -> World:
    return World()


def test_the_next_wave_follows_those_that_have_been_cleared(world: World) -> None:
    world.drains.look()
    first = world.take()
    assert len(first) == 10
    assert all(bool(world.drains.waves.held(key)) == (key not in first) for key in ACME)
    for key in first:
        world.move(key)
    world.drains.look()
    assert world.take() == []
    for key in first[:3]:
        world.move(key, cleared=True)
    world.drains.follow()
    assert len(world.take()) == 3


def test_a_change_of_the_pool_lets_those_try_again_that_found_no_room(world: World) -> None:
    world.drains.look()
    first = world.take()
    for key in first:
        world.drains.waves.note_decided(key, ())
    world.move(first[0])
    world.drains.follow()
    assert set(first[1:]) < set(world.take())


def test_nothing_leaves_a_super_cluster_that_does_not_drain(world: World) -> None:
    world.show("r1")
    world.drains.follow()
    assert world.take() == []
    assert not any(world.drains.waves.held(key) for key in ACME)


def test_what_leaves_a_lost_super_cluster_is_not_waited_for(world: World) -> None:
    world.show("r1", Health.LOST, draining=True)
    world.drains.look()
    for key in world.take():
        world.move(key)
    world.drains.look()
    assert len(world.take()) == 10
