"""What comes in: bodies decoded and checked against what the path is about."""

from typing import Any

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.rest import auditing
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.schema.findings import DecodeError
from vcsync.controlplane.wire import decode, gojson, negotiation


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
        _check_version(scope, found, expected)
        try:
            findings += unknown_fields(scope, obj)
        except DecodeError as why:
            raise decode.refusal(found.kind, resource.version, resource.kind, str(why)) from None
        if strict and findings:
            raise decode.strict_error(resource.kind, resource.version, resource.kind, tuple(findings))
    if validation != "Ignore":
        scope.warn(findings)
    settle_meta(obj)
    if form == "json" and b'"managedFields"' in body:
        keep_reset(gojson.loads(body), obj)
    auditing.sent(scope, obj)
    return obj


def _check_version(scope: Scope, found: decode.Decoded, expected: decode.Expected) -> None:
    """Refuse a custom resource of another version; if the definition has none such, all of it is unknown."""
    if (found.group, found.version) == (expected.group, expected.version):
        return
    known = f"{found.group}/{found.version}" in scope.kind.replicas
    if (found.group, found.kind) == (expected.group, expected.kind) and not known:
        foreign = sorted(found.object.keys() - {"kind", "apiVersion", "metadata"})
        scope.warn([f'unknown field "{each}"' for each in foreign])
    raise decode.other_version(found.group, found.version, expected)


def read_as(
    scope: Scope, body: bytes, content_type: str, expected: decode.Expected, validation: str = "Warn"
) -> Object:
    """Decode a body that is of another kind than the resource.

    Raises:
        StatusError: 400, 415.
    """
    found = decode.read(body, negotiation.body_format(content_type), expected, validation=validation)
    scope.warn(found.findings)
    settle_meta(found.object)
    auditing.sent_other(scope, found.object)
    return found.object


def read_options(body: bytes, content_type: str) -> dict[str, Any] | None:
    """Decode a DELETE's options, None: there is no body.

    Raises:
        StatusError: 400, 415.
    """
    return decode.read_options(body, content_type) if body else None


def keep_reset(given: Object, obj: Object) -> None:
    """Keep managedFields that hold nothing: with these clients reset them; Go's types have them as absent."""
    entries = (given.get("metadata") or {}).get("managedFields")
    if entries in ([], [{}]):
        obj["metadata"]["managedFields"] = entries


def unknown_fields(scope: Scope, obj: Object) -> list[str]:
    """Fit a custom resource to its schema, in place; return a text for each unknown field.

    Raises:
        DecodeError: its metadata is of wrong types.
    """
    return [f'unknown field "{each}"' for each in scope.kind.decode(obj)]


def settle_meta(obj: Object) -> None:
    """Make sure that there is metadata."""
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
