"""The kind CSIDriver: defaults, generation, validation, warnings and columns. Pure.

Source: Kubernetes' `pkg/apis/storage/validation`,
`pkg/registry/storage/csidriver` and `pkg/printers/internalversion`.
"""

from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    immutable,
    indexed,
    items,
    number,
    one_of,
    part,
    text,
)
from vcsync.apimachinery.wire import cells

_DRIVER_DEFAULTS = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}
_PREVENT = "preventPodSchedulingIfMissing"
"""A field of CSIDrivers whose feature is off by default."""


def _driver_create(new: Object, _: Context) -> None:
    part(new, "spec").pop(_PREVENT, None)


def _driver_prepare_update(new: Object, old: Object, _: Context) -> None:
    if _PREVENT not in part(old, "spec"):
        part(new, "spec").pop(_PREVENT, None)
    # A create keeps the generation that the client sent. Only updates increment it.
    if part(new, "spec") != part(old, "spec"):
        new["metadata"]["generation"] = number(old["metadata"], "generation") + 1


def _driver_default(found: Object) -> None:
    spec = found.get("spec")
    if isinstance(spec, dict):
        fill(spec, _DRIVER_DEFAULTS)
        if not items(spec, "volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]


def _driver(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from one_of(
        "spec.fsGroupPolicy", text(spec, "fsGroupPolicy"), ("File", "None", "ReadWriteOnceWithFSType")
    )
    seen: set[str] = set()
    for each, here in indexed(spec, "tokenRequests", "spec.tokenRequests"):
        audience, seconds = text(each, "audience"), each.get("expirationSeconds")
        if audience in seen:
            yield errors.duplicate(f"{here}.audience", audience)
            continue
        seen.add(audience)
        if seconds is not None and seconds < 600:
            yield errors.wrong(
                f"{here}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
            )
        if seconds is not None and seconds > 1 << 32:
            message = "may not specify a duration larger than 2^32 seconds"
            yield errors.wrong(f"{here}.expirationSeconds", seconds, message)
    for mode in items(spec, "volumeLifecycleModes"):
        yield from one_of("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        message = "must be greater than or equal to 10 seconds"
        yield errors.wrong("spec.nodeAllocatableUpdatePeriodSeconds", period, message)
    secret = spec.get("serviceAccountTokenInSecrets")
    if secret is not None and not items(spec, "tokenRequests"):
        message = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield errors.wrong("spec.serviceAccountTokenInSecrets", secret, message)


def _driver_warnings(new: Object, _: Object | None) -> list[str]:
    spec = part(new, "spec")
    if not items(spec, "tokenRequests") or "serviceAccountTokenInSecrets" in spec:
        return []
    message = "is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
    return [f"spec.serviceAccountTokenInSecrets {message}"]


def _driver_update(new: Object, old: Object) -> list[FieldError]:
    now, was = part(new, "spec"), part(old, "spec")
    found = list(_driver(new))
    found.extend(immutable("spec.attachedRequired", now.get("attachRequired"), was.get("attachRequired")))
    modes = "volumeLifecycleModes"
    found.extend(immutable(f"spec.{modes}", now.get(modes), was.get(modes)))
    return found


def token_requests(obj: cells.Object, _: datetime) -> str:
    """Return the audiences of a driver's tokens."""
    found = cells.look(obj, "spec.tokenRequests")
    return cells.UNSET if found is None else ",".join(each.get("audience", "") for each in found)


KIND = Kind(
    group="storage.k8s.io",
    kind="CSIDriver",
    plural="csidrivers",
    unconditional_update=False,
    default=_driver_default,
    prepare_create=_driver_create,
    prepare_update=_driver_prepare_update,
    validate=lambda found: list(_driver(found)),
    validate_update=_driver_update,
    warnings=_driver_warnings,
    columns={
        "Name": cells.name,
        "AttachRequired": cells.field("spec.attachRequired", True),
        "PodInfoOnMount": cells.field("spec.podInfoOnMount", False),
        "StorageCapacity": cells.field("spec.storageCapacity", False),
        "TokenRequests": token_requests,
        "RequiresRepublish": cells.field("spec.requiresRepublish", False),
        "Modes": cells.joined("spec.volumeLifecycleModes", cells.NONE),
        "Age": cells.age,
    },
    returned_on_deletion=True,
)
