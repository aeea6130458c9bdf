"""The quota of a Tenant: it is carried to the control plane, shown with what is left, and refused where it would not hold."""

from __future__ import annotations

import pytest
from stage import Stage

from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.kube.errors import ServerError, Status
from vcsync.registration.tenants import virtual_cluster
from vcsync.tenantcontroller.quota import ObservedQuota, shown
from vcsync.tenantcontroller.settings import Settings

SETTINGS = Settings()


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def settle(stage: Stage) -> float | None:
    return await stage.reconciler(SETTINGS).reconcile("acme")


async def test_a_quota_is_set_shown_and_taken_away(stage: Stage) -> None:
    stage.tenant(resourceQuota={"hard": {"pods": "3", "cpu": 2}})
    assert await settle(stage) == SETTINGS.retry
    assert stage.server.records["acme"]["quota"]["hard"] == {"pods": "3", "cpu": "2"}
    assert stage.status()["resourceQuota"] == {
        "hard": {"pods": "3", "cpu": "2"},
        "used": {"pods": "1", "cpu": "1"},
        "free": {"pods": "0", "cpu": "0"},
        "fullest": "cpu: 1/2",
    }
    assert stage.condition()[0] == "True"
    stage.tenant(generation=2)
    assert await settle(stage) == SETTINGS.resync
    assert stage.server.records["acme"]["quota"] is None
    assert "resourceQuota" not in stage.status()


async def test_an_empty_quota_is_none(stage: Stage) -> None:
    stage.tenant(resourceQuota={"hard": {}})
    assert await settle(stage) == SETTINGS.resync
    assert "quota" not in stage.server.records["acme"]


async def test_the_usage_is_read_again(stage: Stage) -> None:
    stage.tenant(resourceQuota={"hard": {"pods": "3"}})
    await settle(stage)
    stage.server.records["acme"]["quota"] |= {"used": {"pods": "2"}, "free": {"pods": "1"}}
    await settle(stage)
    assert stage.status()["resourceQuota"]["fullest"] == "pods: 2/3"


async def test_an_invalid_quota_is_refused_and_the_old_one_stays(stage: Stage) -> None:
    stage.tenant(resourceQuota={"hard": {"pods": "3"}})
    await settle(stage)
    stage.tenant(generation=2, resourceQuota={"hard": {"pods": "1500m"}})
    assert await settle(stage) == SETTINGS.retry
    status, reason, message = stage.condition()
    assert (status, reason) == ("False", "InvalidQuota")
    assert message.startswith("spec.resourceQuota.hard[pods]: 1500m is not a whole number")
    assert stage.condition("Registered")[0] == "True"
    assert stage.server.records["acme"]["quota"]["hard"] == {"pods": "3"}
    assert stage.status()["resourceQuota"]["hard"] == {"pods": "3"}


async def test_a_server_that_fails_is_asked_again(stage: Stage) -> None:
    stage.tenant(resourceQuota={"hard": {"pods": "3"}})

    def fail(method: str, _path: str) -> None:
        if method == "PATCH":
            raise ServerError(Status(500, "InternalError", "later"), endpoint="plane")

    stage.server.before = fail
    with pytest.raises(ServerError):
        await settle(stage)
    assert stage.condition()[1] == "Failed"
    stage.server.before = lambda *_: None
    await settle(stage)
    assert stage.condition()[0] == "True"


async def test_a_tenant_that_a_command_registered_has_no_quota(stage: Stage) -> None:
    stage.server.add("acme")
    body = virtual_cluster("acme", {"tenant": "acme"}, "kube-1")
    await stage.meta.create(VIRTUAL_CLUSTERS, body, "vcsync")
    made = stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
    assert made is not None
    made["status"] = {"phase": "Running"}
    stage.tenant(resourceQuota={"hard": {"pods": "3"}})
    await settle(stage)
    assert stage.condition("Registered")[0] == "True"
    status, reason, message = stage.condition()
    assert (status, reason) == ("False", "QuotaNotEnforced")
    assert "spec.controlPlane.embedded" in message


def test_the_fullest_resource_is_the_one_with_the_largest_share() -> None:
    quota = ObservedQuota({"a": "10", "b": "2", "c": "0"}, {"a": "5", "b": "1500m"}, {})
    found = shown(quota)
    assert found is not None
    assert found.fullest == "b: 1500m/2"
    full = shown(ObservedQuota({"b": "2", "c": "0"}, {"b": "2", "c": "1"}, {}))
    assert full is not None
    assert full.fullest == "c: 1/0"
    none = shown(ObservedQuota({"b": "2"}, {}, {}))
    assert none is not None
    assert none.fullest == ""
    assert shown(None) is None
