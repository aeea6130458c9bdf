"""Publishes one kind of classes of super clusters to a tenant: their union, each with the super clusters that have it.

The namespace scheduler is their only writer, because a syncer sees one super cluster only. An object that vcsync has not made
belongs to the tenant and is not touched.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from contextlib import suppress

import structlog

from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.long_lists import has_any
from vcsync.kube.reflector import Reflector
from vcsync.objects.envelope import Envelope
from vcsync.published.kind import SELECTOR, Body, PublishedKind, difference, is_ours, wanted
from vcsync.scheduling.snapshot import SuperView
from vcsync.tenancy.memory import TenantMemory

HIDDEN = "Hidden"
"""Event reason: the tenant has a class of its own with the name of a published one."""
AGAIN_SECONDS = 60.0
"""Seconds until the next attempt, where nothing reports the change that it waits for."""
MOST_PAGES = 20
"""Most pages of 500 objects that are read to find published ones."""
OPTIONAL_BACKOFF = (1.0, AGAIN_SECONDS)
"""First and longest pause, in seconds, after reads of a kind that the tenant lacks or forbids."""

_log = structlog.get_logger(__name__)


class ClassPublisher:
    """Keeps one kind of published classes of one tenant. It watches them only if there are any, in the pool or in the tenant.

    Args:
        tenant: the tenant's key.
        client: client of the tenant's control plane.
        kind: the kind of classes.
        events: records Events about the tenant's own classes that hide published ones.
        changed: called when the tenant's published classes have been read, and when one has changed.
        memory: counts the tenant's classes.
    """

    def __init__(
        self,
        tenant: str,
        client: Client,
        kind: PublishedKind,
        *,
        events: EventRecorder,
        changed: Callable[[], None],
        memory: TenantMemory,
    ) -> None:
        self._tenant = tenant
        self._client = client
        self._kind = kind
        self._events = events
        self._changed = changed
        self._memory = memory
        self._needed = asyncio.Event()
        self._looked = False
        self._refused = False
        self._cache: Reflector | None = None
        # Name of a published class -> UID of the tenant's own that hides it.
        self._hidden: dict[str, str] = {}

    async def run(self) -> None:
        """Follow the tenant's published classes until cancelled, once there are any."""
        await self._needed.wait()
        self._cache = Reflector(
            self._client,
            self._kind.resource,
            label_selector=SELECTOR,
            project=self._memory.projection(self._kind.resource),
            sink=self._memory.counted(self._kind.resource, lambda _: self._changed()),
            backoff=OPTIONAL_BACKOFF,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cache.run())
            await self._cache.wait_synced()
            self._changed()

    async def publish(self, pool: Collection[SuperView]) -> float | None:
        """Make the tenant's published classes those of the pool. Each step may be repeated.

        Nothing is deleted while the pool is empty: it may not have been read, and a class without super clusters harms nobody.

        Returns:
            Seconds until the next attempt; None if only a change requires one.

        Raises:
            KubeError: the control plane did not answer, or refused. Missing permissions, and kinds that the
                tenant lacks, are reported in the log instead.
        """
        if not pool:
            return None
        classes = wanted(self._kind, pool)
        try:
            if not self._needed.is_set() and not classes and not await self._left_over():
                return None
            self._needed.set()
            if self._cache is None or not self._cache.synced:
                return None  # `run` reports when it is
            await self._update(self._cache, classes)
            await self._create_missing(self._cache, classes)
        except (Forbidden, NotFound, Invalid) as error:
            # The roles are of an earlier version, or the server lacks the kind, or has a definition of its own for it.
            if not classes:
                return None
            if not self._refused:
                self._refused = True
                _log.warning(
                    "classes cannot be published",
                    tenant=self._tenant,
                    resource=self._kind.resource.plural,
                    error=str(error),
                )
            return AGAIN_SECONDS
        self._refused = False
        return AGAIN_SECONDS if self._hidden else None

    async def _left_over(self) -> bool:
        """Return whether the tenant still has published classes. They are read once, because only vcsync makes any."""
        if self._looked:
            return False
        pages = self._client.pages(self._kind.resource, label_selector=SELECTOR)
        try:
            found = await has_any(pages, lambda each: is_ours(self._kind, each), MOST_PAGES)
        except NotFound:
            found = False  # without its CustomResourceDefinition, the tenant has no objects of the kind
        self._looked = True
        return found

    async def _update(self, cache: Reflector, classes: dict[str, Body]) -> None:
        resource = self._kind.resource
        for found in list(cache.cache.items()):
            body = classes.get(found.name)
            if not is_ours(self._kind, found):
                if body is not None:
                    self._report_hidden(found)
                continue
            patch = difference(self._kind, found, body) if body is not None else None
            if patch is None:
                with suppress(NotFound, Conflict):
                    await self._client.delete(resource, found.name, uid=found.uid)
                cache.observe_gone("", found.name, found.uid)
            elif patch:
                patch["metadata"] = {**patch.get("metadata", {}), "uid": found.uid}
                with suppress(NotFound, Conflict):
                    cache.observe(await self._client.patch(resource, found.name, patch))

    async def _create_missing(self, cache: Reflector, classes: dict[str, Body]) -> None:
        self._hidden = {name: uid for name, uid in self._hidden.items() if name in classes}
        for name, body in classes.items():
            if cache.cache.get("", name) is None and not await self._is_still_hidden(name):
                try:
                    cache.observe(await self._client.create(self._kind.resource, body))
                except AlreadyExists:
                    with suppress(NotFound):
                        found = await self._client.get(self._kind.resource, name)
                        if not is_ours(self._kind, found):
                            self._report_hidden(found)

    async def _is_still_hidden(self, name: str) -> bool:
        """Return whether the tenant's own class that hid a published one still exists."""
        if name not in self._hidden:
            return False
        try:
            found = await self._client.get(self._kind.resource, name)
        except NotFound:
            found = None
        if found is not None and found.uid == self._hidden[name] and not is_ours(self._kind, found):
            return True
        del self._hidden[name]
        return False

    def _report_hidden(self, own: Envelope) -> None:
        if self._hidden.get(own.name) == own.uid:
            return
        self._hidden[own.name] = own.uid
        resource = self._kind.resource
        _log.info("published class hidden by the tenant's own", resource=resource.plural, name=own.name)
        subject = ObjectRef(resource.api_version, resource.kind, own.name, uid=own.uid)
        message = (
            f"this class of yours has the name of one that your operator publishes: {self._kind.hidden}; delete yours to see "
            "the operator's, or give it another name"
        )
        self._events.emit(subject, "Warning", HIDDEN, message, now=time.time(), once=True)
