"""Writes operations as the `paths` of OpenAPI documents of versions 2 and 3. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from vcsync.apimachinery.schema.builtin import KIND_MARK, parameters
from vcsync.apiserver.openapi.operations import TEXT, Operation
from vcsync.apiserver.openapi.schemas import PREFIX

Document = dict[str, Any]

REVISION = 2
"""Part of the hash of documents, by which clients cache them. Increase it when this module's output changes."""

BUILTIN_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
CUSTOM_TYPES = ("application/json", "application/yaml")
STREAM_TYPES = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
CUSTOM_PATCH_TYPES = tuple(each for each in PATCH_TYPES if "strategic" not in each)

_STATUS_TEXTS = {200: "OK", 201: "Created", 202: "Accepted"}


def paths(operations: Iterable[Operation], version: int, *, custom: bool = False) -> Document:
    """Return operations as the `paths` of a document.

    Args:
        operations: The operations.
        version: Version of OpenAPI: 2 or 3.
        custom: Whether the operations are those of custom resources.
    """
    by_path: dict[str, list[Operation]] = {}
    for each in operations:
        by_path.setdefault(each.path, []).append(each)
    return {path: _path(found, version, custom) for path, found in by_path.items()}


def _path(found: Sequence[Operation], version: int, custom: bool) -> Document:
    """Return the operations of one path. Parameters that all of them have are listed once, at the path."""
    first = found[0]
    common = {name for name in first.parameters if all(name in each.parameters for each in found)}
    shared = (
        common
        | set(first.path_parameters)
        | ({"pretty"} if first.kind[2] and first.action != "connect" else set())
    )
    entry: Document = {}
    if shared:
        listed = [(name, name not in first.path_parameters) for name in shared]
        listed += [("path", True)] if "path" in common and "path" in first.path_parameters else []
        entry["parameters"] = [
            _parameter(name, first, version, in_path=not query) for name, query in sorted(listed)
        ]
    for each in found:
        own = [name for name in each.parameters if name not in shared]
        entry[each.method] = (
            _operation2(each, own, custom) if version == 2 else _operation3(each, own, custom)
        )
    return entry


def _parameter(name: str, each: Operation, version: int, *, in_path: bool = False) -> Document:
    place = "path" if in_path else "query"
    found, kind = parameters()[f"{place}/{name}"], each.kind[2]
    description = (
        found.descriptions.get(each.action) or found.descriptions.get(kind) or found.descriptions[""]
    )
    shape = {"uniqueItems": True, "type": found.type}
    common = {
        "description": description.replace(KIND_MARK, kind),
        "name": name,
        "in": place,
        **({"required": True} if in_path else {}),
    }
    return {**shape, **common} if version == 2 else {**common, "schema": shape}


def _identity(each: Operation) -> Document:
    group, version, kind = each.kind
    if not kind:
        return {}
    return {
        "x-kubernetes-action": each.action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    }


def _request_types(each: Operation, custom: bool) -> tuple[str, ...]:
    if not each.kind[2]:
        return each.types if each.response != TEXT else ()
    if each.patch:
        return CUSTOM_PATCH_TYPES if custom else PATCH_TYPES
    return CUSTOM_TYPES if custom else ("*/*",)


def _response_types(each: Operation, custom: bool) -> tuple[str, ...]:
    if each.types:
        return each.types
    if each.response == TEXT:
        return ("*/*",) if each.action == "connect" else ("text/plain", *BUILTIN_TYPES)
    if custom:
        return CUSTOM_TYPES
    return (*BUILTIN_TYPES, *STREAM_TYPES) if each.stream else BUILTIN_TYPES


def _schema(definition: str, version: int) -> Document:
    return {"type": "string"} if definition == TEXT else {"$ref": f"{PREFIX[version]}{definition}"}


def _operation2(each: Operation, own: Sequence[str], custom: bool) -> Document:
    request_types = _request_types(each, custom)
    listed = [_parameter(name, each, 2) for name in own]
    if each.body:
        required = each.action not in ("delete", "deletecollection")
        body = {
            "name": "body",
            "in": "body",
            **({"required": True} if required else {}),
            "schema": _schema(each.body, 2),
        }
        listed.insert(0, body)
    responses: Document = {
        str(code): {"description": _STATUS_TEXTS[code], "schema": _schema(each.response, 2)}
        for code in each.codes
    }
    return {
        "description": each.description,
        **({"consumes": list(request_types)} if request_types else {}),
        "produces": list(_response_types(each, custom)),
        "schemes": ["https"],
        "tags": [each.tag],
        "operationId": each.id,
        **({"parameters": listed} if listed else {}),
        "responses": {**responses, "401": {"description": "Unauthorized"}},
        **_identity(each),
    }


def _operation3(each: Operation, own: Sequence[str], custom: bool) -> Document:
    content = {kind: {"schema": _schema(each.response, 3)} for kind in _response_types(each, custom)}
    responses: Document = {
        str(code): {"description": _STATUS_TEXTS[code], "content": content} for code in each.codes
    }
    listed = [_parameter(name, each, 3) for name in own]
    body: Document = {}
    if each.body:
        accepted = {kind: {"schema": _schema(each.body, 3)} for kind in _request_types(each, custom)}
        required = each.action not in ("delete", "deletecollection")
        body = {"requestBody": {"content": accepted, **({"required": True} if required else {})}}
    return {
        "tags": [each.tag],
        "description": each.description,
        "operationId": each.id,
        **({"parameters": listed} if listed else {}),
        **body,
        "responses": {**responses, "401": {"description": "Unauthorized"}},
        **_identity(each),
    }
