"""The kind Pod: creation, validation, the subresources `ephemeralcontainers` and `resize`, grace period. Pure.

Source: Kubernetes' `pkg/registry/core/pod/strategy.go` and `ValidatePodCreate`.
"""

from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind, PartialWrite
from vcsync.apimachinery.kinds.common.partial_writes import keep_all_but, reset_metadata
from vcsync.apimachinery.kinds.core import (
    pod_columns,
    pod_defaults,
    pod_status,
    pod_updates,
    pod_validation,
    pod_warnings,
)
from vcsync.apimachinery.kinds.core.pod_annotations import annotations_and_fields, pod_annotations
from vcsync.apimachinery.kinds.core.pod_containers import image_spaces
from vcsync.apimachinery.kinds.core.resources import milli
from vcsync.apimachinery.patch.fields import EMPTY
from vcsync.apimachinery.patch.resets import STATUS, Reset, paths
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation.fields import Object, items, part, text


def quality(spec: Object) -> str:
    """Return the quality of service class that a Pod's requests and limits give it (`qos.ComputePodQOS`)."""
    whole = part(spec, "resources")
    if part(whole, "limits") or part(whole, "requests"):
        asked = [whole]
    else:
        asked = [
            part(each, "resources") for key in ("containers", "initContainers") for each in items(spec, key)
        ]
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for each in asked:
        for found, total in ((part(each, "requests"), requests), (part(each, "limits"), limits)):
            for name in ("cpu", "memory"):
                value = milli(found.get(name, "0"))
                if value > 0:
                    total[name] = total.get(name, 0) + value
        guaranteed &= all(milli(part(each, "limits").get(name, "0")) > 0 for name in ("cpu", "memory"))
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _prepare_create(new: Object, context: Context) -> None:
    spec = new.setdefault("spec", {})
    status: Object = {"phase": "Pending", "qosClass": quality(spec)}
    if items(spec, "schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": None,
                "lastTransitionTime": context.now,
            }
        ]
    new["status"] = status
    _merge_label_keys(new, spec)


def _prepare_update(new: Object, _old: Object, _: Context) -> None:
    # Only the admission of a create refuses an empty overhead; etcd drops it.
    spec = part(new, "spec")
    if spec.get("overhead") == {}:
        del spec["overhead"]


def _merge_label_keys(pod: Object, spec: Object) -> None:
    labels = part(pod, "metadata", "labels")
    for key in ("podAffinity", "podAntiAffinity"):
        group = part(spec, "affinity", key)
        for each in items(group, "requiredDuringSchedulingIgnoredDuringExecution"):
            _merge(each, labels)
        for each in items(group, "preferredDuringSchedulingIgnoredDuringExecution"):
            _merge(part(each, "podAffinityTerm"), labels)
    for each in items(spec, "topologySpreadConstraints"):
        _merge(each, labels)


def _merge(term: Object, labels: Object) -> None:
    selector = term.get("labelSelector")
    if not isinstance(selector, dict):
        return
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in items(term, field)
        if key in labels
    ]
    if added:
        selector["matchExpressions"] = [*items(selector, "matchExpressions"), *added]


def metadata_and_spec(pod: Object) -> list[FieldError]:
    """Return the findings on metadata and spec that apply to creates and updates alike."""
    spec = part(pod, "spec")
    found = list(pod_annotations("metadata.annotations", part(pod, "metadata", "annotations"), spec))
    found.extend(pod_validation.pod_spec("spec", spec, pod))
    if not text(spec, "serviceAccountName"):
        for index, volume in enumerate(items(spec, "volumes")):
            for place, source in enumerate(items(part(volume, "projected"), "sources")):
                if "serviceAccountToken" in source:
                    path = f"spec.volumes[{index}].projected.sources[{place}].serviceAccountToken"
                    found.append(
                        errors.not_allowed(path, "must not be specified when serviceAccountName is not set")
                    )
    for key in ("containers", "initContainers"):
        for index, each in enumerate(items(spec, key)):
            found.extend(image_spaces(f"spec.{key}[{index}]", each))
    return found


def _validate(pod: Object) -> list[FieldError]:
    spec = part(pod, "spec")
    found = metadata_and_spec(pod)
    if items(spec, "ephemeralContainers"):
        found.append(errors.not_allowed("spec.ephemeralContainers", "cannot be set on create"))
    if text(spec, "nodeName") and items(spec, "schedulingGates"):
        found.append(
            errors.not_allowed("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
        )
    found.extend(annotations_and_fields("spec", part(pod, "metadata", "annotations"), spec))
    return found


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    return metadata_and_spec(new) + list(pod_updates.changes(new, old))


def validate_ephemeral_containers(new: Object, old: Object) -> list[FieldError]:
    """Return the findings on a write to `.../ephemeralcontainers`."""
    found = metadata_and_spec(new)
    return found + list(pod_updates.ephemeral_changes(new, old))


def validate_resize(new: Object, old: Object) -> list[FieldError]:
    """Return the findings on a write to `.../resize`."""
    found = metadata_and_spec(new)
    if quality(part(new, "spec")) != text(part(old, "status"), "qosClass"):
        shown = text(part(new, "status"), "qosClass")
        found.append(errors.wrong("spec", shown, "Pod QOS Class may not change as a result of resizing"))
    return found + list(pod_updates.resize_changes(new, old))


def _fields(pod: Object) -> dict[str, str]:
    spec, status = part(pod, "spec"), part(pod, "status")
    addresses = items(status, "podIPs")
    return {
        "spec.nodeName": text(spec, "nodeName"),
        "spec.restartPolicy": text(spec, "restartPolicy"),
        "spec.schedulerName": text(spec, "schedulerName"),
        "spec.serviceAccountName": text(spec, "serviceAccountName"),
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": text(status, "phase"),
        "status.podIP": text(addresses[0], "ip") if addresses else "",
        "status.nominatedNodeName": text(status, "nominatedNodeName"),
    }


def _grace_seconds(pod: Object, options: Object) -> int:
    asked: Any = options.get("gracePeriodSeconds")
    if asked is None:
        asked = part(pod, "spec").get("terminationGracePeriodSeconds") or 0
    if not text(part(pod, "spec"), "nodeName") or text(part(pod, "status"), "phase") in (
        "Failed",
        "Succeeded",
    ):
        return 0
    return int(asked) if asked >= 0 else 1


_RESIZED = tuple(
    f"spec.{kind}.*.{name}"
    for kind in ("containers", "initContainers")
    for name in ("resources", "resizePolicy")
)


def _write_ephemeral_containers(new: Object, old: Object, _: Context) -> None:
    containers = (new.get("spec") or {}).get("ephemeralContainers")
    keep_all_but(new, old)
    reset_metadata(new, old)
    if containers:
        new["spec"]["ephemeralContainers"] = containers
    else:
        new["spec"].pop("ephemeralContainers", None)


def _write_resize(new: Object, old: Object, _: Context) -> None:
    spec = pod_updates.resized_spec(new.get("spec") or {}, old.get("spec") or {})
    keep_all_but(new, old)
    reset_metadata(new, old)
    new["spec"] = spec


KIND = Kind(
    group="",
    kind="Pod",
    plural="pods",
    generation=("spec",),
    status=True,
    pod_spec=("spec",),
    default=pod_defaults.pod,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate=_validate,
    validate_update=_validate_update,
    warnings=pod_warnings.pod_warnings,
    fields=_fields,
    status_prepare=pod_status.prepare,
    status_validate=pod_status.validate,
    grace_seconds=_grace_seconds,
    columns=pod_columns.POD,
    row_conditions=pod_columns.row_conditions,
    resets={
        "": STATUS,
        "status": Reset(paths("spec", "metadata.deletionTimestamp", "metadata.ownerReferences")),
        "ephemeralcontainers": Reset(EMPTY, paths("spec.ephemeralContainers")),
        "resize": Reset(EMPTY, paths(*_RESIZED)),
    },
    partial_writes={
        "ephemeralcontainers": PartialWrite(_write_ephemeral_containers, validate_ephemeral_containers),
        "resize": PartialWrite(_write_resize, validate_resize),
    },
    repeats_finalizer_findings=True,
    returned_on_deletion=True,
)
