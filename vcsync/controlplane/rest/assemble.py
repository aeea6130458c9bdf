"""Puts the parts of the embedded control plane together."""

import asyncio
import ssl
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from prometheus_client import generate_latest

from vcsync.controlplane.rest.answers import Answers
from vcsync.controlplane.rest.deletion import Deleter, begin_namespace
from vcsync.controlplane.rest.eviction import Evictor
from vcsync.controlplane.rest.hub import Hub, Tap
from vcsync.controlplane.rest.paths import Paths
from vcsync.controlplane.rest.reading import Reader
from vcsync.controlplane.rest.registry import Registry
from vcsync.controlplane.rest.scope import Admit
from vcsync.controlplane.rest.server import Metrics, Server
from vcsync.controlplane.rest.space import Spaces
from vcsync.controlplane.rest.subresources import Reviews, Subresources
from vcsync.controlplane.rest.verbs import Verbs
from vcsync.controlplane.rest.watching import Watches
from vcsync.controlplane.rest.way import Identity, Way
from vcsync.controlplane.store.interface import Store, StoreError


class Who(Identity, Reviews, Protocol):
    """What identity must offer beyond the way of a request."""

    def tenants(self) -> Sequence[str]:
        """Return all tenants, in order."""
        ...


class ControlPlane:
    """Everything that serves; made by `assemble`."""

    def __init__(self, hub: Hub, server: Server) -> None:
        """Take what must be started and stopped."""
        self._hub = hub
        self._tasks: list[asyncio.Task[None]] = []
        self.server = server

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Begin to serve; `self.server.port` tells where."""
        await self._hub.start()
        self._tasks.append(asyncio.create_task(self._hub.run(), name="hub"))
        await self.server.start(host, port, tls)

    async def stop(self) -> None:
        """End watches, answer what is in flight, stop."""
        self._hub.close()
        await self.server.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def assemble(
    store: Store, identity: Who, *, admit: Sequence[Admit] = (), taps: Sequence[Tap] = ()
) -> ControlPlane:
    """Make a control plane of a store and of who may do what."""
    hub = Hub(store, taps)
    spaces = Spaces()
    reader = Reader(store, identity.tenants)
    registry = Registry(store, admit)
    answers = Answers()
    deleter = Deleter(registry, {("", "namespaces"): begin_namespace})
    watches = Watches(hub, reader, time.monotonic)
    verbs = Verbs(registry, reader, watches, deleter, answers)
    metrics = Metrics()
    evictor = Evictor(registry, deleter)
    subresources = Subresources(verbs, registry, reader, answers, evictor, spaces, identity)

    async def ready() -> bool:
        try:
            await store.revision()
        except StoreError:
            return False
        return True

    paths = Paths(spaces, ready, lambda: generate_latest(metrics.registry))
    way = Way(identity, spaces, verbs, subresources, paths, now, answers.error)
    return ControlPlane(hub, Server(way, metrics))


def now() -> str:
    """Return the time as objects tell it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
