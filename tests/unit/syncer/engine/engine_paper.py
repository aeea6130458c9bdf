"""An API server in memory behind the client's verbs, and caches that tests fill: the engine without a network."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from vcsync.api.names import BOUND_STATUS
from vcsync.kube.cache import Cache, Change
from vcsync.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Status
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope, parse
from vcsync.objects.merge_patch import merge_patch
from vcsync.syncer.caches import item_of
from vcsync.syncer.kinds.plan import Kind
from vcsync.tenancy.brake import DeletionLimiter, Releases

Key = tuple[str, str, str]
"""plural, namespace, name"""


def refusal(
    kind: type[ApiError], message: str, endpoint: str, *, code: int = 403, reason: str = ""
) -> ApiError:
    return kind(Status(code=code, reason=reason or kind.__name__, message=message), endpoint=endpoint)


def paper_limiter(released: datetime | None = None) -> DeletionLimiter:
    """A limiter that brakes when more than a third, and more than twenty, are to go."""
    return DeletionLimiter(0.3, released=lambda _: released, releases=Releases(), clock=lambda: 0.0)


async def believed() -> None:
    """The control plane is the tenant's."""


class PaperApi:
    """Stores objects as dicts, keeps UIDs and versions, honours UID preconditions; fails on demand."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.objects: dict[Key, dict[str, Any]] = {}
        self.graces: list[int | None] = []
        self.calls: list[tuple[str, ...]] = []
        self.failures: dict[str, ApiError] = {}
        self._numbers = itertools.count(1)

    def put(self, resource: Resource, body: Mapping[str, Any], namespace: str = "") -> Envelope:
        stored = copy.deepcopy(dict(body))
        meta = stored.setdefault("metadata", {})
        if namespace:
            meta["namespace"] = namespace
        meta.setdefault("uid", f"{self.name}-{next(self._numbers)}")
        meta["resourceVersion"] = str(100 + next(self._numbers))
        self.objects[(resource.plural, meta.get("namespace", ""), meta["name"])] = stored
        return _envelope(stored)

    def has(self, resource: Resource, name: str, namespace: str = "") -> bool:
        return (resource.plural, namespace, name) in self.objects

    def writes(self) -> list[tuple[str, ...]]:
        return [call for call in self.calls if call[0] != "get"]

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Envelope:
        self._note("get", resource, name, namespace)
        return _envelope(self._stored(resource, name, namespace))

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
    ) -> Envelope:
        name = name or body["metadata"]["name"]
        self._note("create", resource, name, namespace)
        if self.has(resource, name, namespace):
            raise refusal(AlreadyExists, "stands already", self.name, code=409)
        return self.put(resource, body, namespace)

    async def create_raw(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
    ) -> bytes:
        self._note(f"create {subresource}", resource, name, namespace)
        stored = self._stored(resource, name, namespace)["metadata"]["resourceVersion"]
        if body.get("metadata", {}).get("resourceVersion", stored) != stored:
            raise refusal(Conflict, "it has changed", self.name, code=409)
        return b"{}"

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        kind: str = "merge",
        subresource: str = "",
    ) -> Envelope:
        verb = f"patch {BOUND_STATUS}" if subresource == BOUND_STATUS else "patch"
        self._note(verb, resource, name, namespace)
        stored = self._stored(resource, name, namespace)
        wanted = patch.get("metadata", {}).get("uid", stored["metadata"]["uid"])
        version = patch.get("metadata", {}).get("resourceVersion", stored["metadata"]["resourceVersion"])
        if (wanted, version) != (stored["metadata"]["uid"], stored["metadata"]["resourceVersion"]):
            raise refusal(Conflict, "another one", self.name, code=409)
        return self.put(resource, merge_patch(stored, dict(patch)))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
    ) -> Envelope | None:
        self._note("delete", resource, name, namespace)
        self.graces.append(grace_seconds)
        stored = self._stored(resource, name, namespace)
        if uid is not None and uid != stored["metadata"]["uid"]:
            raise refusal(Conflict, "another one", self.name, code=409)
        if resource_version is not None and resource_version != stored["metadata"]["resourceVersion"]:
            raise refusal(Conflict, "it has changed", self.name, code=409)
        del self.objects[(resource.plural, namespace, name)]
        return None

    def _stored(self, resource: Resource, name: str, namespace: str) -> dict[str, Any]:
        try:
            return self.objects[(resource.plural, namespace, name)]
        except KeyError:
            raise refusal(NotFound, f"{resource.plural} {name} not found", self.name, code=404) from None

    def _note(self, verb: str, resource: Resource, name: str, namespace: str) -> None:
        self.calls.append((verb, resource.plural, namespace, name))
        if failure := self.failures.get(f"{verb} {resource.plural}"):
            raise failure


class PaperReflector:
    """A cache that is filled by hand."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.synced = True

    def observe(self, envelope: Envelope) -> Change | None:
        return self.cache.observe(envelope)

    def observe_gone(self, namespace: str, name: str, uid: str, *, final: bool = True) -> Change | None:
        return self.cache.observe_gone(namespace, name, uid, final=final)


class PaperCaches:
    """`SuperCaches` as far as reconciling and draining need them."""

    def __init__(self, *resources: Resource) -> None:
        self.reflectors = {resource: PaperReflector() for resource in resources}
        self.departed: set[str] = set()

    def departure_seen(self, *what: Any) -> bool:
        return what[-1] in self.departed

    def get(self, resource: Resource, namespace: str, name: str) -> Envelope | None:
        reflector = self.reflectors.get(resource)
        return reflector.cache.get(namespace, name) if reflector is not None else None

    def items(self, resource: Resource, namespace: str | None = None) -> Any:
        return self.reflectors[resource].cache.items(namespace)

    def items_in(self, super_namespace: str, kind: Kind) -> Any:
        return (item_of(kind, envelope) for envelope in self.items(kind.resource, super_namespace))


def _envelope(stored: Mapping[str, Any]) -> Envelope:
    return parse(json.dumps(stored).encode())
