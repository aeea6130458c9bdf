"""The requests of `bodies.yaml` under every apiVersion and kind that a client might send.

Typed clients send options with the apiVersion of their own group, and subresources accept several versions of a kind.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parent / "bodies.yaml"
GROUP = "bodies.example.com"
VERSIONS = (
    "", "v1", "v7", "nope", "apps/v1", "meta.k8s.io/v1", "policy/v1", "policy/v1beta1", "autoscaling/v1", "autoscaling/v2",
    "extensions/v1beta1", "apps/v1beta1", "apps/v1beta2", "authentication.k8s.io/v1", "authorization.k8s.io/v1",
    f"{GROUP}/v1", f"{GROUP}/v9", "other.example.org/v1", "other.example.org/", "/v1", "a/b/c", 7,
)  # fmt: skip
KINDS = ("Status", "Pod", "Foo", "CreateOptions", "List", "Thing", "", 7)
"""Kinds besides the right one."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    "subresources": {"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
}
DEFINITION = {
    "metadata": {"name": f"things.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"kind": "Thing", "plural": "things"},
        "scope": "Namespaced",
        "versions": [VERSION],
    },
}
CONTAINERS = [{"name": "c", "image": "i"}]
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}
OBJECTS: dict[str, dict[str, Any]] = {
    "things": {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "spec": {"n": 1}},
    "configmaps": {},
    "pods": {"spec": {"containers": CONTAINERS}},
    "deployments": {"spec": {"replicas": 0, "template": TEMPLATE, "selector": {"matchLabels": {"a": "b"}}}},
    "replicationcontrollers": {"spec": {"replicas": 0, "template": TEMPLATE}},
}
"""Resource -> the object `one` that exists before the requests."""

Step = dict[str, Any]


def scenarios() -> Iterator[dict[str, Any]]:
    """Yield a scenario for each request, in the form of the corpus files."""
    for entry in yaml.load(FILE.read_text(), Loader=yaml.CSafeLoader):
        verb = next(verb for verb in ("DELETE", "POST", "PUT") if verb in entry)
        steps = [*_objects(entry[verb]), *_steps(entry, verb)]
        yield {"scenario": entry["name"], "steps": steps}


def _objects(path: str) -> Iterator[Step]:
    """Create what a request concerns."""
    if GROUP in path:
        yield {"POST": DEFINITIONS, "body": DEFINITION, "may_fail": True}
        served = {"kind": "ThingList"}
        yield {"GET": f"/apis/{GROUP}/v1/things", "eventually": served, "may_fail": True}
    for resource, content in OBJECTS.items():
        before, found, _ = path.partition(f"/{resource}")
        if found:
            yield {"POST": before + found, "body": {"metadata": {"name": "one"}, **content}}


def _steps(entry: dict[str, Any], verb: str) -> Iterator[Step]:
    kind, version = entry["kind"], entry["apiVersion"]
    headers: list[dict[str, Any]] = [{}, {"kind": kind}, {"apiVersion": version, "kind": kind}]
    headers += [{"kind": other} for other in KINDS]
    headers += [{"apiVersion": version, "kind": other} for other in KINDS]
    headers += [{"apiVersion": other} for other in VERSIONS]
    headers += [{"apiVersion": other, "kind": kind} for other in VERSIONS]
    headers += [{"apiVersion": other, "kind": "Status"} for other in ("v7", f"{GROUP}/v9", "apps/v1")]
    for header in headers:
        body, label = {**header, **entry["members"]}, json.dumps(header)
        yield {verb: entry[verb], "raw": json.dumps(body), "label": label}
        if header.get("kind") == kind:
            yaml_body = yaml.safe_dump(body)
            yield {
                verb: entry[verb],
                "raw": yaml_body,
                "content": "application/yaml",
                "label": f"{label} in YAML",
            }
