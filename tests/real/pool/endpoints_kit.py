"""Services with Pods on several super clusters, and the endpoints that these get of each other."""

from __future__ import annotations

from typing import Any

from tests.real.pool.pool_kit import Json, Space, items, pod
from vcsync.api import names
from vcsync.syncer.kinds.endpointslice import MANAGED_BY, SERVICE_NAME

GROUP = "discovery.k8s.io/v1"


def service(name: str = "web", **spec: Any) -> Json:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, "ports": ports, **spec},
    }


def behind(name: str, on: str, port: int = 8080) -> Json:
    """Return a Pod of the Service on a super cluster, with a named port."""
    found = pod(name, on=on, labels={"app": "web"})
    found["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": port}]
    return found


def address(space: Space, name: str) -> str:
    return str((space.get("pods", name) or {})["status"]["podIP"])


def remote(space: Space, super_id: str) -> list[Json]:
    """Return the slices of other super clusters in one."""
    query = f"labelSelector={MANAGED_BY}%3D{names.REMOTE_ENDPOINTS}"
    path = f"/apis/{GROUP}/namespaces/{space.super_name}/endpointslices?{query}"
    return items(space.pool.supers[super_id], path)


def of(space: Space, super_id: str, name: str) -> list[Json]:
    """Return the slices of other super clusters for one Service."""
    return [each for each in remote(space, super_id) if each["metadata"]["labels"][SERVICE_NAME] == name]


def endpoints(space: Space, super_id: str) -> list[Json]:
    """Return the endpoints of other super clusters in one."""
    return [one for each in remote(space, super_id) for one in each["endpoints"] or ()]


def reached(space: Space, super_id: str) -> list[str]:
    """Return the addresses of other super clusters' Pods that Services of one reach."""
    return sorted(one["addresses"][0] for one in endpoints(space, super_id))
