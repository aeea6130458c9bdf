"""Objects that the `accept` filter refused can be accepted later."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from kube_standin import StandIn

from vcsync.kube.client import Client
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import CONFIG_MAPS


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_an_object_whose_events_were_refused_is_cached_after_a_refill(
    server: StandIn, client: Client
) -> None:
    wanted = {"open"}
    reflector = Reflector(client, CONFIG_MAPS, accept=lambda item: item.namespace in wanted)
    running = asyncio.create_task(reflector.run())
    try:
        await until(lambda: reflector.stale_since is None and server.watches > 0)
        server.put("closed", "one")
        server.put("open", "mark")
        await until(lambda: reflector.cache.get("open", "mark") is not None)
        assert reflector.cache.get("closed", "one") is None
        wanted.add("closed")
        await reflector.refill("closed")
        assert reflector.cache.get("closed", "one") is not None
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
