"""A store that is full or does not respond: refusals, /readyz, and recovery without a restart."""

import pytest
from asked_plane import Everybody, ask

from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.filters.store_health import StoreHealth
from vcsync.apiserver.storage.interface import StoreFull, StoreUnavailable

MAP = {"metadata": {"name": "one"}}


class Failing:
    """A store whose writes fail as the test says."""

    def __init__(self, store) -> None:
        self._store = store
        self.error: Exception | None = None

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def txn(self, compares, operations):
        if self.error is not None:
            raise self.error
        return await self._store.txn(compares, operations)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (StoreFull("the database is full"), 507, "InsufficientStorage"),
        (StoreUnavailable("no answer of 10.0.0.1"), 503, "ServiceUnavailable"),
    ],
)
async def test_a_refused_write_names_the_remedy_and_succeeds_later(store, error, status, reason) -> None:
    failing = Failing(store)
    plane = assemble(failing, Everybody())
    await plane.start("127.0.0.1", 0, None)
    chain = plane.server.chain
    try:
        place = "/api/v1/namespaces/default/configmaps"
        await ask(chain, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        failing.error = error

        response = await ask(chain, "POST", place, MAP)

        assert (response.status, response.body["reason"]) == (status, reason)
        assert "10.0.0.1" not in response.body["message"]
        assert (await ask(chain, "GET", "/readyz")).status == 500
        assert (await ask(chain, "GET", place)).status == 200
        failing.error = None
        chain.refusals._store_health._probed_at = float("-inf")
        assert (await ask(chain, "GET", "/readyz")).status == 200
        assert (await ask(chain, "POST", place, MAP)).status == 201
        assert b"apiserver_defects_total 0.0" in plane.server._metrics.text("system")
    finally:
        await plane.stop()


async def test_a_failing_store_is_checked_once_per_second_at_most(store) -> None:
    failing, seconds, asked = Failing(store), [0.0], []

    async def txn(*_):
        asked.append(seconds[0])
        raise StoreFull("full")

    failing.txn = txn
    store_health = StoreHealth(failing, lambda: seconds[0])
    store_health.refusal(StoreFull("full"))
    for _ in range(40):
        assert not await store_health.ready()
        seconds[0] += 0.25
    assert len(asked) == 10
