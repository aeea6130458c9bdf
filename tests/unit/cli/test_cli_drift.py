"""`vcsync drift`: the table, the choice, JSON, and lines that follow."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from memory_cluster import MemoryCluster

from vcsync.api import names
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.drift import commands
from vcsync.cli.drift.commands import drift
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.syncer.drift.repairs import FieldChange, Repair
from vcsync.syncer.drift.store import REPAIRS, encoded

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
ACME, UMBRELLA = "vcsync-111111-acme", "vcsync-222222-umbrella"


def repair(number: int, tenant: str = ACME, **more: Any) -> Repair:
    change = FieldChange("spec.type", "NodePort", "ClusterIP", "kubectl-edit", "2026-11-27T11:59:00Z")
    fields: dict[str, Any] = {"cause": "changed", "changes": (change,), **more}
    return Repair(NOON + timedelta(minutes=number), tenant, "services", "shop", f"s-{number}", **fields)


def store(meta: MemoryCluster, super_id: str, *repairs: Repair) -> None:
    meta.put(
        CONFIG_MAPS,
        f"{super_id}.1-1",
        names.DRIFT_NAMESPACE,
        data={REPAIRS: encoded(repairs)},
        metadata={"labels": {names.DRIFT_OF: super_id}},
    )


@pytest.fixture
def meta(monkeypatch: pytest.MonkeyPatch) -> MemoryCluster:
    cluster = MemoryCluster("meta")
    for key, name in ((ACME, "acme"), (UMBRELLA, "umbrella")):
        cluster.put(VIRTUAL_CLUSTERS, name, "vcsync", spec={}, status={"clusterNamespace": key})

    @asynccontextmanager
    async def client(_: str | None) -> Any:
        yield cluster

    monkeypatch.setattr(commands, "meta_client", client)
    return cluster


def shown(*arguments: str) -> list[str]:
    done = CliRunner().invoke(drift, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_the_table_has_a_row_for_each_field_oldest_first(meta: MemoryCluster) -> None:
    store(meta, "r2", repair(2, UMBRELLA, changes=(), cause="removed"))
    store(meta, "r1", repair(1), repair(3, more=7))
    lines = [line.split() for line in shown()]
    assert [" ".join(line) for line in lines[1:]] == [
        "2026-11-27T12:01:00Z r1 acme services/shop/s-1 changed spec.type NodePort ClusterIP kubectl-edit",
        "2026-11-27T12:02:00Z r2 umbrella services/shop/s-2 removed - - - -",
        "2026-11-27T12:03:00Z r1 acme services/shop/s-3 changed spec.type NodePort ClusterIP kubectl-edit",
        "2026-11-27T12:03:00Z r1 acme services/shop/s-3 changed and 7 more - - -",
    ]


@pytest.mark.parametrize(
    ("arguments", "names_"),
    [
        (("--tenant", "acme"), ["s-1"]),
        (("--tenant", ACME), ["s-1"]),
        (("--super-cluster", "r2"), ["s-2"]),
        (("--tenant", "acme", "--super-cluster", "r2"), []),
    ],
)
def test_repairs_are_chosen_by_tenant_and_super_cluster(
    meta: MemoryCluster, arguments: tuple[str, ...], names_: list[str]
) -> None:
    store(meta, "r1", repair(1))
    store(meta, "r2", repair(2, UMBRELLA))
    found = json.loads("\n".join(shown(*arguments, "-o", "json")))
    assert [each["name"] for each in found] == names_


def test_json_has_every_field(meta: MemoryCluster) -> None:
    store(meta, "r1", repair(1))
    [found] = json.loads("\n".join(shown("-o", "json")))
    assert (found["superCluster"], found["tenant"], found["kind"]) == ("r1", "acme", "services")
    assert found["changes"] == [
        {
            "field": "spec.type",
            "found": "NodePort",
            "restored": "ClusterIP",
            "manager": "kubectl-edit",
            "changed_at": "2026-11-27T11:59:00Z",
        }
    ]


def test_nothing_recorded_is_said(meta: MemoryCluster) -> None:
    assert shown() == ["no repairs are recorded"]


def test_values_cannot_control_a_terminal(meta: MemoryCluster) -> None:
    store(meta, "r1", repair(1, changes=(FieldChange("data.a", "\x1b[2J", "ok"),)))
    assert "\x1b" not in "\n".join(shown())


def test_lines_that_follow_have_no_other_format(meta: MemoryCluster) -> None:
    with pytest.raises(WrongInputError, match="leave out --output"):
        CliRunner().invoke(drift, ["--follow", "-o", "json"], catch_exceptions=False, standalone_mode=False)


async def test_new_repairs_follow_once(meta: MemoryCluster, capsys: pytest.CaptureFixture[str]) -> None:
    store(meta, "r1", repair(1))
    task = asyncio.create_task(commands._follow(commands.Choice("", ""), None))
    try:
        await _until(capsys, "s-1")
        store(meta, "r1", repair(1), repair(2))
        assert "s-1" not in await _until(capsys, "s-2")
    finally:
        task.cancel()


async def _until(capsys: pytest.CaptureFixture[str], text: str) -> str:
    seen = ""
    async with asyncio.timeout(10):
        while text not in seen:
            seen += capsys.readouterr().out
            await asyncio.sleep(0.01)
    return seen
