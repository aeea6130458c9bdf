"""The drift ledger and its store: bounds, alarm, restarts, other writers, failures."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from memory_cluster import MemoryCluster

from vcsync.api import names
from vcsync.kube.errors import Forbidden, Status
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.syncer.drift.ledger import KEPT, MANY, RATE_SECONDS, DriftLedger
from vcsync.syncer.drift.repairs import FieldChange, Repair
from vcsync.syncer.drift.store import MAX_BYTES, REPAIRS, DriftStore, encoded

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
NAME = "r1.1-1"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def repair(number: int = 0, kind: str = "services", manager: str = "kubectl-edit", **more: Any) -> Repair:
    change = FieldChange("spec.type", "NodePort", "ClusterIP", manager)
    when = NOON + timedelta(seconds=number)
    return Repair(when, "vcsync-1-acme", kind, "shop", f"s-{number}", "changed", (change,), **more)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> DriftLedger:
    return DriftLedger(clock)


@pytest.fixture
def meta() -> MemoryCluster:
    return MemoryCluster("meta")


def store(meta: MemoryCluster, ledger: DriftLedger) -> DriftStore:
    return DriftStore(meta, ledger, "r1", (1, 1))  # type: ignore[arg-type]


def stored(meta: MemoryCluster) -> list[str]:
    """Return the names in the ConfigMap."""
    found = meta.found(CONFIG_MAPS, NAME, names.DRIFT_NAMESPACE)
    return [] if found is None else [each["name"] for each in json.loads(found["data"][REPAIRS])]


def test_the_oldest_repairs_are_dropped_and_all_are_counted(ledger: DriftLedger) -> None:
    for number in range(KEPT + 3):
        ledger.record(repair(number))
    assert (ledger.total, len(ledger.repairs())) == (KEPT + 3, KEPT)
    assert [each.name for each in ledger.latest(2)] == [f"s-{KEPT + 2}", f"s-{KEPT + 1}"]
    assert ledger.counts == {("services", "changed"): KEPT + 3}


def test_many_repairs_raise_one_alarm_in_each_interval(ledger: DriftLedger, clock: Clock) -> None:
    for number in range(MANY):
        ledger.record(repair(number, manager="vcsync/other"))
    assert ledger.alarm() == ""
    for number in range(MANY + 1):
        ledger.record(repair(number, kind="pods", manager="argocd"))
    message = ledger.alarm()
    assert f"{2 * MANY + 1} objects" in message
    assert f"{MANY + 1} of them pods, most often changed by argocd" in message
    assert ledger.alarm() == "", "it has been said"
    clock.now += RATE_SECONDS
    assert ledger.alarm() == "", "they are long past"
    for number in range(MANY + 1):
        ledger.record(repair(number))
    assert ledger.alarm()


def test_an_alarm_about_removed_objects_names_nobody(ledger: DriftLedger) -> None:
    for number in range(MANY + 1):
        when = NOON + timedelta(seconds=number)
        ledger.record(Repair(when, "vcsync-1-acme", "pods", "shop", "web", "removed"))
    assert "most often changed by an unknown field manager" in ledger.alarm()


async def test_repairs_survive_a_restart(meta: MemoryCluster, ledger: DriftLedger, clock: Clock) -> None:
    first = store(meta, ledger)
    await first.step()
    assert stored(meta) == [], "nothing is written without repairs"
    ledger.record(repair(1))
    await first.step()
    later = DriftLedger(clock)
    later.record(repair(2))
    second = store(meta, later)
    await second.step()
    assert stored(meta) == ["s-1", "s-2"]
    assert [each.name for each in later.repairs()] == ["s-1", "s-2"]
    assert later.total == 1, "counters begin with the process"


async def test_nothing_is_written_while_there_is_nothing_new(
    meta: MemoryCluster, ledger: DriftLedger
) -> None:
    one = store(meta, ledger)
    ledger.record(repair(1))
    await one.step()
    before = meta.found(CONFIG_MAPS, NAME, names.DRIFT_NAMESPACE)
    for _ in range(3):
        await one.step()
    assert meta.found(CONFIG_MAPS, NAME, names.DRIFT_NAMESPACE) == before


async def test_two_writers_lose_nothing(meta: MemoryCluster, ledger: DriftLedger, clock: Clock) -> None:
    other_ledger = DriftLedger(clock)
    one, other = store(meta, ledger), store(meta, other_ledger)
    ledger.record(repair(1))
    await one.step()
    await other.step()
    other_ledger.record(repair(2))
    await other.step()
    ledger.record(repair(3))
    await one.step()
    await one.step()
    assert stored(meta) == ["s-1", "s-2", "s-3"]


async def test_a_removed_config_map_is_written_again(meta: MemoryCluster, ledger: DriftLedger) -> None:
    one = store(meta, ledger)
    ledger.record(repair(1))
    await one.step()
    meta.remove(CONFIG_MAPS, NAME, names.DRIFT_NAMESPACE)
    ledger.record(repair(2))
    await one.step()
    await one.step()
    assert stored(meta) == ["s-1", "s-2"]


async def test_a_refusal_is_named_and_the_repairs_are_written_later(
    meta: MemoryCluster, ledger: DriftLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = store(meta, ledger)
    ledger.record(repair(1))
    with monkeypatch.context() as patched:
        patched.setattr(meta, "create", _forbidden)
        await one.step()
    assert "forbidden here" in one.trouble
    await one.step()
    assert (one.trouble, stored(meta)) == ("", ["s-1"])


async def _forbidden(*_: object, **__: object) -> None:
    raise Forbidden(Status(code=403, reason="Forbidden", message="forbidden here"), endpoint="meta")


@pytest.mark.parametrize("text", ["", "{", "{}", '[{"when": 1}]'])
async def test_a_malformed_config_map_is_replaced(
    meta: MemoryCluster, ledger: DriftLedger, text: str
) -> None:
    meta.put(CONFIG_MAPS, NAME, names.DRIFT_NAMESPACE, data={REPAIRS: text})
    ledger.record(repair(1))
    await store(meta, ledger).step()
    assert stored(meta) == ["s-1"]


async def test_many_repairs_are_reported_at_the_super_cluster(
    meta: MemoryCluster, ledger: DriftLedger
) -> None:
    for number in range(MANY + 1):
        ledger.record(repair(number))
    one = store(meta, ledger)
    await one.step()
    [event] = one._events._waiting
    assert (event.reason, event.regarding.kind, event.regarding.name) == (
        "ManyDriftRepairs",
        "SuperCluster",
        "r1",
    )


def test_large_repairs_are_left_out_oldest_first() -> None:
    large = FieldChange("x" * 100_000)
    repairs = [Repair(NOON, "t", "pods", "shop", f"s-{number}", "changed", (large,)) for number in range(9)]
    text = encoded(repairs)
    assert len(text) <= MAX_BYTES
    assert [each["name"] for each in json.loads(text)] == ["s-4", "s-5", "s-6", "s-7", "s-8"]
