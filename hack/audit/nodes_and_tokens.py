"""Rules about virtual nodes, on which tenants see their Pods, and about the tokens of Pods."""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from hack.audit import keys
from hack.audit.findings import Difference, Finding
from hack.audit.pods import ENDED
from hack.audit.world import (
    Cluster,
    Json,
    Tenant,
    World,
    annotations,
    deleting,
    labels,
    place,
    super_namespace,
    uid,
)

# --- Virtual nodes -------------------------------------------------------------------------------------------


def virtual_nodes(world: World) -> Iterator[Finding]:
    """A tenant sees the nodes of its Pods unchanged, and other nodes only until they are removed."""
    for tenant in world.tenants.values():
        in_use = {pod["spec"]["nodeName"] for pod in tenant.cluster.all("pods") if _shows_node(pod)}
        visible = {
            place(node)[1]: node
            for node in tenant.cluster.all("nodes")
            if keys.SUPER_CLUSTER_ID in labels(node) or keys.VIRTUAL_NODE in labels(node)
        }
        for name in sorted(in_use - visible.keys()):
            yield Finding("missing", tenant.key, "", "nodes", "", name, "", name, None)
        for name, node in visible.items():
            yield from _node(world, tenant, node, used=name in in_use)


def _shows_node(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName")) and (pod.get("status") or {}).get("phase") not in ENDED


def _node(world: World, tenant: Tenant, node: Json, *, used: bool) -> Iterator[Finding]:
    name = place(node)[1]
    super_id = labels(node).get(keys.SUPER_CLUSTER_ID, "")

    def wrong(rule: str, field: str, expected: Any, actual: Any) -> Finding:
        return Finding(rule, tenant.key, super_id, "nodes", "", name, field, expected, actual)

    real = name.removesuffix(f".{super_id}")
    cluster = world.supers.get(super_id)
    actual = cluster.get("nodes", "", real) if cluster and real != name else None
    if actual is None:
        yield wrong("foreign", "metadata.name", "a node of the super cluster", name)
        return
    if not used and not world.empty_nodes:
        yield wrong("foreign", "", "a node with Pods of the tenant", "none")
    if labels(node).get(keys.VIRTUAL_NODE) != "true":
        yield wrong(
            "stale", f"metadata.labels[{keys.VIRTUAL_NODE}]", "true", labels(node).get(keys.VIRTUAL_NODE)
        )
    if _ready(node) != _ready(actual):
        yield wrong("stale", "status.conditions[Ready]", _ready(actual), _ready(node))
    if _cordoned(node) != _cordoned(actual):
        yield wrong("stale", "spec.unschedulable", _cordoned(actual), _cordoned(node))
    for field in ("capacity", "allocatable"):
        expected, found = (actual.get("status") or {}).get(field), (node.get("status") or {}).get(field)
        if found != expected:
            yield wrong("stale", f"status.{field}", expected, found)


def _cordoned(node: Json) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _ready(node: Json) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return next((str(found.get("status")) for found in conditions if found.get("type") == "Ready"), "")


# --- Tokens --------------------------------------------------------------------------------------------------


def token_secrets(world: World) -> Iterator[Finding]:
    """Each live Pod that mounts a token has a token Secret, whose tokens are for this Pod and have not expired."""
    for tenant, _, super_id, _, line in world.placed():
        there = super_namespace(tenant.key, line.namespace)
        living = {
            uid(pod): pod
            for pod in tenant.cluster.within("pods", line.namespace)
            if _runs(pod) and labels(pod).get(keys.SUPER_CLUSTER) == super_id
        }
        for rule, name, difference in _tokens(world, world.supers[super_id], there, living):
            yield Finding(rule, tenant.key, super_id, "secrets", there, name, *difference)


def _tokens(
    world: World, cluster: Cluster, there: str, living: Mapping[str, Json]
) -> Iterator[tuple[str, str, Difference]]:
    for copy in cluster.within("pods", there):
        for name in _mounted(copy):
            if cluster.get("secrets", there, name) is None and not deleting(copy) and _runs(copy):
                yield "missing", name, ("", f"tokens of Pod {place(copy)[1]}", None)
    for secret in cluster.within("secrets", there):
        name = place(secret)[1]
        if not name.startswith(keys.TOKEN_SECRET):
            continue
        pod = living.get(name.removeprefix(keys.TOKEN_SECRET))
        if pod is None or annotations(secret).get(keys.UID) != uid(pod):
            yield "foreign", name, ("", "a living Pod", annotations(secret).get(keys.UID))
            continue
        for difference in _token(world, secret, pod):
            yield "stale", name, difference


def _runs(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") not in ENDED


def _mounted(copy: Json) -> Iterator[str]:
    for volume in copy["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            name = (source.get("secret") or {}).get("name", "")
            if name.startswith(keys.TOKEN_SECRET):
                yield name


def _token(world: World, secret: Json, pod: Json) -> Iterator[Difference]:
    data = secret.get("data") or {}
    if not data:
        yield "data", "tokens", None
    for key, text in data.items():
        bound = (claims(text).get("kubernetes.io") or {}) if text else {}
        found = [bound.get("namespace"), (bound.get("pod") or {}).get("uid")]
        expected = [place(pod)[0], uid(pod)]
        if found != expected:
            yield f"data[{key}]", expected, found
    expires = annotations(secret).get(keys.TOKEN_EXPIRES, "")
    if not expires or datetime.fromisoformat(expires) <= world.now:
        yield f"metadata.annotations[{keys.TOKEN_EXPIRES}]", f"after {world.now.isoformat()}", expires


def claims(data: str) -> Json:
    """Return the claims of a token in a Secret, without verifying its signature; {} if it is not a token."""
    try:
        payload = base64.b64decode(data).split(b".")[1]
        said = json.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
    except (binascii.Error, IndexError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
