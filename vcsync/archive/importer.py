"""Imports an archive into a control plane: creates what is missing, and never replaces what exists."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from vcsync.archive.files import Object, objects
from vcsync.archive.preparation import Waits, addition, prepared, without_addresses
from vcsync.archive.selection import LATE, WITHOUT_CONTENT, rank
from vcsync.kube.client import Client
from vcsync.kube.discovery import discover
from vcsync.kube.errors import (
    AlreadyExists,
    ApiError,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from vcsync.kube.resources import Resource

ATTEMPTS: Final = 6
FIRST_PAUSE: Final = 0.5
"""Seconds after the first failed attempt; every further pause is twice as long."""
DEFINITIONS_SECONDS: Final = 60.0
"""Longest wait, in sum, until the server serves the resources of imported CustomResourceDefinitions."""
MOST_PASSES: Final = 20
"""Times that the file is read for objects whose owners come later. Owners of Kubernetes' controllers are nested four deep, and
come first in an archive of `vcsync tenant export`."""
EVERY: Final = 500
"""Objects between two reports of progress."""

Note = Callable[[str], None]
Result = TypeVar("Result")


class Imported(Struct):
    """The result of an import.

    Attributes:
        created: number of objects that were created.
        existed: number of objects that existed already, for instance because an earlier import was interrupted.
        skipped: number of objects that were not created; the reasons were notes.
    """

    created: int = 0
    existed: int = 0
    skipped: int = 0


class Importer:
    """One import.

    Owners come before what they own: an object whose owner does not exist yet waits for the next pass over the file. After
    `MOST_PASSES` it is created without its owner.

    Args:
        client: client of the control plane, with a credential that reaches only the tenant.
        path: the archive, which `files.check` accepted.
        total: number of objects in it.
        note: is told about progress.
        pause: waits for some seconds; for tests.
    """

    def __init__(
        self,
        client: Client,
        path: Path,
        total: int,
        note: Note,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._path = path
        self._total = total
        self._note = note
        self._pause = pause
        self._resources: dict[tuple[str, str], Resource] = {}
        self._owners: dict[str, str] = {}
        self._expected: set[str] = set()
        self._done: set[int] = set()
        self._waited = 0.0
        self.result = Imported()

    async def run(self) -> Imported:
        """Import everything.

        Raises:
            KubeError: the control plane does not answer. Another import continues.
            BadArchive: the file has changed since it was checked.
            OSError: the file cannot be read.
        """
        await self._discover()
        self._expected = {uid for _, found in objects(self._path) if (uid := found["metadata"].get("uid"))}
        for late in (False, True):
            passes = 1
            while await self._pass(late=late):
                passes += 1
                if passes == MOST_PASSES and self._expected:
                    self._note(
                        f"owners are nested deeper than {MOST_PASSES}: the rest is created without its owners"
                    )
                    self._expected.clear()
        return self.result

    async def _discover(self) -> None:
        discovery = await self._attempt(lambda: discover(self._client))
        self._resources = {
            (each.resource.group, each.resource.kind): each.resource
            for each in discovery.resources
            if "create" in each.verbs
        }

    async def _pass(self, *, late: bool) -> bool:
        """Import what can be imported. Returns whether another pass may import more."""
        progress = waiting = False
        definitions: list[tuple[str, str]] = []
        for number, found in objects(self._path, self._done):
            if definitions and found["kind"] != "CustomResourceDefinition":
                await self._wait_served(definitions)
                definitions = []
            resource = self._resource_of(found)
            if resource is None:
                self._skip(number, found, "this control plane does not serve its kind")
                progress = True
            elif late or rank(resource.group, resource.plural) < LATE:
                if await self._import(number, found, resource):
                    progress = True
                else:
                    waiting = True
                if resource.plural == "customresourcedefinitions" and number in self._done:
                    definitions += _defined(found)
        if definitions:
            await self._wait_served(definitions)
        if waiting and not progress:
            # Owners that wait for each other, or whose creation was refused.
            self._expected.clear()
            return True
        return waiting

    async def _import(self, number: int, found: Object, resource: Resource) -> bool:
        """Create an object, unless it waits for an owner. Returns whether it is done with."""
        metadata = found["metadata"]
        if (metadata.get("annotations") or {}).get(WITHOUT_CONTENT):
            self._skip(number, found, "it was exported without its contents")
            return True
        if bool(metadata.get("namespace")) != resource.namespaced:
            self._skip(number, found, "its namespace does not fit its kind")
            return True
        try:
            body = prepared(found, self._owners, self._expected)
        except Waits:
            return False
        except (AttributeError, KeyError, TypeError, ValueError):
            self._skip(number, found, "its fields have wrong types")
            return True
        try:
            made, existed = await self._create(body, resource)
        except (Unauthorized, ServerError, TooManyRequests):
            raise
        except ApiError as error:
            self._skip(number, found, error.status.message or str(error))
            return True
        self._settle(number, found, made["metadata"].get("uid", ""))
        if existed:
            self.result.existed += 1
            await self._add(body, resource)
        else:
            self.result.created += 1
        if not made.get("status"):
            await self._restore_status(found, made, resource)
        return True

    async def _create(self, body: Object, resource: Resource) -> tuple[Object, bool]:
        """Create an object. Returns it, and whether it existed."""
        namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        collection = resource.path(namespace=namespace)

        async def post(content: Object) -> Object:
            return _decoded(await self._client.request("POST", collection, body=msgspec.json.encode(content)))

        try:
            try:
                return await self._attempt(lambda: post(body)), False
            except Invalid:
                if resource.plural != "services":
                    raise
                again = without_addresses(body)
                return await self._attempt(lambda: post(again)), False
        except AlreadyExists:
            path = resource.path(namespace=namespace, name=name)
            return _decoded(await self._attempt(lambda: self._client.request("GET", path))), True

    async def _add(self, body: Object, resource: Resource) -> None:
        """Extend an object that the control plane makes itself, and that users extend."""
        patch = addition(body)
        if patch is None:
            return
        namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        await self._attempt(lambda: self._client.patch(resource, name, patch, namespace))

    async def _restore_status(self, found: Object, made: Object, resource: Resource) -> None:
        """Write the status of a custom resource: some controllers keep there what they cannot observe again."""
        if not found.get("status") or "." not in resource.group or resource.group.endswith("k8s.io"):
            return
        metadata = made["metadata"]
        path = resource.path(
            namespace=metadata.get("namespace", ""), name=metadata["name"], subresource="status"
        )
        body = msgspec.json.encode({**made, "status": found["status"]})
        try:
            await self._attempt(lambda: self._client.request("PUT", path, body=body))
        except (Unauthorized, ServerError, TooManyRequests):
            raise
        except NotFound:
            return  # It has no such subresource: its status was created with it, if at all.
        except ApiError as error:
            self._note(f"status of {_label(found)}: {error.status.message or error}")

    async def _wait_served(self, definitions: list[tuple[str, str]]) -> None:
        pause = 0.2
        while True:
            await self._discover()
            if all(each in self._resources for each in definitions) or self._waited >= DEFINITIONS_SECONDS:
                return
            await self._pause(pause)
            self._waited += pause
            pause = min(2 * pause, 5.0)

    def _resource_of(self, found: Object) -> Resource | None:
        """Return the resource of an object in the object's own version, if the server knows its kind."""
        group, _, version = found["apiVersion"].rpartition("/")
        known = self._resources.get((group, found["kind"]))
        return msgspec.structs.replace(known, version=version) if known is not None else None

    def _settle(self, number: int, found: Object, uid: str) -> None:
        self._done.add(number)
        old = found["metadata"].get("uid")
        if old and uid:
            self._owners[old] = uid
        if len(self._done) % EVERY == 0:
            self._note(f"{len(self._done)} of {self._total} objects")

    def _skip(self, number: int, found: Object, reason: str) -> None:
        self._done.add(number)
        self._expected.discard(found["metadata"].get("uid", ""))
        self.result.skipped += 1
        self._note(f"skipped {_label(found)}: {reason}")

    async def _attempt(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """Repeat a call that fails for a moment. Creations are safe to repeat, since names are unique."""
        pause = FIRST_PAUSE
        for _ in range(ATTEMPTS - 1):
            try:
                return await call()
            except (Unreachable, ServerError, TooManyRequests) as error:
                self._note(f"trying again: {error}")
            await self._pause(pause)
            pause *= 2
        return await call()


def _defined(definition: Object) -> list[tuple[str, str]]:
    """Return group and kind of what a CustomResourceDefinition defines, if it is well formed."""
    spec = definition.get("spec")
    names = spec.get("names") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(names, dict):
        return []
    return [(str(spec.get("group")), str(names.get("kind")))]


def _decoded(raw: bytes) -> Object:
    try:
        found = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise KubeError(f"the answer is no object: {error}") from error
    return found if isinstance(found.get("metadata"), dict) else {**found, "metadata": {}}


def _label(found: Object) -> str:
    metadata = found["metadata"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{found['kind'].lower()} {place}{metadata['name']}"
