"""A store that is full or does not answer is told as such, shown by /readyz, and found to work again by itself."""

import pytest
from asked_plane import Everybody, ask

from vcsync.controlplane.rest.assemble import assemble
from vcsync.controlplane.rest.soundness import Soundness
from vcsync.controlplane.store.interface import StoreFull, StoreUnavailable

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
async def test_a_write_is_refused_with_the_remedy_and_goes_through_once_it_can(
    store, error, status, reason
) -> None:
    failing = Failing(store)
    plane = assemble(failing, Everybody())
    await plane.start("127.0.0.1", 0, None)
    way = plane.server._way
    try:
        place = "/api/v1/namespaces/default/configmaps"
        await ask(way, "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        failing.error = error

        told = await ask(way, "POST", place, MAP)

        assert (told.status, told.body["reason"]) == (status, reason)
        assert "10.0.0.1" not in told.body["message"]
        assert (await ask(way, "GET", "/readyz")).status == 500
        assert (await ask(way, "GET", place)).status == 200
        failing.error = None
        way._soundness._probed_at = float("-inf")
        assert (await ask(way, "GET", "/readyz")).status == 200
        assert (await ask(way, "POST", place, MAP)).status == 201
        assert b"apiserver_defects_total 0.0" in plane.server._metrics.text("system")
    finally:
        await plane.stop()


async def test_a_store_that_fails_is_asked_once_a_second_at_most(store) -> None:
    failing, seconds, asked = Failing(store), [0.0], []

    async def txn(*_):
        asked.append(seconds[0])
        raise StoreFull("full")

    failing.txn = txn
    soundness = Soundness(failing, lambda: seconds[0])
    soundness.refusal(StoreFull("full"))
    for _ in range(40):
        assert not await soundness.ready()
        seconds[0] += 0.25
    assert len(asked) == 10
