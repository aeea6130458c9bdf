"""Reads the objects that the audit needs from API servers: plain HTTP, paged lists, a thread for each cluster."""

import base64
import contextlib
import http.client
import json
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml

from hack.audit.world import Cluster, Json, Tenant, World, cluster_key, place

PAGE = 500
TIMEOUT = 30.0

_CORE = (
    "namespaces",
    "pods",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "services",
    "endpoints",
    "resourcequotas",
    "persistentvolumeclaims",
)
_RULES = (
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/networking.k8s.io/v1/ingresses",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/resource.k8s.io/v1/resourceclaims",
)
_SERVICE_CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
_SNAPSHOTS = "/apis/snapshot.storage.k8s.io/v1/volumesnapshots"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_OPTIONAL = (_SNAPSHOTS, _SERVICE_CIDRS)
"""Kinds that clusters may lack, as they come with a CustomResourceDefinition or a later version."""
TENANT_KINDS = (
    *(f"/api/v1/{kind}" for kind in (*_CORE, "persistentvolumes", "nodes", "events")),
    *_RULES,
    _SNAPSHOTS,
    _DEFINITIONS,
)
SUPER_KINDS = (*(f"/api/v1/{kind}" for kind in (*_CORE, "nodes")), *_RULES, _DEFINITIONS, *_OPTIONAL)
_OURS = "/apis/tenancy.x-k8s.io/v1alpha1"
META_KINDS = (f"{_OURS}/virtualclusters", f"{_OURS}/superclusters", f"{_OURS}/namespaceplacements")


class ReadError(Exception):
    """A cluster could not be read; the message names it and the reason."""


class NotServed(ReadError):
    """A cluster does not serve a path."""


@dataclass(frozen=True)
class Kubeconfig:
    """A kubeconfig file with a token or a client certificate, embedded or in files."""

    name: str
    path: Path

    def _parts(self) -> tuple[Json, Json]:
        config = yaml.safe_load(self.path.read_text())
        wanted = config.get("current-context")
        try:
            context = next(one for one in config["contexts"] if one["name"] == wanted)["context"]
            cluster = next(one for one in config["clusters"] if one["name"] == context["cluster"])["cluster"]
            user = next(one for one in config["users"] if one["name"] == context["user"])["user"]
        except (KeyError, StopIteration, TypeError) as error:
            raise ReadError(
                f"{self.path}: current-context {wanted!r} does not lead to a cluster and a user"
            ) from error
        return cluster, user

    def _bytes(self, holder: Json, field: str) -> bytes | None:
        if inline := holder.get(f"{field}-data"):
            return base64.b64decode(inline)
        if name := holder.get(field):
            return (self.path.parent / str(name)).read_bytes()
        return None

    @property
    def server(self) -> str:
        """URL of the API server."""
        return str(self._parts()[0]["server"])

    def tls(self) -> ssl.SSLContext:
        """Return the authorities of the API server and the client certificate, if there is one."""
        cluster, user = self._parts()
        authority = self._bytes(cluster, "certificate-authority")
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        certificate, key = self._bytes(user, "client-certificate"), self._bytes(user, "client-key")
        if certificate and key:
            with tempfile.TemporaryDirectory() as folder:  # ssl reads certificates from files only
                pair = Path(folder) / "pair.pem"
                pair.touch(mode=0o600)
                pair.write_bytes(certificate + b"\n" + key)
                context.load_cert_chain(pair)
        return context

    @property
    def headers(self) -> dict[str, str]:
        """Headers of each request: the user's token, if there is one."""
        user = self._parts()[1]
        token = user.get("token")
        if not token and user.get("tokenFile"):
            token = (self.path.parent / user["tokenFile"]).read_text().strip()
        return {"Authorization": f"Bearer {token}"} if token else {}

    @contextlib.contextmanager
    def connect(self) -> Iterator["Connection"]:
        """Open a connection to the API server."""
        url = urlsplit(self.server)
        http_connection = http.client.HTTPSConnection(
            url.hostname or "", url.port or 443, timeout=TIMEOUT, context=self.tls()
        )
        try:
            yield Connection(self.name, http_connection, self.headers)
        finally:
            http_connection.close()


@dataclass(frozen=True)
class Connection:
    """A connection to one API server."""

    name: str
    http: http.client.HTTPSConnection
    headers: Mapping[str, str]

    def get(self, path: str) -> Json:
        """Send a GET request and return the decoded answer.

        Raises:
            ReadError: the server cannot be reached or does not answer 200.
        """
        try:
            self.http.request("GET", path, headers={**self.headers, "Accept": "application/json"})
            answer = self.http.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ReadError(f"{self.name}: GET {path}: {error or type(error).__name__}") from error
        if answer.status != 200:
            failure = NotServed if answer.status == 404 else ReadError
            raise failure(f"{self.name}: GET {path}: {answer.status} {body[:200].decode(errors='replace')}")
        decoded: Json = json.loads(body)
        return decoded

    def list(self, path: str) -> list[Json]:
        """Return all objects of a list; reads it in pages."""
        objects: list[Json] = []
        more = ""
        while True:
            page = self.get(f"{path}?limit={PAGE}{more}")
            objects += page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return objects
            more = f"&continue={quote(token, safe='')}"


def read_cluster(kubeconfig: Kubeconfig, paths: Sequence[str]) -> Cluster:
    """Return all objects of a cluster at some list paths.

    Raises:
        ReadError: it cannot be read.
    """
    with kubeconfig.connect() as connection:
        return Cluster({path.rpartition("/")[2]: _objects(connection, path) for path in paths})


def _objects(connection: Connection, path: str) -> list[Json]:
    try:
        return connection.list(path)
    except NotServed:
        if path not in _OPTIONAL:
            raise
        return []


def read_world(
    meta: Path,
    supers: Mapping[str, Path],
    tenants: Mapping[str, Path],
    *,
    markers: Mapping[str, Sequence[str]] | None = None,
    empty_nodes: bool = True,
) -> World:
    """Read all clusters concurrently.

    Args:
        meta: kubeconfig of the meta cluster.
        supers: id of each super cluster -> its kubeconfig.
        tenants: name of each tenant's VirtualCluster (or namespace/name, or its cluster key) -> kubeconfig.
        markers: the same names -> texts that only this tenant's objects may contain.
        empty_nodes: whether virtual nodes without Pods may exist.

    Raises:
        ReadError: a cluster cannot be read, or the meta cluster does not know a tenant.
    """
    jobs: dict[tuple[str, str], tuple[Kubeconfig, Sequence[str]]] = {
        ("meta", ""): (Kubeconfig("meta", meta), META_KINDS)
    }
    jobs |= {("super", name): (Kubeconfig(name, path), SUPER_KINDS) for name, path in supers.items()}
    jobs |= {("tenant", name): (Kubeconfig(name, path), TENANT_KINDS) for name, path in tenants.items()}
    with ThreadPoolExecutor(max_workers=min(len(jobs), (os.cpu_count() or 1) * 2)) as pool:
        found = dict(zip(jobs, pool.map(lambda job: read_cluster(*job), jobs.values()), strict=True))
    records = found["meta", ""].all("virtualclusters")
    by_name: dict[str, Tenant] = {}
    for name in tenants:
        record = _record(records, name)
        by_name[name] = Tenant(
            cluster_key(record), record, found["tenant", name], jobs["tenant", name][0].server
        )
    return World(
        meta=found["meta", ""],
        supers={name: found["super", name] for name in supers},
        tenants={tenant.key: tenant for tenant in by_name.values()},
        now=datetime.now(UTC),
        markers={by_name[name].key: tuple(texts) for name, texts in (markers or {}).items()},
        empty_nodes=empty_nodes,
    )


def _record(records: Sequence[Json], name: str) -> Json:
    matching: list[Any] = [
        record
        for record in records
        if name in (place(record)[1], "/".join(place(record)), cluster_key(record))
    ]
    if len(matching) != 1:
        known = ", ".join("/".join(place(record)) for record in records) or "none"
        raise ReadError(f"{len(matching)} VirtualClusters are called {name!r}; the meta cluster has: {known}")
    found: Json = matching[0]
    return found
