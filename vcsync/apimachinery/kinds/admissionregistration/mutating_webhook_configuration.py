"""The kind MutatingWebhookConfiguration: the shared rules of `webhooks`, with reinvocation; columns. Pure.

Source: Kubernetes' `pkg/apis/admissionregistration/validation`,
`pkg/registry/admissionregistration/mutatingwebhookconfiguration` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery.kinds.admissionregistration import static_names
from vcsync.apimachinery.kinds.admissionregistration.webhooks import (
    default_configuration,
    validate_configuration,
)
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.wire import cells

KIND = Kind(
    group="admissionregistration.k8s.io",
    kind="MutatingWebhookConfiguration",
    plural="mutatingwebhookconfigurations",
    generation=("webhooks",),
    unconditional_update=False,
    default=lambda found: default_configuration(found, mutating=True),
    validate=lambda found: validate_configuration(found, mutating=True),
    warnings=static_names.warnings,
    columns=cells.counted("Webhooks", "webhooks"),
    any_finalizers=True,
    repeats_finalizer_findings=True,
    repeats_metadata_findings=False,
)
