"""The kind PodTemplate: defaults, validation, warnings and columns. Pure.

Source: Kubernetes' `pkg/registry/core/pod/strategy.go` and `ValidatePodCreate`.
"""

from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core import pod_defaults, pod_validation, pod_warnings
from vcsync.apimachinery.validation.fields import Object, part
from vcsync.apimachinery.wire import cells


def _template_default(found: Object) -> None:
    pod_defaults.template(found.get("template"))


def _warnings(new: Object, old: Object | None) -> list[str]:
    template = part(new, "template")
    changed = old is None or template != part(old, "template")
    return pod_warnings.template_warnings("template", template) if changed else []


KIND = Kind(
    group="",
    kind="PodTemplate",
    plural="podtemplates",
    generation=("template",),
    pod_spec=("template", "spec"),
    default=_template_default,
    validate=lambda found: list(pod_validation.template("template", part(found, "template"))),
    warnings=_warnings,
    columns={
        "Name": cells.name,
        **cells.containers_of("template"),
        "Pod Labels": cells.labels_at("template.metadata.labels"),
    },
    returned_on_deletion=True,
)
