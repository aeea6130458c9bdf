"""What Deployments, ReplicaSets, StatefulSets and DaemonSets share. Pure.

Source: Kubernetes' `pkg/apis/apps/validation`.
"""

from typing import Any

from vcsync.controlplane import errors
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names, pod_validation
from vcsync.controlplane.kinds.pod_warnings import listed, template_warnings
from vcsync.controlplane.kinds.rules import (
    NEGATIVE,
    Findings,
    Object,
    empty_selector,
    number,
    part,
    say,
    selector,
    selects,
    text,
    understood,
)

_MISMATCH = "`selector` does not match template `labels`"


def count(path: str, value: Any) -> Findings:
    """A number or percentage that is not negative."""
    if isinstance(value, str):
        yield from say(path, value, names.percent(value))
    elif isinstance(value, int) and value < 0:
        yield errors.wrong(path, value, NEGATIVE)


def is_percentage(value: Any) -> bool:
    """Whether a value is a well-formed percentage."""
    return isinstance(value, str) and not names.percent(value)


def amount(value: Any) -> int:
    """Return a number, or a percentage's number; what is neither counts as zero."""
    if is_percentage(value):
        return int(value[:-1][:18])
    return value if isinstance(value, int) else 0


def at_most_everything(path: str, value: Any) -> Findings:
    """A percentage of at most 100."""
    if is_percentage(value) and amount(value) > 100:
        yield errors.wrong(path, value, "must not be greater than 100%")


def own_selector(path: str, spec: Object, what: str) -> Findings:
    """The selector of a workload: given, well formed, not empty."""
    found = spec.get("selector")
    if found is None:
        yield errors.required(f"{path}.selector")
        return
    yield from selector(f"{path}.selector", found)
    if empty_selector(found):
        yield errors.wrong(f"{path}.selector", found, f"empty selector is invalid for {what}")


def selected_labels(path: str, spec: Object) -> Findings:
    """The template's labels match the selector."""
    found, labels = spec.get("selector"), part(spec, "template", "metadata", "labels")
    if not selects(found, labels):
        yield errors.wrong(f"{path}.template.metadata.labels", labels or None, _MISMATCH)


def running_template(path: str, spec: Object, what: str) -> Findings:
    """A template whose Pods run for ever; `what` names the kind in messages."""
    found = spec.get("selector")
    if not understood(found):
        yield errors.wrong(
            f"{path}.selector", found, "invalid label selector" if what == "ReplicaSet" else ""
        )
        return
    yield from selected_labels(path, spec)
    yield from pod_validation.template(f"{path}.template", part(spec, "template"))
    yield from lasting(path, spec, what)


def lasting(path: str, spec: Object, what: str) -> Findings:
    """Pods restart always and have no deadline."""
    pod = part(spec, "template", "spec")
    if text(pod, "restartPolicy") != "Always":
        yield errors.not_supported(
            f"{path}.template.spec.restartPolicy", text(pod, "restartPolicy"), ("Always",)
        )
    if "activeDeadlineSeconds" in pod:
        yield errors.not_allowed(
            f"{path}.template.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {what} is not Supported"
        )


def shown_strategy(strategy: Object, *keys: str) -> Object:
    """Write a strategy as messages do; `keys`: the members of its rolling update, zero by default."""
    rolling = strategy.get("rollingUpdate")
    return {
        "Type": text(strategy, "type"),
        "RollingUpdate": rolling and {f"{key[0].upper()}{key[1:]}": rolling.get(key, 0) for key in keys},
    }


def fewer_than_replicas(path: str, status: Object, *keys: str) -> Findings:
    """Counts that are part of `status.replicas`."""
    for key in keys:
        if number(status, key) > number(status, "replicas"):
            yield errors.wrong(f"{path}.{key}", number(status, key), "cannot be greater than status.replicas")


def available_are_ready(
    path: str, status: Object, told: str = "cannot be greater than readyReplicas"
) -> Findings:
    """What is available is ready."""
    if number(status, "availableReplicas") > number(status, "readyReplicas"):
        yield errors.wrong(f"{path}.availableReplicas", number(status, "availableReplicas"), told)


def collisions(path: str, status: Object, before: Object) -> Findings:
    """The count of collisions never goes back."""
    now, was = status.get("collisionCount"), before.get("collisionCount")
    if was is not None and (now is None or now < was):
        yield errors.wrong(f"{path}.collisionCount", now or 0, "cannot be decremented")


def pods_hostname_warning(found: Object) -> list[str]:
    """Warn of a name that is no host name."""
    wrong = names.dns_label(text(part(found, "metadata"), "name"))
    if not wrong:
        return []
    told = "this is used in Pod names and hostnames, which can result in surprising behavior"
    return [f"metadata.name: {told}; a DNS label is recommended: {listed(wrong)}"]


def workload_warnings(new: Object, old: Object | None) -> list[str]:
    """Warnings about a Deployment, ReplicaSet or the like."""
    if old is None:
        return pods_hostname_warning(new) + template_warnings("spec.template", part(new, "spec", "template"))
    if part(new, "spec") == part(old, "spec"):
        return []
    return template_warnings("spec.template", part(new, "spec", "template"))


def given(findings: Findings) -> list[FieldError]:
    """Return findings as a list."""
    return list(findings)
