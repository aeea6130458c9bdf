"""Publishes CustomResourceDefinitions of super clusters to a tenant, and never deletes one: its objects would go with it.

A definition whose spec is not the one that vcsync has written belongs to the tenant and is not touched. So charts of the
tenant which bring a definition themselves do not compete with the operator's.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final

import structlog
from msgspec.structs import replace

from vcsync.kube.client import Client
from vcsync.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
)
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.long_lists import has_any
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from vcsync.nsscheduler.class_publisher import AGAIN_SECONDS, HIDDEN, MOST_PAGES, OPTIONAL_BACKOFF
from vcsync.nsscheduler.definition_texts import DefinitionTexts
from vcsync.objects.envelope import Envelope, untyped
from vcsync.objects.merge_patch import create_merge_patch
from vcsync.published import definitions
from vcsync.published.definitions import Chosen
from vcsync.published.kind import SELECTED, SELECTOR
from vcsync.scheduling.snapshot import SuperView
from vcsync.tenancy.memory import TenantMemory

NOT_PUBLISHED: Final = "NotPublished"
"""Event reason: the tenant's control plane refuses a definition or a new version of it."""
KEPT: Final = "DefinitionKept"
"""Event reason: a new definition would lose objects of the tenant, so the present one stays."""
REFUSED_SECONDS: Final = 600.0
"""Seconds until a definition that the tenant's control plane refused is offered again, for example because of a quota."""
_RESOURCE: Final = CUSTOM_RESOURCE_DEFINITIONS
_REFUSALS: Final = (BadRequest, Forbidden, Invalid, TooLarge)

_log = structlog.get_logger(__name__)


class DefinitionPublisher:
    """Keeps the published definitions of one tenant. It watches their metadata, if there are any, and reads no other objects.

    Args:
        tenant: the tenant's key.
        client: client of the tenant's control plane.
        texts: the definitions.
        events: records Events about definitions.
        changed: called when the tenant's published definitions have been read, and when one has changed.
        memory: counts the tenant's definitions.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        tenant: str,
        client: Client,
        texts: DefinitionTexts,
        *,
        events: EventRecorder,
        changed: Callable[[], None],
        memory: TenantMemory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tenant = tenant
        self._client = client
        self._texts = texts
        self._events = events
        self._changed = changed
        self._memory = memory
        self._clock = clock
        self._needed = asyncio.Event()
        self._looked = False
        self._cache: Reflector | None = None
        # Name of a published definition -> UID of the tenant's own that hides it.
        self._hidden: dict[str, str] = {}
        # Name -> what was refused, and when it may be tried again.
        self._refused: dict[str, tuple[Chosen, float]] = {}
        self.troubles: dict[str, str] = {}
        """Name -> why the tenant does not have the definition that its operator publishes."""

    @property
    def _metadata(self) -> Client:
        return self._client.metadata_only()

    async def run(self) -> None:
        """Follow the tenant's published definitions until cancelled, once there are any."""
        await self._needed.wait()
        self._cache = Reflector(
            self._metadata,
            _RESOURCE,
            label_selector=SELECTOR,
            project=self._memory.projection(_RESOURCE, _metadata_of),
            sink=self._memory.counted(_RESOURCE, lambda _: self._changed()),
            backoff=OPTIONAL_BACKOFF,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cache.run())
            await self._cache.wait_synced()
            self._changed()

    async def publish(self, pool: Collection[SuperView]) -> float | None:
        """Make the tenant's published definitions those of the pool. Each step may be repeated.

        While the pool is empty nothing changes: it may not have been read.

        Returns:
            Seconds until the next attempt; None if only a change requires one.

        Raises:
            KubeError: a server did not answer, or refused for another reason than the definition.
        """
        if not pool:
            return None
        wanted = definitions.chosen(pool)
        if not self._needed.is_set() and not wanted and not await self._left_over():
            return None
        self._needed.set()
        if self._cache is None or not self._cache.synced:
            return None  # `run` reports when it is
        self._hidden = {name: uid for name, uid in self._hidden.items() if name in wanted}
        self._refused = {name: each for name, each in self._refused.items() if wanted.get(name) == each[0]}
        self.troubles = {name: why for name, why in self.troubles.items() if name in wanted}
        unfinished = False
        for found in list(self._cache.cache.items()):
            if found.name not in wanted:
                unfinished |= not await self._leave(self._cache, found)
        for name, each in wanted.items():
            unfinished |= not await self._publish_one(self._cache, each, self._cache.cache.get("", name))
        waits = [at - self._clock() for _, at in self._refused.values()]
        return min([*waits, *([AGAIN_SECONDS] if unfinished or self._hidden else [])], default=None)

    async def _left_over(self) -> bool:
        """Return whether an earlier process has published definitions that are there still. They are read once."""
        if self._looked:
            return False
        pages = self._metadata.pages(_RESOURCE, label_selector=SELECTOR)
        try:
            found = await has_any(pages, lambda each: definitions.written(each) is not None, MOST_PAGES)
        except Forbidden:
            found = False  # the roles are of an earlier version, by which nothing was published
        self._looked = True
        return found

    async def _leave(self, cache: Reflector, found: Envelope) -> bool:
        """Leave a definition that is not published any more to the tenant. Return whether it is left."""
        if definitions.written(found) is None or found.deleting:
            return True
        try:
            await self._patch(cache, found, definitions.WITHDRAWN)
        except _REFUSALS as error:  # admission that the tenant has configured
            _log.info("definition cannot be left", tenant=self._tenant, name=found.name, error=str(error))
            return False
        _log.info("definition left to the tenant", tenant=self._tenant, name=found.name)
        return True

    async def _publish_one(self, cache: Reflector, wanted: Chosen, found: Envelope | None) -> bool:
        """Make a definition as wanted. Return whether its text could be read, if it was required."""
        name = wanted.name
        if name in self._refused and self._refused[name][1] > self._clock():
            return True
        try:
            found = found or await self._look(name)
            if found is None:
                return await self._create(cache, wanted)
            digest = definitions.written(found)
            if digest is None:
                self._report_hidden(found)
            elif digest != wanted.digest:
                return found.deleting or await self._update(cache, wanted, found)
            elif not found.deleting:
                self._succeeded(name)
                if patch := _difference(found, definitions.marks(wanted, found.generation)):
                    await self._patch(cache, found, patch)
        except _REFUSALS as error:
            self._report_refused(wanted, error)
        return True

    async def _look(self, name: str) -> Envelope | None:
        try:
            return await self._metadata.get(_RESOURCE, name)
        except NotFound:
            self._hidden.pop(name, None)
            return None

    async def _create(self, cache: Reflector, wanted: Chosen) -> bool:
        body = await self._texts.get(wanted)
        if body is None:
            return False
        with suppress(AlreadyExists):  # the next attempt sees whose it is
            answer = await self._client.create(_RESOURCE, definitions.new(wanted, body))
            self._succeeded(wanted.name)
            await self._settle(cache, answer, wanted)
        return True

    async def _update(self, cache: Reflector, wanted: Chosen, found: Envelope) -> bool:
        body = await self._texts.get(wanted)
        if body is None:
            return False
        with suppress(NotFound, Conflict):
            whole = await self._client.get(_RESOURCE, found.name)
            if whole.uid != found.uid or whole.generation != found.generation:
                return True  # the watch reports it
            if missing := definitions.missing_versions(whole, body):
                self._report_kept(whole, missing)
                if (
                    SELECTED.items() - whole.labels.items()
                ):  # the watch then reports when the tenant has dropped the version
                    await self._patch(cache, whole, {"labels": SELECTED})
                return True
            metadata = definitions.marks(wanted, whole.generation + 1)
            spec = create_merge_patch(untyped(whole.spec), body["spec"])
            patch = {"metadata": {**metadata, "resourceVersion": whole.resource_version}}
            answer = await self._client.patch(_RESOURCE, found.name, patch | ({"spec": spec} if spec else {}))
            self._succeeded(wanted.name)
            await self._settle(cache, answer, wanted)
        return True

    async def _settle(self, cache: Reflector, answer: Envelope, wanted: Chosen) -> None:
        """Record the generation of what was written, if it is not the expected one: the spec may have been equal before."""
        cache.observe(_metadata_of(answer))
        if definitions.written(answer) is None:
            await self._patch(cache, answer, definitions.marks(wanted, answer.generation))

    async def _patch(self, cache: Reflector, found: Envelope, metadata: Mapping[str, Any]) -> None:
        patch = {"metadata": {**metadata, "resourceVersion": found.resource_version}}
        with suppress(NotFound, Conflict):
            cache.observe(_metadata_of(await self._metadata.patch(_RESOURCE, found.name, patch)))

    # --- reports

    def _succeeded(self, name: str) -> None:
        self._hidden.pop(name, None)
        self._refused.pop(name, None)
        self.troubles.pop(name, None)

    def _report_hidden(self, own: Envelope) -> None:
        self.troubles[own.name] = "the tenant has a definition of its own"
        if self._hidden.get(own.name) == own.uid:
            return
        self._hidden[own.name] = own.uid
        message = (
            "this definition of yours has the name of one that your operator publishes, and stays as it is; delete it, which "
            "deletes its objects as well, to get the operator's"
        )
        self._emit(own.name, own.uid, HIDDEN, message)

    def _report_kept(self, found: Envelope, missing: list[str]) -> None:
        versions = ", ".join(missing)
        self.troubles[found.name] = (
            f"objects may be stored in versions that the new definition lacks: {versions}"
        )
        message = (
            f"your operator publishes a new definition without version {versions}, in which your objects may be stored, so this "
            "one stays; write your objects again and remove the version from status.storedVersions"
        )
        self._emit(found.name, found.uid, KEPT, message)

    def _report_refused(self, wanted: Chosen, error: ApiError) -> None:
        self._refused[wanted.name] = wanted, self._clock() + REFUSED_SECONDS
        self.troubles[wanted.name] = f"the control plane refuses it: {error}"
        message = f"your operator publishes this definition, but your control plane refuses it: {error.status.message}"
        self._emit(wanted.name, "", NOT_PUBLISHED, message)

    def _emit(self, name: str, uid: str, reason: str, message: str) -> None:
        _log.info(
            "definition not published",
            tenant=self._tenant,
            name=name,
            reason=reason,
            text=self.troubles[name],
        )
        about = ObjectRef(_RESOURCE.api_version, _RESOURCE.kind, name, uid=uid)
        self._events.emit(about, "Warning", reason, message, now=time.time(), once=True)


def _metadata_of(found: Envelope) -> Envelope:
    return replace(found, spec=b"", status=b"", rest=b"")


def _difference(found: Envelope, metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the part of labels and annotations that a definition lacks."""
    there = {"labels": found.labels, "annotations": found.annotations}
    part = {
        field: {key: value for key, value in metadata[field].items() if there[field].get(key) != value}
        for field in there
    }
    return {field: values for field, values in part.items() if values} or None
