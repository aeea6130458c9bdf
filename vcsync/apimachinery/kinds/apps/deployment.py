"""The kind Deployment: defaults, generation, validation, status and columns. Pure.

Source: Kubernetes' `pkg/apis/apps/validation`, `pkg/registry/apps/deployment` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core import pod_defaults
from vcsync.apimachinery.kinds.core.workload_columns import ready
from vcsync.apimachinery.kinds.core.workloads import (
    amount,
    as_list,
    at_most_everything,
    available_are_ready,
    collisions,
    count,
    fewer_than_replicas,
    own_selector,
    running_template,
    same_selector,
    shown_strategy,
    workload_warnings,
)
from vcsync.apimachinery.patch.resets import STATUS, Reset, paths
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation.fields import Findings, Object, nonnegative, number, part, text
from vcsync.apimachinery.wire import cells


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


def _deployment_update(new: Object, old: Object, _: Context) -> None:
    metadata, before = new["metadata"], old["metadata"]
    # The controller copies annotations to ReplicaSets, so a change of them increments the generation, too.
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
            message = "may not be specified when strategy `type` is 'Recreate'"
            yield errors.not_allowed(f"{path}.rollingUpdate", message)
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


KIND = Kind(
    group="apps",
    kind="Deployment",
    plural="deployments",
    generation=("spec",),
    status=True,
    pod_spec=("spec", "template", "spec"),
    default=_deployment_default,
    prepare_update=_deployment_update,
    validate=lambda found: as_list(_deployment(found)),
    validate_update=lambda new, old: [*_deployment(new), *same_selector(new, old)],
    warnings=workload_warnings,
    status_prepare=_keep_labels,
    status_validate=lambda new, old: as_list(_deployment_status(new, old)),
    columns={
        "Name": cells.name,
        "Ready": ready,
        "Up-to-date": cells.field("status.updatedReplicas", 0),
        "Available": cells.field("status.availableReplicas", 0),
        "Age": cells.age,
        **cells.containers_of("spec.template"),
        "Selector": cells.selector_at("spec.selector", ""),
    },
    resets={"": STATUS, "status": Reset(paths("spec", "metadata.labels"))},
)
