"""Dodging the operator's TenantPolicies: other verbs, versions, subresources, forms of bodies, and objects of the tenant."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hack.attacks.case import DEFAULT, GROUP, JSON_PATCH, MERGE, RBAC, Case, Scene, wrong
from hack.attacks.client import Answer
from vcsync.api.crd import crds
from vcsync.api.resources import TENANT_POLICIES

SECONDS = 60.0
"""Time until a policy must be in force."""
GOOD, BAD = "registry.example.com/team/web:1", "evil.example.com/web:1"
PODS, MAPS = f"{DEFAULT}/pods", f"{DEFAULT}/configmaps"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = f"/apis/{TENANT_POLICIES.group}/{TENANT_POLICIES.version}/{TENANT_POLICIES.plural}"
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
YAML = {"Content-Type": "application/yaml"}
REFUSED = frozenset({400, 403, 404, 405, 409, 415, 422})
FORBIDDEN = frozenset({403})
PLACED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "placed"}, "data": {"a": "operator"}}
SPEC: Mapping[str, Any] = {
    "forbiddenResources": [
        {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses"]},
        {"apiGroups": [""], "resources": ["pods/exec", "pods/attach"]},
    ],
    "requiredLabels": [{"apiGroups": [""], "resources": ["namespaces"], "labels": [{"key": "team"}]}],
    "imageRegistries": ["registry.example.com/team"],
    "podSecurity": {"level": "baseline"},
    "validations": [
        {
            "resourceRules": [
                {
                    "apiGroups": ["apps"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["deployments", "deployments/scale"],
                }
            ],
            "expression": "object.spec.replicas <= 3",
        }
    ],
    "placedObjects": [{"manifest": PLACED}],
}


def cases() -> Sequence[Case]:
    """Try to get around each kind of rule."""
    return [
        *(_attack(f"image {name}", *request) for name, *request in _images()),
        *(_attack(f"security {name}", "POST", PODS, body, None, FORBIDDEN) for name, body in _insecure()),
        *(_attack(f"resource {name}", *request) for name, *request in _resources()),
        *(_attack(f"label {name}", *request) for name, *request in _labels()),
        *(_attack(f"placed {name}", *request) for name, *request in _placed()),
        *(_attack(f"expression {name}", *request) for name, *request in _scales()),
        *(_attack(f"policy {name}", *request) for name, *request in _policies()),
    ]


def _attack(  # noqa: PLR0917 - a request
    name: str,
    method: str,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    wanted: frozenset[int] = REFUSED,
) -> Case:
    def attack(scene: Scene) -> Iterator[str]:
        _prepare(scene)
        yield from wrong(scene.attacker.ask(method, path, body, headers), wanted)
        yield from _weakened(scene)

    return Case(name, attack)


def _prepare(scene: Scene) -> None:
    """Put the attacker's tenant under a policy, and wait until this process enforces it.

    Raises:
        RuntimeError: It is not enforced in time.
    """
    operator, name = scene.world.operator, scene.tenant
    if operator.ask("GET", f"{POLICIES}/{name}").status != 200:
        for each in (each for each in crds() if each["spec"]["names"]["plural"] == TENANT_POLICIES.plural):
            operator.ask("POST", DEFINITIONS, each)
        scene.attacker.ask("POST", f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "default"}})
        spec = {"tenants": {"names": [scene.tenant]}, **SPEC}
        body = {
            "apiVersion": f"{TENANT_POLICIES.group}/{TENANT_POLICIES.version}",
            "kind": TENANT_POLICIES.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        _until(lambda: operator.ask("POST", POLICIES, body), frozenset({201, 409}))
    _until(lambda: scene.attacker.ask("GET", f"{MAPS}/placed"), frozenset({200}))
    for path, body in ((PODS, _pod("kept")), (DEPLOYMENTS, _deployment("kept", 1))):
        _until(lambda path=path, body=body: scene.attacker.ask("POST", path, body), frozenset({201, 409}))
    probe = {"metadata": {"name": "probe"}}
    _until(lambda: scene.attacker.ask("POST", "/api/v1/namespaces?dryRun=All", probe), FORBIDDEN)


def _until(ask: Any, wanted: frozenset[int]) -> Answer:
    until = time.monotonic() + SECONDS
    while True:
        answer: Answer = ask()
        if answer.status in wanted:
            return answer
        if time.monotonic() > until:
            raise RuntimeError(f"the policy is not in force: {answer.status} {answer.message}")
        time.sleep(0.1)


def _weakened(scene: Scene) -> Iterator[str]:
    """Return what an attack has changed."""
    pods = scene.attacker.ask("GET", PODS).json["items"]
    if any(BAD in json.dumps(each) or each["spec"].get("hostNetwork") for each in pods):
        yield f"there is a Pod against the policy: {json.dumps(pods)[:300]}"
    placed = scene.attacker.ask("GET", f"{MAPS}/placed")
    if placed.status != 200 or placed.json["data"] != PLACED["data"]:
        yield f"the placed object is gone or changed: {placed.status} {placed.message[:300]}"


def _pod(name: str, image: str = GOOD, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": image}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, "automountServiceAccountToken": False, **spec},
    }


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": _pod("x")["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def _images() -> Iterator[tuple[Any, ...]]:
    other = {"spec": {"containers": [{"name": "c", "image": BAD}]}}
    applied = {**_pod("kept", BAD)}
    ephemeral = {"spec": {"ephemeralContainers": [{"name": "e", "image": BAD}]}}
    volume = [{"name": "v", "image": {"reference": BAD}}]
    replace = [{"op": "replace", "path": "/spec/containers/0/image", "value": BAD}]
    as_system = {"Impersonate-User": "system:apiserver", "Impersonate-Group": "system:masters"}
    yield "in a Pod", "POST", PODS, _pod("x", BAD), None, FORBIDDEN
    yield "in a dry run", "POST", f"{PODS}?dryRun=All", _pod("x", BAD), None, FORBIDDEN
    yield (
        "with a generated name",
        "POST",
        PODS,
        {**_pod("x", BAD), "metadata": {"generateName": "x"}},
        None,
        FORBIDDEN,
    )
    yield "as YAML", "POST", PODS, json.dumps(_pod("x", BAD)).encode(), YAML, FORBIDDEN
    yield (
        "as protobuf that is none",
        "POST",
        PODS,
        b"k8s\0",
        {"Content-Type": "application/vnd.kubernetes.protobuf"},
    )
    yield "as another user", "POST", PODS, _pod("x", BAD), as_system, FORBIDDEN
    yield "by field validation", "POST", f"{PODS}?fieldValidation=Ignore", _pod("x", BAD), None, FORBIDDEN
    yield "by a strategic patch", "PATCH", f"{PODS}/kept", other, STRATEGIC, FORBIDDEN
    yield "by a merge patch", "PATCH", f"{PODS}/kept", other, MERGE
    yield "by a JSON patch", "PATCH", f"{PODS}/kept", replace, JSON_PATCH, FORBIDDEN
    yield "by apply", "PATCH", f"{PODS}/kept?fieldManager=x&force=true", applied, APPLY, FORBIDDEN
    yield "by apply of a new Pod", "PATCH", f"{PODS}/new?fieldManager=x", _pod("new", BAD), APPLY, FORBIDDEN
    yield (
        "of an ephemeral container",
        "PATCH",
        f"{PODS}/kept/ephemeralcontainers",
        ephemeral,
        STRATEGIC,
        FORBIDDEN,
    )
    yield "by a resize", "PATCH", f"{PODS}/kept/resize", other, STRATEGIC, frozenset({200, *REFUSED})
    yield "by a status", "PATCH", f"{PODS}/kept/status", other, STRATEGIC, frozenset({200, *REFUSED})
    yield (
        "of an init container",
        "POST",
        PODS,
        _pod("x", initContainers=[{"name": "i", "image": BAD}]),
        None,
        FORBIDDEN,
    )
    yield "of a volume", "POST", PODS, _pod("x", volumes=volume), None, FORBIDDEN
    for image in (
        "", "web", "registry.example.com/team@evil.example.com/x", "registry.example.com/team/../x", "registry.example.com/teams/x",
        "registry.example.com.evil.example.com/team/x", "evil.example.com/registry.example.com/team/x", "registry.example.com:1/team/x",
        "registry.example.com/team/x\n", " registry.example.com/team/x", "https://registry.example.com/team/x",
        "registry.example.com//team/x", "registry.example.com/TEAM/x", "registry.example.com/team/\u0435",
    ):  # fmt: skip
        yield f"{image!r}", "POST", PODS, _pod("x", image)


def _insecure() -> Iterator[tuple[str, dict[str, Any]]]:
    privileged = {"name": "c", "image": GOOD, "securityContext": {"privileged": True}}
    yield "of the host's network", _pod("x", hostNetwork=True)
    yield "of the host's processes", _pod("x", hostPID=True)
    yield "of the host's files", _pod("x", volumes=[{"name": "v", "hostPath": {"path": "/"}}])
    yield "of a privileged container", _pod("x", containers=[privileged])
    yield "of a privileged init container", _pod("x", initContainers=[{**privileged, "name": "i"}])
    exempt = _pod("x", hostNetwork=True)
    exempt["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "privileged"}
    yield "with a label of the Pod", exempt


def _resources() -> Iterator[tuple[Any, ...]]:
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "x"},
        "spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}},
    }
    yield "by a creation", "POST", INGRESSES, body, None, FORBIDDEN
    yield "by apply", "PATCH", f"{INGRESSES}/x?fieldManager=x", body, APPLY, FORBIDDEN
    yield "by an update", "PUT", f"{INGRESSES}/x", body
    yield "by a status", "PUT", f"{INGRESSES}/x/status", body
    for path in ("/apis/extensions/v1beta1", "/apis/networking.k8s.io/v1beta1", "/apis/Networking.k8s.io/v1"):
        yield f"at {path}", "POST", f"{path}/namespaces/default/ingresses", body
    for name in ("exec", "attach"):
        for method in ("GET", "POST"):
            yield (
                f"{name} by {method}",
                method,
                f"{PODS}/kept/{name}?command=sh&stdout=1",
                None,
                None,
                FORBIDDEN,
            )


def _labels() -> Iterator[tuple[Any, ...]]:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bare"}}
    other = {**namespace, "metadata": {"name": "bare", "labels": {"Team": "x", "team ": "x"}}}
    yield "left out", "POST", "/api/v1/namespaces", namespace, None, FORBIDDEN
    yield "spelt otherwise", "POST", "/api/v1/namespaces", other
    yield "left out by apply", "PATCH", "/api/v1/namespaces/bare?fieldManager=x", namespace, APPLY, FORBIDDEN
    yield (
        "of a generated name",
        "POST",
        "/api/v1/namespaces",
        {"metadata": {"generateName": "default"}},
        None,
        FORBIDDEN,
    )
    yield (
        "of a prefix",
        "POST",
        "/api/v1/namespaces",
        {"metadata": {"generateName": "kube-"}},
        None,
        FORBIDDEN,
    )


def _placed() -> Iterator[tuple[Any, ...]]:
    path = f"{MAPS}/placed"
    changed = {**PLACED, "data": {"a": "tenant"}}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}
    yield "deleted", "DELETE", path, None, None, FORBIDDEN
    yield "deleted without grace", "DELETE", f"{path}?gracePeriodSeconds=0", None, None, FORBIDDEN
    yield "deleted with all", "DELETE", MAPS, None, None, FORBIDDEN
    yield (
        "deleted by selector",
        "DELETE",
        f"{MAPS}?fieldSelector=metadata.name%3Dplaced",
        None,
        None,
        FORBIDDEN,
    )
    yield "replaced", "PUT", path, changed, None, FORBIDDEN
    yield "patched", "PATCH", path, {"data": {"a": "tenant"}}, MERGE, FORBIDDEN
    yield "patched by JSON", "PATCH", path, [{"op": "remove", "path": "/data"}], JSON_PATCH, FORBIDDEN
    yield "taken over by apply", "PATCH", f"{path}?fieldManager=x&force=true", changed, APPLY, FORBIDDEN
    yield "given an owner", "PATCH", path, {"metadata": {"ownerReferences": [owner]}}, MERGE, FORBIDDEN
    yield (
        "given a finalizer",
        "PATCH",
        path,
        {"metadata": {"finalizers": ["a.example.com/b"]}},
        MERGE,
        FORBIDDEN,
    )
    yield "without its mark", "PATCH", path, {"metadata": {"annotations": None}}, MERGE, FORBIDDEN
    yield "made first", "POST", MAPS, changed


def _scales() -> Iterator[tuple[Any, ...]]:
    path = f"{DEPLOYMENTS}/kept"
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "kept", "namespace": "default"},
        "spec": {"replicas": 9},
    }
    yield "by a creation", "POST", DEPLOYMENTS, _deployment("x", 9), None, FORBIDDEN
    yield "by an update", "PUT", path, _deployment("kept", 9), None, FORBIDDEN
    yield "by a patch", "PATCH", path, {"spec": {"replicas": 9}}, MERGE, FORBIDDEN
    yield "by a scale", "PUT", f"{path}/scale", scale, None, FORBIDDEN
    yield "by a patch of the scale", "PATCH", f"{path}/scale", {"spec": {"replicas": 9}}, MERGE, FORBIDDEN
    yield "by apply of the scale", "PATCH", f"{path}/scale?fieldManager=x&force=true", scale, APPLY, FORBIDDEN


def _policies() -> Iterator[tuple[Any, ...]]:
    """Read or write the operator's policies from a tenant."""
    for prefix in ("", "/tenants/system", "/tenants/all"):
        for method, body in (
            ("GET", None),
            ("DELETE", None),
            ("POST", {"metadata": {"name": "x"}, "spec": {}}),
        ):
            yield f"{method} {prefix}", method, f"{prefix}{POLICIES}", body, None, frozenset({403, 404})
    [definition] = [each for each in crds() if each["spec"]["names"]["plural"] == TENANT_POLICIES.plural]
    # A tenant may define a kind of that name, which nothing reads; the next attacks meet the same policy.
    yield "defined by the tenant", "POST", DEFINITIONS, definition, None, frozenset({201, 409})
    yield (
        "of the tenant",
        "POST",
        POLICIES,
        {"metadata": {"name": "x"}, "spec": {}},
        None,
        frozenset({201, 400, 404, 409}),
    )
    exempt = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    yield "exempt namespace", "PATCH", "/api/v1/namespaces/default", exempt, MERGE, frozenset({200})
    yield "exempt Pod afterwards", "POST", PODS, _pod("x", BAD, hostNetwork=True), None, FORBIDDEN
    yield "as administrator", "POST", f"{RBAC}/clusterrolebindings", {
        "metadata": {"name": "policies"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "mallet"}],
    }, None, frozenset({201, 409})  # fmt: skip
