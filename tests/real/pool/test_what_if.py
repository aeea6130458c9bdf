"""`vcsync snapshot` and `vcsync what-if` on a running pool: what they foretell is what then happens."""

import json
from pathlib import Path
from typing import Any

import pytest
from pool_kit import Pool, Space, deployment, items, super_of

from hack.system import SystemFailed
from tests.real.failure_kit import stateful_set
from tests.real.waiting import eventually
from vcsync.api import names


def _asked(space: Space, *options: str) -> dict[str, Any]:
    """Return the part of an answer that is about the namespace; empty if nothing changes for it."""
    found = json.loads(space.pool.system.vcsync("what-if", *options, "-o", "json"))
    mine = [each for each in found["namespaces"] if each["namespace"] == space.name]
    return dict(mine[0]) if mine else {}


def _is_alone(pool: Pool, space: Space) -> bool:
    """Return whether the ledger has no entry of another namespace of the tenant; fails with the entries that are left."""
    found = items(pool.bed.meta, f"/apis/{names.API_VERSION}/namespaces/{space.key}/namespaceplacements")
    others = [each for each in found if each["metadata"]["name"] != space.name]
    assert not others, json.dumps(others)
    return bool(found)


def test_what_a_removed_super_cluster_would_move_is_what_a_drain_moves(pool: Pool, space: Space) -> None:
    before = space.ledger()
    foretold = _asked(space, "--remove", "r2")
    assert foretold["leave"] == {"r2": 1}
    assert foretold["waitingAfter"] == 0
    assert space.ledger() == before

    pool.system.vcsync("super", "drain", "r2")
    try:
        eventually(lambda: space.placements() == foretold["after"])
    finally:
        pool.system.vcsync("super", "uncordon", "r2")


def _on_lost(space: Space, *options: str) -> dict[str, Any]:
    """Return the part of an answer about the namespace's slices on the super cluster that is lost."""
    found = json.loads(space.pool.system.vcsync("what-if", "--lose", "r2", *options, "-o", "json"))
    [mine] = [each for each in found["lostSlices"] if each["namespace"] == space.name]
    return dict(mine)


def test_a_loss_is_foretold_under_the_policy_of_the_tenant_and_with_its_pods(
    pool: Pool, space: Space, tmp_path: Path
) -> None:
    file = tmp_path / "pool.json"
    before = space.ledger()
    space.apply(deployment("web", 2), stateful_set("db", 2))
    for app in ("web", "db"):
        space.all_running(app, 2)
    there = {app: sum(super_of(each) == "r2" for each in space.pods(app)) for app in ("web", "db")}

    stays = _on_lost(space)
    assert (stays["leave"], stays["pods"]) == (0, None)
    assert "policy is Stay" in stays["stay"][0]["reason"]
    moves = _on_lost(space, "--failover", "acme=MoveAfter=1h", "--pods")
    assert (moves["leave"], moves["stay"]) == (1, [])
    assert moves["pods"] == {
        "replaced": there["web"],
        "waitForFence": there["db"],
        "waitForReturn": 0,
        "replacedOrWait": 0,
    }

    pool.system.vcsync(
        "tenant", "set", "acme", "--failover", "MoveStateless=1h", "--fail-back", "NextRebalance"
    )
    try:
        now = _on_lost(space, "--pods")
        assert now["failover"] == {"policy": "MoveStateless", "afterSeconds": 3600}
        assert (now["leave"], now["failBack"]) == (1, "NextRebalance")
        pool.system.vcsync("snapshot", "save", str(file), "--pods")
    finally:
        pool.system.vcsync("tenant", "set", "acme", "--failover", "", "--fail-back", "")
    assert _on_lost(space, "--snapshot", str(file)) == now
    assert _on_lost(space, "--snapshot", str(file), "--failover", "Stay")["leave"] == 0
    assert (space.ledger() or {})["status"] == (before or {})["status"]


def test_a_saved_pool_has_no_credentials_and_answers_like_the_running_one(
    space: Space, tmp_path: Path
) -> None:
    file = tmp_path / "pool.json"
    system = space.pool.system
    said = system.vcsync("snapshot", "save", str(file))
    assert "2 super clusters, 2 tenants" in said

    text = file.read_text()
    assert space.name in text
    for cluster in (*space.pool.supers.values(), space.tenant):
        assert cluster.url not in text
    assert "kubeconfig" not in text.lower()
    assert "token" not in text.lower()

    saved = _asked(space, "--snapshot", str(file), "--remove", "r1")
    now = _asked(space, "--remove", "r1")
    assert saved["leave"] == {"r1": 1}
    # Scores depend on what other namespaces leave free, which may have changed since.
    for answer in (saved, now):
        for result in answer["results"]:
            assert isinstance(result.pop("score"), int)
    assert saved == now


def test_a_settled_pool_replays_to_the_same_result_and_a_changed_file_does_not(
    space: Space, tmp_path: Path
) -> None:
    file, system = tmp_path / "pool.json", space.pool.system

    def differences() -> list[Any]:
        system.vcsync("snapshot", "save", str(file))
        found = json.loads(system.vcsync("snapshot", "replay", str(file), "-o", "json", check=False))
        return list(found["differences"])

    eventually(lambda: not differences())
    assert "the same result for all" in system.vcsync("snapshot", "replay", str(file))

    # A larger quota is a decision that the stored placement does not show yet.
    stored = json.loads(file.read_text())
    [mine] = [each for each in stored["namespaces"] if each["name"] == space.name]
    mine["slices"] = 3
    file.write_text(json.dumps(stored))
    found = json.loads(system.vcsync("snapshot", "replay", str(file), "-o", "json", check=False))
    [difference] = found["differences"]
    assert difference["namespace"] == space.name
    assert sum(difference["decided"].values()) == 3
    with pytest.raises(SystemFailed, match=r"ended with 1: .*1 of"):
        system.vcsync("snapshot", "replay", str(file), "-o", "name")


def test_slices_that_would_not_fit_wait_with_the_numbers_compared(pool: Pool) -> None:
    with pool.space() as space:
        eventually(lambda: _is_alone(pool, space))
        foretold = _asked(space, "--scale-tenant", "acme=200")
        assert foretold["waitingAfter"] > 0
        assert "free" in foretold["reason"]
        added = _asked(
            space, "--scale-tenant", "acme=200", "--add-super", "r9=cpu=4000,memory=8000Gi,pods=100000"
        )
        assert added["waitingAfter"] == 0
        assert added["after"]["r9"] > 0


def test_a_super_cluster_is_explained_with_its_tenants_and_what_new_slices_would_take(
    pool: Pool, space: Space
) -> None:
    found = json.loads(pool.system.vcsync("explain", "super", "r1", "-o", "json"))
    assert found["health"]["state"] == "Ready"
    [acme] = [each for each in found["tenants"] if each["tenant"] == "acme"]
    assert acme["slices"] >= 1
    assert found["newSlices"]["fit"] > 0

    pool.system.vcsync("super", "cordon", "r1")
    try:
        said = pool.system.vcsync("explain", "super", "r1")
        assert "Cordon: cordoned. Remedy: vcsync super uncordon r1." in said
        assert "acme" in said
    finally:
        pool.system.vcsync("super", "uncordon", "r1")

    scores = pool.system.vcsync("explain", "namespace", f"acme/{space.name}", "-o", "wide")
    assert "REFUSED BY" in scores


def test_the_advised_headroom_is_told_with_the_loss_of_each_super_cluster(pool: Pool, space: Space) -> None:
    found = json.loads(pool.system.vcsync("what-if", "--advise-headroom", "-o", "json"))
    assert [each["superCluster"] for each in found["losses"]] == sorted(pool.supers)
    assert 0 < found["percent"] <= 51  # two equal super clusters
    assert all(each["room"] >= each["slices"] for each in found["losses"])
    assert f"A headroom of {found['percent']}%" in pool.system.vcsync("what-if", "--advise-headroom")
