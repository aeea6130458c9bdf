"""VolumeSnapshots on real API servers: taken where the volume is, restored there, and never of anything foreign."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pool_kit import Json, Pool, Space, is_running, items, read, super_of
from snapshotter_kit import (
    BASE,
    GROUP,
    SECRET_HANDLE,
    SNAPSHOTS,
    TAKEN,
    Snapshotter,
    served,
    snapshot,
    snapshot_class,
)
from volume_kit import CLAIMS, bound, claim, holders, published, reason, shown, user

from hack.testbed import Cluster
from hack.testbed.provisioner import CLONE_OF, storage_class
from tests.real.waiting import eventually
from vcsync.api import names

pytestmark = pytest.mark.timeout(900)

API = f"{GROUP}/v1"
COUNT = f"count/{SNAPSHOTS}.{GROUP}"
RETRIED_SECONDS = 180.0
"""Time until a kind that a server begins to serve has been found, on a quiet machine: up to two pauses of a minute."""
SOURCE = {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "monday"}


@pytest.fixture(scope="module")
def storage(pool: Pool) -> Iterator[Pool]:
    with published(pool, {each: [storage_class("cloning")] for each in pool.supers}):
        yield pool


@pytest.fixture(scope="module")
def late(storage: Pool) -> Iterator[Pool]:
    """A pool whose tenants, but not its super clusters, serve the kinds."""
    with served(storage.cluster("acme"), storage.cluster("umbrella")):
        yield storage


@pytest.fixture(scope="module")
def snapshotters(late: Pool) -> Iterator[dict[str, Snapshotter]]:
    """A snapshotter in each super cluster, with the published class `nightly`."""
    supers = list(late.supers.values())
    with served(*supers):
        for each in supers:
            each.kubectl("apply", "-f", "-", input=json.dumps(snapshot_class("nightly")))
        with Snapshotter(supers[0]) as first, Snapshotter(supers[1]) as second:
            yield dict(zip(late.supers, (first, second), strict=True))


@pytest.fixture
def shop(late: Pool, snapshotters: dict[str, Snapshotter]) -> Iterator[Space]:
    assert snapshotters
    with late.space() as space:
        eventually(lambda: shown(space, "cloning") == "r1,r2")
        eventually(lambda: publishers(space) == "r1,r2", RETRIED_SECONDS)
        for on in late.supers:
            eventually(lambda on=on: counted(space, on), RETRIED_SECONDS)  # type: ignore[misc]
        yield space


def counted(space: Space, on: str) -> bool:
    """Return whether a super cluster counts the snapshots of a namespace. If not, have it count again.

    Its quota controller looks for new kinds every half minute, and counts every five minutes, or when a claim is deleted.
    """
    path = f"/api/v1/namespaces/{space.super_name}/resourcequotas/{names.SUPER_QUOTA_NAME}"
    quota = read(space.pool.supers[on], path)
    assert quota is not None
    if COUNT in ((quota.get("status") or {}).get("used") or {}):
        return True
    below = ("-n", space.super_name)
    body = json.dumps(claim("recount", "cloning"))
    space.pool.supers[on].kubectl(*below, "apply", "-f", "-", input=body)
    space.pool.supers[on].kubectl(*below, "delete", "pvc", "recount", "--wait=false")
    return False


def publishers(space: Space) -> str | None:
    """Return the super clusters that the tenant's class `nightly` names; None if it does not exist."""
    found = read(space.tenant, f"{BASE}/volumesnapshotclasses/nightly")
    return found and found["metadata"]["annotations"][names.PUBLISHED_BY]


def data(space: Space, on: str) -> str:
    """Bind claim `data` on a super cluster."""
    space.apply(claim("data", "cloning"), user("writer", "data", on=on))
    bound(space, "data")
    return on


def ready(space: Space, name: str = "monday") -> Json:
    """Wait until a snapshot is ready in the tenant, and return it."""

    def check() -> Json:
        found = space.get(SNAPSHOTS, name, API)
        assert found is not None
        assert (found.get("status") or {}).get("readyToUse"), found
        return found

    return eventually(check, RETRIED_SECONDS)


def there(space: Space, on: str, name: str = "monday") -> Json | None:
    return space.there(on, SNAPSHOTS, name, API)


def refused(space: Space, name: str, why: str, *texts: str) -> None:
    """Wait for an Event about an object that contains the texts."""

    def check() -> bool:
        found = [each["message"] for each in space.events(name, why)]
        assert any(all(text in each for text in texts) for each in found), (found, space.events(name))
        return True

    eventually(check, RETRIED_SECONDS)


def later_writes_arrive(space: Space, on: str) -> None:
    """Wait until a super cluster has an object that was written after all others."""
    space.kubectl("create", "configmap", f"later-{on}")
    eventually(lambda: space.there(on, "configmaps", f"later-{on}"))


def test_a_snapshot_waits_until_its_super_cluster_serves_the_kind(late: Pool) -> None:
    with late.space() as space:
        eventually(lambda: shown(space, "cloning") == "r1,r2")
        data(space, "r1")
        space.apply(snapshot("monday"))
        refused(space, "monday", "NotSynced", "volumesnapshots are not synced to super cluster r1")
        space.running("writer")
        r1 = late.supers["r1"]
        with served(r1), Snapshotter(r1):
            r1.kubectl("apply", "-f", "-", input=json.dumps(snapshot_class("nightly")))
            eventually(lambda: counted(space, "r1"), RETRIED_SECONDS)
            ready(space)
            eventually(lambda: publishers(space) == "r1", RETRIED_SECONDS)


@pytest.mark.parametrize("home", ["r1", "r2"])
def test_a_snapshot_is_taken_where_its_volume_is_and_restored_there(shop: Space, home: str) -> None:
    data(shop, home)
    shop.apply(snapshot("monday"))
    found = ready(shop)
    assert found["status"] == {"readyToUse": True, "creationTime": TAKEN, "restoreSize": "64Mi"}
    copy = there(shop, home)
    assert copy is not None
    assert copy["spec"] == snapshot("monday")["spec"]
    shop.apply(claim("copy", "cloning", dataSource=SOURCE), user("reader", "copy"))
    assert super_of(shop.running("reader")) == home
    restored = bound(shop, "copy")
    assert origin(shop, home, "copy") == copy["status"]["boundVolumeSnapshotContentName"]
    texts = json.dumps([found, restored, *shop.all("events")])
    assert SECRET_HANDLE not in texts
    assert "snapcontent" not in texts
    assert [each for each in shop.pool.supers if there(shop, each)] == [home]


def origin(space: Space, on: str, name: str) -> str | None:
    """Return what the operator's volume of a claim was made from."""
    below = space.there(on, CLAIMS, name)
    assert below is not None
    volume = read(space.pool.supers[on], f"/api/v1/persistentvolumes/{below['spec']['volumeName']}")
    assert volume is not None
    made_from: str | None = volume["metadata"]["annotations"].get(CLONE_OF)
    return made_from


def test_the_class_tells_nothing_of_the_operators(shop: Space) -> None:
    found = read(shop.tenant, f"{BASE}/volumesnapshotclasses/nightly")
    assert found is not None
    assert (found["driver"], found["deletionPolicy"]) == (names.CSI_DRIVER, "Delete")
    assert "parameters" not in found


def test_labels_and_annotations_of_the_tenant_stay_there(shop: Space) -> None:
    data(shop, "r1")
    made = snapshot("monday")
    made["metadata"] |= {
        "labels": {"app": "shop"},
        "annotations": {"disks.example.com/import": "snap-of-others"},
    }
    shop.apply(made)
    ready(shop)
    copy = there(shop, "r1")
    assert copy is not None
    assert "shop" not in copy["metadata"]["labels"].values()
    assert "snap-of-others" not in json.dumps(copy)


def test_an_error_comes_up_without_the_operators_message(
    shop: Space, snapshotters: dict[str, Snapshotter]
) -> None:
    data(shop, "r1")
    snapshotters["r1"].broken = True
    try:
        shop.apply(snapshot("monday"))

        def failed() -> Json:
            found = shop.get(SNAPSHOTS, "monday", API) or {}
            error: Json = (found.get("status") or {}).get("error") or {}
            assert error.get("message"), found
            return error

        error = eventually(failed)
        assert SECRET_HANDLE not in error["message"]
        assert error["time"] == TAKEN
    finally:
        snapshotters["r1"].broken = False
    assert "error" not in ready(shop)["status"]


def test_a_snapshot_ends_with_the_tenants(shop: Space) -> None:
    data(shop, "r1")
    shop.apply(snapshot("monday"))
    ready(shop)
    shop.kubectl("delete", "volumesnapshot", "monday")
    eventually(lambda: there(shop, "r1") is None)


def test_a_snapshot_that_is_deleted_below_is_lost_and_never_taken_again(shop: Space) -> None:
    data(shop, "r1")
    shop.apply(snapshot("monday"))
    ready(shop)
    shop.pool.supers["r1"].kubectl("-n", shop.super_name, "delete", "volumesnapshot", "monday")
    refused(shop, "monday", "SnapshotLost", "does not have it any more")

    def told() -> bool:
        found = shop.get(SNAPSHOTS, "monday", API)
        return found is not None and found["status"]["readyToUse"] is False

    eventually(told)
    later_writes_arrive(shop, "r1")
    assert there(shop, "r1") is None


def test_snapshots_are_kept_and_taken_over_restarts_of_the_syncer(shop: Space) -> None:
    data(shop, "r1")
    shop.apply(snapshot("monday"))
    ready(shop)
    uid = (there(shop, "r1") or {})["metadata"]["uid"]
    shop.pool.system.kill("syncer-r1")
    shop.apply(snapshot("tuesday"))
    shop.pool.system.start("syncer-r1")
    ready(shop, "tuesday")
    assert (there(shop, "r1") or {})["metadata"]["uid"] == uid


def test_a_drain_waits_for_snapshots(shop: Space) -> None:
    data(shop, "r1")
    shop.apply(snapshot("monday"))
    ready(shop)
    shop.kubectl("delete", "pod", "writer")
    shop.kubectl("delete", "pvc", "data")
    eventually(lambda: shop.there("r1", CLAIMS, "data") is None)
    shop.kubectl("delete", "resourcequota", "quota")
    eventually(lambda: read(shop.pool.supers["r2"], f"/api/v1/namespaces/{shop.super_name}") is None)
    assert there(shop, "r1") is not None
    shop.kubectl("delete", "volumesnapshot", "monday")
    eventually(lambda: read(shop.pool.supers["r1"], f"/api/v1/namespaces/{shop.super_name}") is None)


@pytest.mark.parametrize(
    ("made", "why", "texts"),
    [
        (
            snapshot("monday", volumeSnapshotContentName="content-of-others"),
            "PolicyRefused",
            ("spec.source.volumeSnapshotContentName", "persistentVolumeClaimName"),
        ),
        (snapshot("monday", cls=""), "PolicyRefused", ("spec.volumeSnapshotClassName is required",)),
        (snapshot("monday", cls="private"), "ClassNotPublished", ("VolumeSnapshotClass private", "r1")),
    ],
)
def test_what_is_not_the_tenants_is_refused(
    shop: Space, made: Json, why: str, texts: tuple[str, ...]
) -> None:
    private = snapshot_class("private", public=False)
    shop.pool.supers["r1"].kubectl("apply", "-f", "-", input=json.dumps(private))
    data(shop, "r1")
    shop.apply(made)
    refused(shop, "monday", why, *texts)
    later_writes_arrive(shop, "r1")
    assert there(shop, "r1") is None


def test_a_snapshot_says_what_it_waits_for(shop: Space) -> None:
    shop.apply(snapshot("monday"))
    refused(shop, "monday", "WaitingForVolume", "PersistentVolumeClaim data does not exist")
    shop.apply(claim("data", "cloning"))
    refused(shop, "monday", "WaitingForVolume", "gets one with the first Pod that uses it")
    shop.apply(user("writer", "data"))
    ready(shop)


def test_snapshots_count_against_the_slices(shop: Space) -> None:
    room = int((shop.ledger() or {})["spec"]["sliceSize"][COUNT]) * shop.placements()["r1"]
    data(shop, "r1")
    shop.apply(*(snapshot(f"day-{number}") for number in range(room + 2)))

    def told() -> list[str]:
        found = [each["metadata"]["name"] for each in shop.all(SNAPSHOTS, group=API)]
        events = {name: shop.events(name, "FailedCreate") for name in found}
        assert sum(map(bool, events.values())) >= 2, events
        return [each["message"] for event in events.values() for each in event]

    for message in eventually(told, RETRIED_SECONDS):
        assert "exceeded quota" in message
        assert shop.super_name not in message
    place = f"{BASE}/namespaces/{shop.super_name}/volumesnapshots"
    assert len(items(shop.pool.supers["r1"], place)) == room


def test_a_label_that_the_tenant_forges_moves_nothing_back_and_forth(shop: Space) -> None:
    data(shop, "r1")
    shop.apply(snapshot("monday"))
    ready(shop)
    label = ("label", "volumesnapshot", "monday")
    shop.kubectl(*label, "--overwrite", f"{names.SUPER_CLUSTER}=r2")
    shop.apply(claim("copy", "cloning", dataSource=SOURCE), user("reader", "copy"))
    refused(shop, "monday", "SnapshotLost", "does not have it any more")
    eventually(lambda: assigned(shop, "copy") == "r2")
    before = versions(shop)
    for on in shop.pool.supers:
        later_writes_arrive(shop, on)
    assert versions(shop) == before
    assert holders(shop, "copy") == []
    assert [each for each in shop.pool.supers if there(shop, each)] == ["r1"]
    shop.kubectl(*label, f"{names.SUPER_CLUSTER}-")
    ready(shop)


def assigned(space: Space, name: str) -> str | None:
    """Return the super cluster that a claim's label names."""
    labels: dict[str, str] = (space.get(CLAIMS, name) or {})["metadata"].get("labels") or {}
    return labels.get(names.SUPER_CLUSTER)


def versions(space: Space) -> list[str]:
    found = (space.get(CLAIMS, "copy"), space.get(SNAPSHOTS, "monday", API), there(space, "r1"))
    return [(each or {})["metadata"]["resourceVersion"] for each in found]


def operators(space: Space, on: str) -> None:
    """Take a snapshot of the operator, named `monday`, in the tenant's super namespace, of a claim of the operator."""
    cluster: Cluster = space.pool.supers[on]
    for body in (claim("vault", "cloning"), snapshot("monday", "vault")):
        cluster.kubectl("-n", space.super_name, "apply", "-f", "-", input=json.dumps(body))
    eventually(lambda: ((there(space, on) or {}).get("status") or {}).get("readyToUse"))


@pytest.mark.parametrize("own", [False, True])
def test_a_snapshot_of_the_operator_is_never_restored(shop: Space, own: bool) -> None:
    data(shop, "r1")
    operators(shop, "r1")
    if own:
        named: Any = snapshot("monday")
        named["metadata"]["labels"] = {names.SUPER_CLUSTER: "r1"}
        shop.apply(named)
        refused(shop, "monday", "NameTaken", "VolumeSnapshot named monday")
    thief = claim("copy", "cloning", dataSource=SOURCE)
    thief["metadata"]["labels"] = {names.SUPER_CLUSTER: "r1"}
    shop.apply(thief, user("reader", "copy", on="r1"))
    later_writes_arrive(shop, "r1")
    assert holders(shop, "copy") == []
    assert not is_running(shop.get("pods", "reader"))
    assert "readyToUse" not in ((shop.get(SNAPSHOTS, "monday", API) or {}).get("status") or {})


def test_a_claim_of_the_operator_is_never_snapshotted(shop: Space) -> None:
    eventually(lambda: shop.there("r1", "serviceaccounts", "default"))
    vault = claim("vault", "cloning")
    shop.pool.supers["r1"].kubectl("-n", shop.super_name, "apply", "-f", "-", input=json.dumps(vault))
    vault["metadata"]["labels"] = {names.SUPER_CLUSTER: "r1"}
    shop.apply(vault, snapshot("monday", "vault"))
    refused(shop, "vault", "NameTaken", "vault")
    later_writes_arrive(shop, "r1")
    assert there(shop, "r1") is None


def test_a_snapshot_of_another_namespace_is_not_restored(shop: Space) -> None:
    """API servers without CrossNamespaceVolumeDataSource drop such a source: the claim is an ordinary one, and empty."""
    with shop.pool.space("umbrella") as other:
        data(other, "r1")
        other.apply(snapshot("monday"))
        ready(other)
        thief = claim("copy", "cloning", dataSourceRef={**SOURCE, "namespace": other.super_name})
        thief["metadata"]["labels"] = {names.SUPER_CLUSTER: "r1"}
        shop.apply(thief)
        later_writes_arrive(shop, "r1")
        found = shop.get(CLAIMS, "copy")
        assert found is not None
        if "dataSourceRef" in found["spec"]:
            assert holders(shop, "copy") == []
        else:
            bound(shop, "copy")
            assert origin(shop, "r1", "copy") is None


def test_a_restored_claim_waits_for_its_snapshot(shop: Space) -> None:
    shop.apply(claim("copy", "cloning", dataSource=SOURCE), user("reader", "copy"))
    reason(shop, "reader", "claim copy is restored from VolumeSnapshot monday: it is on no super cluster yet")
    data(shop, "r2")
    shop.apply(snapshot("monday"))
    assert super_of(shop.running("reader", RETRIED_SECONDS)) == "r2"
    assert items(shop.pool.supers["r1"], f"{BASE}/namespaces/{shop.super_name}/volumesnapshots") == []
