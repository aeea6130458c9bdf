"""Deployments, ReplicaSets, ReplicationControllers, DaemonSets, ControllerRevisions. Pure.

Source: Kubernetes' `pkg/apis/apps/v1/defaults.go`, `pkg/apis/apps/validation`, `pkg/registry/apps`.
"""

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import pod_defaults, pod_validation
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pod_defaults import fill
from vcsync.controlplane.kinds.pods import drop_disabled_template
from vcsync.controlplane.kinds.rules import (
    Findings,
    Object,
    empty_selector,
    immutable,
    nonnegative,
    number,
    part,
    selector,
    selects,
    text,
    understood,
)
from vcsync.controlplane.kinds.statefulsets import STATEFUL_SETS
from vcsync.controlplane.kinds.workloads import (
    amount,
    at_most_everything,
    available_are_ready,
    collisions,
    count,
    fewer_than_replicas,
    given,
    lasting,
    own_selector,
    running_template,
    selected_labels,
    shown_strategy,
    workload_warnings,
)


def _create(new: Object, _: Context) -> None:
    drop_disabled_template(part(new, "spec", "template"))


def _deployment_default(found: Object) -> None:
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return
    fill(spec, {"replicas": 1, "strategy": {}, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
    strategy = spec["strategy"]
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        fill(rolling, {"maxUnavailable": "25%", "maxSurge": "25%"})
    pod_defaults.template(spec.get("template"))


def _deployment_update(new: Object, old: Object, context: Context) -> None:
    _create(new, context)
    metadata, before = new["metadata"], old["metadata"]
    # Annotations go on to ReplicaSets, so their change counts like one of the spec.
    if (metadata.get("annotations") or {}) != (before.get("annotations") or {}):
        metadata["generation"] = number(before, "generation") + 1


def _keep_labels(new: Object, old: Object, _: Context) -> None:
    metadata, labels = new["metadata"], old["metadata"].get("labels")
    metadata.pop("labels", None)
    if labels:
        metadata["labels"] = dict(labels)


def _deployment(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from nonnegative(spec, "spec", "replicas")
    yield from own_selector("spec", spec, "deployment")
    yield from running_template("spec", spec, "ReplicaSet")
    yield from _strategy("spec.strategy", part(spec, "strategy"))
    yield from nonnegative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if isinstance(deadline, int) and deadline <= number(spec, "minReadySeconds"):
        yield errors.wrong("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _strategy(path: str, strategy: Object) -> Findings:
    kind, rolling = text(strategy, "type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            told = "may not be specified when strategy `type` is 'Recreate'"
            yield errors.not_allowed(f"{path}.rollingUpdate", told)
    elif kind == "RollingUpdate":
        yield from _rolling(f"{path}.rollingUpdate", rolling or {})
    else:
        shown = shown_strategy(strategy, "maxUnavailable", "maxSurge")
        yield errors.not_supported(path, shown, ("Recreate", "RollingUpdate"))


def _rolling(path: str, rolling: Object) -> Findings:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    yield from count(f"{path}.maxUnavailable", unavailable)
    yield from count(f"{path}.maxSurge", surge)
    if amount(unavailable) == 0 and amount(surge) == 0:
        yield errors.wrong(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from at_most_everything(f"{path}.maxUnavailable", unavailable)


def _same_selector(new: Object, old: Object) -> Findings:
    yield from immutable(
        "spec.selector", part(new, "spec").get("selector"), part(old, "spec").get("selector")
    )


_DEPLOYMENT_COUNTS = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
)


def _deployment_status(new: Object, old: Object) -> Findings:
    status = part(new, "status")
    yield from nonnegative(status, "status", *_DEPLOYMENT_COUNTS)
    yield from fewer_than_replicas("status", status, "updatedReplicas", "readyReplicas", "availableReplicas")
    yield from available_are_ready("status", status)
    yield from collisions("status", status, part(old, "status"))


def _replica_set_default(found: Object) -> None:
    spec = found.get("spec")
    if isinstance(spec, dict):
        fill(spec, {"replicas": 1})
        pod_defaults.template(spec.get("template"))


def _replica_set(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from nonnegative(spec, "spec", "replicas", "minReadySeconds")
    yield from own_selector("spec", spec, "deployment")
    yield from running_template("spec", spec, "ReplicaSet")


def _replica_set_status(new: Object, _: Object) -> Findings:
    status = part(new, "status")
    keys = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    yield from nonnegative(status, "status", *keys, "observedGeneration", "terminatingReplicas")
    yield from fewer_than_replicas("status", status, *keys[1:])
    yield from available_are_ready("status", status)


def _replicas_field(found: Object) -> dict[str, str]:
    return {"status.replicas": str(number(part(found, "status"), "replicas"))}


def _controller_default(found: Object) -> None:
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return
    labels = part(spec, "template", "metadata", "labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not part(found, "metadata", "labels"):
            found["metadata"]["labels"] = dict(labels)
    fill(spec, {"replicas": 1})
    pod_defaults.template(spec.get("template"))


def _controller(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from nonnegative(spec, "spec", "minReadySeconds")
    chosen = part(spec, "selector")
    if not chosen:
        yield errors.required("spec.selector")
    if "replicas" not in spec:
        yield errors.required("spec.replicas")
    yield from nonnegative(spec, "spec", "replicas")
    template = spec.get("template")
    if not isinstance(template, dict):
        yield errors.required("spec.template")
        return
    labels = part(template, "metadata", "labels")
    if chosen and not selects({"matchLabels": chosen}, labels):
        yield errors.wrong(
            "spec.template.metadata.labels", labels or None, "`selector` does not match template `labels`"
        )
    yield from pod_validation.template("spec.template", template)
    yield from lasting("spec", spec, "ReplicationController")


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _daemon_set_default(found: Object) -> None:
    # What the real server keeps in its internal form is an annotation in the served one, and never absent.
    _set_template_generation(found, _template_generation(found))
    spec = found.get("spec")
    if not isinstance(spec, dict):
        return
    fill(spec, {"updateStrategy": {}, "revisionHistoryLimit": 10})
    strategy = spec["updateStrategy"]
    fill(strategy, {"type": "RollingUpdate"})
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        fill(rolling, {"maxUnavailable": 1, "maxSurge": 0})
    pod_defaults.template(spec.get("template"))


def _daemon_set_create(new: Object, context: Context) -> None:
    _create(new, context)
    _set_template_generation(new, max(_template_generation(new), 1))


def _template_generation(found: Object) -> int:
    value = text(part(found, "metadata", "annotations"), _TEMPLATE_GENERATION)
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else 0


def _set_template_generation(found: Object, generation: int) -> None:
    metadata = found["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(generation)}


def _daemon_set_update(new: Object, old: Object, _: Context) -> None:
    moved = part(new, "spec", "template") != part(old, "spec", "template")
    _set_template_generation(new, _template_generation(old) + moved)


def _daemon_set(found: Object) -> Findings:
    spec = part(found, "spec")
    chosen = spec.get("selector")
    yield from selector("spec.selector", chosen)
    if understood(chosen):
        yield from selected_labels("spec", spec)
    if chosen is not None and empty_selector(chosen):
        yield errors.wrong("spec.selector", chosen, "empty selector is invalid for daemonset")
    yield from pod_validation.template("spec.template", part(spec, "template"))
    yield from lasting("spec", spec, "DaemonSet")
    yield from nonnegative(spec, "spec", "minReadySeconds")
    yield from _daemon_strategy("spec.updateStrategy", part(spec, "updateStrategy"))
    yield from nonnegative(spec, "spec", "revisionHistoryLimit")


def _daemon_strategy(path: str, strategy: Object) -> Findings:
    kind, rolling = text(strategy, "type"), part(strategy, "rollingUpdate")
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        shown = shown_strategy(strategy, "maxUnavailable", "maxSurge")
        yield errors.not_supported(path, shown, ("RollingUpdate", "OnDelete"))
        return
    unavailable, surge, here = rolling.get("maxUnavailable"), rolling.get("maxSurge"), f"{path}.rollingUpdate"
    yield from count(f"{here}.maxUnavailable", unavailable)
    yield from count(f"{here}.maxSurge", surge)
    yield from at_most_everything(f"{here}.maxUnavailable", unavailable)
    yield from at_most_everything(f"{here}.maxSurge", surge)
    if amount(unavailable) and amount(surge):
        yield errors.wrong(f"{here}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
    elif not amount(unavailable) and not amount(surge):
        yield errors.required(f"{here}.maxUnavailable", "cannot be 0 when maxSurge is 0")


_DAEMON_COUNTS = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


def _daemon_set_status(new: Object, old: Object) -> Findings:
    yield from nonnegative(part(new, "status"), "status", *_DAEMON_COUNTS)
    yield from collisions("status", part(new, "status"), part(old, "status"))


def _revision_create(found: Object) -> list[FieldError]:
    wrong = given(nonnegative_revision(found))
    data = found.get("data")
    if data is None:
        wrong.append(errors.required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        wrong.append(errors.required("data", "data must be a valid JSON object"))
    return wrong


def nonnegative_revision(found: Object) -> Findings:
    """A revision's number."""
    if number(found, "revision") < 0:
        yield errors.wrong("revision", number(found, "revision"), "must be greater than or equal to 0")


APPS = {
    **STATEFUL_SETS,
    ("", "ReplicationController"): Part(
        default=_controller_default,
        prepare_create=_create,
        validate=lambda found: given(_controller(found)),
        warnings=workload_warnings,
        fields=_replicas_field,
        status_validate=lambda new, old: given(_replica_set_status(new, old)),
    ),
    ("apps", "ControllerRevision"): Part(
        validate=_revision_create,
        validate_update=lambda new, old: [
            *nonnegative_revision(new),
            *immutable("data", new.get("data"), old.get("data")),
        ],
    ),
    ("apps", "DaemonSet"): Part(
        default=_daemon_set_default,
        prepare_create=_daemon_set_create,
        prepare_update=_daemon_set_update,
        validate=lambda found: given(_daemon_set(found)),
        validate_update=lambda new, old: [*_same_selector(new, old), *_daemon_set(new)],
        warnings=workload_warnings,
        status_validate=lambda new, old: given(_daemon_set_status(new, old)),
    ),
    ("apps", "Deployment"): Part(
        default=_deployment_default,
        prepare_create=_create,
        prepare_update=_deployment_update,
        validate=lambda found: given(_deployment(found)),
        validate_update=lambda new, old: [*_deployment(new), *_same_selector(new, old)],
        warnings=workload_warnings,
        status_prepare=_keep_labels,
        status_validate=lambda new, old: given(_deployment_status(new, old)),
    ),
    ("apps", "ReplicaSet"): Part(
        default=_replica_set_default,
        prepare_create=_create,
        validate=lambda found: given(_replica_set(found)),
        validate_update=lambda new, old: [*_replica_set(new), *_same_selector(new, old)],
        warnings=workload_warnings,
        fields=_replicas_field,
        status_validate=lambda new, old: given(_replica_set_status(new, old)),
    ),
}
