"""A change that something cannot take costs nobody but its own tenant anything, and is counted."""

import asyncio

from asked_plane import Everybody

from vcsync.controlplane.rest.assemble import assemble
from vcsync.controlplane.store.interface import Put


async def test_only_the_tenant_of_a_change_that_cannot_be_taken_is_read_anew(store) -> None:
    known: list[str] = []
    doubted: list[str] = []

    def listener(changes):
        for change in changes:
            if "poison" in change.key:
                raise TypeError("'int' object is not iterable")
            known.append(change.key)

    async def doubt(tenant):
        doubted.append(tenant)

    plane = assemble(store, Everybody(), listeners=[listener], doubted=doubt)
    await plane.start("127.0.0.1", 0, None)
    try:
        await asyncio.gather(
            *(store.txn([], [put]) for put in puts("a/core/configmaps/x/poison", "b/core/configmaps/x/good"))
        )
        async with asyncio.timeout(20):
            while not doubted or not known:
                await asyncio.sleep(0.01)
    finally:
        await plane.stop()

    assert known == ["b/core/configmaps/x/good"]
    assert doubted == ["a"]
    assert b"apiserver_defects_total 1.0" in plane.server._metrics.text("system")


def puts(*keys):
    return [Put(key, b'{"metadata":{"name":"x"}}') for key in keys]
