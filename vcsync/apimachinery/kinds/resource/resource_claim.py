"""The kind ResourceClaim: defaults, validation, status and columns. Pure.

Source: Kubernetes' `pkg/apis/resource/validation`,
`pkg/registry/resource/resourceclaim` and `pkg/printers/internalversion`.
"""

from datetime import datetime

from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.resource import device_status
from vcsync.apimachinery.kinds.resource.claim_spec import (
    claim,
    claim_update,
    default_spec,
    default_tolerations,
)
from vcsync.apimachinery.patch.resets import SPEC_AND_METADATA, STATUS
from vcsync.apimachinery.validation.fields import Object, items, part
from vcsync.apimachinery.wire import cells


def _default_claim(found: Object) -> None:
    default_spec(part(found, "spec"))
    for each in items(part(found, "status", "allocation", "devices"), "results"):
        default_tolerations(each)


def claim_state(obj: cells.Object, _: datetime) -> str:
    """Return the state of a claim, from its allocation."""
    deleted = cells.look(obj, "metadata.deletionTimestamp") is not None
    states = ["deleted"] if deleted else []
    if cells.look(obj, "status.allocation") is None:
        states += [] if deleted else ["pending"]
    else:
        states += ["allocated", *(["reserved"] if cells.look(obj, "status.reservedFor") else [])]
    return ",".join(states)


KIND = Kind(
    group="resource.k8s.io",
    kind="ResourceClaim",
    plural="resourceclaims",
    status=True,
    default=_default_claim,
    validate=lambda found: list(claim("spec", part(found, "spec"))),
    validate_update=claim_update,
    status_prepare=lambda new, old, _: device_status.drop_deallocated(new, old),
    status_validate=device_status.findings,
    columns=cells.aged(State=claim_state),
    resets={"": STATUS, "status": SPEC_AND_METADATA},
    status_keeps_metadata=True,
    repeats_finalizer_findings=True,
    returned_on_deletion=True,
)
