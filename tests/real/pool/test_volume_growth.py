"""The progress of an expansion on real API servers, as a tenant reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pool_kit import Pool, Space, condition
from volume_kit import CLAIMS, bound, claim, published, shown, user, volume_of

from hack.testbed.provisioner import HIDDEN_PATH, Provisioner, storage_class
from tests.real.waiting import eventually

AT = "2026-05-01T12:00:00Z"


@pytest.fixture(scope="module")
def provisioners(pool: Pool) -> Iterator[dict[str, Provisioner]]:
    with published(pool, {each: [storage_class("growing")] for each in ("r1", "r2")}) as made:
        yield made


@pytest.fixture
def shop(pool: Pool, provisioners: dict[str, Provisioner]) -> Iterator[Space]:
    with pool.space() as space:
        eventually(lambda: shown(space, "growing") == "r1,r2")
        space.apply(claim("data", "growing"), user("db", "data"))
        bound(space, "data")
        yield space
    for each in provisioners.values():
        each.stuck.clear()


def ask(space: Space, size: str) -> None:
    patch = {"spec": {"resources": {"requests": {"storage": size}}}}
    space.kubectl("patch", "pvc", "data", "-p", json.dumps(patch))


def stick(provisioners: dict[str, Provisioner], **status: Any) -> None:
    for each in provisioners.values():
        each.stuck["growing"] = status


def seen(kind: str) -> dict[str, Any]:
    """Return a condition as the operator's resizer writes it."""
    texts = {"reason": "rpc", "message": f"resize of {HIDDEN_PATH} failed"}
    return {"type": kind, "status": "True", "lastTransitionTime": AT, **texts}


def test_a_resize_that_waits_for_the_pod_says_so_until_it_has_ended(
    shop: Space, provisioners: dict[str, Provisioner]
) -> None:
    stick(
        provisioners,
        conditions=[seen("FileSystemResizePending")],
        allocatedResources={"storage": "128Mi"},
        allocatedResourceStatuses={"storage": "NodeResizePending"},
    )
    ask(shop, "128Mi")
    pending = eventually(lambda: condition(shop.get(CLAIMS, "data"), "FileSystemResizePending"))
    assert "(re-)start a pod" in pending["message"]
    found = shop.get(CLAIMS, "data")
    assert found is not None
    assert found["status"]["capacity"] == {"storage": "64Mi"}
    assert found["status"]["allocatedResources"] == {"storage": "128Mi"}
    assert found["status"]["allocatedResourceStatuses"] == {"storage": "NodeResizePending"}
    assert HIDDEN_PATH not in json.dumps(found)
    assert "FileSystemResizePending" in shop.kubectl("describe", "pvc", "data")
    for each in provisioners.values():
        each.stuck.clear()

    def grown() -> bool:
        now = shop.get(CLAIMS, "data")
        assert now is not None
        volume = volume_of(shop, now)
        assert volume is not None
        assert now["status"]["capacity"] == volume["spec"]["capacity"] == {"storage": "128Mi"}
        assert not now["status"].get("conditions")
        assert not now["status"].get("allocatedResourceStatuses")
        return True

    eventually(grown)


def test_an_expansion_that_the_operator_cannot_make_is_taken_back(
    shop: Space, provisioners: dict[str, Provisioner]
) -> None:
    stick(
        provisioners,
        conditions=[seen("ControllerResizeError")],
        allocatedResources={"storage": "2Gi"},
        allocatedResourceStatuses={"storage": "ControllerResizeInfeasible"},
    )
    ask(shop, "2Gi")
    eventually(lambda: condition(shop.get(CLAIMS, "data"), "ControllerResizeError"))
    ask(shop, "96Mi")
    for each in provisioners.values():
        each.stuck.clear()

    def recovered() -> bool:
        now = shop.get(CLAIMS, "data")
        assert now is not None
        assert now["status"]["capacity"] == {"storage": "96Mi"}
        assert not now["status"].get("conditions")
        return True

    eventually(recovered)
