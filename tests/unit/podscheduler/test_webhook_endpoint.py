"""The Service of the placement webhook leads to the process that leads, by its EndpointSlice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from memory_cluster import MemoryCluster, until
from test_podscheduler_whole import Stage

from vcsync.api import names
from vcsync.kube.errors import Forbidden, Status
from vcsync.kube.resources import ENDPOINT_SLICES
from vcsync.podscheduler import PodScheduler, Settings, webhook_endpoint
from vcsync.podscheduler.settings import WebhookSettings

WHERE = names.PLACEMENT_SERVICE, names.SYSTEM_NAMESPACE


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(webhook_endpoint, "WRITE_SECONDS", 0.01)
    monkeypatch.setattr(webhook_endpoint, "RETRY_SECONDS", 0.01)
    return Stage()


def make_slice(meta: MemoryCluster, **fields: Any) -> None:
    meta.put(ENDPOINT_SLICES, *WHERE, addressType="IPv4", ports=[{"port": 9443}], **fields)


def addresses(meta: MemoryCluster) -> list[str]:
    found = meta.found(ENDPOINT_SLICES, *WHERE) or {}
    return [address for each in found.get("endpoints", ()) for address in each["addresses"]]


@asynccontextmanager
async def running(stage: Stage, identity: str, endpoint: str) -> AsyncIterator[PodScheduler]:
    scheduler = PodScheduler(
        stage.meta,  # type: ignore[arg-type]
        identity=identity,
        settings=Settings(webhook=WebhookSettings("127.0.0.1", 0, endpoint)),
        make_client=lambda _kubeconfig, _key: stage.tenant,  # type: ignore[arg-type,return-value]
    )
    task = asyncio.create_task(scheduler.run())
    try:
        yield scheduler
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_the_service_follows_the_leader(stage: Stage) -> None:
    make_slice(stage.meta)
    async with running(stage, "second", "10.0.0.2") as second:
        await until(lambda: addresses(stage.meta) == ["10.0.0.2"])
        async with running(stage, "third", "10.0.0.3") as third:
            await until(lambda: third.ready()[1].startswith("standby"))
            make_slice(stage.meta, endpoints=[{"addresses": ["10.0.0.9"]}])
            await until(lambda: addresses(stage.meta) == ["10.0.0.2"])
            assert second.status()["leader"]
    async with running(stage, "third", "10.0.0.3"):
        await until(lambda: addresses(stage.meta) == ["10.0.0.3"])


async def test_a_process_without_an_endpoint_writes_none(stage: Stage) -> None:
    make_slice(stage.meta)
    async with running(stage, "me", "") as scheduler:
        await until(lambda: scheduler.ready()[1].startswith("leading"))
        assert addresses(stage.meta) == []


async def test_a_process_that_may_have_been_replaced_writes_nothing_until_it_knows(stage: Stage) -> None:
    make_slice(stage.meta, endpoints=[{"addresses": ["10.0.0.3"]}])
    sure, asked = False, asyncio.Event()

    def still_held() -> bool:
        asked.set()
        return sure

    task = asyncio.create_task(webhook_endpoint.lead_service(stage.meta, "10.0.0.2", still_held))  # type: ignore[arg-type]
    try:
        for _ in range(3):
            asked.clear()
            await asked.wait()
            assert addresses(stage.meta) == ["10.0.0.3"], "another leader has written it"
        sure = True
        await until(lambda: addresses(stage.meta) == ["10.0.0.2"])
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_it_works_without_the_object_and_writes_it_when_it_exists(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(stage, "me", "10.0.0.2") as scheduler:
        await until(lambda: scheduler.ready()[1].startswith("leading"))
        make_slice(stage.meta)
        await until(lambda: addresses(stage.meta) == ["10.0.0.2"])
    assert "config/deploy/placement-webhook" in capsys.readouterr().out


async def test_a_refusal_is_tried_again_and_told_once(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    make_slice(stage.meta)
    refused = 0

    def refuse(_verb: str, plural: str, _name: str) -> None:
        nonlocal refused
        if plural == ENDPOINT_SLICES.plural and refused < 3:
            refused += 1
            raise Forbidden(Status(403, "Forbidden", "no grant"), endpoint="meta")

    stage.meta.before = refuse
    async with running(stage, "me", "10.0.0.2"):
        await until(lambda: addresses(stage.meta) == ["10.0.0.2"])
    assert capsys.readouterr().out.count("may lead elsewhere") == 1
