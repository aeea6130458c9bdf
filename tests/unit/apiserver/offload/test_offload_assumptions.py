"""Objects that the offload process has read are checked by the commit, which another process executes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.apiserver.storage.etcd_standin import StandIn
from vcsync.apiserver.offload import link as module
from vcsync.apiserver.offload.remote_storage import RemoteStore, store_procedures
from vcsync.apiserver.storage.assumptions import AssumingStore, AssumptionFailed, Assumptions, assuming
from vcsync.apiserver.storage.etcd import EtcdStore, open_etcd
from vcsync.apiserver.storage.interface import Compare, Delete, Put


class Direct:
    """A link that executes calls at once, and passes errors on as the real one does."""

    def __init__(self, store: EtcdStore) -> None:
        self._procedures = store_procedures(store)

    async def call(self, name: str, *arguments: Any) -> Any:
        try:
            return await self._procedures[name](*arguments)
        except Exception as error:  # noqa: BLE001
            raise module._error(*module._failure(error)) from None


@pytest.fixture
async def store() -> AsyncIterator[EtcdStore]:
    etcd = StandIn()
    await etcd.start()
    opened = await open_etcd([etcd.url], pulse_seconds=3600)
    await opened.txn([], [Put("t/space", b"1"), Put("t/quotas/q", b"1")])
    yield opened
    await opened.close()
    await etcd.stop()


async def read(remote: RemoteStore) -> Assumptions:
    assumed = Assumptions()
    with assuming(assumed):
        assert await remote.get_cached("t/space")
        assert await remote.get_cached("t/none") is None
        assert len(await remote.range_cached("t/quotas/")) == 1
    return assumed


@pytest.mark.parametrize(
    "change",
    [
        Put("t/space", b"2"),
        Delete("t/space"),
        Put("t/none", b""),
        Put("t/quotas/r", b""),
        Delete("t/quotas/q"),
    ],
)
async def test_a_commit_fails_if_something_that_was_read_has_changed(
    store: EtcdStore, change: Put | Delete
) -> None:
    remote = RemoteStore(Direct(store))  # type: ignore[arg-type]
    assert isinstance(remote, AssumingStore)
    assumed = await read(remote)
    assert await remote.holds(assumed)
    await store.txn([], [change])
    with assuming(assumed), pytest.raises(AssumptionFailed):
        await remote.txn([Compare("t/new", 0)], [Put("t/new", b"")])
    assert (await store.get("t/new"))[0] is None
    assert not assumed.committed


async def test_a_commit_succeeds_if_nothing_has_changed(store: EtcdStore) -> None:
    remote = RemoteStore(Direct(store))  # type: ignore[arg-type]
    assumed = await read(remote)
    with assuming(assumed):
        assert not (await remote.txn([Compare("t/space", 1)], [])).done
        assert not assumed.committed
        assert (await remote.txn([Compare("t/new", 0)], [Put("t/new", b"")])).done
    assert assumed.committed
    assert (await remote.get_cached("t/new")) is not None
    assert len(await remote.range_cached("t/quotas/")) == 1
    assert (await remote.txn([], [Delete("t/new")])).done
