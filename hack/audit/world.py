"""The input of the audit: all objects of all clusters, as plain JSON values, with indexes."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from hack.audit import keys

Json = dict[str, Any]

MAX_LABEL = 63


@dataclass(frozen=True)
class Cluster:
    """All objects of one API server, by the plural of their kind."""

    objects: Mapping[str, Sequence[Json]]

    @cached_property
    def _by_place(self) -> dict[str, dict[tuple[str, str], Json]]:
        return {
            kind: {place(found): found for found in found_of_kind}
            for kind, found_of_kind in self.objects.items()
        }

    @cached_property
    def _by_namespace(self) -> dict[str, dict[str, list[Json]]]:
        index: dict[str, dict[str, list[Json]]] = {}
        for kind, found_of_kind in self.objects.items():
            grouped = index.setdefault(kind, defaultdict(list))
            for found in found_of_kind:
                grouped[place(found)[0]].append(found)
        return index

    def all(self, kind: str) -> Sequence[Json]:
        """Return all objects of a kind."""
        return self.objects.get(kind, ())

    def within(self, kind: str, namespace: str) -> Sequence[Json]:
        """Return the objects of a kind in a namespace."""
        return self._by_namespace.get(kind, {}).get(namespace, ())

    def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return one object, or None if it does not exist."""
        return self._by_place.get(kind, {}).get((namespace, name))

    def everything(self) -> Iterator[tuple[str, Json]]:
        """Yield (kind, object) for every object."""
        for kind, found_of_kind in self.objects.items():
            for found in found_of_kind:
                yield kind, found


@dataclass(frozen=True)
class Tenant:
    """One tenant: its record in the meta cluster and all objects of its control plane."""

    key: str
    """Cluster key: the tenant's name in super clusters."""
    record: Json
    """The VirtualCluster."""
    cluster: Cluster
    server: str = ""
    """URL in the kubeconfig, at which Pods reach the tenant's API if the record names no endpoint."""

    @property
    def spec(self) -> Json:
        """UID of the VirtualCluster."""
        spec: Json = self.record.get("spec") or {}
        return spec

    @property
    def opaque(self) -> tuple[str, ...]:
        """Prefixes of keys that stay in the tenant, as configured by the operator."""
        return tuple(self.spec.get("opaqueMetaPrefixes") or ())

    @property
    def transparent(self) -> tuple[str, ...]:
        """Prefixes of keys that super clusters set and the syncer copies to the tenant."""
        return tuple(self.spec.get("transparentMetaPrefixes") or ())


@dataclass(frozen=True)
class Placement:
    """A line of the ledger: where the slices of one tenant namespace are."""

    tenant: str
    namespace: str
    slices: Mapping[str, int]
    """Super cluster id -> number of slices, never zero; empty while the line is being deleted."""
    size: Mapping[str, str]
    """Resource -> quantity of one slice."""
    ledger: Json
    """The NamespacePlacement."""


@dataclass(frozen=True)
class World:
    """All clusters at about the same moment; several API servers cannot be read atomically."""

    meta: Cluster
    supers: Mapping[str, Cluster]
    """By id of the super cluster."""
    tenants: Mapping[str, Tenant]
    """By cluster key."""
    now: datetime
    markers: Mapping[str, Sequence[str]]
    """Cluster key -> texts that only objects of this tenant may contain."""
    empty_nodes: bool = True
    """Whether virtual nodes without Pods may exist; they are removed with a delay."""

    @cached_property
    def placements(self) -> dict[tuple[str, str], Placement]:
        """(cluster key, tenant namespace) -> line of the ledger."""
        return {place(line): placement_of(line) for line in self.meta.all("namespaceplacements")}

    def placement(self, tenant: str, namespace: str) -> Placement | None:
        """Return the placement of a tenant namespace; None if the ledger has no line for it."""
        return self.placements.get((tenant, namespace))

    def placed(self) -> Iterator[tuple[Tenant, Json, str, int, Placement]]:
        """Yield (tenant, its namespace, id of a super cluster with slices, number of slices, line of the ledger)."""
        for line in self.placements.values():
            tenant = self.tenants.get(line.tenant)
            namespace = tenant.cluster.get("namespaces", "", line.namespace) if tenant else None
            if tenant is None or namespace is None:
                continue
            for super_id, slices in line.slices.items():
                if super_id in self.supers:
                    yield tenant, namespace, super_id, slices, line

    def keeping(self) -> Iterator[tuple[Tenant, Json, str, Placement]]:
        """Yield (tenant, its namespace, id of a super cluster that still has its data, line of the ledger).

        A super cluster that has lost its slices of a namespace keeps the namespace while it has volumes of the tenant's claims.
        """
        for line in self.placements.values():
            tenant = self.tenants.get(line.tenant)
            namespace = tenant.cluster.get("namespaces", "", line.namespace) if tenant else None
            if tenant is None or namespace is None or deleting(line.ledger):
                continue
            for finalizer in line.ledger["metadata"].get("finalizers") or ():
                super_id = finalizer.removeprefix(keys.DRAIN_FINALIZER)
                drains = super_id != finalizer and super_id in self.supers and super_id not in line.slices
                if drains and _has_data(tenant, self.supers[super_id], line.namespace):
                    yield tenant, namespace, super_id, line


def _has_data(tenant: Tenant, cluster: Cluster, namespace: str) -> bool:
    """Return whether a super cluster has the volume of a claim that still exists in the tenant."""
    for copy in cluster.within("persistentvolumeclaims", super_namespace(tenant.key, namespace)):
        source = tenant.cluster.get("persistentvolumeclaims", namespace, place(copy)[1])
        if (
            source is not None
            and uid(source) == annotations(copy).get(keys.UID)
            and copy["spec"].get("volumeName")
        ):
            return True
    return False


def _size_of(line: Json) -> Json:
    """Return the size of the placed slices, which is written with the placements; spec may be newer."""
    size: Json = (line.get("status") or {}).get("sliceSize") or line["spec"].get("sliceSize") or {}
    return size


def placement_of(line: Json) -> Placement:
    """Read a NamespacePlacement."""
    namespace, name = place(line)
    slices = (line.get("status") or {}).get("placements") or {}
    held = {} if deleting(line) else {super_id: count for super_id, count in slices.items() if count}
    return Placement(namespace, name, held, _size_of(line), line)


# --- Reading objects -----------------------------------------------------------------------------------------


def place(found: Json) -> tuple[str, str]:
    """Return (namespace, name); the namespace of a cluster-scoped object is empty."""
    metadata = found["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def uid(found: Json) -> str:
    """The object's UID."""
    text: str = found["metadata"]["uid"]
    return text


def labels(found: Json) -> dict[str, str]:
    """The object's labels."""
    return found["metadata"].get("labels") or {}


def annotations(found: Json) -> dict[str, str]:
    """The object's annotations."""
    return found["metadata"].get("annotations") or {}


def deleting(found: Json) -> bool:
    """Return whether the object is being deleted."""
    return bool(found["metadata"].get("deletionTimestamp"))


def cluster_key(record: Json) -> str:
    """Return the cluster key of a VirtualCluster: from its status, else built from namespace, hash of the UID and name."""
    decided = (record.get("status") or {}).get("clusterNamespace")
    if decided:
        return str(decided)
    namespace, name = place(record)
    return f"{namespace}-{hashlib.sha256(uid(record).encode()).hexdigest()[:6]}-{name}"


def super_namespace(key: str, namespace: str) -> str:
    """Return the name of a tenant's namespace in super clusters."""
    whole = f"{key}-{namespace}"
    if len(whole) <= MAX_LABEL:
        return whole
    return f"{whole[:57]}-{hashlib.sha256(whole.encode()).hexdigest()[:5]}"


def parse_json(text: str | None) -> Any:
    """Return a decoded JSON text, or the text itself if it is not JSON, because anyone may have changed it."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
