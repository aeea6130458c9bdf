"""The kind CSIStorageCapacity: validation. Pure.

Source: Kubernetes' `pkg/apis/storage/validation`,
`pkg/registry/storage/csistoragecapacity` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.resources import nonnegative_quantity
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, immutable, say, selector, text


def _capacity(found: Object) -> Findings:
    yield from selector("nodeTopology", found.get("nodeTopology"))
    name = text(found, "storageClassName")
    yield from say("storageClassName", name, names.dns_subdomain(name))
    if "capacity" in found:
        yield from nonnegative_quantity("capacity", found["capacity"])


def _capacity_update(new: Object, old: Object) -> list[FieldError]:
    found = list(_capacity(new))
    for key in ("nodeTopology", "storageClassName"):
        found.extend(immutable(key, new.get(key), old.get(key)))
    return found


KIND = Kind(
    group="storage.k8s.io",
    kind="CSIStorageCapacity",
    plural="csistoragecapacities",
    unconditional_update=False,
    validate=lambda found: list(_capacity(found)),
    validate_update=_capacity_update,
    repeats_finalizer_findings=True,
)
