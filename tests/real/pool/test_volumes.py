"""PersistentVolumeClaims of tenants on real API servers: from a published class to a bound claim, and to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pool_kit import Pool, Space, is_running, pod, quota, read, super_of
from volume_kit import CLAIMS, CLASSES, bound, claim, holders, published, reason, shown, user, volume_of

from hack.testbed.provisioner import HIDDEN_PATH, storage_class
from tests.real.waiting import eventually
from vcsync.api import names


@pytest.fixture(scope="module")
def storage(pool: Pool) -> Iterator[Pool]:
    """The pool, whose operator publishes class `fast` in r1 and r2, `slow` only in r2, and keeps `private`."""
    classes = {
        "r1": [storage_class("fast"), storage_class("private", public=False)],
        "r2": [storage_class("fast"), storage_class("slow", volumeBindingMode="WaitForFirstConsumer")],
    }
    with published(pool, classes):
        yield pool


@pytest.fixture
def shop(storage: Pool) -> Iterator[Space]:
    with storage.space() as space:
        eventually(lambda: shown(space, "fast") == "r1,r2" and shown(space, "slow") == "r2")
        yield space


def test_published_classes_are_the_union_of_the_pool(shop: Space) -> None:
    found = read(shop.tenant, f"{CLASSES}/fast")
    assert found is not None
    assert found["provisioner"] == names.PROVISIONER
    assert found["volumeBindingMode"] == "WaitForFirstConsumer"
    assert "parameters" not in found
    assert read(shop.tenant, f"{CLASSES}/private") is None


def test_a_class_that_is_no_longer_published_leaves_the_tenant(shop: Space) -> None:
    cluster = shop.pool.supers["r2"]
    cluster.kubectl("label", "storageclass", "slow", f"{names.SUPER_PUBLIC}-")
    eventually(lambda: shown(shop, "slow") is None)
    cluster.kubectl("label", "storageclass", "slow", f"{names.SUPER_PUBLIC}=true")
    eventually(lambda: shown(shop, "slow") == "r2")


def test_a_claim_is_bound_where_its_first_pod_runs_and_later_pods_follow_it(shop: Space) -> None:
    shop.apply(claim("data"))
    assert holders(shop, "data") == []
    shop.apply(user("first", "data"))
    first = shop.running("first")
    home = super_of(first)
    found = bound(shop, "data")
    assert found["metadata"]["labels"][names.SUPER_CLUSTER] == home
    assert found["status"]["capacity"] == {"storage": "64Mi"}
    assert holders(shop, "data") == [home]
    for number in range(2):
        shop.apply(user(f"later-{number}", "data"))
        assert super_of(shop.running(f"later-{number}")) == home


def test_the_tenant_learns_nothing_of_the_operators_volume(shop: Space) -> None:
    shop.apply(claim("data"), user("db", "data"))
    found = bound(shop, "data")
    volume = volume_of(shop, found)
    assert volume is not None
    text = json.dumps(volume) + json.dumps(found)
    for hidden in (HIDDEN_PATH, "disk-", "10.66.0.9", "disks.example.com", shop.super_name):
        assert hidden not in text
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"]["csi"] == {
        "driver": names.CSI_DRIVER,
        "volumeHandle": volume["metadata"]["name"],
    }


def test_a_class_that_waits_for_a_node_is_bound_with_its_pod(shop: Space) -> None:
    shop.apply(claim("data", "slow"), user("db", "data"))
    assert super_of(shop.running("db")) == "r2"
    assert bound(shop, "data")["spec"]["storageClassName"] == "slow"


def test_claims_of_one_pod_never_split(shop: Space) -> None:
    shop.apply(claim("one"), claim("two"))
    shop.apply(user("first", "one", on="r1"), user("second", "two", on="r2"))
    bound(shop, "one"), bound(shop, "two")
    shop.apply(user("both", "one", "two"))
    reason(shop, "both", "claim one is on super cluster r1", "claim two is on super cluster r2")


def test_a_deleted_claim_ends_on_both_sides(shop: Space) -> None:
    shop.apply(claim("data"), user("db", "data"))
    shop.running("db")
    found = bound(shop, "data")
    assert volume_of(shop, found) is not None
    [home] = holders(shop, "data")
    shop.kubectl("delete", "pvc", "data", "--wait=false")
    assert shop.get(CLAIMS, "data") is not None, "a Pod still uses it"
    shop.kubectl("delete", "pod", "db")
    eventually(lambda: shop.get(CLAIMS, "data") is None)
    eventually(lambda: holders(shop, "data") == [])
    eventually(lambda: volume_of(shop, found) is None)
    cluster = shop.pool.supers[home]
    eventually(
        lambda: shop.super_name not in cluster.kubectl("get", "pv", "-o", "jsonpath={..claimRef.namespace}")
    )


def test_a_claim_grows(shop: Space) -> None:
    shop.apply(claim("data"), user("db", "data"))
    bound(shop, "data")
    asked = {"storage": "128Mi"}
    shop.kubectl("patch", "pvc", "data", "-p", json.dumps({"spec": {"resources": {"requests": asked}}}))

    def grown() -> bool:
        found = shop.get(CLAIMS, "data")
        assert found is not None
        volume = volume_of(shop, found)
        assert volume is not None
        assert (found["status"]["capacity"], volume["spec"]["capacity"]) == (asked, asked)
        return True

    eventually(grown)


def test_a_changed_label_costs_no_data(shop: Space) -> None:
    shop.apply(claim("data"), user("db", "data"))
    shop.running("db")
    found = bound(shop, "data")
    [home] = holders(shop, "data")
    other = {"r1": "r2", "r2": "r1"}[home]
    before = shop.there(home, CLAIMS, "data")
    assert before is not None
    for label in (f"{names.SUPER_CLUSTER}-", f"{names.SUPER_CLUSTER}={other}"):
        shop.kubectl("label", "pvc", "data", "--overwrite", label)
        eventually(lambda: super_of(shop.get(CLAIMS, "data") or {"metadata": {}}) == home)
    after = shop.there(home, CLAIMS, "data")
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert volume_of(shop, found) is not None
    assert holders(shop, "data") == [home]


def test_a_stateful_set_finds_its_data_again(shop: Space) -> None:
    template = user("unused")
    del template["metadata"]["name"]
    template["metadata"]["labels"] = {"app": "db"}
    made = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 2,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
            "volumeClaimTemplates": [claim("data")],
        },
    }
    shop.apply(made)
    shop.all_running("db", 2)
    homes = {name: super_of(shop.running(name)) for name in ("db-0", "db-1")}
    volumes = {name: bound(shop, f"data-{name}")["spec"]["volumeName"] for name in homes}
    shop.kubectl("scale", "statefulset", "db", "--replicas=0")
    eventually(lambda: shop.pods("db") == [])
    shop.kubectl("scale", "statefulset", "db", "--replicas=2")
    shop.all_running("db", 2)
    assert {name: super_of(shop.running(name)) for name in homes} == homes
    assert {name: bound(shop, f"data-{name}")["spec"]["volumeName"] for name in homes} == volumes


def test_an_ephemeral_volume_ends_with_its_pod(shop: Space) -> None:
    template = {"spec": claim("unused")["spec"]}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    shop.apply(pod("job", volumes=[volume]))
    shop.running("job")
    bound(shop, "job-scratch")
    [home] = holders(shop, "job-scratch")
    below = shop.there(home, "pods", "job")
    assert below is not None
    assert {"name": "scratch", "persistentVolumeClaim": {"claimName": "job-scratch"}} in below["spec"][
        "volumes"
    ]
    shop.kubectl("delete", "pod", "job")
    eventually(lambda: holders(shop, "job-scratch") == [])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("selector", {"matchLabels": {"owner": "umbrella"}}),
        ("volumeName", "disk-of-umbrella"),
        ("dataSourceRef", {"kind": "Import", "name": "other", "apiGroup": "cdi.example.com"}),
    ],
)
def test_fields_that_name_volumes_of_the_cluster_are_refused(shop: Space, field: str, value: Any) -> None:
    shop.apply(claim("foreign", **{field: value}), user("thief", "foreign"))
    if field == "volumeName":
        reason(shop, "thief", "is bound to volume disk-of-umbrella")
    else:
        events = eventually(lambda: shop.events("foreign", "PolicyRefused"))
        assert f"spec.{field}" in events[0]["message"]
    assert holders(shop, "foreign") == []
    assert not is_running(shop.get("pods", "thief"))


def test_a_class_that_is_not_published_is_refused(shop: Space) -> None:
    shop.apply(claim("secret", "private"), user("thief", "secret"))
    reason(shop, "thief", "does not publish StorageClass private of claim secret")
    shop.kubectl("label", "pvc", "secret", f"{names.SUPER_CLUSTER}=r1")
    shop.kubectl("label", "pod", "thief", f"{names.SUPER_CLUSTER}=r1", "--overwrite")
    assert holders(shop, "secret") == []


def test_claims_count_against_the_slices(shop: Space) -> None:
    shop.apply(claim("huge", resources={"requests": {"storage": "100Ti"}}), user("db", "huge"))
    events = eventually(lambda: shop.events("huge", "FailedCreate"))
    assert "exceeded quota" in events[0]["message"]
    assert shop.super_name not in events[0]["message"]


def test_a_quota_that_is_deleted_and_created_again_finds_the_data(shop: Space) -> None:
    shop.apply(claim("data"), user("db", "data"))
    home = super_of(shop.running("db"))
    volume = bound(shop, "data")["spec"]["volumeName"]
    uid = (shop.there(home, CLAIMS, "data") or {})["metadata"]["uid"]
    shop.kubectl("delete", "resourcequota", "quota")
    eventually(lambda: shop.there(home, "pods", "db") is None)
    shop.apply(quota())
    shop.apply(user("again", "data"))
    assert super_of(shop.running("again")) == home
    assert bound(shop, "data")["spec"]["volumeName"] == volume
    assert (shop.there(home, CLAIMS, "data") or {})["metadata"]["uid"] == uid


def test_a_drain_waits_for_data(shop: Space) -> None:
    shop.apply(claim("data"), user("db", "data", on="r1"))
    shop.running("db")
    bound(shop, "data")
    uid = (shop.there("r1", CLAIMS, "data") or {})["metadata"]["uid"]
    shop.kubectl("delete", "resourcequota", "quota")
    eventually(lambda: shop.there("r1", "pods", "db") is None)
    assert (shop.there("r1", CLAIMS, "data") or {})["metadata"]["uid"] == uid
    shop.kubectl("delete", "pvc", "data")
    eventually(lambda: shop.there("r1", CLAIMS, "data") is None)
    eventually(lambda: read(shop.pool.supers["r1"], f"/api/v1/namespaces/{shop.super_name}") is None)
