"""A Tenant says why its control plane is set aside, until the operator releases it."""

from typing import Any

import pytest
from stage import Stage

from vcsync.api import names
from vcsync.api.resources import TENANTS, VIRTUAL_CLUSTERS
from vcsync.tenantcontroller.settings import Settings

SETTINGS = Settings()
WHY = "its work stalled the server 2 times within a day"


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def settle(stage: Stage) -> float | None:
    return await stage.reconciler(SETTINGS).reconcile("acme")


def record(stage: Stage) -> dict[str, Any]:
    return stage.server.records["acme"]


async def test_a_tenant_says_why_it_is_set_aside_until_its_release(stage: Stage) -> None:
    stage.tenant()
    assert await settle(stage) == SETTINGS.resync
    before = stage.status()
    record(stage)["aside"] = WHY
    assert await settle(stage) == SETTINGS.retry, "the release is noticed soon"
    for kind in ("Ready", "ControlPlaneReady"):
        status, reason, message = stage.condition(kind)
        assert (status, reason) == ("False", "SetAside")
        assert WHY in message
        assert "vcsync tenant release acme" in message
    assert stage.condition("Registered")[0] == "True"
    assert stage.status()["phase"] == "Error"
    record(stage)["aside"] = ""
    assert await settle(stage) == SETTINGS.resync
    after = stage.status()
    assert (after["phase"], [each["reason"] for each in after["conditions"]]) == (
        "Running",
        [each["reason"] for each in before["conditions"]],
    )


async def test_its_limits_can_be_changed_before_the_release(stage: Stage) -> None:
    stage.tenant()
    await settle(stage)
    record(stage)["aside"] = WHY
    stage.tenant(generation=2, suspended=True, weight=3)
    await settle(stage)
    assert record(stage)["suspended"]
    vc = stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert vc is not None
    assert vc["spec"]["weight"] == 3
    assert stage.condition()[1] == "SetAside"


async def test_a_control_plane_that_is_set_aside_is_neither_opened_nor_adopted(stage: Stage) -> None:
    stage.server.add("acme", aside=WHY)
    plane = stage.server.planes.pop("acme")
    stage.tenant()
    assert await settle(stage) == SETTINGS.retry
    assert stage.condition()[1] == "SetAside"
    assert "controlPlaneUID" not in stage.status()
    assert stage.meta.all(VIRTUAL_CLUSTERS) == []
    record(stage)["aside"], stage.server.planes["acme"] = "", plane
    await settle(stage)
    assert stage.meta.all(VIRTUAL_CLUSTERS) != []


async def test_another_control_plane_of_the_name_is_not_the_reason(stage: Stage) -> None:
    stage.tenant()
    await settle(stage)
    record(stage).update(uid="another", aside=WHY)
    await settle(stage)
    assert stage.condition()[1] == "WrongControlPlane"


async def test_it_can_be_deleted(stage: Stage) -> None:
    stage.tenant()
    await settle(stage)
    record(stage)["aside"] = WHY
    await stage.delete()
    for _ in range(5):
        await settle(stage)
        stage.others_work()
    assert stage.left() == []


@pytest.mark.parametrize(("server", "reason"), [("", "SetAside"), ("https://elsewhere", "ByCommand")])
async def test_a_tenant_that_a_command_registered_says_it_too(stage: Stage, server: str, reason: str) -> None:
    stage.server.add("acme", aside=WHY, server=server)
    stage.tenant()
    stage.meta.objects["tenants", "", "acme"]["metadata"]["annotations"] = {names.VC_UID: "uid-acme"}
    status = {"phase": "Running", "clusterNamespace": "root-acme"}
    stage.meta.put(VIRTUAL_CLUSTERS, "acme", "vcsync", spec={"tenant": "acme"}, status=status)
    await settle(stage)
    assert stage.condition()[1] == reason
    assert stage.condition("Registered")[:2] == ("True", "ByCommand")
    record(stage)["aside"] = ""
    await settle(stage)
    assert stage.condition()[1] == "ByCommand"
    assert "finalizers" not in stage.meta.objects[TENANTS.plural, "", "acme"]["metadata"]
