"""The history of a tenant is counted and limited."""

import asyncio

import pytest
from asked_plane import Everybody, ask

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.registry.history_limit import BUCKET_SECONDS, KEPT_SECONDS, History
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.serving.limits import Limits
from vcsync.apiserver.storage.interface import Change

KEY = "a/core/configmaps/default/one"


class Bench:
    def __init__(self, most: int = 1000) -> None:
        self.seconds = 1000.0
        self.history = History(lambda: self.seconds, most)

    def overwrites(self, size: int, key: str = KEY) -> None:
        self.history.changed([Change(1, key, b"new", b"x" * (size - len(key)), 1)])


def test_old_values_count_as_history_and_new_ones_do_not() -> None:
    bench = Bench()
    bench.overwrites(100)
    bench.history.changed(
        [Change(2, KEY, None, b"y" * (100 - len(KEY)), 1), Change(3, KEY, b"z" * 100, None, 3)]
    )
    assert bench.history.of("a") == 200
    assert bench.history.of("b") == 0


def test_writes_beyond_the_limit_wait_for_compaction() -> None:
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


def test_the_system_space_has_no_limit() -> None:
    bench = Bench()
    bench.overwrites(5000, "system/core/configmaps/default/one")
    bench.history.require("system")


def test_the_history_is_a_metric() -> None:
    bench = Bench()
    bench.overwrites(100)
    assert b'vcsync_storage_history_bytes{tenant="a"} 100\n' in bench.history.text("a")


class Tenants(Everybody):
    """Everybody is somebody of a tenant, and no system caller."""

    async def authenticate(self, certificate, authorization, tenant):
        return Caller(User("tester", groups=("system:authenticated",)), tenant or "a")


async def test_writes_are_refused_and_deletions_are_allowed(store, config_map) -> None:
    plane = assemble(store, Tenants(), limits=Limits(history_bytes=50_000))
    await plane.start("127.0.0.1", 0, None)
    chain = plane.server.chain
    try:
        place = "/api/v1/namespaces/default/configmaps"
        await ask(chain, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        body = {"metadata": {"name": "one"}, "data": {"a": "x" * 10_000}}
        assert (await ask(chain, "POST", place, body)).status == 201
        async with asyncio.timeout(20):
            while (
                response := await ask(
                    chain, "PUT", f"{place}/one", {**body, "data": {"a": str(id(body)) * 900}}
                )
            ).status == 200:
                body = {**body}
                await ask(chain, "PUT", f"{place}/one", body)
        assert (response.status, response.body["reason"]) == (429, "TooManyRequests")
        assert (await ask(chain, "DELETE", f"{place}/one")).status == 200
        assert (await ask(chain, "POST", place, {"metadata": {"name": "two"}})).status == 429
        assert (await ask(chain, "GET", place)).status == 200
    finally:
        await plane.stop()
