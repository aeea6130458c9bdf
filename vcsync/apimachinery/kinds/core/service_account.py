"""The kind ServiceAccount: references to Secrets, warnings and columns. Pure.

Source: Kubernetes' `pkg/apis/core/validation`, `pkg/registry/core/serviceaccount` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.validation.fields import Object, items, part
from vcsync.apimachinery.wire import cells


def _only_names(account: Object) -> None:
    """Keep only the names of references to Secrets."""
    for each in items(account, "secrets"):
        for key in each.keys() - {"name"}:
            del each[key]


def _service_account_warnings(new: Object, old: Object | None) -> list[str]:
    key = "kubernetes.io/enforce-mountable-secrets"
    if key in part(new, "metadata", "annotations") and key not in part(old, "metadata", "annotations"):
        message = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        return [f"metadata.annotations[{key}]: {message}"]
    return []


KIND = Kind(
    group="",
    kind="ServiceAccount",
    plural="serviceaccounts",
    prepare_create=lambda new, _: _only_names(new),
    prepare_update=lambda new, _, __: _only_names(new),
    warnings=_service_account_warnings,
    columns=cells.aged(),
    repeats_finalizer_findings=True,
    returned_on_deletion=True,
)
