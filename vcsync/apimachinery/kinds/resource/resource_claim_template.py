"""The kind ResourceClaimTemplate: defaults, validation and columns. Pure.

Source: Kubernetes' `pkg/apis/resource/validation`,
`pkg/registry/resource/resourceclaimtemplate` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.persistent_volume_claim import template_metadata
from vcsync.apimachinery.kinds.resource.claim_spec import claim, claim_update, default_spec
from vcsync.apimachinery.validation.fields import Object, part
from vcsync.apimachinery.wire import cells


def _template_default(found: Object) -> None:
    default_spec(part(found, "spec", "spec"))


def _template(found: Object) -> list[FieldError]:
    return [
        *template_metadata("spec.metadata", part(found, "spec", "metadata")),
        *claim("spec.spec", part(found, "spec", "spec")),
    ]


KIND = Kind(
    group="resource.k8s.io",
    kind="ResourceClaimTemplate",
    plural="resourceclaimtemplates",
    default=_template_default,
    validate=_template,
    validate_update=lambda new, old: [*_template(new), *claim_update(new, old)],
    columns=cells.aged(),
    repeats_finalizer_findings=True,
    returned_on_deletion=True,
)
