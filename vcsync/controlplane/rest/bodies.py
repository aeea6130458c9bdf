"""What comes in: bodies decoded and checked against what the path is about."""

from collections.abc import Sequence
from typing import Any

import msgspec

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.rest import auditing
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.schema.findings import DecodeError
from vcsync.controlplane.wire import decode, negotiation


def read_object(scope: Scope, body: bytes, content_type: str, validation: str) -> Object:
    """Decode a served object; warns of unknown and duplicate fields.

    Raises:
        StatusError: 400, 415.
    """
    form = negotiation.body_format(content_type)
    resource = scope.kind.resource
    expected = decode.Expected(resource.group, resource.version, resource.kind, resource.custom)
    strict = resource.custom and validation == "Strict"
    found = decode.read(body, form, expected, validation="Warn" if strict else validation)
    obj, findings = found.object, list(found.findings)
    if resource.custom:
        try:
            findings += _unknown(scope, obj)
        except DecodeError as why:
            raise decode.refusal(found.kind, resource.version, resource.kind, str(why)) from None
        if strict and findings:
            raise decode.strict_error(resource.kind, resource.version, resource.kind, tuple(findings))
    if validation != "Ignore":
        scope.warn(findings)
    _settle_meta(obj)
    if form == "json" and b'"managedFields"' in body:
        _keep_reset(msgspec.json.decode(body), obj)
    auditing.sent(scope, obj)
    return obj


def read_as(
    scope: Scope, body: bytes, content_type: str, expected: decode.Expected, validation: str = "Warn"
) -> Object:
    """Decode a body that is of another kind than the resource.

    Raises:
        StatusError: 400, 415.
    """
    found = decode.read(body, negotiation.body_format(content_type), expected, validation=validation)
    scope.warn(found.findings)
    _settle_meta(found.object)
    auditing.sent_other(scope, found.object)
    return found.object


def fitted(scope: Scope, obj: Object, validation: str, seen: Sequence[str] = ()) -> Object:
    """Fit an object that a patch made to its kind.

    Args:
        scope: of the request.
        obj: the object, served.
        validation: what to do about unknown fields.
        seen: what was found in the patch itself.

    Raises:
        StatusError: 400.
    """
    resource = scope.kind.resource
    if not resource.custom:
        expected = decode.Expected(resource.group, resource.version, resource.kind)
        return fit(scope, expected, obj, validation, seen)
    before = _told(obj)
    _report(scope, before, [*seen, *_custom(scope, obj, before)], validation)
    return obj


def fit(
    scope: Scope, expected: decode.Expected, obj: Object, validation: str, seen: Sequence[str] = ()
) -> Object:
    """Fit an object that a patch made to a built-in kind; arguments as of `fitted`.

    Raises:
        StatusError: 400.
    """
    new, unknown = decode.conform(expected.group, expected.version, expected.kind, obj)
    _settle_meta(new)
    _keep_reset(obj, new)
    findings = [*seen, *unknown]
    _report(scope, _told(obj) if findings and validation == "Strict" else "", findings, validation)
    return new


def _told(obj: Object) -> str:
    return msgspec.json.encode(obj, order="sorted").decode()


def _report(scope: Scope, made: str, findings: Sequence[str], validation: str) -> None:
    """Refuse or warn because of unknown and repeated fields; `made`: what the patch made of the object."""
    if findings and validation == "Strict":
        raise _bad_patch(made, f"strict decoding error: {', '.join(findings)}")
    if validation != "Ignore":
        scope.warn(findings)


def _custom(scope: Scope, obj: Object, before: str) -> list[str]:
    """Fit a custom resource that a patch made to its schema, in place; return texts about unknown fields."""
    if not obj.get("kind"):
        raise _bad_patch(before, f"Object 'Kind' is missing in '{before}'")
    given = obj.get("metadata")
    try:
        findings = _unknown(scope, obj)
    except DecodeError as why:
        raise _bad_patch(before, str(why)) from None
    _keep_reset({"metadata": given}, obj)
    return findings


def _bad_patch(made: str, why: str) -> StatusError:
    return errors.invalid("", "", "", [errors.wrong("patch", made, why)])


def read_options(body: bytes, content_type: str) -> dict[str, Any] | None:
    """Decode a DELETE's options, None: there is no body.

    Raises:
        StatusError: 400, 415.
    """
    return decode.read_options(body, content_type) if body else None


def _keep_reset(given: Object, obj: Object) -> None:
    """Keep managedFields that hold nothing: with these clients reset them; Go's types have them as absent."""
    entries = (given.get("metadata") or {}).get("managedFields")
    if entries in ([], [{}]):
        obj["metadata"]["managedFields"] = entries


def _unknown(scope: Scope, obj: Object) -> list[str]:
    return [f'unknown field "{each}"' for each in scope.kind.decode(obj)]


def _settle_meta(obj: Object) -> None:
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
