"""What comes in: bodies decoded and checked against what the path is about."""

from collections.abc import Sequence
from typing import Any

import msgspec

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.resources import Resource
from vcsync.controlplane.rest import auditing
from vcsync.controlplane.rest.scope import Scope
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
        _settle_meta(obj)
        _check_kind(found.kind, resource, obj)
        findings += _unknown(scope, obj)
        if strict and findings:
            raise decode.strict_error(resource.kind, resource.version, resource.kind, tuple(findings))
    if validation != "Ignore":
        scope.warn(findings)
    _settle_meta(obj)
    if form == "json" and b'"managedFields"' in body:
        _keep_reset(msgspec.json.decode(body), obj)
    auditing.sent(scope, obj)
    return obj


def _check_kind(said: str, resource: Resource, obj: Object) -> None:
    if said != resource.kind:
        why = errors.wrong("kind", said, f"must be {resource.kind}")
        raise errors.invalid(said, resource.group, obj["metadata"].get("name") or "", [why])


def read_as(scope: Scope, body: bytes, content_type: str, expected: decode.Expected) -> Object:
    """Decode a body that is of another kind than the resource.

    Raises:
        StatusError: 400, 415.
    """
    found = decode.read(body, negotiation.body_format(content_type), expected)
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
    before = msgspec.json.encode(obj, order="sorted").decode() if validation == "Strict" else ""
    if resource.custom:
        _settle_meta(obj)
        findings = [*seen, *_unknown(scope, obj)]
    else:
        made = obj
        obj, unknown = decode.conform(resource.group, resource.version, resource.kind, made)
        _settle_meta(obj)
        _keep_reset(made, obj)
        findings = [*seen, *unknown]
    if findings and validation == "Strict":
        raise _strict_patch(before, findings)
    if validation != "Ignore":
        scope.warn(findings)
    _settle_meta(obj)
    return obj


def _strict_patch(made: str, findings: Sequence[str]) -> StatusError:
    why = f"strict decoding error: {', '.join(findings)}"
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
