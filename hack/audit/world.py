"""What the audit looks at: everything every cluster holds, as plain JSON values, with indexes."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

Json = dict[str, Any]

MAX_LABEL = 63


@dataclass(frozen=True)
class Cluster:
    """All objects of one API server, by plural of their kind."""

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
        """All objects of a kind."""
        return self.objects.get(kind, ())

    def within(self, kind: str, namespace: str) -> Sequence[Json]:
        """The objects of a kind in a namespace."""
        return self._by_namespace.get(kind, {}).get(namespace, ())

    def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """One object, or None."""
        return self._by_place.get(kind, {}).get((namespace, name))

    def everything(self) -> Iterator[tuple[str, Json]]:
        """Every object with its kind."""
        for kind, found_of_kind in self.objects.items():
            for found in found_of_kind:
                yield kind, found


@dataclass(frozen=True)
class Tenant:
    """One tenant: its record in the meta cluster and all of its control plane."""

    key: str
    """Cluster key: the tenant's name in super clusters."""
    record: Json
    """The VirtualCluster."""
    cluster: Cluster
    server: str = ""
    """URL in the kubeconfig by which Pods find the tenant's API, where the record names no endpoint."""

    @property
    def spec(self) -> Json:
        """Of the VirtualCluster."""
        spec: Json = self.record.get("spec") or {}
        return spec

    @property
    def opaque(self) -> tuple[str, ...]:
        """Prefixes of keys that stay in the tenant by the operator's wish."""
        return tuple(self.spec.get("opaqueMetaPrefixes") or ())

    @property
    def transparent(self) -> tuple[str, ...]:
        """Prefixes of keys that super clusters set and that come up."""
        return tuple(self.spec.get("transparentMetaPrefixes") or ())


@dataclass(frozen=True)
class Placement:
    """A line of the ledger: where the slices of one tenant namespace are."""

    tenant: str
    namespace: str
    slices: Mapping[str, int]
    """Super cluster id -> slices, none that holds zero; empty while the line is being deleted."""
    size: Mapping[str, str]
    """Resource -> quantity of one slice."""
    ledger: Json
    """The NamespacePlacement."""


@dataclass(frozen=True)
class World:
    """All clusters at one moment, as far as several API servers have one."""

    meta: Cluster
    supers: Mapping[str, Cluster]
    """By id of the super cluster."""
    tenants: Mapping[str, Tenant]
    """By cluster key."""
    now: datetime
    markers: Mapping[str, Sequence[str]]
    """Cluster key -> texts that only objects of this tenant may contain."""
    empty_nodes: bool = True
    """Whether virtual nodes without Pods may stand (they linger a while)."""

    @cached_property
    def placements(self) -> dict[tuple[str, str], Placement]:
        """The ledger by (cluster key, tenant namespace)."""
        return {place(line): _placement(line) for line in self.meta.all("namespaceplacements")}

    def placement(self, tenant: str, namespace: str) -> Placement | None:
        """Where a tenant namespace is, None when the ledger has no line for it."""
        return self.placements.get((tenant, namespace))

    def placed(self) -> Iterator[tuple[Tenant, Json, str, int, Placement]]:
        """Each (tenant, its namespace, id of a super cluster that holds slices, slices, line of the ledger)."""
        for line in self.placements.values():
            tenant = self.tenants.get(line.tenant)
            namespace = tenant.cluster.get("namespaces", "", line.namespace) if tenant else None
            if tenant is None or namespace is None:
                continue
            for super_id, slices in line.slices.items():
                if super_id in self.supers:
                    yield tenant, namespace, super_id, slices, line


def _size_of(line: Json) -> Json:
    """What a slice of the placements holds: it is written with them, spec may be a write ahead."""
    size: Json = (line.get("status") or {}).get("sliceSize") or line["spec"].get("sliceSize") or {}
    return size


def _placement(line: Json) -> Placement:
    namespace, name = place(line)
    slices = (line.get("status") or {}).get("placements") or {}
    held = {} if deleting(line) else {super_id: count for super_id, count in slices.items() if count}
    return Placement(namespace, name, held, _size_of(line), line)


# --- Reading objects -----------------------------------------------------------------------------------------


def place(found: Json) -> tuple[str, str]:
    """(namespace, name); the namespace is empty for cluster scoped objects."""
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
    """Whether the object is being deleted."""
    return bool(found["metadata"].get("deletionTimestamp"))


def cluster_key(record: Json) -> str:
    """The cluster key of a VirtualCluster: what its status says, else namespace, hash of the UID and name."""
    decided = (record.get("status") or {}).get("clusterNamespace")
    if decided:
        return str(decided)
    namespace, name = place(record)
    return f"{namespace}-{hashlib.sha256(uid(record).encode()).hexdigest()[:6]}-{name}"


def super_namespace(key: str, namespace: str) -> str:
    """The super clusters' name for a tenant's namespace."""
    whole = f"{key}-{namespace}"
    if len(whole) <= MAX_LABEL:
        return whole
    return f"{whole[:57]}-{hashlib.sha256(whole.encode()).hexdigest()[:5]}"


def parse_json(text: str | None) -> Any:
    """JSON that somebody may have spoilt: the text itself when it is none."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
