"""Decodes request bodies and checks that they are of the kind that the URL names."""

from typing import Any

from vcsync.apimachinery.schema.findings import DecodeError
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import decode, gojson, negotiation
from vcsync.apiserver.audit import request_log as auditing
from vcsync.apiserver.request.scope import Scope


def read_object(scope: Scope, body: bytes, content_type: str, validation: str) -> Object:
    """Decode an object of the request's kind in its served form. Adds warnings about unknown and duplicate fields.

    Args:
        scope: Scope of the request.
        body: The body.
        content_type: Value of the Content-Type header.
        validation: Value of the query parameter fieldValidation.

    Raises:
        StatusError: 400 if the body is invalid, 415 if its media type is not supported.
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
            unknown = findings[len(found.findings) :]
            repeated = decode.yaml_errors(found.findings) if form == "yaml" else list(found.findings)
            raise decode.strict_error(resource.kind, resource.version, resource.kind, (*repeated, *unknown))
    if validation != "Ignore":
        scope.warn(findings)
    ensure_metadata(obj)
    if form == "json" and b'"managedFields"' in body:
        keep_managed_fields_reset(gojson.loads(body), obj)
    auditing.sent(scope, obj)
    return obj


def _check_version(scope: Scope, found: decode.Decoded, expected: decode.Expected) -> None:
    """Refuse a custom resource of another version. If its definition lacks that version, all fields are unknown."""
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
    """Decode a body whose kind differs from that of the resource, such as a Scale; see `read_object`.

    Raises:
        StatusError: 400 if the body is invalid, 415 if its media type is not supported.
    """
    found = decode.read(body, negotiation.body_format(content_type), expected, validation=validation)
    scope.warn(found.findings)
    ensure_metadata(found.object)
    auditing.sent_other(scope, found.object)
    return found.object


def read_options(body: bytes, content_type: str) -> dict[str, Any] | None:
    """Decode the DeleteOptions in the body of a deletion, or return None if the body is empty.

    Raises:
        StatusError: 400 if the body is invalid, 415 if its media type is not supported.
    """
    return decode.read_options(body, content_type) if body else None


def keep_managed_fields_reset(sent: Object, obj: Object) -> None:
    """Copy empty managedFields from the body to the decoded object, where decoding drops them as Go's types do.

    Clients send an empty list, or a list of one empty entry, to reset the ownership of all fields.
    """
    entries = (sent.get("metadata") or {}).get("managedFields")
    if entries in ([], [{}]):
        obj["metadata"]["managedFields"] = entries


def unknown_fields(scope: Scope, obj: Object, *, keep_nulls: bool = False) -> list[str]:
    """Prune and default a custom resource by its schema, in place. Returns a text for each unknown field.

    `keep_nulls` leaves nulls that the schema does not allow, so that validation refuses them.

    Raises:
        DecodeError: A field of its metadata has a wrong type.
    """
    return [f'unknown field "{each}"' for each in scope.kind.decode(obj, keep_nulls=keep_nulls)]


def ensure_metadata(obj: Object) -> None:
    """Set `metadata` to an empty object unless it is an object."""
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
