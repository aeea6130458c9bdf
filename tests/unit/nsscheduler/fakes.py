"""A ledger and a tenant's namespaces in memory, behind the Protocols of `commit`."""

import itertools
from types import SimpleNamespace
from typing import Any

import msgspec

from vcsync.api.objects import NamespacePlacement
from vcsync.kube.errors import Conflict, NotFound, Status
from vcsync.nsscheduler.commit import Ledger, TenantControlPlane
from vcsync.objects.envelope import Envelope, parse
from vcsync.objects.merge_patch import merge_patch

ROOT = "root"
NAMESPACE = "shop"


class Interrupted(Exception):
    """The process ends here."""


class Server:
    """One API server's objects; every write is a new version. `fail_at` interrupts before the n-th write."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes: list[tuple[str, dict[str, Any]]] = []
        self.fail_at: int | None = None
        self._versions = itertools.count(1)

    def put(self, name: str, body: dict[str, Any]) -> None:
        metadata = body.setdefault("metadata", {})
        metadata |= {"name": name, "resourceVersion": str(next(self._versions))}
        metadata.setdefault("uid", f"uid-{name}")
        self.objects[name] = body

    def read(self, name: str) -> Envelope | None:
        found = self.objects.get(name)
        return None if found is None else parse(msgspec.json.encode(found))

    def write(self, what: str, detail: dict[str, Any]) -> None:
        if self.fail_at is not None and len(self.writes) == self.fail_at:
            raise Interrupted
        self.writes.append((what, detail))

    def patch(self, name: str, patch: dict[str, Any], *, status: bool = False) -> Envelope:
        found = self.objects.get(name)
        if found is None:
            raise NotFound(Status(404))
        metadata = patch.get("metadata", {})
        for precondition in ("resourceVersion", "uid"):
            if metadata.get(precondition, found["metadata"][precondition]) != found["metadata"][precondition]:
                raise Conflict(Status(409))
        patch = {key: value for key, value in patch.items() if (key == "status") == status}
        self.put(name, merge_patch(found, patch))
        found = self.objects[name]
        if found["metadata"].get("deletionTimestamp") and not found["metadata"].get("finalizers"):
            del self.objects[name]
        return parse(msgspec.json.encode(found))


def changed(control_plane: TenantControlPlane, **methods: Any) -> TenantControlPlane:
    """The same control plane with some methods replaced."""
    return SimpleNamespace(**{**vars(control_plane), **methods})


class Meta(Server):
    """The ledger."""

    def entry(self, name: str = NAMESPACE) -> NamespacePlacement | None:
        found = self.read(name)
        return None if found is None else NamespacePlacement.from_envelope(found)

    def ledger(self) -> Ledger:
        async def create(namespace: str, body: dict[str, Any]) -> Envelope:
            assert namespace == ROOT
            self.write("create", body)
            self.put(body["metadata"]["name"], dict(body))
            created = self.read(body["metadata"]["name"])
            assert created is not None
            return created

        async def patch(namespace: str, name: str, change: dict[str, Any], subresource: str) -> Envelope:
            assert namespace == ROOT
            self.write(subresource or "patch", change)
            return self.patch(name, change, status=subresource == "status")

        async def delete(namespace: str, name: str, uid: str, version: str) -> None:
            assert namespace == ROOT
            self.write("delete", {"uid": uid})
            metadata = self.objects[name]["metadata"]
            assert metadata["uid"] == uid
            if metadata["resourceVersion"] != version:
                raise Conflict(Status(409))
            if metadata.get("finalizers"):
                self.patch(name, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
            else:
                del self.objects[name]

        return SimpleNamespace(create=create, patch=patch, delete=delete)


class Tenant(Server):
    """A tenant's Namespaces and ResourceQuotas."""

    def __init__(self) -> None:
        super().__init__()
        self.hards: list[dict[str, str]] = []
        self.events: list[tuple[str, str, str]] = []

    def control_plane(self) -> TenantControlPlane:
        async def live_namespace(name: str) -> Envelope | None:
            return self.read(name)

        async def live_hards(_namespace: str) -> list[dict[str, str]]:
            return self.hards

        async def patch_namespace(name: str, patch: dict[str, Any]) -> Envelope:
            self.write("namespace", patch)
            return self.patch(name, patch)

        def emit(_namespace: Envelope, kind: str, reason: str, message: str) -> None:
            self.events.append((kind, reason, message))

        async def withdraw(_facts: object, _what: str) -> None:
            """Believe everything; see test_withdrawal.py."""

        return SimpleNamespace(
            withdraw=withdraw,
            live_namespace=live_namespace,
            live_hards=live_hards,
            patch_namespace=patch_namespace,
            emit=emit,
        )
