"""Classes that operators publish reach tenants on real API servers, follow every change, and mean what they say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from pool_kit import Json, Pool, Space, annotation, pod, read

from hack.testbed.classes import device_class
from tests.real.waiting import eventually
from vcsync.api import names

NETWORKING = "networking.k8s.io/v1"
DEFAULT_INGRESS = "ingressclass.kubernetes.io/is-default-class"


def ingress_class(name: str, *, public: bool = True, default: bool = False) -> Json:
    parameters = {"apiGroup": "example.com", "kind": "Controller", "name": "internal-settings"}
    return made(
        NETWORKING,
        "IngressClass",
        name,
        public=public,
        annotations={DEFAULT_INGRESS: "true"} if default else {},
        spec={"controller": "example.com/operators-own", "parameters": parameters},
    )


def priority_class(name: str, value: int = 1000, *, public: bool = True, **fields: Any) -> Json:
    return made("scheduling.k8s.io/v1", "PriorityClass", name, public=public, value=value, **fields)


def runtime_class(name: str, handler: str = "runsc", *, public: bool = True, **fields: Any) -> Json:
    return made("node.k8s.io/v1", "RuntimeClass", name, public=public, handler=handler, **fields)


def made(
    api_version: str,
    kind: str,
    name: str,
    *,
    public: bool = True,
    annotations: dict[str, str] | None = None,
    **content: Any,
) -> Json:
    """Return an object of an operator."""
    labels = {names.SUPER_PUBLIC: names.TRUE} if public else {}
    metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


@contextmanager
def at(pool: Pool, super_id: str, body: Json) -> Iterator[None]:
    """Create an object in a super cluster as its operator, until the block ends."""
    cluster = pool.supers[super_id]
    cluster.kubectl("apply", "-f", "-", input=json.dumps(body))
    try:
        yield
    finally:
        cluster.kubectl("delete", body["kind"], body["metadata"]["name"], "--ignore-not-found")


@contextmanager
def everywhere(pool: Pool, *bodies: Json) -> Iterator[None]:
    """Create objects in each super cluster, until the block ends."""
    with ExitStack() as stack:
        for super_id in pool.supers:
            for body in bodies:
                stack.enter_context(at(pool, super_id, body))
        yield


def path(body: Json) -> str:
    plural = body["kind"].lower() + "es"
    return f"/apis/{body['apiVersion']}/{plural}/{body['metadata']['name']}"


def seen(space: Space, body: Json) -> Json | None:
    """Return the tenant's object with the name of an operator's."""
    return read(space.tenant, path(body))


def publishers(space: Space, body: Json) -> str | None:
    """Return the super clusters that an object in the tenant names; None if it does not exist."""
    return annotation(seen(space, body), names.PUBLISHED_BY)


def label(pool: Pool, super_id: str, body: Json, value: str) -> None:
    arguments = ("label", body["kind"], body["metadata"]["name"], "--overwrite")
    pool.supers[super_id].kubectl(*arguments, f"{names.SUPER_PUBLIC}{value}")


def restart_namespace_scheduler(pool: Pool) -> None:
    pool.system.kill("nsscheduler")
    pool.system.start("nsscheduler")


def hidden_events(space: Space, uid: str) -> list[Json]:
    about = f"involvedObject.uid%3D{uid},reason%3DHidden"
    found = read(space.tenant, f"/api/v1/namespaces/default/events?fieldSelector={about}")
    events: list[Json] = (found or {}).get("items", [])
    return events


OPERATORS = [
    ingress_class("shared"),
    priority_class("shared"),
    runtime_class("shared"),
    device_class("shared"),
]
"""One class of each kind."""
OWN = {
    "IngressClass": {"spec": {"controller": "example.com/tenants-own"}},
    "PriorityClass": {"value": 5},
    "RuntimeClass": {"handler": "own"},
    "DeviceClass": {"spec": {}},
}
"""The content of a class of the tenant's own, by kind."""

each_kind = pytest.mark.parametrize("body", OPERATORS, ids=lambda each: each["kind"])


@each_kind
def test_a_class_comes_changes_and_goes_with_the_pool(pool: Pool, space: Space, body: Json) -> None:
    with at(pool, "r1", body):
        eventually(lambda: publishers(space, body) == "r1")
        with at(pool, "r2", body):
            eventually(lambda: publishers(space, body) == "r1,r2")
            label(pool, "r1", body, "-")
            eventually(lambda: publishers(space, body) == "r2")
            label(pool, "r1", body, "=true")
            eventually(lambda: publishers(space, body) == "r1,r2")
        eventually(lambda: publishers(space, body) == "r1")
    eventually(lambda: seen(space, body) is None)


@each_kind
def test_what_the_tenant_deletes_or_changes_comes_back(pool: Pool, space: Space, body: Json) -> None:
    kind, name = body["kind"], body["metadata"]["name"]
    with everywhere(pool, body):
        eventually(lambda: publishers(space, body) == "r1,r2")
        space.kubectl("delete", kind, name)
        eventually(lambda: publishers(space, body) == "r1,r2")
        space.kubectl("annotate", kind, name, "--overwrite", f"{names.PUBLISHED_BY}=elsewhere")
        eventually(lambda: publishers(space, body) == "r1,r2")
    eventually(lambda: seen(space, body) is None)


@each_kind
def test_what_changes_while_the_scheduler_is_down_is_caught_up(pool: Pool, space: Space, body: Json) -> None:
    with at(pool, "r1", body):
        eventually(lambda: publishers(space, body) == "r1")
        pool.system.kill("nsscheduler")
        label(pool, "r1", body, "-")
        pool.system.start("nsscheduler")
        eventually(lambda: seen(space, body) is None)
        pool.system.kill("syncer-r1")
        label(pool, "r1", body, "=true")
        pool.system.start("syncer-r1")
        eventually(lambda: publishers(space, body) == "r1")
    eventually(lambda: seen(space, body) is None)


@each_kind
def test_a_tenants_own_class_stays_and_is_told_that_it_hides_one(
    pool: Pool, space: Space, body: Json
) -> None:
    own = {**body, "metadata": {"name": body["metadata"]["name"]}, **OWN[body["kind"]]}
    space.apply(own)
    uid = (seen(space, body) or {})["metadata"]["uid"]
    with everywhere(pool, body):
        [event] = eventually(lambda: hidden_events(space, uid))
        assert event["involvedObject"]["kind"] == body["kind"]
        assert "your operator publishes" in event["message"]
        assert (seen(space, body) or {})["metadata"]["uid"] == uid
        assert publishers(space, body) is None
        space.kubectl("delete", body["kind"], body["metadata"]["name"])
        restart_namespace_scheduler(pool)
        eventually(lambda: publishers(space, body) == "r1,r2")
    eventually(lambda: seen(space, body) is None)


# --- IngressClasses


def ingress(name: str, **spec: Any) -> Json:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    rules = [{"host": f"{name}-{id(spec)}.example.com", "http": {"paths": paths}}]
    return {
        "apiVersion": NETWORKING,
        "kind": "Ingress",
        "metadata": {"name": name},
        "spec": {"rules": rules, **spec},
    }


def class_below(space: Space, super_id: str, name: str) -> str | None:
    """Return the class of the copy of an Ingress, "" if it has none; None if there is no copy."""
    found = space.there(super_id, "ingresses", name, NETWORKING)
    return None if found is None else str(found["spec"].get("ingressClassName", ""))


def test_the_tenants_ingress_class_hides_the_operators_controller(pool: Pool, space: Space) -> None:
    body = ingress_class("web")
    with everywhere(pool, body, ingress_class("private", public=False)):
        eventually(lambda: publishers(space, body) == "r1,r2")
        found = seen(space, body)
        assert found is not None
        assert found["spec"] == {"controller": names.INGRESS_CONTROLLER}
        assert "internal-settings" not in json.dumps(found)
        assert seen(space, ingress_class("private")) is None


def test_the_default_class_is_that_of_new_ingresses(pool: Pool, space: Space) -> None:
    body = ingress_class("usual", default=True)
    with everywhere(pool, body):
        eventually(lambda: publishers(space, body) == "r1,r2")
        space.apply(ingress("web"))
        assert (space.get("ingresses", "web", NETWORKING) or {})["spec"]["ingressClassName"] == "usual"
        eventually(lambda: [class_below(space, each, "web") for each in ("r1", "r2")] == ["usual", "usual"])


def test_a_super_cluster_without_the_class_says_so(pool: Pool, space: Space) -> None:
    body = ingress_class("only-here")
    with at(pool, "r1", body):
        eventually(lambda: publishers(space, body) == "r1")
        space.apply(ingress("web", ingressClassName="only-here"))
        eventually(lambda: class_below(space, "r1", "web") == "only-here")
        [event] = eventually(lambda: space.events("web", "ClassNotOffered"))
        assert "only-here is not offered to tenants by super cluster r2" in event["message"]
        assert class_below(space, "r2", "web") is None
        with at(pool, "r2", body):
            eventually(lambda: class_below(space, "r2", "web") == "only-here")


# --- PriorityClasses


def priority_below(space: Space, name: str) -> tuple[Any, ...]:
    """Return class, priority and preemption of the copy of a Pod in r1."""
    space.running(name)
    spec = (space.there("r1", "pods", name) or {})["spec"]
    return spec.get("priorityClassName"), spec["priority"], spec["preemptionPolicy"]


def test_a_pod_gets_the_priority_that_the_operator_publishes(pool: Pool, space: Space) -> None:
    body = priority_class("high", preemptionPolicy="Never")
    with everywhere(pool, body):
        eventually(lambda: publishers(space, body) == "r1,r2")
        found = seen(space, body)
        assert found is not None
        assert (found["value"], found["preemptionPolicy"]) == (1000, "Never")
        space.apply(pod("web", on="r1", priorityClassName="high"))
        assert priority_below(space, "web") == ("high", 1000, "Never")
        assert (space.get("pods", "web") or {})["spec"]["priority"] == 1000
        uid = (space.there("r1", "pods", "web") or {})["metadata"]["uid"]
        label(pool, "r1", body, "-")
        eventually(lambda: publishers(space, body) == "r2")
        space.apply(pod("later", on="r1", priorityClassName="high"))
        assert priority_below(space, "later") == (None, 0, "PreemptLowerPriority")
        assert (space.there("r1", "pods", "web") or {})["metadata"]["uid"] == uid, "Pods keep their priority"


def test_a_tenant_gets_no_priority_that_is_not_published(pool: Pool, space: Space) -> None:
    own = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "operators"}}
    forged = {**own, "metadata": {"name": "forged", "labels": {names.SUPER_PUBLIC: names.TRUE}}}
    system = "system-cluster-critical"
    public_system = ("label", "priorityclass", system, "--overwrite")
    space.apply({**own, "value": 1_000_000_000}, {**forged, "value": 1_000_000_000})
    pool.supers["r1"].kubectl(*public_system, f"{names.SUPER_PUBLIC}=true")
    try:
        with everywhere(pool, priority_class("operators", public=False)):
            for name in ("operators", "forged", system):
                space.apply(pod(name, on="r1", priorityClassName=name))
                assert priority_below(space, name) == (None, 0, "PreemptLowerPriority")
            found = read(space.tenant, f"/apis/scheduling.k8s.io/v1/priorityclasses/{system}") or {}
            assert annotation(found, names.PUBLISHED_BY) is None
    finally:
        pool.supers["r1"].kubectl(*public_system[:-1], f"{names.SUPER_PUBLIC}-")
        space.kubectl("delete", "priorityclass", "operators", "forged")


def test_another_value_of_the_operator_reaches_tenants(pool: Pool, space: Space) -> None:
    with at(pool, "r1", priority_class("medium", 10)):
        eventually(lambda: publishers(space, priority_class("medium")) == "r1")
        pool.supers["r1"].kubectl("delete", "priorityclass", "medium")
        pool.supers["r1"].kubectl("apply", "-f", "-", input=json.dumps(priority_class("medium", 20)))
        eventually(lambda: (seen(space, priority_class("medium")) or {}).get("value") == 20)


# --- RuntimeClasses


def runtime_below(space: Space, super_id: str, name: str) -> str | None:
    """Return the RuntimeClass of the copy of a Pod."""
    space.running(name)
    found: str | None = (space.there(super_id, "pods", name) or {})["spec"].get("runtimeClassName")
    return found


def reason(space: Space, name: str, text: str) -> str:
    """Wait for an Event about a Pod that contains a text, and return its message."""

    def found() -> str:
        return next((each["message"] for each in space.events(name) if text in each["message"]), "")

    return eventually(found)


def test_a_pod_runs_where_its_runtime_class_is_published(pool: Pool, space: Space) -> None:
    overhead = {"podFixed": {"cpu": "20m"}}
    nodes = {"nodeSelector": {"kubernetes.io/os": "linux"}}
    body = runtime_class("sandboxed", overhead=overhead, scheduling=nodes)
    with at(pool, "r2", body):
        eventually(lambda: publishers(space, body) == "r2")
        found = seen(space, body)
        assert found is not None
        assert (found["handler"], found["overhead"]) == (names.RUNTIME_HANDLER, overhead)
        assert "scheduling" not in found
        for number in range(2):
            space.apply(pod(f"web-{number}", runtimeClassName="sandboxed"))
            assert runtime_below(space, "r2", f"web-{number}") == "sandboxed"
        assert (space.there("r2", "pods", "web-0") or {})["spec"]["overhead"] == overhead["podFixed"]
        space.apply(pod("elsewhere", on="r1", runtimeClassName="sandboxed"))
        message = reason(space, "elsewhere", "does not publish RuntimeClass sandboxed")
        assert "r1: does not publish RuntimeClass sandboxed" in message
        assert space.there("r1", "pods", "elsewhere") is None
        with at(pool, "r1", body):
            assert runtime_below(space, "r1", "elsewhere") == "sandboxed"


def test_a_runtime_class_that_is_not_published_is_refused(pool: Pool, space: Space) -> None:
    own = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "own"},
        "handler": "special",
    }
    body = runtime_class("operators", "special", public=False)
    space.apply(own)
    try:
        with everywhere(pool, body):
            space.apply(pod("web", on="r1", runtimeClassName="own"))
            reason(space, "web", "publishes no RuntimeClass for it")
            assert space.there("r1", "pods", "web") is None
            label(pool, "r1", body, "=true")
            assert runtime_below(space, "r1", "web") == "operators"
    finally:
        space.kubectl("delete", "runtimeclass", "own")
