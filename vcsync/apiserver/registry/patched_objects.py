"""Decodes and validates patched objects. Refusals have the messages that kube-apiserver has for the type of the patch.

Behaviour: `jsonPatcher`, `smpPatcher` and `applyPatcher` of apiserver's `endpoints/handlers/patch.go`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vcsync.apimachinery import errors, numbers
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.gotext import ordered, plain
from vcsync.apimachinery.patch import apply, documents
from vcsync.apimachinery.schema import builtin, unstructured
from vcsync.apimachinery.schema.findings import DecodeError
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import decode, negotiation
from vcsync.apiserver.registry.bodies import ensure_metadata, keep_managed_fields_reset, unknown_fields
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.request.tracked_versions import tracked_versions

BY_REFLECTION = (documents.STRATEGIC, negotiation.APPLY_PATCH)
"""Media types of patches whose result kube-apiserver converts to Go types by reflection, without JSON in between."""
BY_JSON = (documents.MERGE, documents.JSON)
"""Media types of patches whose result kube-apiserver decodes from JSON, including its kind and version."""


@dataclass(frozen=True, slots=True)
class Source:
    """The patch that an object results from.

    Attributes:
        form: Media type of the patch.
        patch: The decoded patch.
        written: Whether patched objects have numbers that keep their texts; see `numbers.Written`.
    """

    form: str
    patch: Any
    written: bool = False

    def rejected_value(self, obj: Object) -> str:
        """Return the text that stands for the value in the refusal of a patched object."""
        if self.form == documents.STRATEGIC:
            return plain(self.patch)
        return numbers.encoded(self.as_encoded(obj)).decode()

    def as_encoded(self, obj: Object) -> Object:
        """Return the result of a merge or JSON patch with its members in the order in which kube-apiserver encodes it."""
        touched = self.patch if self.form == documents.MERGE else _paths(self.patch)
        ordered_object: Object = _rewritten(obj, touched)
        return ordered_object

    def refusal(self, obj: Object, value: str, why: str) -> StatusError:
        """Return the error for an invalid patched object.

        Args:
            obj: The patched object.
            value: Its text from `rejected_value`.
            why: What is wrong with the object.
        """
        if self.form != negotiation.APPLY_PATCH:
            return errors.invalid("", "", "", [errors.wrong("patch", value, why)])
        kind = f"{obj['apiVersion']}, Kind={obj['kind']}"
        about = f"failed to convert new object ({apply.about(self.patch)}) to proper version"
        return StatusError(500, "", f"{about}: unable to convert unstructured object to {kind}: {why}")


def _paths(operations: Any) -> Object:
    """Return the paths of the operations of a JSON patch as a tree of names."""
    tree: Object = {}
    for each in operations if isinstance(operations, list) else ():
        for key in ("path", "from"):
            below = tree
            for name in str(each.get(key) or "").split("/")[1:]:
                below = below.setdefault(name.replace("~1", "/").replace("~0", "~"), {})
    return tree


def _rewritten(obj: Any, touched: Any) -> Any:
    """Sort the members of every object that a patch changes, as kube-apiserver does when it encodes the result."""
    if isinstance(obj, dict) and isinstance(touched, dict):
        return {name: _rewritten(obj[name], touched.get(name)) for name in sorted(obj)}
    return _sorted(obj) if isinstance(touched, list) else obj


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def decoded(scope: Scope, obj: Object, validation: str, source: Source, found: Sequence[str] = ()) -> Object:
    """Decode a patched object of the request's kind.

    Args:
        scope: Scope of the request.
        obj: The patched object in its served form.
        validation: Value of the query parameter fieldValidation.
        source: The patch.
        found: Unknown and duplicate fields of the patch itself.

    Returns:
        The object without unknown fields.

    Raises:
        StatusError: 422 or 500 if the object does not fit its kind.
    """
    resource = scope.kind.resource
    if not resource.custom:
        expected = decode.Expected(resource.group, resource.version, resource.kind)
        return decoded_builtin(scope, expected, obj, validation, source, found)
    value, metadata = source.rejected_value(ordered(obj)), obj.get("metadata")
    if not obj.get("kind"):
        raise source.refusal(obj, value, f"Object 'Kind' is missing in '{value}'")
    try:
        keep_nulls = source.form == negotiation.APPLY_PATCH
        findings = [*found, *unknown_fields(scope, obj, keep_nulls=keep_nulls)]
    except DecodeError as why:
        raise source.refusal(obj, value, str(why)) from None
    keep_managed_fields_reset({"metadata": metadata}, obj)
    if findings and validation == "Strict":
        raise source.refusal(obj, value, _strict(findings))
    if validation != "Ignore":
        scope.warn(findings)
    return obj


def decoded_builtin(  # noqa: PLR0917 - the arguments of `decoded`
    scope: Scope,
    expected: decode.Expected,
    obj: Object,
    validation: str,
    source: Source,
    found: Sequence[str] = (),
) -> Object:
    """Decode a patched object of the built-in kind `expected`; see `decoded`.

    Raises:
        StatusError: 422 or 500 if the object does not fit its kind.
    """
    if source.form in BY_JSON:
        versions = tracked_versions(expected.group, expected.kind) or ()
        if other := decode.other_kind(obj, expected, versions):
            raise source.refusal(obj, source.rejected_value(obj), other)
    try:
        new, unknown = decode.typed(expected.group, expected.version, expected.kind, obj)
    except DecodeError as why:
        message = _conversion_error(expected, obj, source, str(why))
        raise source.refusal(obj, source.rejected_value(obj), message) from None
    if len(unknown) > 1 and source.form in BY_JSON:
        unknown = decode.typed(expected.group, expected.version, expected.kind, source.as_encoded(obj))[1]
    if source.written:
        new = numbers.settled(new)
    ensure_metadata(new)
    keep_managed_fields_reset(obj, new)
    findings = [*found, *(sorted(unknown) if source.form in BY_REFLECTION else unknown)]
    if findings and validation == "Strict":
        raise source.refusal(obj, source.rejected_value(obj), _strict(findings))
    if validation != "Ignore":
        scope.warn(findings)
    return new


def _conversion_error(expected: decode.Expected, obj: Object, source: Source, decode_error: str) -> str:
    """Return the message of Go's conversion by reflection where kube-apiserver uses it, else that of the decoder."""
    schema = builtin.schema(expected.group, expected.version, expected.kind)
    if source.form not in BY_REFLECTION or schema is None:
        return decode_error
    return unstructured.complaint(obj, schema.definition) or decode_error


def _strict(findings: Sequence[str]) -> str:
    return f"strict decoding error: {', '.join(findings)}"
