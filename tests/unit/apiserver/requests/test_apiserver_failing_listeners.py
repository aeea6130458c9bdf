"""A change that a listener fails on affects only its own tenant, and is counted as a defect."""

import asyncio

from asked_plane import Everybody

from vcsync.apiserver.assembly.server import assemble
from vcsync.apiserver.storage.interface import Put


async def test_only_the_tenant_of_the_failed_change_is_forgotten(store) -> None:
    known: list[str] = []
    forgotten: list[str] = []

    def listener(changes):
        for change in changes:
            if "poison" in change.key:
                raise TypeError("'int' object is not iterable")
            known.append(change.key)

    async def on_tenant_failed(tenant):
        forgotten.append(tenant)

    plane = assemble(store, Everybody(), listeners=[listener], on_tenant_failed=on_tenant_failed)
    await plane.start("127.0.0.1", 0, None)
    try:
        await asyncio.gather(
            *(store.txn([], [put]) for put in puts("a/core/configmaps/x/poison", "b/core/configmaps/x/good"))
        )
        async with asyncio.timeout(20):
            while not forgotten or not known:
                await asyncio.sleep(0.01)
    finally:
        await plane.stop()

    assert known == ["b/core/configmaps/x/good"]
    assert forgotten == ["a"]
    assert b"apiserver_defects_total 1.0" in plane.server._metrics.text("system")


def puts(*keys):
    return [Put(key, b'{"metadata":{"name":"x"}}') for key in keys]
