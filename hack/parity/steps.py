"""Runs a scenario's steps at one server, in order."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from hack.parity.ask import Answer, Side, once
from hack.parity.corpus import WATCH, Scenario, Step
from hack.parity.watching import Watchers

EVENTUALLY_SECONDS = 120.0
POLL_SECONDS = 0.1
GROUPS = (
    "/api/v1",
    "/apis/apps/v1",
    "/apis/batch/v1",
    "/apis/networking.k8s.io/v1",
    "/apis/rbac.authorization.k8s.io/v1",
    "/apis/autoscaling/v2",
    "/apis/policy/v1",
    "/apis/coordination.k8s.io/v1",
    "/apis/discovery.k8s.io/v1",
    "/apis/events.k8s.io/v1",
    "/apis/storage.k8s.io/v1",
    "/apis/resource.k8s.io/v1",
)
"""API versions in whose collections an earlier replay may have left objects."""


def replay(side: Side, scenario: Scenario, variables: Mapping[str, str]) -> Iterator[tuple[Step, Answer]]:
    """Run a scenario's steps in a namespace of its own, then yield the events of the collections written to.

    Args:
        side: the server.
        scenario: whose steps to run.
        variables: initial values of `{...}`.
    """
    namespace = f"parity-{scenario.group}-{scenario.name}".lower()[:60].rstrip("-")
    known = {**variables, "ns": namespace}
    _remove(side, namespace)
    made = once(
        side, Step("namespace", "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}), known
    )
    if made.code != 201:
        raise RuntimeError(f"{side.name}: namespace {namespace}: {made.code} {made.body}")
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    once(side, Step("account", "POST", account, {"metadata": {"name": "default"}}), known)
    watchers = Watchers(side, f"{scenario.group}/{scenario.name}")
    for step in scenario.steps:
        if step.verb == WATCH:
            watchers.watch(step.path, known)
            continue
        watchers.before(step, known)
        answer = _until(side, step, known)
        watchers.after(step, known, answer)
        for variable, path in step.keep.items():
            known[variable] = str(at(answer.body, path))
        yield step, answer
    yield from watchers.finish()


def at(value: Any, path: str) -> Any:
    """Return the value at a path such as `a.b[0].c`; None if it does not exist."""
    for part in path.replace("[", ".[").split("."):
        if part.startswith("["):
            position = int(part[1:-1])
            value = value[position] if isinstance(value, list) and len(value) > position else None
        elif part:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _remove(side: Side, namespace: str) -> None:
    """Remove the objects of an earlier replay, because no controller runs that would empty the namespace."""
    path = f"/api/v1/namespaces/{namespace}"
    found = once(side, Step("leftover", "DELETE", path), {})
    if found.code == 404:
        return
    for group in GROUPS:
        for each in at(once(side, Step("kinds", "GET", group), {}).body, "resources") or ():
            if each["namespaced"] and "deletecollection" in each["verbs"]:
                within = f"{group}/namespaces/{namespace}/{each['name']}"
                _empty(side, within)
    left = once(side, Step("leftover", "GET", path), {}).body
    once(side, Step("leftover", "PUT", f"{path}/finalize", {**left, "spec": {"finalizers": []}}), {})


def _empty(side: Side, collection: str) -> None:
    """Delete all objects of a collection immediately, and remove their finalizers."""
    deleted = once(
        side,
        Step("leftover", "DELETE", f"{collection}?gracePeriodSeconds=0&propagationPolicy=Background"),
        {},
    ).body
    for each in at(deleted, "items") or ():
        metadata = each.get("metadata") or {}
        if metadata.get("finalizers"):
            freed = {"metadata": {"finalizers": None}}
            content = "application/merge-patch+json"
            path = f"{collection}/{metadata['name']}"
            once(side, Step("leftover", "PATCH", path, freed, content=content), {})


def _until(side: Side, step: Step, known: Mapping[str, str]) -> Answer:
    deadline = time.monotonic() + (EVENTUALLY_SECONDS if step.eventually else 0)
    while True:
        answer = once(side, step, known)
        found = answer.body if isinstance(answer.body, dict) else {"code": answer.code}
        reached = all(at(found, path) == value for path, value in step.eventually.items())
        if reached or time.monotonic() > deadline:
            return answer
        time.sleep(POLL_SECONDS)
