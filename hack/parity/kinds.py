"""The same requests for one object of every built-in kind of `kinds.yaml`, as client programs send them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from vcsync.apimachinery.schema import builtin

FILE = Path(__file__).parent / "kinds.yaml"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
NAME = "parity-all"

Step = dict[str, Any]


def scenarios() -> Iterator[dict[str, Any]]:
    """Yield a scenario for each kind, in the form of the corpus files."""
    for entry in yaml.load(FILE.read_text(), Loader=yaml.CSafeLoader):
        group = entry["at"].removeprefix("/apis/").replace("/", "-").replace(".", "-").lstrip("-")
        yield {"scenario": f"{entry['plural']}-{group}", "steps": list(_steps(entry))}


def _steps(entry: dict[str, Any]) -> Iterator[Step]:
    where = f"{entry['at']}/{'' if entry.get('cluster') else 'namespaces/{ns}/'}{entry['plural']}"
    name = entry.get("name", NAME)
    one = f"{where}/{name}"
    body = {"metadata": {"name": name}, **entry["object"]}
    yield {"DELETE": f"{one}?gracePeriodSeconds=0", "may_fail": True}
    if entry["plural"] == "namespaces":
        yield {"PUT": f"{one}/finalize", "body": {"metadata": {"name": name}}, "may_fail": True}
    yield {"POST": f"{where}?fieldValidation=Strict&dryRun=All", "body": {**body, "nonsense": 1}}
    yield {"POST": f"{where}?fieldManager=maker", "body": body, "keep": {"uid": "metadata.uid"}}
    yield {"POST": f"{where}?dryRun=All", "body": body}
    yield {"GET": one, "headers": {"Accept": "application/vnd.kubernetes.protobuf"}}
    selected = f"{where}?fieldSelector=metadata.name={name}"
    yield {"GET": selected, "headers": {"Accept": "application/vnd.kubernetes.protobuf"}}
    yield {"GET": selected, "headers": {"Accept": TABLE}}
    yield {"GET": one, "headers": {"Accept": PARTIAL}}
    yield {"PATCH": one, "body": entry["frozen"]}
    yield {
        "PATCH": one,
        "content": STRATEGIC,
        "body": {"metadata": {"labels": {"by": "strategic"}}},
    }
    yield _applied(entry, one, name)
    if "status" in entry:
        status = {"status": entry["status"], "metadata": {"labels": {"by": "status"}}}
        yield {"PATCH": f"{one}/status?fieldManager=tell", "body": status}
        yield {"GET": f"{one}/status"}
    labelled = {**body, "metadata": {"name": name, "labels": {"by": "put"}}}
    yield {"PUT": one, "body": labelled}
    yield {"PUT": one, "body": {**labelled, "metadata": {**labelled["metadata"], "resourceVersion": "1"}}}
    yield {"GET": one}
    yield {"DELETE": one, "body": _options(preconditions={"uid": "other"})}
    yield {"DELETE": f"{one}?dryRun=All", "body": _options(preconditions={"uid": "{uid}"})}
    yield {"DELETE": one, "body": _options(gracePeriodSeconds=0, preconditions={"uid": "{uid}"})}
    yield {"GET": one}


def _applied(entry: dict[str, Any], one: str, name: str) -> Step:
    group = entry["at"].removeprefix("/apis/").removeprefix("/api/")
    kind = next(
        each.kind
        for each in builtin.resources()
        if (each.api_version, each.plural) == (group, entry["plural"])
    )
    metadata = {"name": name, "annotations": {"by": "apply"}}
    return {
        "PATCH": f"{one}?fieldManager=applier",
        "content": APPLY,
        "body": {"apiVersion": group, "kind": kind, "metadata": metadata},
    }


def _options(**members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "DeleteOptions", **members}
