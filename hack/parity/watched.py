"""Finds the collections that a scenario writes to, and tells when a watcher has received everything. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hack.parity.corpus import Step

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer that a server itself removes from a definition once the custom objects are gone."""
WRITES = ("POST", "PUT", "PATCH", "DELETE")
OWN = "/namespaces/{ns}/"
"""Part of the path of collections that only one scenario writes to."""
_NAME = r"[a-z0-9][a-z0-9.-]*"
_PATH = re.compile(
    rf"(?P<version>/api/v1|/apis/{_NAME}/v\w+)"
    rf"(?P<namespace>/namespaces/(?:{_NAME}|{{\w+}})(?=/(?!status\b|finalize\b)))?"
    rf"/(?P<resource>{_NAME})(?:/(?P<name>[^/]+))?(?:/.*)?"
)
_BOUND = {"bindings": "pods"}
"""Resource without objects -> the resource that a request to it changes."""

Event = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """Collection and object that a request writes to. Without a name here, the body names the object."""

    collection: str
    name: str


def target(step: Step) -> Target | None:
    """Return what a step writes to; None if it does not write, or its path is not that of an object or collection."""
    found = _PATH.fullmatch(step.path.partition("?")[0]) if step.verb in WRITES else None
    if found is None:
        return None
    resource = _BOUND.get(found["resource"], found["resource"])
    name = found["name"] or _member(step.body, "metadata", "name")
    return Target(f"{found['version']}{found['namespace'] or ''}/{resource}", name)


def _member(value: Any, part: str, key: str) -> str:
    """Return the text at `part.key` of a value that may be anything; empty if there is none."""
    within = value.get(part) if isinstance(value, dict) else None
    found = within.get(key) if isinstance(within, dict) else None
    return found if isinstance(found, str) else ""


def group(collection: str) -> str:
    """Return the API group in the path of a collection."""
    return collection.split("/")[2] if collection.startswith("/apis/") else ""


@dataclass
class Written:
    """Objects of a collection that a scenario has written.

    Attributes:
        names: their names.
        uids: UIDs that a server's answers contain.
        every: whether every object of the collection belongs to the scenario.
        collected: whether a request deleted the collection. Servers delete its objects in any order.
    """

    names: set[str] = field(default_factory=set)
    uids: set[str] = field(default_factory=set)
    every: bool = False
    collected: bool = False

    def note(self, step: Step, name: str, code: int, body: Any) -> None:
        """Record a request and its answer."""
        if name:
            self.names.add(name)
        elif step.verb == "DELETE":
            self.every = self.collected = True
        if code >= 300 or not isinstance(body, dict) or "dryRun" in step.path:
            return
        if isinstance(step.body, dict) and step.body.get("dryRun"):
            return
        items = body.get("items")
        for each in items if isinstance(items, list) else (body,):
            for part in ("metadata", "details"):
                answered, uid = _member(each, part, "name"), _member(each, part, "uid")
                if answered and uid:
                    self.names.add(answered)
                    self.uids.add(uid)

    def concerns(self, value: Mapping[str, Any]) -> bool:
        """Return whether an object belongs to the scenario."""
        return self.every or value["metadata"].get("name") in self.names


def pending(written: Written, start: int, events: Sequence[Event], listed: Iterable[Any]) -> str:
    """Say what a watcher has not received yet; empty if it has received everything.

    The events must lead to the state that a list shows afterwards: the last event of every listed object has its
    version, and every other object has been deleted.

    Args:
        written: objects that the scenario has written.
        start: resource version from which the watcher has received events.
        events: received events of the scenario's objects, in order.
        listed: the collection's objects after the last request.
    """
    last = {each["object"]["metadata"]["uid"]: each for each in events if each["type"] != "ERROR"}
    left = {each["metadata"]["uid"]: each for each in listed if written.concerns(each)}
    for uid, value in left.items():
        version = int(value["metadata"]["resourceVersion"])
        seen = last.get(uid)
        if version > start and (seen is None or _version(seen) < version):
            return f"version {version} of {value['metadata']['name']}"
        if not settled(value):
            return f"the end of the changes that a server makes to {value['metadata']['name']}"
    for uid in written.uids | last.keys():
        if uid not in left and (uid not in last or last[uid]["type"] != "DELETED"):
            return f"the deletion of the object with uid {uid}"
    return ""


def settled(value: Mapping[str, Any]) -> bool:
    """Return whether a server will not change an object by itself: a definition has been accepted, or it is gone."""
    if value.get("kind", "CustomResourceDefinition") != "CustomResourceDefinition" or "versions" not in (
        value.get("spec") or {}
    ):
        return True
    metadata = value["metadata"]
    if metadata.get("deletionTimestamp"):
        return CLEANUP not in metadata.get("finalizers", ())
    conditions = {
        each["type"]: each["status"] for each in (value.get("status") or {}).get("conditions") or ()
    }
    return conditions.get("Established") == "True" or conditions.get("NamesAccepted") == "False"


def _version(event: Event) -> int:
    return int(event["object"]["metadata"]["resourceVersion"])
