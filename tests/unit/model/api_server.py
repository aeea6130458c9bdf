"""An API server in memory with what the lock of a Pod depends on: versions, preconditions, finalizers, graceful deletion."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from vcsync.kube.errors import AlreadyExists, Conflict, NotFound, Status, StatusDetails
from vcsync.kube.resources import PODS, Resource
from vcsync.objects.envelope import Envelope, parse
from vcsync.objects.merge_patch import merge_patch

Body = dict[str, Any]
Key = tuple[str, str, str]
"""(plural, namespace, name)."""

NOW = "2026-01-01T00:00:00Z"
TERMINAL = ("Succeeded", "Failed")
_DEFAULT_GRACE = 30


class Event(NamedTuple):
    """A change of one object: its body before and after, None for none, and its envelope in the version of the change."""

    plural: str
    before: Body | None
    after: Body | None
    envelope: Envelope


class ApiServer:
    """One API server. Bodies are never edited in place: each write stores a new one.

    Attributes:
        name: endpoint of its clients.
        log: all changes, in order. Watches read it.
        admit: called with verb (`create`, `update` or `delete`), the resource, the body and the caller before each write;
            raises to refuse it.
        written: called with each event after it is in the log.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.objects: dict[Key, Body] = {}
        self.log: list[Event] = []
        self.admit: list[Callable[[str, Resource, Body, str], None]] = []
        self.written: list[Callable[[Event], None]] = []
        self._numbers = itertools.count(1)
        self.version = 100

    # Reads

    def find(self, resource: Resource, name: str, namespace: str = "") -> Body | None:
        return self.objects.get((resource.plural, namespace, name))

    def every(self, resource: Resource) -> Iterator[Body]:
        return iter([body for key, body in self.objects.items() if key[0] == resource.plural])

    def get(self, resource: Resource, name: str, namespace: str = "") -> Envelope:
        return envelope(self._stored(resource, name, namespace))

    # Writes

    def create(
        self, resource: Resource, body: Mapping[str, Any], namespace: str = "", who: str = ""
    ) -> Envelope:
        name = body["metadata"]["name"]
        if (resource.plural, namespace, name) in self.objects:
            raise AlreadyExists(self._status(409, "AlreadyExists", name), endpoint=self.name)
        metadata = {**body["metadata"], "uid": f"{self.name}-{next(self._numbers)}", "creationTimestamp": NOW}
        if namespace:
            metadata["namespace"] = namespace
        created = {**body, "metadata": {**metadata, "generation": 1}}
        if resource == PODS:
            created["status"] = {"phase": "Pending", "qosClass": "Burstable"}
        for admit in self.admit:
            admit("create", resource, created, who)
        return self._put(resource, None, created)

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        kind: str = "merge",
        subresource: str = "",
        who: str = "",
    ) -> Envelope:
        found = self._stored(resource, name, namespace)
        self._require(found, patch.get("metadata", {}))
        if subresource == "boundstatus":
            self._require_unbound(found, patch["spec"]["nodeName"])
        parts = {"": found.keys() | patch.keys() - {"status"}, "status": {"status"}}
        allowed = {"metadata", *parts.get(subresource, {"status", "spec"})}
        if not subresource:
            allowed.discard("status")
        change = {field: value for field, value in patch.items() if field in allowed}
        changed = (merge_patch if kind == "merge" else strategic)(found, change)
        if subresource == "boundstatus":
            changed = _scheduled(changed)
        return self._update(resource, found, changed, who)

    def bind(self, body: Mapping[str, Any], namespace: str, name: str, who: str = "") -> None:
        """Set the node of a Pod by a Binding, whose UID and version are preconditions."""
        found = self._stored(PODS, name, namespace)
        self._require(found, body.get("metadata", {}))
        node = body["target"]["name"]
        self._require_unbound(found, node)
        self._update(PODS, found, _scheduled({**found, "spec": {**found["spec"], "nodeName": node}}), who)

    def evict(self, body: Mapping[str, Any], namespace: str, name: str, who: str = "") -> None:
        """Delete a Pod gracefully. No budget refuses it."""
        wanted = body["deleteOptions"].get("preconditions", {})
        self.delete(PODS, name, namespace, uid=wanted.get("uid"), who=f"eviction by {who}")

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        who: str = "",
        **_: object,
    ) -> Envelope | None:
        """Delete an object. A Pod with a node gets its grace period, one without ends at once, as in kube-apiserver.

        Returns:
            What is left of it; None if it is gone.
        """
        found = self._stored(resource, name, namespace)
        wanted = {"uid": uid, "resourceVersion": resource_version}
        self._require(found, {key: value for key, value in wanted.items() if value is not None})
        for admit in self.admit:
            admit("delete", resource, found, who)
        metadata = found["metadata"]
        grace = _grace(found, grace_seconds) if resource == PODS else 0
        if "deletionTimestamp" in metadata:
            grace = min(grace, metadata.get("deletionGracePeriodSeconds", grace))
        if grace == 0 and not metadata.get("finalizers"):
            self._remove(resource, found)
            return None
        change: Body = {"deletionTimestamp": NOW}
        if resource == PODS:
            change["deletionGracePeriodSeconds"] = grace
        return self._update(resource, found, merge_patch(found, {"metadata": change}), who)

    def put(self, resource: Resource, changed: Body) -> Envelope:
        """Store a new version of an object that exists, regardless of all rules."""
        metadata = changed["metadata"]
        found = self.objects[resource.plural, metadata.get("namespace", ""), metadata["name"]]
        return self._put(resource, found, changed)

    # Parts

    def _update(self, resource: Resource, found: Body, changed: Body, who: str) -> Envelope:
        if changed == found:
            return envelope(found)
        for admit in self.admit:
            admit("update", resource, changed, who)
        metadata = changed["metadata"]
        if changed.get("spec") != found.get("spec"):
            metadata = {**metadata, "generation": metadata["generation"] + 1}
        ends = "deletionTimestamp" in metadata and not metadata.get("finalizers")
        if ends and metadata.get("deletionGracePeriodSeconds", 0) == 0:
            return self._remove(resource, {**changed, "metadata": metadata})
        return self._put(resource, found, {**changed, "metadata": metadata})

    def _put(self, resource: Resource, before: Body | None, after: Body) -> Envelope:
        self.version += 1
        after = {**after, "metadata": {**after["metadata"], "resourceVersion": str(self.version)}}
        metadata = after["metadata"]
        self.objects[resource.plural, metadata.get("namespace", ""), metadata["name"]] = after
        return self._note(Event(resource.plural, before, after, envelope(after)))

    def _remove(self, resource: Resource, found: Body) -> Envelope:
        self.version += 1
        metadata = {**found["metadata"], "resourceVersion": str(self.version)}
        del self.objects[resource.plural, metadata.get("namespace", ""), metadata["name"]]
        return self._note(Event(resource.plural, found, None, envelope({**found, "metadata": metadata})))

    def _note(self, event: Event) -> Envelope:
        self.log.append(event)
        for written in self.written:
            written(event)
        return event.envelope

    def _stored(self, resource: Resource, name: str, namespace: str) -> Body:
        found = self.objects.get((resource.plural, namespace, name))
        if found is None:
            raise NotFound(self._status(404, "NotFound", name), endpoint=self.name)
        return found

    def _require(self, found: Body, wanted: Mapping[str, Any]) -> None:
        for field in ("uid", "resourceVersion"):
            if wanted.get(field, found["metadata"][field]) != found["metadata"][field]:
                raise self._conflict(f"{field} of {found['metadata']['name']} is another one")

    def _require_unbound(self, found: Body, node: str) -> None:
        if found["spec"].get("nodeName"):
            raise self._conflict(f"it is already assigned to {found['spec']['nodeName']}, and not to {node}")
        if "deletionTimestamp" in found["metadata"]:
            raise self._conflict("it is being deleted, and cannot be assigned to a host")

    def _conflict(self, message: str) -> Conflict:
        return Conflict(self._status(409, "Conflict", message), endpoint=self.name)

    def _status(self, code: int, reason: str, message: str) -> Status:
        return Status(code, reason, message, StatusDetails(name=message))


def envelope(body: Body) -> Envelope:
    return parse(msgspec.json.encode(body))


def strategic(target: Any, patch: Any, field: str = "") -> Any:
    """Apply a strategic merge patch, as far as the status of Pods needs it."""
    if field == "conditions" and isinstance(patch, list):
        found = {each["type"]: each for each in target or []}
        for each in patch:
            found[each["type"]] = {**found.get(each["type"], {}), **each}
        return list(found.values())
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = strategic(merged.get(key), value, key)
    return merged


def has_ended(pod: Body) -> bool:
    return pod.get("status", {}).get("phase") in TERMINAL


def _scheduled(pod: Body) -> Body:
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW}
    others = [each for each in pod["status"].get("conditions", []) if each["type"] != "PodScheduled"]
    return {**pod, "status": {**pod["status"], "conditions": [*others, condition]}}


def _grace(pod: Body, asked: int | None) -> int:
    """Return the grace period of a Pod's deletion (`CheckGracefulDelete` of kube-apiserver's Pod strategy)."""
    if not pod["spec"].get("nodeName") or has_ended(pod):
        return 0
    if asked is None:
        asked = pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE)
    return 1 if asked < 0 else asked
