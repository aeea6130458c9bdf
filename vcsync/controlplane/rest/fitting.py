"""Objects that patches made, fitted to their kinds, or refused in the words of the way in which each was made.

Behaviour: `jsonPatcher`, `smpPatcher` and `applyPatcher` of apiserver's `endpoints/handlers/patch.go`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.gotext import ordered, plain
from vcsync.controlplane.patch import apply, documents
from vcsync.controlplane.rest.bodies import keep_reset, settle_meta, unknown_fields
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.schema import builtin, unstructured
from vcsync.controlplane.schema.findings import DecodeError
from vcsync.controlplane.wire import decode, negotiation

BY_REFLECTION = (documents.STRATEGIC, negotiation.APPLY_PATCH)
"""What brings objects into their types without JSON in between."""


@dataclass(frozen=True, slots=True)
class Made:
    """How an object was made: by a patch of which form, and what it holds."""

    form: str
    patch: Any

    def told(self, obj: Object) -> str:
        """Return what a refusal shows."""
        if self.form == documents.STRATEGIC:
            return plain(self.patch)
        touched = self.patch if self.form == documents.MERGE else _paths(self.patch)
        return msgspec.json.encode(_rewritten(obj, touched)).decode()

    def refusal(self, obj: Object, told: str, why: str) -> StatusError:
        """Say that an object cannot be; `told`: as `told` returned it."""
        if self.form != negotiation.APPLY_PATCH:
            return errors.invalid("", "", "", [errors.wrong("patch", told, why)])
        kind = f"{obj['apiVersion']}, Kind={obj['kind']}"
        about = f"failed to convert new object ({apply.about(self.patch)}) to proper version"
        return StatusError(500, "", f"{about}: unable to convert unstructured object to {kind}: {why}")


def _paths(operations: Any) -> Object:
    """Return where the operations of a JSON patch reach, as a tree of names."""
    tree: Object = {}
    for each in operations if isinstance(operations, list) else ():
        for key in ("path", "from"):
            below = tree
            for name in str(each.get(key) or "").split("/")[1:]:
                below = below.setdefault(name.replace("~1", "/").replace("~0", "~"), {})
    return tree


def _rewritten(obj: Any, touched: Any) -> Any:
    """Order members as the real server has them: by name in every object that a patch has taken apart."""
    if isinstance(obj, dict) and isinstance(touched, dict):
        return {name: _rewritten(obj[name], touched.get(name)) for name in sorted(obj)}
    return obj


def fitted(scope: Scope, obj: Object, validation: str, made: Made, seen: Sequence[str] = ()) -> Object:
    """Fit an object that a patch made to its kind.

    Args:
        scope: of the request.
        obj: the object, served.
        validation: what to do about unknown fields.
        made: how it was made.
        seen: what was found in the patch itself.

    Raises:
        StatusError: 422, 500.
    """
    resource = scope.kind.resource
    if not resource.custom:
        expected = decode.Expected(resource.group, resource.version, resource.kind)
        return fit(scope, expected, obj, validation, made, seen)
    told, given = made.told(ordered(obj)), obj.get("metadata")
    if not obj.get("kind"):
        raise made.refusal(obj, told, f"Object 'Kind' is missing in '{told}'")
    try:
        findings = [*seen, *unknown_fields(scope, obj)]
    except DecodeError as why:
        raise made.refusal(obj, told, str(why)) from None
    keep_reset({"metadata": given}, obj)
    if findings and validation == "Strict":
        raise made.refusal(obj, told, _strict(findings))
    if validation != "Ignore":
        scope.warn(findings)
    return obj


def fit(  # noqa: PLR0917 - as of `fitted`
    scope: Scope,
    expected: decode.Expected,
    obj: Object,
    validation: str,
    made: Made,
    seen: Sequence[str] = (),
) -> Object:
    """Fit an object that a patch made to a built-in kind; arguments as of `fitted`.

    Raises:
        StatusError: 422, 500.
    """
    try:
        new, unknown = decode.typed(expected.group, expected.version, expected.kind, obj)
    except DecodeError as why:
        raise made.refusal(obj, made.told(obj), _why(expected, obj, made, str(why))) from None
    settle_meta(new)
    keep_reset(obj, new)
    findings = [*seen, *(sorted(unknown) if made.form in BY_REFLECTION else unknown)]
    if findings and validation == "Strict":
        raise made.refusal(obj, made.told(obj), _strict(findings))
    if validation != "Ignore":
        scope.warn(findings)
    return new


def _why(expected: decode.Expected, obj: Object, made: Made, decoder: str) -> str:
    schema = builtin.schema(expected.group, expected.version, expected.kind)
    if made.form not in BY_REFLECTION or schema is None:
        return decoder
    return unstructured.complaint(obj, schema.definition) or decoder


def _strict(findings: Sequence[str]) -> str:
    return f"strict decoding error: {', '.join(findings)}"
