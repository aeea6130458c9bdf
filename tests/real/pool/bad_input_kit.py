"""Helpers for the tests of bad input: policies that refuse objects, an unaffected tenant, counts of requests."""

from __future__ import annotations

import re
import uuid
from typing import Any

from pool_kit import Json, Space, pod

from hack.testbed import Cluster
from vcsync.api import names

REFUSE = "example.com/refuse"
"""Label that the super clusters' admission refuses."""
CALM_SECONDS = 6.0
"""Seconds for which a bad state is checked for repeated requests."""

_SAMPLE = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def policies() -> list[Json]:
    """Return ValidatingAdmissionPolicies and bindings that refuse ConfigMaps and Pods with label `REFUSE`."""
    return [
        body
        for resource, reason in (("configmaps", "Invalid"), ("pods", "Forbidden"))
        for body in _policy(resource, reason)
    ]


def _policy(resource: str, reason: str) -> list[Json]:
    name = f"refuse-{resource}"
    version = "admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource],
    }
    validation: dict[str, Any] = {
        "expression": f"!('{REFUSE}' in object.metadata.?labels.orValue({{}}))",
        "message": f"label {REFUSE} is not allowed here",
        "reason": reason,
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [validation],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": spec,
        },
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": binding,
        },
    ]


def refuses(cluster: Cluster, plural: str) -> bool:
    """Return whether the policy is in effect, which API servers reach with a delay."""
    body: Json = pod("probe", labels={REFUSE: "yes"})
    if plural == "configmaps":
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": body["metadata"]}
    code, answer = cluster.call("POST", f"/api/v1/namespaces/default/{plural}?dryRun=All", body)
    return code in (403, 422) and REFUSE in answer["message"]


def make(space: Space, slice_annotation: str) -> None:
    """Create a space's namespace with any slice annotation; faster than with kubectl."""
    metadata = {"name": space.name, "annotations": {names.SLICE: slice_annotation}}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    code, answer = space.tenant.call("POST", "/api/v1/namespaces", body, 30)
    assert code == 201, answer


def remove(space: Space) -> None:
    """Delete a space's namespace; does not wait."""
    space.tenant.call("DELETE", f"/api/v1/namespaces/{space.name}")


def post(space: Space, plural: str, body: Json) -> Json:
    """Create an object without the annotation that `kubectl apply` adds."""
    code, answer = space.tenant.call("POST", f"/api/v1/namespaces/{space.name}/{plural}", body, 30)
    assert code == 201, answer
    return dict(answer)


def writes(
    cluster: Cluster, *resources: str, verbs: tuple[str, ...] = ("POST", "PATCH", "PUT"), code: str = ""
) -> int:
    """Return the number of requests at an API server, from its own metrics.

    Args:
        cluster: of the API server.
        resources: plurals; "" for all.
        verbs: as named in metrics.
        code: count only answers with this status code; empty: all.
    """
    total = 0.0
    for sample in _SAMPLE.finditer(cluster.kubectl("get", "--raw", "/metrics")):
        labels = dict(_LABEL.findall(sample["labels"]))
        if labels["verb"] == "DELETE" and labels["scope"] != "resource":
            continue  # of collections: a namespace that somebody else has deleted is being emptied
        wanted = "" in resources or labels["resource"] in resources
        if wanted and labels["verb"] in verbs and code in ("", labels["code"]):
            total += float(sample["value"])
    return int(total)


class Neighbour:
    """Another tenant's namespace, which must be served while the first tenant has trouble."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def runs_a_pod(self) -> None:
        """Create a Pod, wait until it runs, and delete it."""
        name = f"neighbour-{uuid.uuid4().hex[:6]}"
        post(self._space, "pods", pod(name))
        self._space.running(name)
        self._space.tenant.call("DELETE", f"/api/v1/namespaces/{self._space.name}/pods/{name}")
