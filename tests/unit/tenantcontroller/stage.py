"""A meta cluster, a server of embedded control planes, and the roles that release a leaving tenant, all in memory."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import yaml
from memory_cluster import MemoryCluster

from vcsync.api import names
from vcsync.api.resources import TENANTS, VIRTUAL_CLUSTERS
from vcsync.kube.errors import AlreadyExists, NotFound, Status
from vcsync.kube.events import EventRecorder
from vcsync.kube.resources import NAMESPACES, SECRETS
from vcsync.tenantcontroller.control_planes import EmbeddedControlPlanes, ExternalControlPlanes
from vcsync.tenantcontroller.reconcile import Reconciler
from vcsync.tenantcontroller.settings import Settings

BASE = "/vcsync/v1/tenants"


def kubeconfig(name: str) -> bytes:
    """Return a kubeconfig that leads to a control plane of the stage."""
    document = {
        "clusters": [{"name": "c", "cluster": {"server": f"https://plane:6443/tenants/{name}"}}],
        "users": [{"name": "u", "user": {"token": "secret-token"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return yaml.safe_dump(document).encode()


class OperatorServer:
    """The operator's API of a server with embedded control planes.

    `before` and `after` are called with the method and the path of each request, and may raise.
    """

    name = "control plane"

    def __init__(self) -> None:
        self.records: dict[str, dict[str, Any]] = {}
        self.planes: dict[str, MemoryCluster] = {}
        self.networks: dict[str, Any] = {}
        self.before: Callable[[str, str], None] = lambda *_: None
        self.after: Callable[[str, str], None] = lambda *_: None
        self.served = True
        self._made = 0

    def add(self, name: str, **record: Any) -> None:
        self._made += 1
        self.records[name] = {
            "name": name,
            "uid": f"space-{self._made}",
            "phase": "Ready",
            "nodes": "virtual",
            **record,
        }
        self.planes[name] = MemoryCluster(name)
        self.planes[name].put(NAMESPACES, "kube-system", metadata={"uid": f"kube-{self._made}"})

    async def request(self, method: str, path: str, *, body: bytes = b"", **_: Any) -> bytes:
        self.before(method, path)
        answer = self._answer(method, path, body)
        self.after(method, path)
        return answer

    def _answer(self, method: str, path: str, body: bytes) -> bytes:
        if not self.served:
            raise NotFound(Status(404, "NotFound", "page not found"), endpoint=self.name)
        split = urlsplit(path)
        if method == "POST" and split.path == BASE:
            name = msgspec.json.decode(body)["name"]
            if name in self.records:
                raise AlreadyExists(Status(409, "AlreadyExists", name), endpoint=self.name)
            self.add(name)
            self.networks[name] = msgspec.json.decode(body).get("network")
            return b"{}"
        name, _, rest = split.path.removeprefix(f"{BASE}/").partition("/")
        if name not in self.records:
            raise NotFound(Status(404, "NotFound", f'tenants "{name}" not found'), endpoint=self.name)
        if rest == "kubeconfig":
            assert parse_qs(split.query)["user"]
            return kubeconfig(name)
        if method == "PATCH":
            changed = msgspec.json.decode(body)
            if "quota" in changed:
                hard = changed["quota"]
                used = dict.fromkeys(hard or {}, "1")
                quota = {"hard": hard, "used": used, "free": dict.fromkeys(used, "0")}
                self.records[name]["quota"] = None if hard is None else quota
            else:
                self.records[name] |= changed
            if "limits" in changed:
                self.records[name]["limitsInForce"] = changed["limits"]
        if method == "DELETE":
            self.records[name]["phase"] = "Draining"
            self.records[name]["left"] = {"objects": 1, "held": [["example.com/keep", 1]]}
        return msgspec.json.encode(self.records[name])


class Stage:
    """A meta cluster with a tenant controller, and what it works with."""

    def __init__(self) -> None:
        self.meta, self.server = MemoryCluster("meta"), OperatorServer()
        self.meta.put(NAMESPACES, "kube-system", metadata={"uid": "meta-uid"})
        self.outside: dict[str, MemoryCluster] = {}
        self.events = EventRecorder(self.meta, "test")  # type: ignore[arg-type]

    @asynccontextmanager
    async def open(self, content: bytes, _name: str) -> AsyncIterator[Any]:
        """Open the control plane that a kubeconfig leads to."""
        server = yaml.safe_load(content)["clusters"][0]["cluster"]["server"]
        name = server.rpartition("/")[2]
        yield self.outside.get(name) or self.server.planes[name]

    def reconciler(self, settings: Settings | None = None) -> Reconciler:
        """Make a controller without memory, as after a restart."""
        return Reconciler(
            self.meta,  # type: ignore[arg-type]
            embedded=EmbeddedControlPlanes(self.server, self.open),  # type: ignore[arg-type]
            external=ExternalControlPlanes(self.meta, self.open),  # type: ignore[arg-type]
            events=self.events,
            settings=settings or Settings(),
        )

    def tenant(self, name: str = "acme", generation: int = 1, **spec: Any) -> None:
        """Create a Tenant, or change its spec as a server does."""
        found = self.meta.found(TENANTS, name)
        metadata = {**found["metadata"], "generation": generation} if found else {"generation": generation}
        body = {"spec": spec, **({"status": found["status"]} if found and "status" in found else {})}
        self.meta.put(TENANTS, name, metadata=metadata, **body)

    def external(self, name: str, content: bytes | None = None) -> None:
        """Create an external control plane, and the Secret with its kubeconfig."""
        self.outside[name] = MemoryCluster(name)
        self.outside[name].put(NAMESPACES, "kube-system", metadata={"uid": f"kube-{name}"})
        data = {"kubeconfig": base64.b64encode(content or kubeconfig(name)).decode()}
        self.meta.put(SECRETS, f"{name}-admin", names.DEFAULT_VC_NAMESPACE, data=data)

    async def delete(self, name: str = "acme") -> None:
        """Delete a Tenant as a client does."""
        await self.meta.delete(TENANTS, name)

    def others_work(self) -> None:
        """Do what the namespace scheduler and the control plane do about what is being deleted."""
        for vc in self.meta.all(VIRTUAL_CLUSTERS):
            if vc["metadata"].get("deletionTimestamp"):
                self.meta.remove(VIRTUAL_CLUSTERS, vc["metadata"]["name"], vc["metadata"]["namespace"])
        for name, record in list(self.server.records.items()):
            if record["phase"] == "Draining":
                del self.server.records[name], self.server.planes[name]

    def status(self, name: str = "acme") -> dict[str, Any]:
        """Return the status of a Tenant."""
        found = self.meta.found(TENANTS, name)
        assert found is not None
        status: dict[str, Any] = found.get("status") or {}
        return status

    def condition(self, kind: str = "Ready", name: str = "acme") -> tuple[str, str, str]:
        """Return status, reason and message of a condition of a Tenant."""
        found = {each["type"]: each for each in self.status(name).get("conditions", [])}[kind]
        return found["status"], found["reason"], found["message"]

    def left(self, name: str = "acme") -> list[str]:
        """Return everything that there is of a tenant, but for what is in namespaces that are gone."""
        for key in [each for each in self.meta.objects if each[1].startswith("vcsync-")]:
            if ("namespaces", "", key[1]) not in self.meta.objects:
                del self.meta.objects[key]
        found = [
            "/".join(key)
            for key in self.meta.objects
            if key[0] != "events" and (name in key[1] or name in key[2]) and not key[2].endswith("-admin")
        ]
        return found + [f"control plane {each}" for each in self.server.records if each == name]
