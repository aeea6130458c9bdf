"""Schemas of custom resources as OpenAPI documents publish them. Pure.

Source: `pkg/controller/openapi` of apiextensions-apiserver. Version 3 keeps everything; version 2 omits what
kubectl cannot read.
"""

import copy
from collections.abc import Mapping
from typing import Any

from vcsync.apimachinery.resources import Resource

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_VERSION_TEXT = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized"
    f" schemas to the latest internal value, and may reject unrecognized values. More info: {_CONVENTIONS}#resources"
)
_KIND_TEXT = (
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the"
    f" endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: {_CONVENTIONS}#types-kinds"
)
_EMBEDDED_VERSION = (
    "apiVersion defines the versioned schema of this representation of an object."
    f" More info: {_CONVENTIONS}#resources"
)
_EMBEDDED_KIND = (
    "kind is a string value representing the type of this object. In CamelCase."
    f" More info: {_CONVENTIONS}#types-kinds"
)
_METADATA_TEXT = f"Standard object's metadata. More info: {_CONVENTIONS}#metadata"
_LIST_METADATA_TEXT = f"Standard list metadata. More info: {_CONVENTIONS}#types-kinds"
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")


def definition_name(group: str, version: str, kind: str) -> str:
    """Return the name of a kind's definition: `com.example.v1.Foo`."""
    return ".".join([*reversed(group.split(".")), version, kind])


def schemas(resource: Resource, version: Mapping[str, Any], *, v2: bool = False) -> dict[str, Any]:
    """Return the definitions of a custom resource and of its list, by name.

    Args:
        resource: the declaration of the custom resource.
        version: the entry of `spec.versions`.
        v2: whether the schemas are for the OpenAPI v2 document instead of v3.
    """
    name = definition_name(resource.group, resource.version, resource.kind)
    list_name = definition_name(resource.group, resource.version, resource.list_kind)
    prefix = "#/definitions/" if v2 else "#/components/schemas/"
    return {
        name: _own(resource, version, prefix, v2=v2),
        list_name: _list(resource, version, prefix, name, v2=v2),
    }


def _reference(prefix: str, target: str, text: str, *, v2: bool) -> dict[str, Any]:
    where = {"$ref": f"{prefix}{target}"}
    return {"description": text, **where} if v2 else {"description": text, "allOf": [where]}


def _identity(resource: Resource, kind: str) -> list[dict[str, str]]:
    return [{"group": resource.group, "kind": kind, "version": resource.version}]


def _selectable(version: Mapping[str, Any]) -> dict[str, Any]:
    fields = [
        {"fieldPath": each["jsonPath"].removeprefix(".")} for each in version.get("selectableFields") or ()
    ]
    return {"x-kubernetes-selectable-fields": fields} if fields else {}


def _own(resource: Resource, version: Mapping[str, Any], prefix: str, *, v2: bool) -> dict[str, Any]:
    raw = (version.get("schema") or {}).get("openAPIV3Schema")
    extensions = {"x-kubernetes-group-version-kind": _identity(resource, resource.kind)}
    if raw is None or (v2 and raw.get("x-kubernetes-preserve-unknown-fields")):
        return {"type": "object", **extensions, **_selectable(version)}
    schema = copy.deepcopy(dict(raw))
    if v2:
        _simplify(schema)
    else:
        _name_both(schema)
    _embed(schema, prefix, v2=v2)
    properties = schema.setdefault("properties", {})
    properties["metadata"] = _reference(prefix, f"{_META}.ObjectMeta", _METADATA_TEXT, v2=v2)
    properties["apiVersion"] = {"description": _VERSION_TEXT, "type": "string"}
    properties["kind"] = {"description": _KIND_TEXT, "type": "string"}
    return {**schema, **extensions, **_selectable(version)}


def _list(
    resource: Resource, version: Mapping[str, Any], prefix: str, name: str, *, v2: bool
) -> dict[str, Any]:
    return {
        "description": f"{resource.list_kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": _VERSION_TEXT, "type": "string"},
            "items": {
                "description": f"List of {resource.plural}. More info: {_CONVENTIONS}",
                "type": "array",
                "items": {"$ref": f"{prefix}{name}"},
            },
            "kind": {"description": _KIND_TEXT, "type": "string"},
            "metadata": _reference(prefix, f"{_META}.ListMeta", _LIST_METADATA_TEXT, v2=v2),
        },
        "x-kubernetes-group-version-kind": _identity(resource, resource.list_kind),
        **_selectable(version),
    }


def _below(schema: dict[str, Any]) -> list[dict[str, Any]]:
    found = list((schema.get("properties") or {}).values())
    found += [
        schema[name] for name in ("items", "additionalProperties") if isinstance(schema.get(name), dict)
    ]
    return found


def _name_both(schema: dict[str, Any]) -> None:
    """Spell out the types of int-or-string values, in place."""
    if schema.get("x-kubernetes-int-or-string") and not schema.get("anyOf") and not schema.get("allOf"):
        schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    for each in _below(schema):
        _name_both(each)


def _embed(schema: dict[str, Any], prefix: str, *, v2: bool) -> None:
    """Add identity and metadata to the schemas of embedded resources, in place."""
    for each in _below(schema):
        _embed(each, prefix, v2=v2)
    if not schema.get("x-kubernetes-embedded-resource") or (
        v2 and schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        return
    properties = schema.setdefault("properties", {})
    properties["apiVersion"] = {"description": _EMBEDDED_VERSION, "type": "string"}
    properties["kind"] = {"description": _EMBEDDED_KIND, "type": "string"}
    properties["metadata"] = _reference(prefix, f"{_META}.ObjectMeta", _METADATA_TEXT, v2=v2)
    needed = schema.setdefault("required", [])
    needed += [each for each in ("kind", "apiVersion") if each not in needed]


def _simplify(schema: dict[str, Any]) -> None:
    """Remove what OpenAPI v2 does not support, in place."""
    for name in (*_JUNCTORS, "default"):
        schema.pop(name, None)
    nullable, free = schema.pop("nullable", False), schema.get("x-kubernetes-preserve-unknown-fields")
    if nullable or free:
        schema.pop("items", None)
        schema.pop("properties", None)
    if nullable or (free and schema.get("type") == "object"):
        schema.pop("type", None)
    if schema.get("type") == "array" and schema.get("items") is None:
        schema.pop("type", None)
    nulls = {name for name, each in (schema.get("properties") or {}).items() if each.get("nullable")}
    if nulls and "required" in schema:
        schema["required"] = [each for each in schema["required"] if each not in nulls]
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict) and additional.get("nullable"):
        schema.pop("required", None)
    for each in _below(schema):
        _simplify(each)
