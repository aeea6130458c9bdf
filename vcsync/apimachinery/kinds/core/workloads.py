"""The rules that Deployments, ReplicaSets, StatefulSets and DaemonSets share. Pure.

Source: Kubernetes' `pkg/apis/apps/validation`.
"""

from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.core import pod_validation
from vcsync.apimachinery.kinds.core.pod_warnings import listed, template_warnings
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    NEGATIVE,
    Findings,
    Object,
    empty_selector,
    immutable,
    nonnegative,
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
    """Check a number or percentage: it must not be negative."""
    if isinstance(value, str):
        yield from say(path, value, names.percent(value))
    elif isinstance(value, int) and value < 0:
        yield errors.wrong(path, value, NEGATIVE)


def is_percentage(value: Any) -> bool:
    """Return whether a value is a well-formed percentage."""
    return isinstance(value, str) and not names.percent(value)


def amount(value: Any) -> int:
    """Return a number, or the number of a percentage. Any other value counts as zero."""
    if is_percentage(value):
        return int(value[:-1][:18])
    return value if isinstance(value, int) else 0


def at_most_everything(path: str, value: Any) -> Findings:
    """Check that a percentage is at most 100."""
    if is_percentage(value) and amount(value) > 100:
        yield errors.wrong(path, value, "must not be greater than 100%")


def own_selector(path: str, spec: Object, what: str) -> Findings:
    """Check a workload's selector: it must be given, well formed and not empty."""
    found = spec.get("selector")
    if found is None:
        yield errors.required(f"{path}.selector")
        return
    yield from selector(f"{path}.selector", found)
    if empty_selector(found):
        yield errors.wrong(f"{path}.selector", found, f"empty selector is invalid for {what}")


def selected_labels(path: str, spec: Object) -> Findings:
    """Check that the template's labels match the selector."""
    found, labels = spec.get("selector"), part(spec, "template", "metadata", "labels")
    if not selects(found, labels):
        yield errors.wrong(f"{path}.template.metadata.labels", labels or None, _MISMATCH)


def running_template(path: str, spec: Object, what: str) -> Findings:
    """Check a template whose Pods run forever; `what` names the kind in messages."""
    found = spec.get("selector")
    if not understood(found):
        yield errors.wrong(
            f"{path}.selector", found, "invalid label selector" if what == "ReplicaSet" else ""
        )
        return
    yield from selected_labels(path, spec)
    yield from pod_validation.template(f"{path}.template", part(spec, "template"))
    yield from runs_forever(path, spec, what)


def runs_forever(path: str, spec: Object, what: str) -> Findings:
    """Check that Pods always restart and have no deadline; `what` names the kind in messages."""
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
    """Return a strategy as messages show it; `keys` are the members of its rolling update, zero if absent."""
    rolling = strategy.get("rollingUpdate")
    return {
        "Type": text(strategy, "type"),
        "RollingUpdate": rolling and {f"{key[0].upper()}{key[1:]}": rolling.get(key, 0) for key in keys},
    }


def fewer_than_replicas(path: str, status: Object, *keys: str) -> Findings:
    """Check that counts which are part of `status.replicas` do not exceed it."""
    for key in keys:
        if number(status, key) > number(status, "replicas"):
            yield errors.wrong(f"{path}.{key}", number(status, key), "cannot be greater than status.replicas")


def available_are_ready(
    path: str, status: Object, message: str = "cannot be greater than readyReplicas"
) -> Findings:
    """Check that the available replicas do not exceed the ready ones."""
    if number(status, "availableReplicas") > number(status, "readyReplicas"):
        yield errors.wrong(f"{path}.availableReplicas", number(status, "availableReplicas"), message)


def collisions(path: str, status: Object, before: Object) -> Findings:
    """Check that the count of hash collisions never decreases."""
    now, was = status.get("collisionCount"), before.get("collisionCount")
    if was is not None and (now is None or now < was):
        yield errors.wrong(f"{path}.collisionCount", now or 0, "cannot be decremented")


def pods_hostname_warning(found: Object) -> list[str]:
    """Return a warning if the name cannot be a Pod's host name."""
    wrong = names.dns_label(text(part(found, "metadata"), "name"))
    if not wrong:
        return []
    message = "this is used in Pod names and hostnames, which can result in surprising behavior"
    return [f"metadata.name: {message}; a DNS label is recommended: {listed(wrong)}"]


def workload_warnings(new: Object, old: Object | None) -> list[str]:
    """Return the warnings about a workload's template, and about the name of a new one."""
    named = pods_hostname_warning(new) if old is None else []
    return named + changed_template_warnings(new, old, part(new, "spec", "template"))


def changed_template_warnings(new: Object, old: Object | None, template: Object) -> list[str]:
    """Return the warnings about a template if the workload is new or its spec changes."""
    if old is not None and part(new, "spec") == part(old, "spec"):
        return []
    return template_warnings("spec.template", template)


def as_list(findings: Findings) -> list[FieldError]:
    """Return findings as a list."""
    return list(findings)


def same_selector(new: Object, old: Object) -> Findings:
    """Yield a finding if an update changes the selector."""
    yield from immutable(
        "spec.selector", part(new, "spec").get("selector"), part(old, "spec").get("selector")
    )


def replica_set_status(new: Object, _: Object) -> Findings:
    """Yield the findings on the status of a ReplicaSet or ReplicationController."""
    status = part(new, "status")
    keys = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    yield from nonnegative(status, "status", *keys, "observedGeneration", "terminatingReplicas")
    yield from fewer_than_replicas("status", status, *keys[1:])
    yield from available_are_ready("status", status)


def replicas_field(found: Object) -> dict[str, str]:
    """Return the selectable field of kinds with replicas."""
    return {"status.replicas": str(number(part(found, "status"), "replicas"))}
