"""The tables of attacks are large enough and well formed, and damage to others is reported."""

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hack.attacks.case import Case, Scene
from hack.attacks.client import Answer, Door
from hack.attacks.costly.measured import TICK_SECONDS, LongestStep, watched
from hack.attacks.costly.row import Row
from hack.attacks.costly.steps import Cost
from hack.attacks.costly.table import GROUPS
from hack.attacks.routes import routes
from hack.attacks.tables import TABLES, sweep
from hack.attacks.tables.sweep import THEATRES, Result, Theatre, attack, cases, suited
from hack.attacks.world import World
from vcsync.apimachinery.schema import builtin
from vcsync.apiserver.operator.api import OperatorApi

ENOUGH = 900
ENOUGH_COSTLY = 20
FINE = Answer(200, body=b"{}")


def test_there_are_enough_attacks_and_every_table_has_some() -> None:
    everything = cases([*TABLES], "", 1)
    assert {table for table, _ in everything} == TABLES.keys()
    for theatre in THEATRES:
        assert len(suited(everything, theatre)) >= ENOUGH


def test_attacks_are_selected_by_name_and_by_number() -> None:
    chosen = cases([*TABLES], "^names: clusterroles", 5)
    assert {table for table, _ in chosen} == {"names"}
    assert 5 * len(chosen) >= len(cases([*TABLES], "^names: clusterroles", 1)) > len(chosen)


@pytest.mark.parametrize("every", [1, 7, 9, 1000])
def test_some_attacks_are_in_every_share(every: int) -> None:
    chosen = {f"{table}: {case.name}" for table, case in cases([*TABLES], "", every)}
    assert {
        "storing: a disk that is full",
        "storing: a store that is gone",
        f"names: clusterroles {json.dumps(chr(0x10FFFF))}",
    } <= chosen


def test_costly_attacks_have_names_of_their_own_and_each_group_has_some() -> None:
    names = [row.name for rows in GROUPS.values() for row in rows]
    assert len(set(names)) == len(names)
    assert all(len(rows) >= ENOUGH_COSTLY for rows in GROUPS.values())


def test_the_longest_step_of_another_process_is_seen_until_it_is_reset(tmp_path: Path) -> None:
    here, there = LongestStep(tmp_path / "steps"), LongestStep(tmp_path / "steps")
    for seconds in (0.25, 2.0, 0.5):
        there.add(seconds)
    assert here.seconds() == 2.0
    here.reset()
    there.add(0.125)
    assert here.seconds() == 0.125


def test_a_step_of_the_loop_is_measured(tmp_path: Path) -> None:
    longest = LongestStep(tmp_path / "steps")

    async def spin() -> None:
        await asyncio.sleep(3 * TICK_SECONDS)
        longest.reset()
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        await asyncio.sleep(3 * TICK_SECONDS)

    asyncio.run(watched(spin(), longest))
    assert longest.seconds() >= 0.05


@pytest.mark.parametrize(
    ("seconds", "size", "note"),
    [(0.01, 0, ""), (0.5, 0, "a step above the aim"), (0.01, 97 * 2**20, "memory above")],
)
def test_costs_above_an_aim_are_marked(seconds: float, size: int, note: str) -> None:
    line = str(Cost(Row("a", lambda _: []), seconds, size, {200: 1}, []))
    assert note in line
    assert ("above" in line) == bool(note)


def test_routes_come_from_the_tables() -> None:
    paths = {each.path for each in routes()}
    for resource in builtin.resources():
        assert any(path.endswith(f"/{resource.plural}/x") for path in paths)
    assert sum(path.startswith("/vcsync/v1/tenants") for path in paths) >= len(OperatorApi.routes)


class Stage:
    """A theatre without a server, whose observations the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rights = "may see ConfigMaps"
        self.secrets, self.memory = 403, 100
        monkeypatch.setattr(sweep, "rights", lambda _: self.rights)
        monkeypatch.setattr(sweep, "resident_memory", lambda _: self.memory)
        monkeypatch.setattr(Door, "ask", self.ask)
        monkeypatch.setattr(Theatre, "scenes", lambda *_: [cast("Scene", None)])
        world = cast("World", SimpleNamespace(plane=SimpleNamespace(pid=1), problems=lambda: self.problems))
        self.problems: list[str] = []
        self.theatre = Theatre("one process", [world], Path("/nowhere"), [Door(0, cast("Any", None))])
        self.theatre.begin()

    def ask(self, _method: str, path: str, *_: object) -> Answer:
        return replace(FINE, status=self.secrets if "secrets" in path else 200)

    def misses(self, *cases: Case) -> list[str]:
        result = Result()
        attack(self.theatre, [("table", each) for each in cases], result)
        assert result.counts.total() == len(cases)
        return result.misses


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_refused_attack_is_not_a_miss(stage: Stage) -> None:
    assert stage.misses(Case("a", lambda _: [])) == []


def test_a_successful_attack_is_a_miss(stage: Stage) -> None:
    assert len(stage.misses(Case("a", lambda _: ["it holds"]), Case("b", lambda _: []))) == 1


@pytest.mark.parametrize(
    ("what", "value", "message"),
    [
        ("rights", "may see Secrets", "rights of another tenant's user changed"),
        ("secrets", 200, "another tenant's user gets 200, not 403"),
        ("memory", 100 + sweep.MORE_MEMORY + 1, "MiB more than before"),
        ("memory", 0, "has ended"),
        ("problems", ["Traceback"], "Traceback"),
    ],
)
def test_damage_by_an_attack_is_a_miss(stage: Stage, what: str, value: Any, message: str) -> None:
    def harm(_: Scene) -> list[str]:
        setattr(stage, what, value)
        return []

    assert any(message in miss for miss in stage.misses(Case("a", harm)))


def test_a_failing_attack_is_a_miss(stage: Stage) -> None:
    def cut(_: Scene) -> list[str]:
        raise ConnectionRefusedError("nobody listens")

    assert any("nobody listens" in miss for miss in stage.misses(Case("a", cut)))


def test_a_store_that_does_not_shrink_is_a_miss(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "SETTLE_SECONDS", 0.0)
    assert list(stage.theatre.settled()) == []
    monkeypatch.setattr(sweep, "size_of", lambda _: sweep.MORE_STORE["one process"] + 1)
    assert len(list(stage.theatre.settled())) == 1
