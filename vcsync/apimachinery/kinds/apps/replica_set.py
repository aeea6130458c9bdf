"""The kind ReplicaSet: defaults, validation, status and columns. Pure.

Source: Kubernetes' `pkg/apis/apps/validation`, `pkg/registry/apps/replicaset` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core import pod_defaults
from vcsync.apimachinery.kinds.core.workload_columns import REPLICA_COLUMNS
from vcsync.apimachinery.kinds.core.workloads import (
    as_list,
    own_selector,
    replica_set_status,
    replicas_field,
    running_template,
    same_selector,
    workload_warnings,
)
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.validation.fields import Findings, Object, nonnegative, part
from vcsync.apimachinery.wire import cells


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


KIND = Kind(
    group="apps",
    kind="ReplicaSet",
    plural="replicasets",
    generation=("spec",),
    status=True,
    pod_spec=("spec", "template", "spec"),
    default=_replica_set_default,
    validate=lambda found: as_list(_replica_set(found)),
    validate_update=lambda new, old: [*_replica_set(new), *same_selector(new, old)],
    warnings=workload_warnings,
    fields=replicas_field,
    status_validate=lambda new, old: as_list(replica_set_status(new, old)),
    columns={**REPLICA_COLUMNS, "Selector": cells.selector_at("spec.selector")},
    resets={"": STATUS, "status": SPEC},
)
