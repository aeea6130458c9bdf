"""The kind DeviceClass: validation and columns. Pure.

Source: Kubernetes' `pkg/apis/resource/validation`,
`pkg/registry/resource/deviceclass` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.resources import is_extended
from vcsync.apimachinery.kinds.resource.claim_spec import MOST_CONFIGURATIONS, configuration, selectors
from vcsync.apimachinery.kinds.resource.limited_lists import limited
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, part
from vcsync.apimachinery.wire import cells


def _class(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from selectors("spec.selectors", spec)
    yield from limited("spec.config", spec, "config", MOST_CONFIGURATIONS, configuration)
    extended = spec.get("extendedResourceName")
    if extended is not None and not is_extended(extended):
        yield errors.wrong("spec.extendedResourceName", extended, "must be a valid extended resource name")


KIND = Kind(
    group="resource.k8s.io",
    kind="DeviceClass",
    plural="deviceclasses",
    generation=("spec",),
    validate=lambda found: list(_class(found)),
    validate_name=names.path_prefix_name,
    columns=cells.aged(),
    repeats_finalizer_findings=True,
    returned_on_deletion=True,
)
