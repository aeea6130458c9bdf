"""Claims that a super cluster cannot provision, on real API servers: they are given back, and bound elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pool_kit import Pool, Space, super_of
from volume_kit import CLAIMS, bound, claim, holders, published, reason, shown, user

from hack.testbed.provisioner import HIDDEN_PATH, Provisioner, storage_class
from tests.real.waiting import eventually
from vcsync.api import names

SAYS = f"{names.PROVISIONING_PREFIX}r1"
PATIENCE = {names.PROVISIONING_SECONDS: "2"}


def quick(name: str) -> dict[str, Any]:
    """Return a class whose claims are given back soon."""
    made = storage_class(name)
    made["metadata"]["annotations"] = PATIENCE
    return made


@pytest.fixture(scope="module")
def provisioners(pool: Pool) -> Iterator[dict[str, Provisioner]]:
    with published(pool, {"r1": [quick("quick")], "r2": [quick("quick")]}) as made:
        yield made


@pytest.fixture
def shop(pool: Pool, provisioners: dict[str, Provisioner]) -> Iterator[Space]:
    with pool.space() as space:
        eventually(lambda: shown(space, "quick") == "r1,r2")
        yield space
    for each in provisioners.values():
        each.broken.clear()


def data(on: str = "") -> dict[str, Any]:
    """Return a claim; `on`: the super cluster that is to be tried first. A tenant may set the label of a new claim."""
    made = claim("data", "quick")
    made["metadata"]["labels"] = {names.SUPER_CLUSTER: on} if on else {}
    return made


def said(space: Space, super_id: str) -> dict[str, Any]:
    """Return what a super cluster says about the claim."""
    found = space.get(CLAIMS, "data") or {"metadata": {}}
    text = (found["metadata"].get("annotations") or {}).get(names.PROVISIONING_PREFIX + super_id, "{}")
    return dict(json.loads(text))


def home(space: Space) -> str:
    return super_of(space.get(CLAIMS, "data") or {"metadata": {}})


def test_a_claim_moves_on_with_its_pod_when_its_super_cluster_cannot_provision_it(
    shop: Space, provisioners: dict[str, Provisioner]
) -> None:
    provisioners["r1"].broken.add("quick")
    shop.apply(data(on="r1"))
    eventually(lambda: holders(shop, "data") == ["r1"])
    shop.apply(user("db", "data"))
    assert super_of(shop.running("db")) == "r2"
    assert bound(shop, "data")["metadata"]["labels"][names.SUPER_CLUSTER] == "r2"
    assert holders(shop, "data") == ["r2"]
    assert said(shop, "r1") == {"returns": 1, "reason": "ProvisioningFailed"}
    [event] = shop.events("data", "GivenBack")
    assert "super cluster r1 could not provision a volume within 2 s" in event["message"]
    assert HIDDEN_PATH not in json.dumps(shop.all("events"))


def test_a_claim_that_nobody_can_provision_stays_and_is_bound_as_soon_as_one_can(
    shop: Space, provisioners: dict[str, Provisioner]
) -> None:
    for each in provisioners.values():
        each.broken.add("quick")
    shop.apply(data(), user("db", "data"))
    eventually(lambda: said(shop, "r1").get("returns", 0) + said(shop, "r2").get("returns", 0) >= 2)
    assert said(shop, "r1").get("returns")
    assert said(shop, "r2").get("returns")
    for each in provisioners.values():
        each.broken.clear()
    where = super_of(shop.running("db"))
    bound(shop, "data")
    assert holders(shop, "data") == [where] == [home(shop)]


def test_a_claim_leaves_when_its_class_is_no_longer_published(
    shop: Space, provisioners: dict[str, Provisioner]
) -> None:
    provisioners["r1"].broken.add("quick")
    r1 = shop.pool.supers["r1"]
    r1.kubectl("annotate", "storageclass", "quick", "--overwrite", f"{names.PROVISIONING_SECONDS}=600")
    try:
        shop.apply(data(on="r1"), user("db", "data"))
        eventually(lambda: holders(shop, "data") == ["r1"])
        r1.kubectl("label", "storageclass", "quick", f"{names.SUPER_PUBLIC}-")
        assert super_of(shop.running("db")) == "r2"
        assert holders(shop, "data") == ["r2"]
    finally:
        r1.kubectl("apply", "-f", "-", input=json.dumps(quick("quick")))


def test_a_pod_that_must_run_there_waits_with_the_reason(
    shop: Space, provisioners: dict[str, Provisioner]
) -> None:
    provisioners["r1"].broken.add("quick")
    shop.apply(data(), user("db", "data", on="r1"))
    eventually(lambda: said(shop, "r1").get("returns", 0) >= 1)
    provisioners["r1"].broken.clear()
    assert super_of(shop.running("db")) == "r1"


def test_a_tenant_that_forges_what_a_super_cluster_says_moves_no_data(
    shop: Space, provisioners: dict[str, Provisioner]
) -> None:
    shop.apply(data(), user("db", "data", on="r1"))
    shop.running("db")
    bound(shop, "data")
    uid = (shop.there("r1", CLAIMS, "data") or {})["metadata"]["uid"]
    for forged in ({"state": "returning", "reason": "ProvisioningFailed"}, {}, {"returns": 99}):
        shop.kubectl(
            "annotate", "pvc", "data", "--overwrite", f"{SAYS}={json.dumps(forged)}",
            f"{names.PROVISIONING_PREFIX}r2={json.dumps({'state': 'requested'})}",
        )  # fmt: skip
        shop.kubectl("label", "pvc", "data", "--overwrite", f"{names.SUPER_CLUSTER}=r2")
        eventually(lambda: home(shop) == "r1")
    shop.apply(user("thief", "data", on="r2"))
    reason(shop, "thief", "claim data is on super cluster r1")
    assert (shop.there("r1", CLAIMS, "data") or {})["metadata"]["uid"] == uid
    assert holders(shop, "data") == ["r1"]


def test_a_copy_elsewhere_is_not_made_while_one_may_exist(
    shop: Space, provisioners: dict[str, Provisioner]
) -> None:
    """The tenant moves the label of a claim that has no volume yet, again and again."""
    for each in provisioners.values():
        each.broken.add("quick")
    shop.apply(data(), user("db", "data"))
    eventually(lambda: len(holders(shop, "data")) == 1)
    for target in ("r2", "r1", "r2", "r1"):
        shop.kubectl("label", "pvc", "data", "--overwrite", f"{names.SUPER_CLUSTER}={target}")
        for _ in range(5):
            assert len(holders(shop, "data")) <= 1
    for each in provisioners.values():
        each.broken.clear()
    where = super_of(shop.running("db"))
    bound(shop, "data")
    assert holders(shop, "data") == [where]
