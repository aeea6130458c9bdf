"""Clones of claims on real API servers: of a tenant's own claims only, and where the source is."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pool_kit import Json, Pool, Space, is_running, items, super_of
from volume_kit import CLAIMS, bound, claim, holders, published, reason, shown, user

from hack.testbed.provisioner import CLONE_OF, storage_class
from tests.real.waiting import eventually
from vcsync.api import names

SOURCE = {"kind": "PersistentVolumeClaim", "name": "data"}


@pytest.fixture(scope="module")
def storage(pool: Pool) -> Iterator[Pool]:
    with published(pool, {each: [storage_class("cloning")] for each in ("r1", "r2")}):
        yield pool


@pytest.fixture
def shop(storage: Pool) -> Iterator[Space]:
    with storage.space() as space:
        eventually(lambda: shown(space, "cloning") == "r1,r2")
        yield space


def data(space: Space, on: str) -> str:
    """Bind claim `data` on a super cluster, and return the operator's volume of it."""
    space.apply(claim("data", "cloning"), user("writer", "data", on=on))
    bound(space, "data")
    return volume_below(space, on, "data")


def volume_below(space: Space, on: str, name: str) -> str:
    found = space.there(on, CLAIMS, name)
    assert found is not None
    return str(found["spec"]["volumeName"])


def origin(space: Space, on: str, name: str) -> str | None:
    """Return the operator's volume that the volume of a claim is a clone of."""
    volume = volume_below(space, on, name)
    [found] = [
        each
        for each in items(space.pool.supers[on], "/api/v1/persistentvolumes")
        if each["metadata"]["name"] == volume
    ]
    cloned: str | None = found["metadata"]["annotations"].get(CLONE_OF)
    return cloned


@pytest.mark.parametrize("field", ["dataSource", "dataSourceRef"])
@pytest.mark.parametrize("home", ["r1", "r2"])
def test_a_clone_is_made_where_its_source_is(shop: Space, field: str, home: str) -> None:
    volume = data(shop, home)
    shop.apply(claim("copy", "cloning", **{field: SOURCE}), user("reader", "copy"))
    assert super_of(shop.running("reader")) == home
    found = bound(shop, "copy")
    assert found["spec"]["dataSource"]["name"] == "data"
    assert origin(shop, home, "copy") == volume
    assert volume not in json.dumps(found)


def test_a_clone_waits_until_a_pod_uses_its_source(shop: Space) -> None:
    shop.apply(claim("data", "cloning"), claim("copy", "cloning", dataSource=SOURCE), user("reader", "copy"))
    reason(shop, "reader", "claim copy is a clone of claim data, which is on no super cluster yet")
    shop.apply(user("writer", "data", on="r2"))
    assert super_of(shop.running("reader")) == "r2"
    assert origin(shop, "r2", "copy") == volume_below(shop, "r2", "data")


def test_a_source_and_its_clone_in_one_pod_begin_together(shop: Space) -> None:
    shop.apply(claim("data", "cloning"), claim("copy", "cloning", dataSource=SOURCE))
    shop.apply(user("both", "data", "copy"))
    home = super_of(shop.running("both"))
    bound(shop, "copy")
    assert origin(shop, home, "copy") == volume_below(shop, home, "data")


def operators(space: Space, on: str) -> Json:
    """Create a claim of the operator, named `data`, in the tenant's super namespace, and wait for its volume."""
    made = claim("data", "cloning")
    space.pool.supers[on].kubectl("-n", space.super_name, "apply", "-f", "-", input=json.dumps(made))

    def ready() -> Json:
        found = space.there(on, CLAIMS, "data")
        assert found is not None
        assert found["status"]["phase"] == "Bound"
        return found

    return eventually(ready)


@pytest.mark.parametrize("own", [False, True])
def test_a_claim_of_the_operator_is_never_cloned(shop: Space, own: bool) -> None:
    eventually(lambda: shop.there("r1", "serviceaccounts", "default"))
    operators(shop, "r1")
    if own:
        named = claim("data", "cloning")
        named["metadata"]["labels"] = {names.SUPER_CLUSTER: "r1"}
        shop.apply(named)
        eventually(lambda: shop.events("data", "NameTaken"))
    thief = claim("copy", "cloning", dataSource=SOURCE)
    thief["metadata"]["labels"] = {names.SUPER_CLUSTER: "r1"}
    shop.apply(thief, user("reader", "copy", on="r1"))
    later_writes_arrive(shop, "r1")
    assert holders(shop, "copy") == []
    assert not is_running(shop.get("pods", "reader"))


def later_writes_arrive(space: Space, on: str) -> None:
    """Wait until a super cluster has an object that was written after all others."""
    space.kubectl("create", "configmap", "later")
    eventually(lambda: space.there(on, "configmaps", "later"))


def test_a_source_in_another_namespace_is_not_cloned(shop: Space) -> None:
    """API servers without CrossNamespaceVolumeDataSource drop such a source: the claim is an ordinary one, and empty."""
    with shop.pool.space("umbrella") as other:
        data(other, "r1")
        for name, namespace in (("one", other.name), ("two", other.super_name)):
            thief = claim(name, "cloning", dataSourceRef={**SOURCE, "namespace": namespace})
            thief["metadata"]["labels"] = {names.SUPER_CLUSTER: "r1"}
            shop.apply(thief)
        later_writes_arrive(shop, "r1")
        for name in ("one", "two"):
            found = shop.get(CLAIMS, name)
            assert found is not None
            if "dataSourceRef" in found["spec"]:
                assert holders(shop, name) == []
            else:
                bound(shop, name)
                assert origin(shop, "r1", name) is None


def test_a_source_that_is_swapped_while_the_clone_waits_is_not_cloned(shop: Space) -> None:
    """The operator's claim takes the name of the source, whose copy somebody has deleted in the super cluster."""
    r1 = shop.pool.supers["r1"]
    data(shop, "r1")
    shop.kubectl("delete", "pod", "writer")
    eventually(lambda: shop.there("r1", "pods", "writer") is None)
    r1.kubectl("-n", shop.super_name, "delete", "pvc", "data")
    eventually(lambda: shop.there("r1", CLAIMS, "data") is None)
    operators(shop, "r1")
    thief = claim("copy", "cloning", dataSource=SOURCE)
    shop.apply(thief, user("reader", "copy"))
    for _ in range(20):
        assert holders(shop, "copy") == []
    assert shop.get("pods", "reader")
