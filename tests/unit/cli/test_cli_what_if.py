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
    lines = asked(capsys, "--snapshot", file, "--remove", "r2").splitlines()
    assert lines[0] == "1 slice moves, 0 wait."
    assert lines[1] == "The price per hour goes from 1.5 to 1.5."
    assert [line.split() for line in lines if line.startswith("acme/shop")] == [
        ["acme/shop", "r2:", "1", "r1:", "1", "-", "cpu=1,memory=1Gi"]
    ]
    assert any(line.startswith("r2 (removed)") and "1 -> -" in line for line in lines)


def test_a_loss_is_asked_under_the_policies_of_tenants(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = asked(capsys, "--snapshot", file, "--lose", "r2").splitlines()
    assert lines[0] == "0 slices move, 1 stays on what is lost, 0 wait."
    assert lines[2] == "r2 is lost: 0 of 1 namespaces leave it."
    assert lines[-1].split(maxsplit=5) == [
        "r2",
        "acme/shop",
        "Stay",
        "0",
        "1",
        "1: the tenant's policy is Stay",
    ]
    for policy in ("MoveAfter=5m", "acme=MoveStateless"):
        lines = asked(capsys, "--snapshot", file, "--lose", "r2", "--failover", policy).splitlines()
        assert lines[0] == "1 slice moves, 0 stay on what is lost, 0 wait."
        assert lines[2] == "r2 is lost: 1 of 1 namespaces leaves it, in 1 wave."
        assert lines[3].startswith("Of 1 slice that leaves, 0 may go back")
        assert any(line.startswith("r2 (lost)") and "1 -> 0" in line for line in lines)
    assert any("counted as if no Pod had a claim" in line for line in lines)


def test_a_policy_of_one_tenant_comes_before_that_of_all(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--lose", "r2", "--failover", "Stay", "--failover", "acme=MoveAfter=1h", "-o", "json")
    found = json.loads(asked(capsys, "--snapshot", file, *options))
    assert [each["failover"] for each in found["lostSlices"]] == [
        {"policy": "MoveAfter", "afterSeconds": 3600}
    ]


def test_the_default_of_the_schedulers_is_for_tenants_without_a_policy(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--snapshot", file, "--lose", "r2", "--default-failover", "MoveAfter", "-o", "json")
    assert json.loads(asked(capsys, *options))["moved"] == 1
    stored = json.loads(Path(file).read_text())
    stored["tenants"][0]["ownFailover"] = True
    Path(file).write_text(json.dumps(stored))
    assert json.loads(asked(capsys, *options))["moved"] == 0


def test_an_old_file_is_answered_with_what_is_assumed(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    stored = json.loads(Path(file).read_text())
    stored["version"] = 1
    for field in ("failover", "ownFailover", "failBack", "podsKnown"):
        del stored["tenants"][0][field]
    Path(file).write_text(json.dumps(stored))
    assert main(["what-if", "--snapshot", file, "--lose", "r2"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("0 slices move, 1 stays")
    assert "version 1 has no failover policies, so that Stay and Never are assumed" in printed.err


def test_pods_of_a_file_are_told(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    stored = json.loads(Path(file).read_text())
    stored["tenants"][0]["podsKnown"] = True
    stored["namespaces"][0]["pods"] = {"r2": {"pods": 4, "withClaims": 1, "ofStatefulSets": 1, "slices": 1}}
    Path(file).write_text(json.dumps(stored))
    lines = asked(capsys, "--snapshot", file, "--lose", "r2", "--failover", "MoveAfter").splitlines()
    assert lines[-1].split() == ["r2", "acme/shop", "4", "2", "1", "1", "0"]
    lines = asked(capsys, "--snapshot", file, "--lose", "r2", "--failover", "MoveStateless").splitlines()
    assert lines[0].startswith("0 slices move, 1 stays")
    assert not any("counted as if" in line for line in lines)


def test_an_advice_is_about_the_pool_without_what_is_lost(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {
        asked(capsys, "--snapshot", file, "--advise-headroom", option, "r2")
        for option in ("--lose", "--fence", "--remove")
    }
    assert len(told) == 1


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
        (["--advise-headroom", "--lose", "r7"], "--lose r7: there is no such super cluster"),
        (["--fence", "r7"], "--fence r7: there is no such super cluster; there are r1, r2"),
        (["--remove", "r2", "--lose", "r2"], "--remove r2: --lose names it, too; give one of them"),
        (
            ["--failover", "Move"],
            "--failover 'Move': give Stay, MoveAfter=DURATION or MoveStateless=DURATION",
        ),
        (["--failover", "acme=Move"], "--failover acme 'Move': give Stay, MoveAfter=DURATION or"),
        (["--failover", "Stay=5m"], "--failover 'Stay=5m': Stay takes no duration: remove '=5m'"),
        (["--failover", "MoveAfter=5"], "--failover 'MoveAfter=5': '5' is not a duration"),
        (
            ["--failover", "=Stay"],
            "--failover '=Stay': give each tenant once, for instance acme=MoveAfter=5m",
        ),
        (["--failover", "nobody=Stay"], "--failover nobody: there is no such tenant; 'vcsync tenant list'"),
        (["--failover", "Stay", "--failover", "MoveAfter"], "'MoveAfter': give one policy for all tenants"),
        (["--failover", "acme=Stay", "--failover", "acme=Stay"], "'acme=Stay': give each tenant once"),
        (["--default-failover", "Move"], "--default-failover 'Move': give Stay, MoveAfter=DURATION or"),
        (["--pods"], "--pods: a file has the Pods that 'vcsync snapshot save --pods' counted; remove --pods"),
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
