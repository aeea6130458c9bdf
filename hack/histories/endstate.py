"""The parts of a workload that must be equal under any controllers: without names, times and random counts. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hack.histories.stories import NAME
from vcsync.kube.resources import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from vcsync.objects.envelope import Envelope, to_dict

WATCHED = (
    DEPLOYMENTS,
    STATEFUL_SETS,
    JOBS,
    REPLICA_SETS,
    CONTROLLER_REVISIONS,
    PODS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
)
REVISION_ANNOTATIONS = "deployment.kubernetes.io/"
POD_LABELS = ("pod-template-hash", "controller-revision-hash", "batch.kubernetes.io/job-completion-index")
POD_NAME = re.compile(rf"\b{NAME}-[bcdfghjklmnpqrstvwxz2456789]{{5}}\b")
FINISHED = frozenset({"Succeeded", "Failed"})
TIMES = frozenset({"startTime", "completionTime"})

State = dict[str, list[Any]]


def state(objects: Mapping[Resource, Iterable[Envelope]]) -> State:
    """Return the comparable parts of a namespace's objects; the template's image replaces its hash."""
    describe = {
        DEPLOYMENTS: _workload,
        STATEFUL_SETS: _workload,
        JOBS: _workload,
        REPLICA_SETS: _replica_set,
        CONTROLLER_REVISIONS: lambda body: {"name": body["metadata"]["name"], "revision": body["revision"]},
        PODS: _pod,
        PERSISTENT_VOLUME_CLAIMS: _claim,
        PERSISTENT_VOLUMES: _volume,
    }
    images = _images(objects)
    return {
        resource.plural: sorted(
            (_renamed(describe[resource](to_dict(each)), images) for each in objects.get(resource, ())),
            key=repr,
        )
        for resource in WATCHED
    }


def _images(objects: Mapping[Resource, Iterable[Envelope]]) -> dict[str, str]:
    """Return the images of templates by their hashes: different hash functions are allowed."""
    found: dict[str, str] = {}
    for resource, path in ((REPLICA_SETS, ("spec",)), (CONTROLLER_REVISIONS, ("data", "spec"))):
        for each in objects.get(resource, ()):
            body = to_dict(each)
            for name in path:
                body = body[name]
            image = body["template"]["spec"]["containers"][0]["image"]
            found[each.name.rpartition("-")[2]] = image
    return found


def _renamed(value: Any, images: Mapping[str, str]) -> Any:
    """Return a value with every hash replaced."""
    if isinstance(value, str):
        for hash_, image in images.items():
            value = value.replace(hash_, f"<{image}>")
        return POD_NAME.sub("<pod>", value)
    if isinstance(value, dict):
        return {name: _renamed(each, images) for name, each in value.items()}
    return [_renamed(each, images) for each in value] if isinstance(value, list) else value


def last_state(objects: Mapping[Resource, Iterable[Envelope]]) -> State:
    """Return the parts that must be equal at the end even without pauses, independent of intermediate states."""
    found = state(objects)
    found["controllerrevisions"] = found["persistentvolumeclaims"] = []
    found["replicasets"] = [each for each in found["replicasets"] if each["replicas"]]
    for workload in (*found["deployments"], *found["statefulsets"], *found["replicasets"]):
        workload["annotations"] = {}
        workload["status"].pop("collisionCount", None)
        for condition in workload["status"]["conditions"]:
            condition[3] = None  # These may name objects that are gone by now.
    found["pods"] = [each for each in found["pods"] if each["phase"] not in FINISHED]
    return found


def current(objects: Mapping[Resource, Iterable[Envelope]]) -> bool:
    """Return whether every workload's controller has seen its newest generation, and no Pod is in transition."""
    for resource in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS):
        for each in objects.get(resource, ()):
            status = to_dict(each).get("status") or {}
            if status.get("observedGeneration", 0) != each.generation:
                return False
    for each in objects.get(JOBS, ()):
        if not _job_rests(to_dict(each)):
            return False
    return all(not each.deleting for each in objects.get(PODS, ()))


def _job_rests(body: Mapping[str, Any]) -> bool:
    """Return whether a Job has ended, is suspended, or runs its maximum of Pods, so that it is not in back-off."""
    spec, status = body["spec"], body.get("status") or {}
    if (status.get("uncountedTerminatedPods") or {}).keys() & {"succeeded", "failed"}:
        return False
    conditions = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    if conditions & {"Complete", "Failed"}:
        return not status.get("active") and not status.get("terminating")
    if spec.get("suspend"):
        return "Suspended" in conditions and not status.get("active")
    done = status.get("succeeded", 0) + _indexes(status.get("failedIndexes", ""))
    return bool(status.get("active", 0) == min(spec["parallelism"], spec["completions"] - done))


def _indexes(text: str) -> int:
    """Count the indexes of `1,3-5`."""
    ranges = [each.partition("-") for each in text.split(",") if each]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)


def _conditions(conditions: Iterable[Mapping[str, Any]]) -> list[Any]:
    fields = ("type", "status", "reason", "message")
    return sorted([each.get(field) for field in fields] for each in conditions)


def _status(status: Mapping[str, Any]) -> dict[str, Any]:
    left = {
        name: value
        for name, value in status.items()
        if name not in TIMES | {"observedGeneration", "conditions", "uncountedTerminatedPods"}
    }
    return {**left, "conditions": _conditions(status.get("conditions") or ())}


def _workload(body: dict[str, Any]) -> dict[str, Any]:
    annotations = body["metadata"].get("annotations") or {}
    return {
        "annotations": {
            name: each for name, each in annotations.items() if name.startswith(REVISION_ANNOTATIONS)
        },
        "status": _status(body.get("status") or {}),
    }


def _replica_set(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": body["metadata"]["name"],
        **_workload(body),
        "replicas": body["spec"]["replicas"],
        "labels": body["metadata"].get("labels"),
    }


def _pod(body: dict[str, Any]) -> dict[str, Any]:
    labels = body["metadata"].get("labels") or {}
    ordinal = (
        {"ordinal": labels["apps.kubernetes.io/pod-index"]}
        if "apps.kubernetes.io/pod-index" in labels
        else {}
    )
    status = body.get("status") or {}
    return {
        **ordinal,
        **{name: labels[name] for name in POD_LABELS if name in labels},
        "image": body["spec"]["containers"][0]["image"],
        "phase": status.get("phase"),
        "finalizers": body["metadata"].get("finalizers"),
        "owner": [each["kind"] for each in body["metadata"].get("ownerReferences") or ()],
    }


def _claim(body: dict[str, Any]) -> dict[str, Any]:
    metadata = body["metadata"]
    return {
        **_storage(metadata),
        "owner": [each["kind"] for each in metadata.get("ownerReferences") or ()],
        "volume": body["spec"].get("volumeName"),
        "class": body["spec"].get("storageClassName"),
        "status": body.get("status"),
    }


def _volume(body: dict[str, Any]) -> dict[str, Any]:
    reference = body["spec"].get("claimRef") or {}
    status = {name: value for name, value in body["status"].items() if name != "lastPhaseTransitionTime"}
    claim = [reference.get("namespace"), reference.get("name"), bool(reference.get("uid"))]
    return {**_storage(body["metadata"]), "claim": claim, "status": status}


def _storage(metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": metadata["name"],
        "annotations": metadata.get("annotations"),
        "finalizers": metadata.get("finalizers"),
        "deleting": "deletionTimestamp" in metadata,
    }
