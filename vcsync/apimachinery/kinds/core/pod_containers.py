"""Validation of containers, init containers and ephemeral containers. Pure.

Source: `validateContainers`, `validateInitContainers`, `validateEphemeralContainers` and below in Kubernetes'
`pkg/apis/core/validation`.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.paths import descending
from vcsync.apimachinery.kinds.core.pod_environment import environment, environment_from
from vcsync.apimachinery.kinds.core.pod_probes import handlers, probe, stop_signal
from vcsync.apimachinery.kinds.core.pod_security import container_security
from vcsync.apimachinery.kinds.core.resources import requirements
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    choice,
    indexed,
    items,
    needed,
    number,
    one_of,
    part,
    port,
    say,
    text,
)

PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RULE_ACTIONS = ("Restart", "RestartAllContainers")
_NO_BACKSTEP = "can not contain backsteps ('..')"
_NOT_INIT = "may not be set for init containers without restartPolicy=Always"
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_ONE_SOURCE = "may not have more than one field specified at a time"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Names that the fields of containers may refer to: volumes, claims and the Pod's settings."""

    volumes: dict[str, Object]
    claims: Collection[str]
    grace: int | None
    restart_policy: str
    host_users: bool
    system: str
    others: frozenset[str] = field(default_factory=frozenset)


def containers(path: str, found: list[Object], around: Surroundings) -> Findings:
    """Check the main containers."""
    if not found:
        yield errors.required(path)
        return
    seen: set[str] = set()
    for index, each in enumerate(found):
        here = f"{path}[{index}]"
        yield from _common(here, each, around)
        if text(each, "name") in seen:
            yield errors.duplicate(f"{here}.name", text(each, "name"))
        seen.add(text(each, "name"))
        yield from _life(here, each, around)
        yield from _restart_policy(here, each)
    yield from _host_ports(path, found)


def init_containers(path: str, found: list[Object], around: Surroundings) -> Findings:
    """Check init containers and sidecars."""
    seen = set(around.others)
    for index, each in enumerate(found):
        here = f"{path}[{index}]"
        yield from _common(here, each, around)
        yield from _restart_policy(here, each)
        name = text(each, "name")
        if name in seen:
            yield errors.duplicate(f"{here}.name", name)
        elif name:
            seen.add(name)
        yield from _host_ports(path, [each])
        sidecar = each.get("restartPolicy") == "Always"
        if sidecar:
            yield from _life(here, each, around)
        else:
            for key in ("lifecycle", *_PROBES):
                if key in each:
                    yield errors.not_allowed(f"{here}.{key}", _NOT_INIT)
            for policy, place in indexed(each, "resizePolicy", f"{here}.resizePolicy"):
                if text(policy, "restartPolicy") == "RestartContainer":
                    yield errors.wrong(
                        f"{place}.restartPolicy",
                        "RestartContainer",
                        "must not be set to 'RestartContainer' for non-sidecar initContainers",
                    )


def ephemeral_containers(path: str, found: list[Object], around: Surroundings) -> Findings:
    """Check ephemeral containers."""
    seen = set(around.others)
    for index, each in enumerate(found):
        here = f"{path}[{index}]"
        yield from _common(here, each, around)
        yield from image_spaces(here, each)
        name = text(each, "name")
        if name in seen:
            yield errors.duplicate(f"{here}.name", name)
        seen.add(name)
        target = text(each, "targetContainerName")
        if target and target not in around.others:
            yield errors.absent(f"{here}.targetContainerName", target)
        for key in _NOT_EPHEMERAL:
            if each.get(key) or (key in each and key != "resources"):
                yield errors.not_allowed(f"{here}.{key}", "cannot be set for an Ephemeral Container")
        for mount, place in indexed(each, "volumeMounts", f"{here}.volumeMounts"):
            for key in ("subPath", "subPathExpr"):
                if text(mount, key):
                    yield errors.not_allowed(f"{place}.{key}", "cannot be set for an Ephemeral Container")


def image_spaces(path: str, found: Object) -> Findings:
    """Check that an image has no surrounding white space. Applies to Pods, not to templates."""
    image = text(found, "image")
    if image != image.strip():
        yield errors.wrong(f"{path}.image", image, "must not have leading or trailing whitespace")


def _life(path: str, found: Object, around: Surroundings) -> Findings:
    lifecycle = found.get("lifecycle")
    if isinstance(lifecycle, dict):
        for hook in ("postStart", "preStop"):
            if isinstance(lifecycle.get(hook), dict):
                yield from handlers(f"{path}.lifecycle.{hook}", lifecycle[hook], around.grace, hook=True)
        if "stopSignal" in lifecycle:
            yield from stop_signal(f"{path}.lifecycle.stopSignal", lifecycle["stopSignal"], around.system)
    for key in _PROBES:
        if isinstance(found.get(key), dict):
            yield from probe(f"{path}.{key}", key, found[key], around.grace)


def _common(path: str, found: Object, around: Surroundings) -> Findings:
    name = text(found, "name")
    if not name:
        yield errors.required(f"{path}.name")
    else:
        yield from say(f"{path}.name", name, names.dns_label(name))
    yield from needed(found, "image", path)
    yield from choice(
        f"{path}.terminationMessagePolicy", text(found, "terminationMessagePolicy"), _MESSAGE_POLICIES
    )
    yield from _ports(f"{path}.ports", found)
    yield from environment(f"{path}.env", found)
    yield from environment_from(f"{path}.envFrom", found)
    yield from _mounts(f"{path}.volumeMounts", found, around)
    yield from _devices(f"{path}.volumeDevices", found, around)
    yield from choice(f"{path}.imagePullPolicy", text(found, "imagePullPolicy"), _PULL_POLICIES)
    yield from requirements(f"{path}.resources", part(found, "resources"), around.claims)
    yield from _resize_policy(f"{path}.resizePolicy", found, around.restart_policy)
    if isinstance(found.get("securityContext"), dict):
        yield from container_security(f"{path}.securityContext", found["securityContext"], around.host_users)


def _ports(path: str, found: Object) -> Findings:
    seen: set[str] = set()
    for each, here in indexed(found, "ports", path):
        name = text(each, "name")
        if name:
            wrong = names.port_name(name)
            yield from say(f"{here}.name", name, wrong)
            if not wrong and name in seen:
                yield errors.duplicate(f"{here}.name", name)
            seen.add(name)
        if not number(each, "containerPort"):
            yield errors.required(f"{here}.containerPort")
        else:
            yield from port(f"{here}.containerPort", number(each, "containerPort"))
        if number(each, "hostPort"):
            yield from port(f"{here}.hostPort", number(each, "hostPort"))
        yield from choice(f"{here}.protocol", text(each, "protocol"), PROTOCOLS)


def _host_ports(path: str, found: list[Object]) -> Findings:
    seen: set[str] = set()
    for index, container in enumerate(found):
        for each, here in indexed(container, "ports", f"{path}[{index}].ports"):
            if number(each, "hostPort"):
                key = f"{text(each, 'protocol')}/{text(each, 'hostIP')}/{number(each, 'hostPort')}"
                if key in seen:
                    yield errors.duplicate(f"{here}.hostPort", key)
                seen.add(key)


def _mounts(path: str, found: Object, around: Surroundings) -> Findings:
    devices = {text(each, "name"): text(each, "devicePath") for each in items(found, "volumeDevices")}
    devices_at = set(devices.values())
    seen: set[str] = set()
    for each, here in indexed(found, "volumeMounts", path):
        name, place = text(each, "name"), text(each, "mountPath")
        yield from needed(each, "name", here)
        if name not in around.volumes:
            yield errors.absent(f"{here}.name", name)
        yield from needed(each, "mountPath", here)
        if place in seen:
            yield errors.wrong(f"{here}.mountPath", place, "must be unique")
        seen.add(place)
        if name in devices:
            yield errors.wrong(f"{here}.name", name, "must not already exist in volumeDevices")
        if place in devices_at:
            yield errors.wrong(
                f"{here}.mountPath", place, "must not already exist as a path in volumeDevices"
            )
        yield from _mount_options(path, here, each, found)


def _mount_options(path: str, here: str, each: Object, container: Object) -> Findings:
    inside, expression = text(each, "subPath"), text(each, "subPathExpr")
    if inside:
        yield from descending(f"{path}.subPath", inside)
    if expression:
        if inside:
            yield errors.wrong(
                f"{here}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive"
            )
        yield from descending(f"{path}.subPathExpr", expression)
    propagation = each.get("mountPropagation")
    if propagation is not None:
        yield from one_of(f"{path}.mountPropagation", propagation, _PROPAGATIONS)
        if (
            propagation == "Bidirectional"
            and part(container, "securityContext").get("privileged") is not True
        ):
            yield errors.not_allowed(
                f"{path}.mountPropagation",
                "Bidirectional mount propagation is available only to privileged containers",
            )
    recursive = each.get("recursiveReadOnly")
    if recursive in ("Enabled", "IfPossible"):
        if not each.get("readOnly"):
            yield errors.not_allowed(
                f"{path}.recursiveReadOnly", "may only be specified when readOnly is true"
            )
        if propagation not in (None, "None"):
            yield errors.not_allowed(
                f"{path}.recursiveReadOnly",
                "may only be specified when mountPropagation is None or not specified",
            )
    elif recursive is not None:
        yield from one_of(f"{path}.recursiveReadOnly", recursive, _RECURSIVE)


def _devices(path: str, found: Object, around: Surroundings) -> Findings:
    mounts = {text(each, "name"): text(each, "mountPath") for each in items(found, "volumeMounts")}
    mounts_at = set(mounts.values())
    names_seen: set[str] = set()
    places: set[str] = set()
    for each, here in indexed(found, "volumeDevices", path):
        name, place = text(each, "name"), text(each, "devicePath")
        volume = around.volumes.get(name)
        yield from needed(each, "name", here)
        if name in names_seen:
            yield errors.wrong(f"{here}.name", name, "must be unique")
        if volume is None:
            yield errors.absent(f"{here}.name", name)
        elif not ("persistentVolumeClaim" in volume or "ephemeral" in volume):
            yield errors.wrong(
                f"{here}.name",
                name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            )
        yield from needed(each, "devicePath", here)
        if place in places:
            yield errors.wrong(f"{here}.devicePath", place, "must be unique")
        if ".." in place.split("/"):
            yield errors.wrong(f"{here}.devicePath", place, _NO_BACKSTEP)
        else:
            places.add(place)
        if name in mounts:
            yield errors.wrong(f"{here}.name", name, "must not already exist in volumeMounts")
        if place in mounts_at:
            yield errors.wrong(
                f"{here}.devicePath", place, "must not already exist as a path in volumeMounts"
            )
        if name:
            names_seen.add(name)


def _resize_policy(path: str, found: Object, restart_policy: str) -> Findings:
    seen: set[str] = set()
    for each, here in indexed(found, "resizePolicy", path):
        name, policy = text(each, "resourceName"), text(each, "restartPolicy")
        if name in seen:
            yield errors.duplicate(here, name)
        seen.add(name)
        yield from choice(path, name, ("cpu", "memory"))
        yield from choice(path, policy, ("NotRequired", "RestartContainer"))
        if restart_policy == "Never" and policy != "NotRequired":
            yield errors.wrong(path, policy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _restart_policy(path: str, found: Object) -> Findings:
    policy, rules = found.get("restartPolicy"), items(found, "restartPolicyRules")
    if policy is None:
        if rules:
            yield errors.required(
                f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"
            )
    elif policy not in _RESTART_POLICIES:
        yield errors.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    if len(rules) > 20:
        yield errors.too_many(f"{path}.restartPolicyRules", len(rules), 20)
    for rule, here in indexed(found, "restartPolicyRules", f"{path}.restartPolicyRules"):
        yield from one_of(f"{here}.action", text(rule, "action"), _RULE_ACTIONS)
        codes = rule.get("exitCodes")
        if not isinstance(codes, dict):
            yield errors.required(f"{here}.exitCodes", "must be specified")
            continue
        yield from one_of(f"{here}.exitCodes.operator", text(codes, "operator"), ("In", "NotIn"))
        if len(items(codes, "values")) > 255:
            yield errors.too_many(f"{here}.exitCodes.values", len(items(codes, "values")), 255)
