"""Publishes CustomResourceDefinitions of a super cluster: keeps their text in the meta cluster, and reports what it refuses."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import structlog

from vcsync.api import names
from vcsync.api.specs import PublishedDefinition
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS
from vcsync.published import definitions
from vcsync.published.definitions import Definition, Offer
from vcsync.published.kind import SELECTOR

_BACKOFF: Final = (1.0, 60.0)
"""First and longest pause, in seconds, after reads that the super cluster refuses."""
_RETRY_SECONDS: Final = 30.0
"""Seconds until the next attempt after a write that the meta cluster refused."""

log = structlog.get_logger(__name__)


class DefinitionStore:
    """Keeps the definitions with the label in ConfigMaps of the meta cluster. Each has one, since it may be large.

    The status of the SuperCluster has their names and digests only, which are written after the texts.

    Args:
        meta: Client of the meta cluster.
        super_client: Client of the super cluster.
        super_id: Its id.

    Attributes:
        published: The definitions whose texts are stored; None before they are known.
        refused: Name -> why a definition with the label is not published.
        trouble: Why the texts cannot be stored; empty if they are.
    """

    def __init__(self, meta: Client, super_client: Client, super_id: str) -> None:
        self._meta = meta
        self._super_id = super_id
        self._changed = asyncio.Event()
        self._stored: dict[str, str] | None = None
        """Name of a ConfigMap -> digest of the definition in it; None before they have been listed."""
        self.published: tuple[PublishedDefinition, ...] | None = None
        self.refused: dict[str, str] = {}
        self.trouble = ""
        self.reflector = Reflector(
            super_client,
            CUSTOM_RESOURCE_DEFINITIONS,
            label_selector=SELECTOR,
            sink=lambda _: self._changed.set(),
            backoff=_BACKOFF,
        )

    async def run(self) -> None:
        """Publish until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.reflector.run())
            await self.reflector.wait_synced()
            while True:
                self._changed.clear()
                again = await self.step()
                with suppress(TimeoutError):
                    async with asyncio.timeout(again):
                        await self._changed.wait()

    async def step(self) -> float | None:
        """Store what the cache has, and remove what it lacks.

        Returns:
            Seconds until the next attempt; None if only a change requires one.
        """
        found = definitions.offer(self.reflector.cache.items())
        try:
            await self._store(found)
        except KubeError as error:
            if not self.trouble:
                log.warning("definitions cannot be stored", super_cluster=self._super_id, error=str(error))
            self.trouble = str(error)
            return _RETRY_SECONDS
        self.trouble = ""
        return None

    async def _store(self, found: Offer) -> None:
        if self._stored is None:
            self._stored = await self._list(found)
        wanted = {
            definitions.stored_name(self._super_id, each.name): each for each in found.definitions.values()
        }
        for name, each in wanted.items():
            if self._stored.get(name) != each.digest:
                await self._write(name, each, known=name in self._stored)
                self._stored[name] = each.digest
        self.published, self.refused = found.described(), found.refused
        for name in self._stored.keys() - wanted.keys():
            with suppress(NotFound):
                await self._meta.delete(CONFIG_MAPS, name, names.DEFINITIONS_NAMESPACE)
            del self._stored[name]

    async def _list(self, found: Offer) -> dict[str, str]:
        reader, selector = self._meta.metadata_only(), f"{names.DEFINITION_OF}={self._super_id}"
        try:
            listed = await reader.list(CONFIG_MAPS, names.DEFINITIONS_NAMESPACE, label_selector=selector)
        except Forbidden:
            if found.definitions:
                raise
            return {}  # the roles are of an earlier version, by which nothing was stored
        return {each.name: each.annotations.get(names.DEFINITION, "") for each in listed}

    async def _write(self, name: str, definition: Definition, *, known: bool) -> None:
        # Compression takes too long for the event loop.
        body: dict[str, Any] = await asyncio.to_thread(definitions.stored, self._super_id, definition)
        if not known:
            with suppress(AlreadyExists):  # another process has made it meanwhile
                await self._meta.create(CONFIG_MAPS, body, names.DEFINITIONS_NAMESPACE)
                return
        await self._meta.patch(CONFIG_MAPS, name, body, names.DEFINITIONS_NAMESPACE)
