"""An etcd of three members: after the loss of one, work continues; without a majority, no data is lost or invented."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
from plane_kit import Caller, calling

from hack import etcd
from hack.embedded import ControlPlane
from hack.etcd import Etcd
from tests.real.waiting import soon

CONFIG_MAPS = "/tenants/acme/api/v1/namespaces/default/configmaps"


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Etcd]]:
    with etcd.members(tmp_path / "etcd") as running:
        yield running


@pytest.fixture
async def plane(members: list[Etcd], tmp_path: Path) -> AsyncIterator[ControlPlane]:
    further = [argument for each in members[1:] for argument in ("--etcd", each.url)]
    made = ControlPlane(tmp_path / "plane", etcd=members[0].url, arguments=further)
    await asyncio.to_thread(made.start)
    try:
        await asyncio.to_thread(made.create, "acme")
        yield made
    finally:
        await asyncio.to_thread(made.stop)


async def test_one_lost_member_is_tolerated_and_the_loss_of_two_is_reported_without_loss_of_data(
    plane: ControlPlane, members: list[Etcd]
) -> None:
    acknowledged: set[str] = set()

    async def write(caller: Caller, name: str) -> int:
        status, _ = await caller("POST", CONFIG_MAPS, {"metadata": {"name": name}})
        if status == 201:
            acknowledged.add(name)
        return status

    async def ready(caller: Caller) -> bool:
        status = 0
        with suppress(aiohttp.ClientError, ValueError):
            async with caller._session.get(f"{caller.url}/readyz") as answer:
                status = answer.status
        return status == 200

    kubeconfig = await asyncio.to_thread(plane.kubeconfig, "acme")
    async with calling(plane, kubeconfig) as caller, caller.watch(f"{CONFIG_MAPS}?watch=1") as events:
        assert await write(caller, "before") == 201

        # The control plane uses the member that it names first.
        await asyncio.to_thread(members[0].stop)
        turn = 0

        async def written() -> bool:
            nonlocal turn
            turn += 1
            return await write(caller, f"one-lost-{turn}") in {201, 409}

        await soon(written)
        await soon(lambda: ready(caller))

        await asyncio.to_thread(members[1].stop)
        for number in range(2):
            assert await write(caller, f"two-lost-{number}") in {503, 504}

        async def unready() -> bool:
            return not await ready(caller)

        await soon(unready)
        status, answer = await caller("GET", CONFIG_MAPS)
        assert status in {503, 504}, f"without most members nobody knows what there is: {answer}"

        for each in members[:2]:
            each.launch()
        await soon(lambda: ready(caller))
        await soon(written)
        status, answer = await caller("GET", CONFIG_MAPS)
        assert status == 200
        found = {each["metadata"]["name"] for each in answer["items"]}
        assert acknowledged <= found
        seen: set[str] = set()
        async with asyncio.timeout(60):
            async for event in events:
                assert event["type"] == "ADDED", event
                seen.add(event["object"]["metadata"]["name"])
                if found - {"kube-root-ca.crt"} <= seen:
                    break
