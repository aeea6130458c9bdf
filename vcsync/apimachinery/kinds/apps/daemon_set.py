"""The kind DaemonSet: defaults, template generation, validation, status and columns. Pure.

Source: Kubernetes' `pkg/apis/apps/validation`, `pkg/registry/apps/daemonset` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core import pod_defaults, pod_validation
from vcsync.apimachinery.kinds.core.pod_warnings import template_warnings
from vcsync.apimachinery.kinds.core.workloads import (
    amount,
    as_list,
    at_most_everything,
    collisions,
    count,
    runs_forever,
    same_selector,
    selected_labels,
    shown_strategy,
)
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    empty_selector,
    nonnegative,
    part,
    selector,
    text,
    understood,
)
from vcsync.apimachinery.wire import cells

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _daemon_set_default(found: Object) -> None:
    # Upstream keeps the template generation in a field of its internal type; v1 shows it as an annotation.
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


def _daemon_set_create(new: Object, _: Context) -> None:
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
    yield from runs_forever("spec", spec, "DaemonSet")
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


def _warnings(new: Object, old: Object | None) -> list[str]:
    template = part(new, "spec", "template")
    changed = old is None or template != part(old, "spec", "template")
    return template_warnings("spec.template", template) if changed else []


KIND = Kind(
    group="apps",
    kind="DaemonSet",
    plural="daemonsets",
    generation=("spec",),
    status=True,
    pod_spec=("spec", "template", "spec"),
    default=_daemon_set_default,
    prepare_create=_daemon_set_create,
    prepare_update=_daemon_set_update,
    validate=lambda found: as_list(_daemon_set(found)),
    validate_update=lambda new, old: [*same_selector(new, old), *_daemon_set(new)],
    warnings=_warnings,
    status_validate=lambda new, old: as_list(_daemon_set_status(new, old)),
    columns={
        "Name": cells.name,
        "Desired": cells.field("status.desiredNumberScheduled", 0),
        "Current": cells.field("status.currentNumberScheduled", 0),
        "Ready": cells.field("status.numberReady", 0),
        "Up-to-date": cells.field("status.updatedNumberScheduled", 0),
        "Available": cells.field("status.numberAvailable", 0),
        "Node Selector": cells.labels_at("spec.template.spec.nodeSelector"),
        "Age": cells.age,
        **cells.containers_of("spec.template"),
        "Selector": cells.selector_at("spec.selector"),
    },
    resets={"": STATUS, "status": SPEC},
)
