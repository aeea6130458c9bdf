"""The kind Namespace: finalizers, phase, the subresource `finalize` and columns. Pure.

Source: Kubernetes' `pkg/apis/core/validation`, `pkg/registry/core/namespace` and `pkg/printers/internalversion`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind, PartialWrite
from vcsync.apimachinery.kinds.common.partial_writes import keep_all_but
from vcsync.apimachinery.patch.resets import SPEC, STATUS
from vcsync.apimachinery.strategy import Context, none
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, items, part, say, text
from vcsync.apimachinery.wire import cells

_NAME_LABEL = "kubernetes.io/metadata.name"


def _namespace_default(found: Object) -> None:
    metadata = found.get("metadata")
    if isinstance(metadata, dict) and metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata["name"]}
    status = found.setdefault("status", {})
    fill(status, {"phase": "Active"})


def _namespace_create(new: Object, _: Context) -> None:
    metadata = new["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata["name"]}
    new["status"] = {"phase": "Active"}
    spec = new.setdefault("spec", {})
    finalizers = list(items(spec, "finalizers"))
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    spec["finalizers"] = finalizers


def _namespace_update(new: Object, old: Object, _: Context) -> None:
    new["spec"] = {**part(new, "spec")}
    new["spec"].pop("finalizers", None)
    if "finalizers" in part(old, "spec"):
        new["spec"]["finalizers"] = old["spec"]["finalizers"]


def finalizer(path: str, name: str) -> Findings:
    """Check a finalizer: a qualified name, or a standard one."""
    yield from say(path, name, names.qualified_name(name))
    yield from standard_finalizer(path, name)


def standard_finalizer(path: str, name: str) -> Findings:
    """Check that a finalizer without a domain is one of Kubernetes' own."""
    if "/" not in name and name not in ("kubernetes", "orphan", "foregroundDeletion"):
        yield errors.wrong(path, name, "name is neither a standard finalizer name nor is it fully qualified")


def _namespace(found: Object) -> list[FieldError]:
    return [
        each
        for name in items(part(found, "spec"), "finalizers")
        for each in finalizer("spec.finalizers", name)
    ]


def _namespace_status(new: Object, _old: Object) -> list[FieldError]:
    phase = text(part(new, "status"), "phase")
    deleted = "deletionTimestamp" in part(new, "metadata")
    expected, message = ("Terminating", "is not empty") if deleted else ("Active", "is empty")
    if phase == expected:
        return []
    return [errors.wrong("status.Phase", phase, f"may only be '{expected}' if `deletionTimestamp` {message}")]


def _finalize(new: Object, old: Object, _: Context) -> None:
    finalizers = (new.get("spec") or {}).get("finalizers")
    keep_all_but(new, old)
    spec = {key: value for key, value in (new.get("spec") or {}).items() if key != "finalizers"}
    if finalizers:
        spec["finalizers"] = finalizers
    new["spec"] = spec
    if not spec:
        del new["spec"]


KIND = Kind(
    group="",
    kind="Namespace",
    plural="namespaces",
    status=True,
    default=_namespace_default,
    prepare_create=_namespace_create,
    prepare_update=_namespace_update,
    validate=_namespace,
    validate_update=lambda _new, _old: [],
    fields=lambda found: {
        "status.phase": text(part(found, "status"), "phase"),
        "name": text(part(found, "metadata"), "name"),
    },
    status_validate=_namespace_status,
    validate_name=names.label_name,
    columns=cells.aged(Status=cells.field("status.phase")),
    resets={"": STATUS, "status": SPEC, "finalize": STATUS},
    partial_writes={"finalize": PartialWrite(_finalize, none)},
    repeats_finalizer_findings=True,
    returned_on_deletion=True,
)
