"""A settled system with every kind of object writes nothing but heartbeats, by the metrics of the API servers.

VCSYNC_QUIET_SECONDS sets the period that is looked at (default 20), VCSYNC_SUPER_CLUSTERS the number of super clusters.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import device_kit
import pytest
from pool_kit import Json, Pool, Space, container, deployment, is_running, pod
from volume_kit import bound, claim, published, user

from hack.testbed import Cluster
from hack.testbed.classes import CLASSES, GAUGES
from hack.testbed.provisioner import storage_class
from tests.real.waiting import eventually
from vcsync.syncer.pod_meter import WRITE_SECONDS

WRITES = {"POST", "PUT", "PATCH", "DELETE"}
SHORT_SECONDS = 20
"""As long as the longest heartbeat's interval."""
QUIET_SECONDS = int(os.environ.get("VCSYNC_QUIET_SECONDS", SHORT_SECONDS))
_LINE = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')

ALLOWED = {
    # Leader election; the super clusters' heartbeats; the time of Pods.
    "meta": {"leases", "superclusters/status", "configmaps"},
    "tenant": {"leases"},  # virtual nodes'
    "super": {"leases", "nodes/status"},  # the hollow nodes' own
}
"""Heartbeats and records of time: all that a settled system may write."""
REVIEWS = {"tokenreviews", "subjectaccessreviews"}

ALLOCATES = os.environ.get("VCSYNC_SUPERS") != "hollow" and os.environ.get("VCSYNC_NODES") != "real"
"""True if the super clusters allocate devices: they have a kube-scheduler, and nodes without drivers. Elsewhere Pods wait."""

TENANTS = ("acme", "umbrella")
CLASS_PLURALS = ("ingressclasses.networking.k8s.io", "priorityclasses", "runtimeclasses")


def objects() -> list[Json]:
    """Return objects of every kind that is synced."""
    http = [{"name": "http", "port": 80}]
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    peers = {"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]}
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    rule = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    return [
        _object("v1", "ConfigMap", "settings", data={"a": "b"}),
        _object("v1", "Secret", "password", stringData={"a": "b"}),
        _object("v1", "ServiceAccount", "web"),
        _object(
            "v1", "Service", "web", spec={"selector": {"app": "web"}, "ports": http, "type": "LoadBalancer"}
        ),
        _object("v1", "Service", "old", spec={"ports": http}),
        _object("v1", "Endpoints", "old", subsets=[{"addresses": [{"ip": "192.0.2.7"}], "ports": http}]),
        _object("v1", "Service", "by-hand", spec={"ports": http}),
        _endpoint_slice("by-hand"),
        _object("policy/v1", "PodDisruptionBudget", "web", spec=budget),
        _object("networking.k8s.io/v1", "NetworkPolicy", "inside", spec=peers),
        _object(
            "networking.k8s.io/v1", "Ingress", "web", spec={"ingressClassName": "public", "rules": [rule]}
        ),
        claim("data"),
        user("database", "data", priorityClassName="urgent", runtimeClassName="sandbox"),
        device_kit.claim("gpu"),
        device_kit.template("gpus"),
        device_kit.user("trainer", "gpu"),
        device_kit.user("trainer-of-template", of_template="gpus"),
        deployment("web", 4),
        pod("waits", containers=[container(resources={"requests": {"cpu": "900m", "memory": "16Mi"}})]),
    ]


def _object(version: str, kind: str, name: str, **fields: object) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def _endpoint_slice(service: str) -> Json:
    found = _object(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        f"{service}-1",
        addressType="IPv4",
        endpoints=[{"addresses": ["192.0.2.8"]}],
        ports=[{"name": "http", "port": 80, "protocol": "TCP"}],
    )
    found["metadata"]["labels"] = {"kubernetes.io/service-name": service}
    return found


@contextmanager
def published_classes(pool: Pool) -> Iterator[None]:
    """Publish a class of each kind and a definition in all super clusters."""
    definition = GAUGES["metadata"]["name"]
    with ExitStack() as stack:
        for tenant in TENANTS:  # it stays there when it is not published any more
            stack.callback(
                pool.cluster(tenant).kubectl,
                "delete",
                "crd",
                definition,
                "--ignore-not-found",
                "--wait=false",
            )
        stack.enter_context(published(pool, {each: [storage_class("fast")] for each in pool.supers}))
        if ALLOCATES:
            stack.enter_context(device_kit.with_devices(pool, dict.fromkeys(pool.supers, ("gpu",))))
        for cluster in pool.supers.values():
            body = {"apiVersion": "v1", "kind": "List", "items": [*CLASSES, GAUGES]}
            cluster.kubectl("apply", "-f", "-", input=json.dumps(body))
            stack.callback(cluster.kubectl, "delete", "crd", definition, "--ignore-not-found")
            for plural, each in zip(CLASS_PLURALS, CLASSES, strict=True):
                stack.callback(
                    cluster.kubectl, "delete", plural, each["metadata"]["name"], "--ignore-not-found"
                )  # type: ignore[index]
        yield


def writes_seen(cluster: Cluster) -> Counter[tuple[str, str]]:
    """Return (verb, resource) -> number of writes at an API server, including those of its own cluster's servers."""
    seen: Counter[tuple[str, str]] = Counter()
    code, text = cluster.call("GET", "/metrics")
    assert code == 200
    for line in text.splitlines():
        if match := _LINE.match(line):
            labels = dict(_LABEL.findall(match["labels"]))
            if labels["verb"] in WRITES:
                resource = "/".join(filter(None, (labels["resource"], labels["subresource"])))
                seen[(labels["verb"], resource)] += int(float(match["count"]))
    return seen


@pytest.mark.timeout(600 + 2 * QUIET_SECONDS)
def test_a_settled_system_writes_nothing_but_heartbeats(pool: Pool) -> None:
    number = len(pool.supers)
    slices = {"cpu": f"{500 * number}m", "memory": f"{512 * number}Mi"}
    with published_classes(pool), pool.network(), ExitStack() as stack:
        spaces = [stack.enter_context(pool.space(tenant, hard=slices)) for tenant in TENANTS]
        for space in spaces:
            eventually(lambda space=space: _classes_shown(space))  # type: ignore[misc]
            space.apply(*objects())
        for space in spaces:
            space.all_running("web", 4)
            space.running("database")
            if ALLOCATES:
                space.running("trainer")
                space.running("trainer-of-template")
            bound(space, "data")
            assert not is_running(space.get("pods", "waits"))
        clusters = {
            name: cluster for name, cluster in pool.bed.clusters.items() if not name.startswith("leaving")
        }
        # Objects of earlier tests may still be removed, virtual nodes within two minutes: wait for a period without writes.
        eventually(lambda: _is_quiet(clusters, SHORT_SECONDS), 180)
        assert _is_quiet(clusters, QUIET_SECONDS)


def _classes_shown(space: Space) -> bool:
    for plural, each in zip(
        ("storageclass", *CLASS_PLURALS), ("fast", "public", "urgent", "sandbox"), strict=True
    ):
        space.tenant.kubectl("get", plural, each)
    space.tenant.kubectl("get", "crd", GAUGES["metadata"]["name"])
    return True


def _is_quiet(clusters: dict[str, Cluster], seconds: int) -> bool:
    found = _unexpected(clusters, seconds)
    assert not found, found
    return True


def _unexpected(clusters: dict[str, Cluster], seconds: int) -> dict[str, Counter[tuple[str, str]]]:
    before = {name: writes_seen(cluster) for name, cluster in clusters.items()}
    time.sleep(seconds)  # the period that is looked at
    found = {}
    for name, cluster in clusters.items():
        allowed = ALLOWED[cluster.role] | REVIEWS
        moved = writes_seen(cluster) - before[name]
        # Each syncer records the time of Pods in one ConfigMap, and at the turn of an hour in a second one.
        recorded = sum(count for (_, resource), count in moved.items() if resource == "configmaps")
        if recorded > len(clusters) * (seconds / WRITE_SECONDS + 2):
            allowed = allowed - {"configmaps"}
        if surprising := Counter({key: count for key, count in moved.items() if key[1] not in allowed}):
            found[name] = surprising
    return found
