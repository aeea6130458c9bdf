"""What a tenant overwrites and deletes counts for it as long as it is kept, and is bounded."""

import asyncio

import pytest
from asked_plane import Everybody, ask

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.identity.caller import Caller
from vcsync.controlplane.rest.assemble import assemble
from vcsync.controlplane.rest.history import BUCKET_SECONDS, KEPT_SECONDS, History
from vcsync.controlplane.rest.limits import Limits
from vcsync.controlplane.store.interface import Change

KEY = "a/core/configmaps/default/one"


class Bench:
    def __init__(self, most: int = 1000) -> None:
        self.seconds = 1000.0
        self.history = History(lambda: self.seconds, most)

    def overwrites(self, size: int, key: str = KEY) -> None:
        self.history.changed([Change(1, key, b"new", b"x" * (size - len(key)), 1)])


def test_what_is_overwritten_and_deleted_counts_and_what_is_new_does_not() -> None:
    bench = Bench()
    bench.overwrites(100)
    bench.history.changed(
        [Change(2, KEY, None, b"y" * (100 - len(KEY)), 1), Change(3, KEY, b"z" * 100, None, 3)]
    )
    assert bench.history.of("a") == 200
    assert bench.history.of("b") == 0


def test_beyond_the_bound_a_tenant_waits_until_history_is_forgotten() -> None:
    bench = Bench()
    bench.overwrites(999)
    bench.history.require("a")
    bench.overwrites(100)
    with pytest.raises(StatusError) as refused:
        bench.history.require("a")
    assert (refused.value.code, refused.value.retry_after) == (429, int(BUCKET_SECONDS))
    assert "write less often, or smaller objects" in refused.value.message
    bench.history.require("b")
    bench.seconds += KEPT_SECONDS + BUCKET_SECONDS
    bench.history.require("a")


def test_the_operators_space_is_not_bounded() -> None:
    bench = Bench()
    bench.overwrites(5000, "system/core/configmaps/default/one")
    bench.history.require("system")


def test_it_is_told_as_a_metric() -> None:
    bench = Bench()
    bench.overwrites(100)
    assert b'vcsync_storage_history_bytes{tenant="a"} 100\n' in bench.history.text("a")


class Tenants(Everybody):
    """Everybody is somebody of a tenant, and no system caller."""

    async def authenticate(self, certificate, authorization, tenant):
        return Caller(User("tester", groups=("system:authenticated",)), tenant or "a")


async def test_writes_are_refused_over_the_api_and_deletions_go_on(store, config_map) -> None:
    plane = assemble(store, Tenants(), limits=Limits(history_bytes=50_000))
    await plane.start("127.0.0.1", 0, None)
    way = plane.server._way
    try:
        place = "/api/v1/namespaces/default/configmaps"
        await ask(way, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        body = {"metadata": {"name": "one"}, "data": {"a": "x" * 10_000}}
        assert (await ask(way, "POST", place, body)).status == 201
        async with asyncio.timeout(20):
            while (
                told := await ask(way, "PUT", f"{place}/one", {**body, "data": {"a": str(id(body)) * 900}})
            ).status == 200:
                body = {**body}
                await ask(way, "PUT", f"{place}/one", body)
        assert (told.status, told.body["reason"]) == (429, "TooManyRequests")
        assert (await ask(way, "DELETE", f"{place}/one")).status == 200
        assert (await ask(way, "POST", place, {"metadata": {"name": "two"}})).status == 429
        assert (await ask(way, "GET", place)).status == 200
    finally:
        await plane.stop()
