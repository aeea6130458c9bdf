"""Preparation and validation of updates of a Pod's status. Pure.

Source: `ValidatePodStatusUpdate` in Kubernetes' `pkg/apis/core/validation` and `podStatusStrategy`.
"""

from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.addresses import address, dual
from vcsync.apimachinery.kinds.core import disabled_fields
from vcsync.apimachinery.kinds.core.pod_updates import annotation_changes
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    id_number,
    immutable,
    indexed,
    items,
    number,
    one_of,
    part,
    say,
    text,
)

_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_LONGEST_MESSAGE = 1024
_MAPPED = ("containerName", "resourceName", "requestName")
_REQUESTED = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
    "spec.containers.resources.requests"
)
_CLAIMED = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
    "'claim:<claimName>' if request is empty"
)
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")


def prepare(new: Object, old: Object, _: Context) -> None:
    """Restore the fields of the status that clients may omit."""
    metadata = new["metadata"]
    for key in ("ownerReferences", "deletionTimestamp"):
        metadata.pop(key, None)
        if key in old["metadata"]:
            metadata[key] = old["metadata"][key]
    status, before = new.setdefault("status", {}), part(old, "status")
    disabled_fields.drop_status(new, old)
    if not text(status, "qosClass") and "qosClass" in before:
        status["qosClass"] = before["qosClass"]
    if "observedGeneration" not in status and "observedGeneration" in before:
        status["observedGeneration"] = before["observedGeneration"]


def validate(new: Object, old: Object) -> list[FieldError]:
    """Return the findings on a new status."""
    return list(_validate(new, old))


def _validate(new: Object, old: Object) -> Findings:
    path = "metadata.annotations"
    yield from annotation_changes(
        path, part(new, "metadata", "annotations"), part(old, "metadata", "annotations")
    )
    status, before, spec = part(new, "status"), part(old, "status"), part(old, "spec")
    for each, here in indexed(status, "conditions", "status.conditions"):
        kind = text(each, "type")
        if kind not in _SYSTEM_CONDITIONS:
            yield from say(f"{here}.Type", kind, names.qualified_name(kind))
        if number(each, "observedGeneration") < 0:
            generation = number(each, "observedGeneration")
            yield errors.wrong(f"{here}.observedGeneration", generation, "must be a non-negative integer")
    nominated = text(status, "nominatedNodeName")
    if nominated and nominated != text(before, "nominatedNodeName"):
        yield from say("status.nominatedNodeName", nominated, names.dns_subdomain(nominated))
        if text(spec, "nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            yield errors.not_allowed("status.nominatedNodeName", detail)
    if number(status, "observedGeneration") < 0:
        detail = "must be a non-negative integer"
        yield errors.wrong("status.observedGeneration", number(status, "observedGeneration"), detail)
    yield from immutable("status.qosClass", text(status, "qosClass"), text(before, "qosClass"))
    yield from _transitions(status, before, spec)
    yield from _claims(status, part(new, "spec"))
    yield from _extended_claim(status, part(new, "spec"))
    yield from _addresses(status, before)
    yield from _users(status, part(new, "spec"))
    for key, place in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        yield from _allocated(f"status.{key}", items(status, key), items(part(new, "spec"), place))
    for each, here in indexed(status, "ephemeralContainerStatuses", "status.ephemeralContainerStatuses"):
        if items(each, "allocatedResourcesStatus"):
            detail = "must not be specified in container status"
            yield errors.not_allowed(f"{here}.allocatedResourcesStatus", detail)


def _restarts(container: Object, spec: Object, code: int) -> bool:
    policy = container.get("restartPolicy") or text(spec, "restartPolicy")
    for rule in items(container, "restartPolicyRules"):
        listed = code in items(part(rule, "exitCodes"), "values")
        if listed == (text(part(rule, "exitCodes"), "operator") == "In"):
            return True
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _transitions(status: Object, before: Object, spec: Object) -> Findings:
    for key, containers in (
        ("containerStatuses", items(spec, "containers")),
        ("initContainerStatuses", items(spec, "initContainers")),
        ("ephemeralContainerStatuses", []),
    ):
        now = {text(each, "name"): each for each in items(status, key)}
        known = {text(each, "name"): each for each in containers}
        for was, here in indexed(before, key, f"status.{key}"):
            ended = part(was, "state").get("terminated")
            name = text(was, "name")
            if ended is None or name not in now or "terminated" in part(now[name], "state"):
                continue
            if name not in known or not _restarts(known[name], spec, number(ended, "exitCode")):
                yield errors.not_allowed(f"{here}.state", "may not be transitioned to non-terminated state")


def _claims(status: Object, spec: Object) -> Findings:
    known = {text(each, "name") for each in items(spec, "resourceClaims")}
    seen: set[str] = set()
    for each, here in indexed(status, "resourceClaimStatuses", "status.resourceClaimStatuses"):
        name = text(each, "name")
        if name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            yield errors.wrong(f"{here}.name", name, detail)
        if name in seen:
            yield errors.duplicate(f"{here}.name", name)
        seen.add(name)
        if "resourceClaimName" in each:
            yield from say(
                f"{here}.resourceClaimName",
                each["resourceClaimName"],
                names.dns_subdomain(each["resourceClaimName"]),
            )


def _extended_claim(status: Object, spec: Object) -> Findings:
    found, path = status.get("extendedResourceClaimStatus"), "status.extendedResourceClaimStatus"
    if found is None:
        return
    containers = {
        text(each, "name"): each for key in ("initContainers", "containers") for each in items(spec, key)
    }
    if not items(found, "requestMappings"):
        yield errors.required(f"{path}.requestMappings", "at least one request mapping is required")
    seen: set[tuple[str, ...]] = set()
    for each, here in indexed(found, "requestMappings", f"{path}.requestMappings"):
        container, resource, request = (text(each, key) for key in _MAPPED)
        if container not in containers:
            detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            yield errors.wrong(f"{here}.containerName", container, detail)
        elif resource not in part(containers[container], "resources", "requests"):
            yield errors.wrong(f"{here}.resourceName", resource, _REQUESTED)
        yield from say(f"{path}.requestName", request, names.dns_label(request))
        if (container, resource, request) in seen:
            for key in _MAPPED:
                yield errors.duplicate(f"{here}.{key}", text(each, key))
        seen.add((container, resource, request))
    claim = text(found, "resourceClaimName")
    if claim:
        yield from say(f"{path}.resourceClaimName", claim, names.dns_subdomain(claim))
    else:
        yield errors.required(f"{path}.resourceClaimName")


def _users(status: Object, spec: Object) -> Findings:
    system = text(part(spec, "os"), "name") or "linux"
    for key in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for each, here in indexed(status, key, f"status.{key}"):
            user = part(each, "user").get("linux")
            if user is None:
                continue
            path = f"{here}.user.linux"
            if system == "windows":
                yield errors.not_allowed(path, "cannot be set for a windows pod")
                continue
            for name in ("uid", "gid"):
                yield from id_number(f"{path}.{name}", number(user, name))
            for index, group in enumerate(items(user, "supplementalGroups")):
                yield from id_number(f"{path}.supplementalGroups[{index}]", group)


def _allocated(path: str, statuses: list[Any], containers: list[Any]) -> Findings:
    known = {text(each, "name"): part(each, "resources") for each in containers}
    for index, status in enumerate(statuses):
        for each, here in indexed(
            status, "allocatedResourcesStatus", f"{path}[{index}].allocatedResourcesStatus"
        ):
            if text(status, "name") in known:
                yield from _asked_for(f"{here}.name", text(each, "name"), known[text(status, "name")])
            seen: set[str] = set()
            for resource, place in indexed(each, "resources", f"{here}.resources"):
                yield from one_of(f"{place}.health", text(resource, "health"), _HEALTH)
                if "message" in resource:
                    yield from _health_message(f"{place}.message", text(resource, "message"))
                identity = text(resource, "resourceID")
                if identity in seen:
                    yield errors.duplicate(f"{place}.resourceID", identity)
                seen.add(identity)


def _asked_for(path: str, name: str, resources: Object) -> Findings:
    if name.startswith("claim:"):
        claims = {
            "/".join(filter(None, (f"claim:{text(each, 'name')}", text(each, "request"))))
            for each in items(resources, "claims")
        }
        if name not in claims:
            yield errors.wrong(path, name, _CLAIMED)
    elif name not in part(resources, "requests"):
        yield errors.wrong(path, name, "must match one of the container's resource requests")


def _health_message(path: str, message: str) -> Findings:
    if not message:
        yield errors.required(path, "must be non-empty if specified")
    elif names.size(message) > _LONGEST_MESSAGE:
        yield errors.too_long(path, _LONGEST_MESSAGE)


def _addresses(status: Object, before: Object) -> Findings:
    for key in ("podIPs", "hostIPs"):
        found = [text(each, "ip") for each in items(status, key)]
        known = [text(each, "ip") for each in items(before, key)]
        if key == "hostIPs" and found and text(status, "hostIP") != found[0]:
            yield errors.wrong("status.hostIPs[0].ip", found[0], "must be equal to `hostIP`")
        for index, each in enumerate(found):
            yield from address(f"status.{key}[{index}]", each, known)
        if len(found) > 1 and (not dual(found) or len(found) > 2):
            shown = [{"IP": each} for each in found]
            yield errors.wrong(f"status.{key}", shown, "may specify no more than one IP for each IP family")
