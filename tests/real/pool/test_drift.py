"""Changes that are made in a super cluster only are repaired, and `vcsync drift` says who made them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pool_kit import Pool, Space

from tests.real.waiting import eventually


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def data_of(space: Space, super_id: str, kind: str, name: str) -> Any:
    found = space.there(super_id, kind, name)
    return found and found.get("data")


def edit(space: Space, super_id: str, kind: str, name: str, patch: dict[str, Any]) -> None:
    """Change an object in a super cluster with kubectl."""
    cluster = space.pool.supers[super_id]
    cluster.kubectl(
        "patch",
        kind,
        name,
        "-n",
        space.super_name,
        "--type=merge",
        "-p",
        json.dumps(patch),
        "--field-manager=intruder",
    )


def repairs(space: Space, name: str) -> list[Any]:
    """Return the recorded repairs of an object of the namespace."""
    found = json.loads(space.pool.system.vcsync("drift", "-o", "json"))
    return [each for each in found if (each["namespace"], each["name"]) == (space.name, name)]


def test_a_changed_copy_is_repaired_and_its_change_recorded(space: Space) -> None:
    space.apply(config_map("settings", colour="red"))
    eventually(lambda: data_of(space, "r1", "configmaps", "settings") == {"colour": "red"})
    edit(space, "r1", "configmap", "settings", {"data": {"colour": "blue", "size": "9"}})
    eventually(lambda: data_of(space, "r1", "configmaps", "settings") == {"colour": "red"})
    [repair] = eventually(lambda: repairs(space, "settings"))
    assert (repair["superCluster"], repair["kind"], repair["cause"]) == ("r1", "configmaps", "changed")
    fields = [(each["field"], each["found"], each["restored"], each["manager"]) for each in repair["changes"]]
    assert fields == [("data.colour", "blue", "red", "intruder"), ("data.size", "9", "", "intruder")]
    assert all(each["changed_at"] for each in repair["changes"])


def test_a_removed_copy_is_created_again_and_recorded(space: Space) -> None:
    space.apply(config_map("settings", colour="red"))
    eventually(lambda: data_of(space, "r2", "configmaps", "settings") == {"colour": "red"})
    space.pool.supers["r2"].kubectl("delete", "configmap", "settings", "-n", space.super_name)
    eventually(lambda: data_of(space, "r2", "configmaps", "settings") == {"colour": "red"})
    [repair] = eventually(lambda: repairs(space, "settings"))
    assert (repair["superCluster"], repair["cause"], repair["changes"]) == ("r2", "removed", [])


def test_values_of_secrets_are_not_recorded(space: Space) -> None:
    secret, wrong = (base64.b64encode(text).decode() for text in (b"s3cret-value", b"wr0ng-value"))
    space.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "data": {"key": secret}})
    eventually(lambda: data_of(space, "r1", "secrets", "key") == {"key": secret})
    edit(space, "r1", "secret", "key", {"data": {"key": wrong}})
    eventually(lambda: data_of(space, "r1", "secrets", "key") == {"key": secret})
    [repair] = eventually(lambda: repairs(space, "key"))
    [change] = repair["changes"]
    assert (change["field"], change["manager"]) == ("data.key", "intruder")
    stored = space.pool.bed.meta.kubectl("get", "configmaps", "-n", "vcsync-drift", "-o", "json")
    for text in ("s3cret-value", "wr0ng-value", secret, wrong):
        assert text not in stored


def test_changes_of_the_tenant_are_no_drift(space: Space) -> None:
    space.apply(config_map("settings", colour="red"))
    eventually(lambda: data_of(space, "r1", "configmaps", "settings") == {"colour": "red"})
    space.apply(config_map("settings", colour="green"))
    eventually(lambda: data_of(space, "r1", "configmaps", "settings") == {"colour": "green"})
    assert repairs(space, "settings") == []


def test_repairs_survive_a_restart_and_changes_meanwhile_are_recorded(space: Space) -> None:
    for name in ("before", "meanwhile", "theirs"):
        space.apply(config_map(name, colour="red"))
        eventually(lambda name=name: data_of(space, "r1", "configmaps", name) == {"colour": "red"})
    edit(space, "r1", "configmap", "before", {"data": {"colour": "blue"}})
    eventually(lambda: repairs(space, "before"))
    with _without_syncer(space.pool, "syncer-r1"):
        edit(space, "r1", "configmap", "meanwhile", {"data": {"colour": "blue"}})
        space.apply(config_map("theirs", colour="green"))
    eventually(lambda: data_of(space, "r1", "configmaps", "meanwhile") == {"colour": "red"})
    eventually(lambda: data_of(space, "r1", "configmaps", "theirs") == {"colour": "green"})
    [repair] = eventually(lambda: repairs(space, "meanwhile"))
    assert repair["changes"][0]["manager"] == "intruder"
    assert len(repairs(space, "before")) == 1
    assert repairs(space, "theirs") == [], "the tenant has changed it"


@contextmanager
def _without_syncer(pool: Pool, role: str) -> Iterator[None]:
    pool.system.kill(role)
    try:
        yield
    finally:
        pool.system.spawn(role)
        pool.system.wait_ready(role)


def test_many_repairs_are_reported_in_an_event_of_the_super_cluster(space: Space) -> None:
    many = [f"settings-{number}" for number in range(24)]
    space.apply(*(config_map(name, colour="red") for name in many))
    for name in many:
        eventually(lambda name=name: data_of(space, "r2", "configmaps", name) == {"colour": "red"})
        edit(space, "r2", "configmap", name, {"data": {"colour": "blue"}})

    def reported() -> bool:
        """Return whether there is an Event. Repairs of other tests may have been reported a few minutes ago with these."""
        events = space.pool.bed.meta.kubectl(
            "get", "events", "-A", "--field-selector=reason=ManyDriftRepairs", "-o", "json"
        )
        return any(
            each["involvedObject"]["name"] == "r2" and "were repaired within ten minutes" in each["message"]
            for each in json.loads(events)["items"]
        )

    eventually(reported)
