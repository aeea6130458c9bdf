"""The requests for one object, as client programs send them, in the form of the parity corpus. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, unquote

from hack.parity.corpus import VERBS
from hack.parity.kinds import APPLY, STRATEGIC, TABLE
from hack.upstream_data.sources import Document
from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema import builtin

GROUP = "upstream-data"
PREFIX = "upstream-data-"
"""Begins the names of cluster-wide objects, which would otherwise be those of the servers' own."""
NAMED_BY_SPEC = ("CustomResourceDefinition", "APIService")
"""Kinds whose names repeat their specs."""
ACTING = frozenset({"admissionregistration.k8s.io", "apiregistration.k8s.io", "flowcontrol.apiserver.k8s.io"})
"""Groups whose objects change how a server treats the requests that follow. They are sent as dry runs only."""
WITH_EXPRESSIONS = (
    "DeviceClass",
    "MutatingAdmissionPolicy",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingWebhookConfiguration",
)
"""Kinds with CEL expressions. Ours lists the findings on them last, so that findings are compared in any order."""
KEPT = ("annotations", "generateName", "labels", "name")
"""Members of metadata that a client sends. Kubernetes' test data has the others, too, with values of no server."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

Step = dict[str, Any]


@cache
def _kinds() -> Mapping[tuple[str, str], Resource]:
    return {(each.api_version, each.kind): each for each in builtin.resources()}


def kind_of(document: Document) -> Resource | None:
    """Return the resource of a document's kind, or None if servers do not serve it by default."""
    return _kinds().get((str(document.content.get("apiVersion")), document.content["kind"]))


def scenario(number: int, document: Document, resource: Resource) -> dict[str, Any]:
    """Return the requests for a document in a namespace of its own."""
    name = re.sub("[^a-z0-9]+", "-", document.source.lower())[-40:].strip("-")
    steps = [_labelled_step(document, *each) for each in _steps(document, resource)]
    if resource.kind in WITH_EXPRESSIONS:
        steps = [{**each, "unordered": "findings on CEL expressions"} for each in steps]
    return {"scenario": f"{number:04}-{name}", "steps": steps}


def _labelled_step(document: Document, what: str, step: Step) -> Step:
    """Name a step by the object, by what it does, and by its verb and path, which allowed.yaml matches."""
    verb = next(each for each in VERBS if each in step)
    return {**step, "label": f"{document.source} {what}: {verb} {step[verb].partition('?')[0]}"}


def sent(document: Document, resource: Resource) -> dict[str, Any]:
    """Return the object as a client sends it to a namespace of its own."""
    content = json.loads(json.dumps(document.content))
    given = content.get("metadata") if isinstance(content.get("metadata"), dict) else {}
    metadata = {key: value for key, value in given.items() if key in KEPT}
    name = metadata.get("name")
    if isinstance(name, str) and resource.kind not in NAMED_BY_SPEC:
        metadata["name"] = name.lower() if resource.namespaced else PREFIX + name.lower()
    return {**content, "metadata": metadata}


def _steps(document: Document, resource: Resource) -> Iterator[tuple[str, Step]]:
    start = "/api" if resource.api_version == "v1" else "/apis"
    inner = "namespaces/{ns}/" if resource.namespaced else ""
    where = f"{start}/{resource.api_version}/{inner}{resource.plural}"
    body = sent(document, resource)
    name = body["metadata"].get("name")
    if "create" not in resource.verbs:
        return
    yield "strict dry run", {"POST": f"{where}?dryRun=All&fieldValidation=Strict", "body": document.content}
    yield "dry run", {"POST": f"{where}?dryRun=All", "body": body}
    if not isinstance(name, str) or "patch" not in resource.verbs:
        return
    name = quote(name, safe=":")
    one = f"{where}/{name}"
    if resource.group in ACTING:
        yield "server-side apply", _apply(f"{one}?fieldManager=applier&dryRun=All", body)
        return
    if not resource.namespaced:
        yield from _removal(one, resource)
    yield "create", {"POST": f"{where}?fieldManager=creator", "body": body}
    table = {"GET": f"{where}?fieldSelector=metadata.name={name}", "headers": {"Accept": TABLE}}
    yield "table", table
    yield "client-side apply", {"PATCH": one, "content": STRATEGIC, "body": _annotated(body)}
    yield "server-side apply", _apply(f"{one}?fieldManager=applier", body)
    yield "forced apply", _apply(f"{one}?fieldManager=applier&force=true", body)
    yield "update", {"PUT": one, "body": _labelled(body)}
    if "status" in resource.subresources and "status" in body:
        yield "update of the status", {"PUT": f"{one}/status", "body": body}
    yield "get", {"GET": one}
    if not resource.namespaced:
        yield from _removal(one, resource)


def _removal(one: str, resource: Resource) -> Iterator[tuple[str, Step]]:
    """Remove an object of all namespaces, which an earlier replay may have left."""
    freed = {"metadata": {"finalizers": None}}
    yield "delete", {"DELETE": f"{one}?gracePeriodSeconds=0", "may_fail": True}
    yield "free", {"PATCH": one, "body": freed, "may_fail": True}
    if "finalize" in resource.subresources:
        name = unquote(one.rpartition("/")[2])
        yield "finalize", {"PUT": f"{one}/finalize", "body": {"metadata": {"name": name}}, "may_fail": True}


def _apply(path: str, body: dict[str, Any]) -> Step:
    return {"PATCH": path, "content": APPLY, "body": body}


def _annotated(body: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the annotation by which `kubectl apply` remembers it."""
    metadata = dict(body["metadata"])
    noted = {LAST_APPLIED: json.dumps(body, separators=(",", ":"))}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **noted}
    return {**body, "metadata": metadata}


def _labelled(body: dict[str, Any]) -> dict[str, Any]:
    metadata = dict(body["metadata"])
    metadata["labels"] = {**(metadata.get("labels") or {}), "by": "update"}
    return {**body, "metadata": metadata}
