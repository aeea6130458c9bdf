"""Writes to a Pod's status. Pure.

Source: `ValidatePodStatusUpdate` in Kubernetes' `pkg/apis/core/validation` and `podStatusStrategy`.
"""

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.addresses import address, dual
from vcsync.controlplane.kinds.pod_updates import annotation_changes
from vcsync.controlplane.kinds.rules import (
    Findings,
    Object,
    immutable,
    indexed,
    items,
    number,
    part,
    say,
    text,
)

_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")


def prepare(new: Object, old: Object, _: Context) -> None:
    """Keep what the status must not lose."""
    metadata = new["metadata"]
    for key in ("ownerReferences", "deletionTimestamp"):
        metadata.pop(key, None)
        if key in old["metadata"]:
            metadata[key] = old["metadata"][key]
    status, before = new.setdefault("status", {}), part(old, "status")
    if not text(status, "qosClass") and "qosClass" in before:
        status["qosClass"] = before["qosClass"]
    if "observedGeneration" not in status and "observedGeneration" in before:
        status["observedGeneration"] = before["observedGeneration"]


def validate(new: Object, old: Object) -> list[FieldError]:
    """Findings on a new status."""
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
    nominated = text(status, "nominatedNodeName")
    if nominated and nominated != text(before, "nominatedNodeName"):
        yield from say("status.nominatedNodeName", nominated, names.dns_subdomain(nominated))
        if text(spec, "nodeName"):
            told = "may not be set on pods that are already bound to a node"
            yield errors.not_allowed("status.nominatedNodeName", told)
    if number(status, "observedGeneration") < 0:
        told = "must be a non-negative integer"
        yield errors.wrong("status.observedGeneration", number(status, "observedGeneration"), told)
    yield from immutable("status.qosClass", text(status, "qosClass"), text(before, "qosClass"))
    yield from _transitions(status, before, spec)
    yield from _claims(status, part(new, "spec"))
    yield from _addresses(status, before)


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
            told = "must match the name of an entry in `spec.resourceClaims`"
            yield errors.wrong(f"{here}.name", name, told)
        if name in seen:
            yield errors.duplicate(f"{here}.name", name)
        seen.add(name)
        if "resourceClaimName" in each:
            yield from say(
                f"{here}.resourceClaimName",
                each["resourceClaimName"],
                names.dns_subdomain(each["resourceClaimName"]),
            )


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
