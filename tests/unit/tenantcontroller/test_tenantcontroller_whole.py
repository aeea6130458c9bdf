"""The role as a whole: it follows Tenants and VirtualClusters, and shows its state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from memory_cluster import until
from stage import Stage

from vcsync.api.resources import TENANT_TEMPLATES, TENANTS, VIRTUAL_CLUSTERS
from vcsync.tenantcontroller import Settings, TenantController

QUICK = Settings(poll=0.001, retry=0.001, resync=60.0)


@asynccontextmanager
async def running(stage: Stage) -> AsyncIterator[TenantController]:
    """Run the role for a while."""
    role = TenantController(
        stage.meta,  # type: ignore[arg-type]
        stage.server,  # type: ignore[arg-type]
        identity="me",
        leader_elect=False,
        settings=QUICK,
        open_client=stage.open,
    )
    task = asyncio.create_task(role.run())
    try:
        yield role
    finally:
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled(), task.exception()


@pytest.fixture
async def stage() -> Stage:
    return Stage()


def phase(stage: Stage, name: str = "acme") -> str:
    found = stage.meta.found(TENANTS, name)
    return "" if found is None else found.get("status", {}).get("phase", "")


async def test_tenants_are_followed_from_their_creation_to_their_end(stage: Stage) -> None:
    stage.tenant("umbrella")
    async with running(stage) as role:
        await until(lambda: phase(stage, "umbrella") == "Running")
        stage.tenant("acme")
        await until(lambda: phase(stage) == "Running")
        await until(lambda: role.status().get("phases") == {"Running": 2})
        assert role.ready() == (True, "leading")
        await stage.delete("acme")
        await until(lambda: stage.server.records["acme"]["phase"] == "Draining")

        def gone() -> bool:
            stage.others_work()
            return stage.meta.found(TENANTS, "acme") is None

        await until(gone)
        assert stage.left("acme") == []
        assert phase(stage, "umbrella") == "Running"


async def test_a_changed_virtual_cluster_is_noticed(stage: Stage) -> None:
    stage.tenant(weight=3)
    async with running(stage):
        await until(lambda: phase(stage) == "Running")
        await stage.meta.patch(VIRTUAL_CLUSTERS, "acme", {"spec": {"weight": 9}}, "vcsync")
        vc = VIRTUAL_CLUSTERS

        def weight() -> int:
            found = stage.meta.found(vc, "acme", "vcsync")
            assert found is not None
            return int(found["spec"]["weight"])

        await until(lambda: weight() == 3)


async def test_a_changed_template_reaches_every_tenant_that_names_it(stage: Stage) -> None:
    stage.meta.put(TENANT_TEMPLATES, "small", metadata={"generation": 1}, spec={"weight": 2})
    for name in ("acme", "umbrella"):
        stage.tenant(name, template="small")
    stage.tenant("other")
    async with running(stage):
        await until(lambda: all(phase(stage, name) == "Running" for name in ("acme", "umbrella", "other")))
        await stage.meta.patch(
            TENANT_TEMPLATES, "small", {"metadata": {"generation": 2}, "spec": {"weight": 9}}
        )
        await until(
            lambda: [stage.status(name)["weight"] for name in ("acme", "umbrella", "other")] == [9, 9, 1]
        )


async def test_a_tenant_with_an_error_is_named_and_does_not_delay_others(stage: Stage) -> None:
    stage.server.add("taken", nodes="own")
    stage.tenant("taken")
    stage.tenant("acme")
    async with running(stage) as role:
        await until(lambda: phase(stage) == "Running" and phase(stage, "taken") == "Error")
        await until(lambda: role.ready() == (True, "leading, but Tenants in phase Error: taken"))
        shown = {
            (sample.labels["phase"], sample.value)
            for family in role.metrics()
            if family.name == "vcsync_tenants"
            for sample in family.samples
        }
        assert shown == {("Pending", 0.0), ("Running", 1.0), ("Terminating", 0.0), ("Error", 1.0)}
        assert role.status()["role"] == "tenants"
