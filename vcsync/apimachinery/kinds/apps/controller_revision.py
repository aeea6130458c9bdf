"""The kind ControllerRevision: validation, immutable data and columns. Pure.

Source: Kubernetes' `pkg/apis/apps/validation`,
`pkg/registry/apps/controllerrevision` and `pkg/printers/internalversion`.
"""

from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.workloads import as_list
from vcsync.apimachinery.validation.fields import Findings, Object, immutable, number
from vcsync.apimachinery.wire import cells


def _revision_create(found: Object) -> list[FieldError]:
    wrong = as_list(nonnegative_revision(found))
    data = found.get("data")
    if data is None:
        wrong.append(errors.required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        wrong.append(errors.required("data", "data must be a valid JSON object"))
    return wrong


def nonnegative_revision(found: Object) -> Findings:
    """Check that a revision number is not negative."""
    if number(found, "revision") < 0:
        yield errors.wrong("revision", number(found, "revision"), "must be greater than or equal to 0")


def controller(obj: cells.Object, _: datetime) -> str:
    """Return the owner that controls a ControllerRevision."""
    owners = cells.look(obj, "metadata.ownerReferences", ())
    owner = next((each for each in owners if each.get("controller")), None)
    if owner is None:
        return cells.NONE
    group = owner.get("apiVersion", "").rpartition("/")[0]
    kind = owner.get("kind", "").lower()
    return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"


KIND = Kind(
    group="apps",
    kind="ControllerRevision",
    plural="controllerrevisions",
    validate=_revision_create,
    validate_update=lambda new, old: [
        *nonnegative_revision(new),
        *immutable("data", new.get("data"), old.get("data")),
    ],
    columns={
        "Name": cells.name,
        "Controller": controller,
        "Revision": cells.field("revision", 0),
        "Age": cells.age,
    },
    repeats_finalizer_findings=True,
)
