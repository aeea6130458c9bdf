"""What comes in: bodies decoded and checked against what the path is about."""

from typing import Any

import msgspec

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import bad_request
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.wire import negotiation, typed, types


def read_object(scope: Scope, body: bytes, content_type: str, validation: str) -> Object:
    """Decode a served object; warns of unknown and duplicate fields.

    Raises:
        StatusError: 400, 415.
    """
    negotiation.body_format(content_type)
    try:
        obj: Object = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise bad_request(str(error)) from None
    resource = scope.kind.resource
    obj.setdefault("kind", resource.kind)
    obj.setdefault("apiVersion", resource.api_version)
    return fitted(scope, obj, validation)


def fitted(scope: Scope, obj: Object, validation: str) -> Object:
    """Fit an object that was decoded, or made by a patch, to its kind."""
    resource = scope.kind.resource
    found = types.find(resource.group, resource.version, resource.kind)
    if found is not None and not resource.custom:
        try:
            kind, api_version = obj.get("kind"), obj.get("apiVersion")
            obj, findings = typed.fit(found, obj)
        except typed.Unfit as error:
            raise bad_request(str(error)) from None
        obj = {"kind": kind, "apiVersion": api_version, **obj}
        if validation != "Ignore":
            scope.warn(findings)
    if not isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {}
    return obj


def read_options(body: bytes, content_type: str) -> dict[str, Any] | None:
    """Decode a DELETE's options, None: there is no body."""
    if not body:
        return None
    negotiation.body_format(content_type)
    try:
        found: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise bad_request(str(error)) from None
    return found
