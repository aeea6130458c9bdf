"""Kinds with few rules: PodDisruptionBudgets, PriorityClasses, RuntimeClasses, Leases. Pure.

Source: Kubernetes' `pkg/apis/policy`, `scheduling`, `node` and `coordination`.
"""

import re

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.node_labels import deprecated_label
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pod_defaults import fill
from vcsync.controlplane.kinds.pod_scheduling import tolerations
from vcsync.controlplane.kinds.resources import requirements
from vcsync.controlplane.kinds.rules import (
    Findings,
    Object,
    conditions,
    immutable,
    items,
    labels,
    needed,
    nonnegative,
    number,
    one_of,
    part,
    say,
    selector,
    text,
)
from vcsync.controlplane.kinds.workloads import at_most_everything, count

_SYSTEM_CLASSES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_HIGHEST = 1000000000
_VERSION = re.compile(
    r"(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})(?:[-+][0-9A-Za-z.+-]{1,200})?", re.ASCII
)
_STRATEGY = "OldestEmulationVersion"


def _budget(found: Object) -> Findings:
    spec = part(found, "spec")
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    if low is not None and high is not None:
        shown = {
            "MinAvailable": low,
            "Selector": spec.get("selector"),
            "MaxUnavailable": high,
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        yield errors.wrong("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for key, value in (("minAvailable", low), ("maxUnavailable", high)):
        if value is not None:
            yield from count(f"spec.{key}", value)
            yield from at_most_everything(f"spec.{key}", value)
    yield from selector("spec.selector", spec.get("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None:
        yield from one_of("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))


def _budget_status(new: Object, _: Object) -> list[FieldError]:
    status = part(new, "status")
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return [
        *conditions("status.conditions", items(status, "conditions")),
        *nonnegative(status, "status", *counts),
    ]


def _priority(found: Object) -> Findings:
    name, value = text(part(found, "metadata"), "name"), number(found, "value")
    if name.startswith("system-"):
        yield from _system_priority(name, value, bool(found.get("globalDefault")))
    elif value > _HIGHEST:
        yield errors.not_allowed("value", f"maximum allowed value of a user defined priority is {_HIGHEST}")
    if "preemptionPolicy" in found:
        if not found["preemptionPolicy"]:
            yield errors.required("preemptionPolicy")
        else:
            yield from one_of(
                "preemptionPolicy", found["preemptionPolicy"], ("PreemptLowerPriority", "Never")
            )


def _system_priority(name: str, value: int, default: bool) -> Findings:
    known = _SYSTEM_CLASSES.get(name)
    if known is None:
        why = f"{name} is not a known system priority class"
    elif value != known:
        why = f"value of {name} PriorityClass must be {known}"
    elif default:
        why = f"globalDefault of {name} PriorityClass must be false"
    else:
        return
    told = "priority class names with 'system-' prefix are reserved for system use only. error: "
    yield errors.not_allowed("metadata.name", told + why)


def _priority_update(new: Object, old: Object) -> list[FieldError]:
    found = []
    if number(new, "value") != number(old, "value"):
        found.append(errors.not_allowed("value", "may not be changed in an update."))
    return [*found, *immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))]


def _runtime(found: Object) -> Findings:
    handler = text(found, "handler")
    if not handler:
        yield errors.required("handler")
    else:
        yield from say("handler", handler, names.dns_label(handler))
    if "overhead" in found:
        yield from requirements("overhead", {"limits": part(found, "overhead", "podFixed")}, frozenset())
    scheduling = part(found, "scheduling")
    yield from labels("scheduling.nodeSelector", part(scheduling, "nodeSelector"))
    yield from tolerations("scheduling.tolerations", items(scheduling, "tolerations"))
    seen: set[tuple[str, ...]] = set()
    for index, each in enumerate(items(scheduling, "tolerations")):
        key = tuple(text(each, name) for name in ("key", "operator", "value", "effect"))
        if key in seen:
            shown = dict(zip(("Key", "Operator", "Value", "Effect"), key, strict=True))
            shown_all = {**shown, "TolerationSeconds": each.get("tolerationSeconds")}
            yield errors.duplicate(f"scheduling.tolerations[{index}]", shown_all)
        seen.add(key)


def _runtime_warnings(new: Object, _: Object | None) -> list[str]:
    return [
        f"scheduling.nodeSelector: {told}"
        for key in part(new, "scheduling", "nodeSelector")
        if (told := deprecated_label(key))
    ]


def _lease(found: Object) -> Findings:
    spec = part(found, "spec")
    duration, moves = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        yield errors.wrong("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if moves is not None and moves < 0:
        yield errors.wrong("spec.leaseTransitions", moves, "must be greater than or equal to 0")
    if "strategy" in spec:
        yield from _lease_strategy("spec.strategy.strategy", text(spec, "strategy"))
    if text(spec, "preferredHolder") and not text(spec, "strategy"):
        yield errors.not_allowed("spec.preferredHolder", "may only be specified if `strategy` is defined")


def _lease_prepare(new: Object, *_: object) -> None:
    spec = part(new, "spec")
    for key in ("strategy", "preferredHolder"):
        spec.pop(key, None)


def _lease_create(new: Object, _: Context) -> None:
    _lease_prepare(new)


def _lease_strategy(path: str, strategy: str) -> Findings:
    if "/" not in strategy:
        yield from one_of(path, strategy, (_STRATEGY,))
    else:
        yield from say(path, strategy, names.qualified_name(strategy))


def _candidate(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from needed(spec, "leaseName", "spec")
    emulated, binary = text(spec, "emulationVersion"), text(spec, "binaryVersion")
    parsed = {}
    for key, value in (("emulationVersion", emulated), ("binaryVersion", binary)):
        match = _VERSION.fullmatch(value)
        if match:
            parsed[key] = tuple(int(each) for each in match.groups())
        elif value:
            yield errors.wrong(f"spec.{key}", value, "must be a valid semantic version")
    yield from needed(spec, "binaryVersion", "spec")
    if len(parsed) == 2 and parsed["binaryVersion"] < parsed["emulationVersion"]:
        yield errors.wrong(
            "spec.binaryVersion", binary, "must be greater than or equal to `emulationVersion`"
        )
    strategy = text(spec, "strategy")
    if not strategy:
        yield errors.required("spec.strategy")
        return
    if strategy == _STRATEGY and "emulationVersion" not in parsed:
        told = "must be specified when `strategy` is 'OldestEmulationVersion'"
        yield errors.required("spec.emulationVersion", told)
    yield from _lease_strategy("spec.strategy.strategy", strategy)


SMALL = {
    ("policy", "PodDisruptionBudget"): Part(
        validate=lambda found: list(_budget(found)), status_validate=_budget_status
    ),
    ("scheduling.k8s.io", "PriorityClass"): Part(
        default=lambda found: fill(found, {"preemptionPolicy": "PreemptLowerPriority"}),
        validate=lambda found: list(_priority(found)),
        validate_update=_priority_update,
    ),
    ("node.k8s.io", "RuntimeClass"): Part(
        validate=lambda found: list(_runtime(found)),
        validate_update=lambda new, old: [
            *_runtime(new),
            *immutable("handler", text(new, "handler"), text(old, "handler")),
        ],
        warnings=_runtime_warnings,
    ),
    ("coordination.k8s.io", "Lease"): Part(
        prepare_create=_lease_create,
        prepare_update=_lease_prepare,
        validate=lambda found: list(_lease(found)),
    ),
    ("coordination.k8s.io", "LeaseCandidate"): Part(
        validate=lambda found: list(_candidate(found)),
        validate_update=lambda new, old: [
            *_candidate(new),
            *immutable(
                "spec.leaseName", text(part(new, "spec"), "leaseName"), text(part(old, "spec"), "leaseName")
            ),
        ],
        name=lambda name, _: names.config_key(name),
    ),
}
