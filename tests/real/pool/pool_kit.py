"""Helpers for the tests of the whole system: tenants' namespaces, reads of both sides, waiting for a state."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from hack.system import System
from hack.testbed import Cluster, KubectlError, TestBed
from tests.real.waiting import eventually
from vcsync.api import names

Json = dict[str, Any]
T = TypeVar("T")

SLICE = {"cpu": "500m", "memory": "512Mi"}
TWO_SLICES = {"cpu": "1", "memory": "1Gi"}
SMALL = {"cpu": "10m", "memory": "16Mi"}
IMAGE = "registry.k8s.io/pause:3.10"
POLL_SECONDS = 0.1


def read(cluster: Cluster, path: str) -> Json | None:
    """Return the object or list at a path; None if it does not exist.

    Raises:
        AssertionError: the answer is neither 200 nor 404.
    """
    code, answer = cluster.call("GET", path)
    if code == 404:
        return None
    assert code == 200, f"GET {path} at {cluster.name}: {code} {answer}"
    found: Json = answer
    return found


def items(cluster: Cluster, path: str) -> list[Json]:
    """Return the items of a list."""
    found: list[Json] = (read(cluster, path) or {}).get("items", [])
    return found


@contextmanager
def still_kubelets(cluster: Cluster) -> Iterator[None]:
    """Pause a cluster's kubelets: deleted Pods remain until they continue."""
    cluster.pause("kwok")
    try:
        yield
    finally:
        cluster.resume("kwok")


def container(name: str = "main", **fields: Any) -> Json:
    """A small container."""
    return {"name": name, "image": IMAGE, "resources": {"requests": SMALL, "limits": SMALL}, **fields}


def pod(name: str, *, on: str = "", labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """Return a small Pod; `on`: the super cluster on which it must run."""
    if on:
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), names.SUPER_CLUSTER_ID: on}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"containers": [container()], "terminationGracePeriodSeconds": 1, **spec},
    }


def deployment(name: str, replicas: int, **spec: Any) -> Json:
    """Return a Deployment of small Pods with label `app=<name>`."""
    template = pod(name, labels={"app": name}, **spec)
    del template["metadata"]["name"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    }


def quota(hard: Mapping[str, str] = TWO_SLICES, name: str = "quota") -> Json:
    """A ResourceQuota."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": dict(hard)},
    }


def is_running(found: Json | None) -> bool:
    """Return whether a Pod is running and ready."""
    return condition(found, "Ready").get("status") == "True" and phase(found) == "Running"


def phase(found: Json | None) -> str:
    """A Pod's phase."""
    return str(((found or {}).get("status") or {}).get("phase", ""))


def condition(found: Json | None, kind: str) -> Json:
    """Return a condition of an object's status; empty if it does not have it."""
    for each in ((found or {}).get("status") or {}).get("conditions") or ():
        if each["type"] == kind:
            return dict(each)
    return {}


def super_of(found: Json) -> str:
    """Return the id of the super cluster to which a tenant's Pod is assigned."""
    return str(found["metadata"].get("labels", {}).get(names.SUPER_CLUSTER, ""))


def annotation(found: Json | None, key: str) -> str | None:
    """Return an annotation of an object; None if it is missing."""
    value: str | None = ((found or {}).get("metadata", {}).get("annotations") or {}).get(key)
    return value


class Pool:
    """A running system: meta cluster, super clusters r1 and r2, tenants acme and umbrella, all roles."""

    def __init__(self, bed: TestBed, system: System) -> None:
        self.bed = bed
        self.system = system
        self.supers = bed.supers

    def cluster(self, name: str) -> Cluster:
        """Return a cluster by its name."""
        return self.bed.clusters[name]

    def key(self, tenant: str) -> str:
        """Return a tenant's cluster key."""
        found = read(
            self.bed.meta,
            f"/apis/{names.API_VERSION}/namespaces/{names.DEFAULT_VC_NAMESPACE}/virtualclusters/{tenant}",
        )
        assert found is not None, f"tenant {tenant} is not registered"
        return str(found["status"]["clusterNamespace"])

    def configure(self, tenant: str, **spec: Any) -> None:
        """Change a tenant's VirtualCluster as its operator."""
        self.bed.meta.kubectl(
            "patch", "virtualcluster", tenant, "-n", names.DEFAULT_VC_NAMESPACE,
            "--type=merge", "-p", json.dumps({"spec": spec}),
        )  # fmt: skip

    @contextmanager
    def configured(self, tenant: str, **spec: Any) -> Iterator[None]:
        """Change a tenant's VirtualCluster until the block ends; fields that were absent are removed then."""
        found = read(
            self.bed.meta,
            f"/apis/{names.API_VERSION}/namespaces/{names.DEFAULT_VC_NAMESPACE}/virtualclusters/{tenant}",
        )
        before = {field: (found or {})["spec"].get(field) for field in spec}
        self.configure(tenant, **spec)
        try:
            yield
        finally:
            self.configure(tenant, **before)

    @contextmanager
    def network(self, name: str = "lab") -> Iterator[None]:
        """Put all super clusters into one network until the block ends."""
        for super_id in self.supers:
            self.system.vcsync("super", "set", super_id, "--network-id", name)
        try:
            yield
        finally:
            for super_id in self.supers:
                self.system.vcsync("super", "set", super_id, "--network-id", "")

    def new_space(self, tenant: str = "acme", name: str = "", *, prefix: str = "ns") -> Space:
        """Return a namespace of a tenant that does not exist yet."""
        return Space(self, tenant, name or f"{prefix}-{uuid.uuid4().hex[:6]}")

    def all_ready(self) -> bool:
        """Return whether every super cluster is reported as ready, with all its nodes."""
        found = items(self.bed.meta, f"/apis/{names.API_VERSION}/superclusters")
        assert len(found) == len(self.supers)
        for each in found:
            # There is no status before the syncer's first heartbeat.
            status = each.get("status") or {}
            nodes = status.get("nodes") or {}
            assert condition(each, "Ready").get("status") == "True", status
            assert nodes["ready"] == nodes["total"] > 0, status
        return True

    @contextmanager
    def space(
        self,
        tenant: str = "acme",
        name: str = "",
        *,
        hard: Mapping[str, str] = TWO_SLICES,
        slice_size: Mapping[str, str] = SLICE,
    ) -> Iterator[Space]:
        """Create a namespace with slices on both super clusters, ready for Pods; deleted afterwards without waiting."""
        # An earlier test may have disturbed a super cluster.
        eventually(self.all_ready)
        space = self.new_space(tenant, name)
        space.create(slice_size=slice_size)
        try:
            space.apply(quota(hard))
            eventually(lambda: set(space.placements()) == set(self.supers))
            eventually(space.has_account)
            yield space
        finally:
            space.delete()

    @contextmanager
    def space_unplaced(self, tenant: str = "acme") -> Iterator[Space]:
        """Like `space`, without waiting for slices."""
        space = self.new_space(tenant)
        space.create()
        try:
            space.apply(quota())
            yield space
        finally:
            space.delete()


class Space:
    """A namespace of a tenant, and its copies in the super clusters."""

    def __init__(self, pool: Pool, tenant: str, name: str) -> None:
        self.pool = pool
        self.tenant = pool.cluster(tenant)
        self.name = name
        self.key = pool.key(tenant)
        self.super_name = names.super_namespace(self.key, name)

    # As the tenant's user

    def create(self, *, slice_size: Mapping[str, str] | None = SLICE, **annotations: str) -> None:
        """Create the namespace."""
        if slice_size is not None:
            annotations[names.SLICE] = json.dumps(dict(slice_size))
        metadata = {"name": self.name, "annotations": annotations}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        self.tenant.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(body))

    def delete(self) -> None:
        """Delete the namespace; does not wait."""
        with suppress(KubectlError):
            self.tenant.kubectl("delete", "namespace", self.name, "--wait=false", "--ignore-not-found")

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002
        """Run kubectl in the namespace as the tenant's admin."""
        return self.tenant.kubectl("-n", self.name, *arguments, input=input)

    def apply(self, *objects: Json) -> None:
        """`kubectl apply` objects in the namespace."""
        body = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", input=json.dumps(body))

    def refused(self, *objects: Json) -> str:
        """Apply objects that the tenant's own API server refuses; return its message."""
        try:
            self.apply(*objects)
        except KubectlError as error:
            return str(error)
        raise AssertionError("it was accepted")

    # Reading

    def get(self, plural: str, name: str, group: str = "") -> Json | None:
        """Return an object in the namespace; None if it does not exist."""
        return read(self.tenant, f"{_prefix(group)}/namespaces/{self.name}/{plural}/{name}")

    def all(self, plural: str, query: str = "", group: str = "") -> list[Json]:
        """Return the objects of a kind in the namespace."""
        return items(self.tenant, f"{_prefix(group)}/namespaces/{self.name}/{plural}?{query}")

    def pods(self, app: str = "") -> list[Json]:
        """Return the Pods of the namespace that are not being deleted."""
        query = f"labelSelector=app%3D{app}" if app else ""
        return [each for each in self.all("pods", query) if "deletionTimestamp" not in each["metadata"]]

    def running(self, name: str, seconds: float = 60) -> Json:
        """Wait until a Pod runs and is ready, and return it."""

        def check() -> Json:
            found = self.get("pods", name)
            assert found is not None, f"Pod {name} does not exist"
            assert is_running(found), (
                f"Pod {name}, labels {found['metadata'].get('labels')}: {found['status']}"
            )
            return found

        return eventually(check, seconds)

    def all_running(self, app: str, count: int, seconds: float = 60) -> list[Json]:
        """Wait until an app has exactly `count` Pods and all run, and return them."""

        def check() -> list[Json]:
            found = self.pods(app)
            assert len(found) == count, [each["metadata"]["name"] for each in found]
            for each in found:
                about = {key: each["metadata"].get(key) for key in ("name", "labels", "creationTimestamp")}
                assert is_running(each), (about, each["status"])
            return found

        return eventually(check, seconds)

    def events(self, name: str, reason: str = "") -> list[Json]:
        """Return the Events about an object of the namespace."""
        found = self.all("events", f"fieldSelector=involvedObject.name%3D{name}")
        return [each for each in found if not reason or each["reason"] == reason]

    def namespace(self) -> Json | None:
        """The namespace itself."""
        return read(self.tenant, f"/api/v1/namespaces/{self.name}")

    def placements(self) -> dict[str, int]:
        """Return super cluster -> slices, from the annotation that the tenant sees."""
        text = annotation(self.namespace(), names.PLACEMENTS)
        return dict(json.loads(text)) if text else {}

    def has_account(self) -> bool:
        """Return whether Pods can be created: the namespace's ServiceAccount exists."""
        return self.get("serviceaccounts", "default") is not None

    # In the super clusters

    def there(self, super_id: str, plural: str, name: str, group: str = "") -> Json | None:
        """Return the copy of an object in a super cluster; None if it does not exist."""
        path = f"{_prefix(group)}/namespaces/{self.super_name}/{plural}/{name}"
        return read(self.pool.supers[super_id], path)

    def all_there(self, super_id: str, plural: str) -> list[Json]:
        """Return all objects of a kind in the super namespace of a super cluster."""
        return items(self.pool.supers[super_id], f"/api/v1/namespaces/{self.super_name}/{plural}")

    def stands_on(self) -> set[str]:
        """Return the super clusters that have the super namespace."""
        path = f"/api/v1/namespaces/{self.super_name}"
        return {super_id for super_id, cluster in self.pool.supers.items() if read(cluster, path)}

    def below(self, name: str) -> tuple[str, Json]:
        """Return the super cluster of a tenant's running Pod, and its copy there."""
        super_id = super_of(self.running(name))
        found = self.there(super_id, "pods", name)
        assert found is not None
        return super_id, found

    # In the meta cluster

    def ledger(self) -> Json | None:
        """The ledger's entry."""
        path = f"/apis/{names.API_VERSION}/namespaces/{self.key}/namespaceplacements/{self.name}"
        return read(self.pool.bed.meta, path)

    def pin(self, **slices: int) -> None:
        """Pin slices to super clusters, as an operator."""
        self.pool.bed.meta.kubectl(
            "patch", "namespaceplacement", self.name, "-n", self.key,
            "--type=merge", "-p", json.dumps({"spec": {"pins": slices or None}}),
        )  # fmt: skip


def _prefix(group: str) -> str:
    return f"/apis/{group}" if group else "/api/v1"
