"""The cost of a crowded tenant: its definitions, roles and webhooks, and the admission of a create.

This process answers the calls of webhooks: their time is part of the requests, their CPU time is not counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hack.bench_plane.load import CONFIG_MAPS, Ask, Figure, Refused, Target, measure, pod, session
from hack.testbed.processes import resident_memory
from hack.webhooks import WebhookServer

DEFINITIONS = 200
ROLES = 1000
WEBHOOKS = 50
CREATES = 500
CLIENTS = 4
PLAIN, BOUNDED = "plain", "bounded"
"""Namespaces without limits, and with a quota, default limits and a Pod Security level."""
SETTLE_SECONDS = 5.0
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class Space:
    """`memory`: bytes of all these objects. `figures`: cost of creates, by place and phase."""

    memory: int
    figures: Mapping[str, Figure]


async def run(target: Target) -> Space:
    """Measure creates in an empty tenant and in a crowded one."""
    figures: dict[str, Figure] = {}
    await _namespaces(target)
    for namespace in (PLAIN, BOUNDED):
        figures[f"create a Pod, {namespace} namespace"] = await measure(
            target, CREATES, CLIENTS, _pods(namespace)
        )
    figures["create a ConfigMap, empty tenant"] = await measure(target, CREATES, CLIENTS, _config_maps("few"))
    before = sum(map(resident_memory, target.pids))
    await measure(target, DEFINITIONS, CLIENTS, _definition)
    await measure(target, ROLES, CLIENTS, _role)
    await measure(target, WEBHOOKS, CLIENTS, _webhook)
    await asyncio.sleep(SETTLE_SECONDS)
    figures["create a ConfigMap, crowded tenant"] = await measure(
        target, CREATES, CLIENTS, _config_maps("many")
    )
    memory = sum(map(resident_memory, target.pids)) - before
    with WebhookServer() as server:
        for count, sorts in enumerate(("validating", "mutating"), 1):
            await measure(target, 1, 1, _called(sorts, server))
            await asyncio.sleep(SETTLE_SECONDS)
            figures[f"the same, {count} webhook{'s' * (count > 1)} called"] = await measure(
                target, CREATES, CLIENTS, _config_maps(f"called-{count}")
            )
    return Space(memory, figures)


async def _namespaces(target: Target) -> None:
    level = {"pod-security.kubernetes.io/enforce": "baseline"}
    async with session(target, 1) as ask:
        for name, labels in ((PLAIN, {}), (BOUNDED, level)):
            body = {"metadata": {"name": name, "labels": labels}}
            with suppress(Refused):
                await ask("POST", "/api/v1/namespaces", body)
            with suppress(Refused):
                account = {"metadata": {"name": "default"}}
                await ask("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
        path = f"/api/v1/namespaces/{BOUNDED}"
        hard = {"pods": "100000", "requests.cpu": "100k", "requests.memory": "100Ti"}
        quota = {"metadata": {"name": "all"}, "spec": {"hard": hard}}
        await ask("POST", f"{path}/resourcequotas", quota)
        used = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
        # No controller runs that would initialize the status of the quota.
        await ask("PATCH", f"{path}/resourcequotas/all/status", used, "application/merge-patch+json")
        limit = {"type": "Container", "defaultRequest": {"cpu": "1m", "memory": "1Mi"}}
        await ask("POST", f"{path}/limitranges", {"metadata": {"name": "all"}, "spec": {"limits": [limit]}})


def _pods(namespace: str) -> Callable[[Ask, int], Any]:
    async def create(ask: Ask, number: int) -> None:
        await ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod(f"adm-{number}"))

    return create


def _config_maps(prefix: str) -> Callable[[Ask, int], Any]:
    async def create(ask: Ask, number: int) -> None:
        body = {"metadata": {"name": f"{prefix}-{number}"}, "data": {"k": "v" * 200}}
        await ask("POST", CONFIG_MAPS, body)

    return create


async def _definition(ask: Ask, number: int) -> None:
    texts = {f"field{each}": {"type": "string", "maxLength": 100} for each in range(20)}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": texts}}}
    group, plural = "bench.example.com", f"things{number}"
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": plural, "kind": f"Thing{number}"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
    }
    await ask("POST", CRDS, {"metadata": {"name": f"{plural}.{group}"}, "spec": spec})


async def _role(ask: Ask, number: int) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": [f"n{number}"]}
    ]
    name = {"name": f"bench-{number}"}
    await ask("POST", f"{RBAC}/clusterroles", {"metadata": name, "rules": rules})
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"user-{number}"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name}
    await ask(
        "POST", f"{RBAC}/clusterrolebindings", {"metadata": name, "roleRef": role, "subjects": [subject]}
    )


async def _webhook(ask: Ask, number: int) -> None:
    """Create a webhook that is evaluated for every write, and called for none."""
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    hook = {
        "name": f"hook{number}.example.com",
        "rules": [rule],
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "namespaceSelector": {"matchLabels": {"bench.example.com/asked": f"by-{number}"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    await ask(
        "POST", HOOKS.format("validating"), {"metadata": {"name": f"bench-{number}"}, "webhooks": [hook]}
    )


def _called(sort: str, server: WebhookServer) -> Callable[[Ask, int], Any]:
    """Return a webhook that is called for every ConfigMap; validating ones allow, mutating ones set a label."""
    path = {"validating": "/allow", "mutating": "/label"}[sort]
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    hook = {
        "name": f"{sort}.example.com",
        "rules": [rule],
        "clientConfig": {"url": f"{server.url}{path}", "caBundle": server.bundle},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }

    async def create(ask: Ask, _: int) -> None:
        await ask("POST", HOOKS.format(sort), {"metadata": {"name": "called"}, "webhooks": [hook]})

    return create
