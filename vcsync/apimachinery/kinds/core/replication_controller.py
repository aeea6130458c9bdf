"""The kind ReplicationController: defaults, validation, status and columns. Pure.

Source: Kubernetes' `pkg/apis/core/validation`,
`pkg/registry/core/replicationcontroller` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core import pod_defaults, pod_validation
from vcsync.apimachinery.kinds.core.workload_columns import REPLICA_COLUMNS
from vcsync.apimachinery.kinds.core.workloads import (
    as_list,
    changed_template_warnings,
    replica_set_status,
    replicas_field,
    runs_forever,
    workload_warnings,
)
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, nonnegative, part, selects
from vcsync.apimachinery.wire import cells


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
    yield from runs_forever("spec", spec, "ReplicationController")


def _warnings(new: Object, old: Object | None) -> list[str]:
    if old is None:
        return workload_warnings(new, old)
    # Upstream's strategy confuses the templates: an update warns of what it replaces.
    return changed_template_warnings(new, old, part(old, "spec", "template"))


KIND = Kind(
    group="",
    kind="ReplicationController",
    plural="replicationcontrollers",
    generation=("spec",),
    status=True,
    pod_spec=("spec", "template", "spec"),
    default=_controller_default,
    validate=lambda found: as_list(_controller(found)),
    warnings=_warnings,
    fields=replicas_field,
    status_validate=lambda new, old: as_list(replica_set_status(new, old)),
    validate_name=names.path_prefix_name,
    columns={**REPLICA_COLUMNS, "Selector": cells.labels_at("spec.selector")},
    resets={"": STATUS, "status": SPEC},
    orphans_dependents=True,
)
