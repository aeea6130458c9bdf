"""`vcsync what-if` and `vcsync snapshot`: options, output and exit codes, on saved pools."""

import json
from pathlib import Path

import pytest

from vcsync.cli.command.main import main
from vcsync.whatif.snapshot import NamespaceState, Snapshot, SuperState, TenantState, write

SLICE = {"cpu": "1", "memory": "1Gi"}


def super_cluster(super_id: str) -> SuperState:
    return SuperState(id=super_id, allocatable={"cpu": "4", "memory": "4Gi"}, prices={"cpu": "0.5"})


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A pool of two super clusters with a namespace of three slices."""
    shop = NamespaceState(
        tenant="k-acme",
        name="shop",
        quota={"cpu": "3"},
        slice_size=SLICE,
        slices=3,
        placements={"r1": 2, "r2": 1},
    )
    path = tmp_path / "pool.json"
    path.write_bytes(
        write(
            Snapshot(
                default_slice=SLICE,
                super_clusters=(super_cluster("r1"), super_cluster("r2")),
                tenants=(TenantState(key="k-acme", name="acme"),),
                namespaces=(shop,),
            )
        )
    )
    return str(path)


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["what-if", *arguments]) == 0
    return capsys.readouterr().out


def test_the_table_shows_moves_use_and_price(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = asked(capsys, "--snapshot", file, "--lose", "r2").splitlines()
    assert lines[0] == "1 slice moves, 0 wait."
    assert lines[1] == "The price per hour goes from 1.5 to 1.5."
    assert [line.split() for line in lines if line.startswith("acme/shop")] == [
        ["acme/shop", "r2:", "1", "r1:", "1", "-", "cpu=1,memory=1Gi"]
    ]
    assert any(line.startswith("r2 (lost)") and "1 -> -" in line for line in lines)


def test_json_has_the_same_with_prices_as_decimal_numbers(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    added = "r9=cpu=8,memory=8Gi,price.cpu=0.25,label.zone=b"
    found = json.loads(
        asked(capsys, "--snapshot", file, "--scale-tenant", "acme=4", "--add-super", added, "-o", "json")
    )
    [shop] = found["namespaces"]
    assert sum(shop["after"].values()) == 12
    assert (found["waitingAfter"], found["settled"]) == (0, True)
    assert found["priceBefore"] == "1.5"
    assert {each["superCluster"]: each["before"] is None for each in found["superClusters"]} == {
        "r1": False,
        "r2": False,
        "r9": True,
    }


def test_those_that_wait_have_a_reason(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = asked(capsys, "--snapshot", file, "--scale-tenant", "acme=3")
    assert "0 slices move, 1 waits instead of 0." in said
    assert "cpu 1 asked, 0 of 4 free" in said


def test_an_advice_names_the_headroom_and_each_loss(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = asked(capsys, "--snapshot", file, "--advise-headroom")
    assert said.startswith("A headroom of 26% on each super cluster survives the loss of any one of them.")
    alone = asked(capsys, "--snapshot", file, "--advise-headroom", "--lose", "r2")
    assert alone.startswith("No headroom survives the loss of any one super cluster: the pool has 1 super")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lose", "r7"], "--lose r7: there is no such super cluster; there are r1, r2"),
        (["--scale-tenant", "acme"], "give TENANT=FACTOR"),
        (["--scale-tenant", "acme=-1"], "give TENANT=FACTOR"),
        (["--scale-tenant", "acme=much"], "give TENANT=FACTOR"),
        (["--add-super", "R9=cpu=1"], "give NAME=RESOURCE=AMOUNT"),
        (["--add-super", "r9=cpu=1"], "--add-super r9 needs both cpu and memory"),
        (["--add-super", "r9=cpu=1,memory=1Gi,price.pods=1"], "prices are of cpu and memory"),
        (["--add-super", "r9=cpu=1,memory=1Gi,price.cpu=dear"], "'dear' is not a decimal number"),
        (["--add-super", "r9=cpu=1,memory=1Gi,gpu=1"], "gpu: unknown resource"),
        (["--slice-size", "cpu=1"], "--slice-size needs both cpu and memory"),
        (["--headroom", "cpu=x%"], "--headroom 'cpu=x%'"),
    ],
)
def test_options_that_are_wrong_are_refused_with_the_remedy(
    file: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["what-if", "--snapshot", file, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_replay_tells_by_its_exit_code(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "replay", file]) == 0
    assert capsys.readouterr().out == "the same result for all 1 namespaces (0 skipped)\n"
    stored = json.loads(Path(file).read_text())
    stored["namespaces"][0]["slices"] = 4
    Path(file).write_text(json.dumps(stored))
    assert main(["snapshot", "replay", file]) == 1
    printed = capsys.readouterr()
    assert "acme/shop  r1: 2, r2: 1  r1: 2, r2: 2" in printed.out
    assert "1 of 1 namespaces get another result" in printed.err


def test_a_file_that_is_no_snapshot_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")
    assert main(["what-if", "--snapshot", str(path)]) == 2
    assert f"{path}: kind: '' is not PoolSnapshot" in capsys.readouterr().err
