"""Writes of a process that does not know yet what another one has written to the same etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from asked_plane import Everybody, Response, ask

from tests.unit.apiserver.storage.etcd_standin import RANGE, TXN, StandIn
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.registry.assumed_reads import MAX_ATTEMPTS
from vcsync.apiserver.storage.etcd import open_etcd

SPACE = "/api/v1/namespaces/s"
MAPS = f"{SPACE}/configmaps"
MERGE = "application/merge-patch+json"

Asked = Callable[..., Awaitable[Response]]


class Two:
    """Two processes on one etcd. `deaf`: the first one hears of no more changes."""

    def __init__(self, etcd: StandIn, asked: list[Asked], store: Any) -> None:
        self.etcd = etcd
        self.one, self.other = asked
        self.store = store

    async def deafen(self) -> None:
        """Let the first process learn what there is, and nothing more."""
        async with asyncio.timeout(20):
            while self.store._cache.revision < self.etcd.revision:
                await asyncio.sleep(0.001)
        self.etcd.mute = True


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    async with AsyncExitStack() as stack:
        etcd = StandIn()
        await etcd.start()
        stack.push_async_callback(etcd.stop)
        asked, stores = [], []
        for _ in range(2):
            store = await open_etcd([etcd.url], pulse_seconds=3600)
            stack.push_async_callback(store.close)
            plane = assemble(store, Everybody())
            await plane.start("127.0.0.1", 0, None)
            stack.push_async_callback(plane.stop)
            stores.append(store)

            def bound(chain: Any) -> Asked:
                async def call(*arguments: Any, **headers: str) -> Response:
                    return await ask(chain, *arguments, **headers)

                return call

            asked.append(bound(plane.server.chain))
        yield Two(etcd, asked, stores[0])


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"k": "v"}}


@pytest.fixture
async def prepared(two: Two) -> Two:
    assert (await two.one("POST", "/api/v1/namespaces", {"metadata": {"name": "s"}})).status == 201
    for name in ("first", "second"):
        assert (await two.one("POST", MAPS, config_map(name))).status == 201
    return two


async def test_a_creation_reads_nothing_that_the_process_knows(prepared: Two) -> None:
    await prepared.deafen()
    begun = prepared.etcd.asked[RANGE]
    assert (await prepared.one("POST", MAPS, config_map("third"))).status == 201
    assert prepared.etcd.asked[RANGE] == begun


async def test_nothing_is_created_in_a_namespace_that_another_process_has_ended(prepared: Two) -> None:
    await prepared.deafen()
    assert (await prepared.other("DELETE", SPACE)).status == 200
    refused = await prepared.one("POST", MAPS, config_map("late"))
    assert (refused.status, refused["details.causes.0.reason"]) == (403, "NamespaceTerminating")
    assert (await prepared.other("GET", f"{MAPS}/late")).status == 404


async def test_a_namespace_that_another_process_has_just_created_takes_objects(prepared: Two) -> None:
    await prepared.deafen()
    late = "/api/v1/namespaces/late"
    assert (await prepared.one("POST", f"{late}/configmaps", config_map("a"))).status == 404
    assert (await prepared.other("POST", "/api/v1/namespaces", {"metadata": {"name": "late"}})).status == 201
    assert (await prepared.one("POST", f"{late}/configmaps", config_map("a"))).status == 201


async def test_a_quota_of_another_process_holds_at_once_and_exactly(prepared: Two) -> None:
    await prepared.deafen()
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "3"}}}
    assert (await prepared.other("POST", f"{SPACE}/resourcequotas", quota)).status == 201
    status = {"status": {"hard": {"count/configmaps": "3"}, "used": {"count/configmaps": "2"}}}
    path = f"{SPACE}/resourcequotas/few/status"
    assert (await prepared.other("PATCH", path, status, content_type=MERGE)).status == 200
    answers = [await prepared.one("POST", MAPS, config_map(f"more-{number}")) for number in range(2)]
    assert [each.status for each in answers] == [201, 403]
    assert "exceeded quota: few" in answers[1]["message"]
    counted = await prepared.other("GET", f"{SPACE}/resourcequotas/few")
    assert counted["status.used"] == {"count/configmaps": "3"}


async def test_a_deleted_quota_of_another_process_refuses_nothing(prepared: Two) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/configmaps": "2"}}}
    assert (await prepared.one("POST", f"{SPACE}/resourcequotas", quota)).status == 201
    status = {"status": {"hard": {"count/configmaps": "2"}, "used": {"count/configmaps": "2"}}}
    path = f"{SPACE}/resourcequotas/none/status"
    assert (await prepared.one("PATCH", path, status, content_type=MERGE)).status == 200
    assert (await prepared.one("POST", MAPS, config_map("a"))).status == 403
    await prepared.deafen()
    assert (await prepared.other("DELETE", f"{SPACE}/resourcequotas/none")).status == 200
    assert (await prepared.one("POST", MAPS, config_map("a"))).status == 201


async def test_updates_start_from_what_the_process_knows_and_lose_nothing(prepared: Two) -> None:
    await prepared.deafen()
    assert (
        await prepared.other("PATCH", f"{MAPS}/first", {"data": {"o": "1"}}, content_type=MERGE)
    ).status == 200
    changed = await prepared.one("PATCH", f"{MAPS}/first", {"data": {"m": "1"}}, content_type=MERGE)
    assert (changed.status, changed["data"]) == (200, {"k": "v", "o": "1", "m": "1"})
    same = await prepared.one("PATCH", f"{MAPS}/first", {"data": {"m": "1"}}, content_type=MERGE)
    assert same["metadata.resourceVersion"] == changed["metadata.resourceVersion"]
    assert (await prepared.other("DELETE", f"{MAPS}/first")).status == 200
    assert (await prepared.one("PATCH", f"{MAPS}/first", {"data": {}}, content_type=MERGE)).status == 404


async def test_warnings_of_a_repeated_write_are_sent_once(prepared: Two) -> None:
    account = {"metadata": {"name": "default"}}
    assert (await prepared.one("POST", f"{SPACE}/serviceaccounts", account)).status == 201
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "env": twice}]},
    }
    await prepared.deafen()
    label = {"metadata": {"labels": {"a": "b"}}}
    assert (await prepared.other("PATCH", SPACE, label, content_type=MERGE)).status == 200
    created = await prepared.one("POST", f"{SPACE}/pods", pod)
    assert created.status == 201, created.body
    assert len(created.warnings) == 1


@pytest.mark.parametrize(("times", "status"), [(MAX_ATTEMPTS - 1, 201), (MAX_ATTEMPTS, 429)])
async def test_a_write_is_repeated_while_others_change_what_it_depends_on(
    prepared: Two, times: int, status: int
) -> None:
    (space,) = (each for each in prepared.etcd.objects.values() if each.key.endswith(b"/namespaces/s"))
    left = times

    def change(path: str, _: Any) -> None:
        nonlocal left
        if path == TXN and left:
            left -= 1
            prepared.etcd.put(space.key, space.value)

    prepared.etcd.before = change
    answer = await prepared.one("POST", MAPS, config_map("third"))
    assert (answer.status, left) == (status, 0), answer.body
