"""Check of the JSON types of a CustomResourceDefinition, before anything reads it. Pure.

The schema has checked definitions from clients. This check covers all other sources, and bounds the nesting.
"""

from collections.abc import Mapping
from typing import Any

from vcsync.apimachinery.errors import FieldError, wrong
from vcsync.apimachinery.structural.field_names import child, index, key
from vcsync.apimachinery.structural.schema import MAX_DEPTH

_TEXT = {
    "id", "$schema", "$ref", "description", "type", "format", "title", "pattern", "x-kubernetes-list-type",
    "x-kubernetes-map-type",
}  # fmt: skip
_FLAGS = {
    "exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable", "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
}  # fmt: skip
_WHOLE = {"maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"}
_NUMBERS = {"maximum", "minimum", "multipleOf"}
_PLAIN: dict[str, type] = {
    **dict.fromkeys(_TEXT, str), **dict.fromkeys(_FLAGS, bool), **dict.fromkeys(_WHOLE, int), "enum": list,
}  # fmt: skip
_OR_FLAG = {"additionalProperties", "additionalItems"}
_TEXTS = {"required", "x-kubernetes-list-map-keys"}
_SCHEMAS = {"properties", "patternProperties", "definitions"}
_LISTS = {"allOf", "anyOf", "oneOf"}
_RULE = {
    "rule": str,
    "message": str,
    "messageExpression": str,
    "reason": str,
    "fieldPath": str,
    "optionalOldSelf": bool,
}
_SPEC: dict[str, type] = {
    "group": str, "names": dict, "scope": str, "versions": list, "conversion": dict, "preserveUnknownFields": bool,
}  # fmt: skip
_NAMES: dict[str, type] = {
    "plural": str, "singular": str, "kind": str, "listKind": str, "shortNames": list, "categories": list,
}  # fmt: skip
_VERSION: dict[str, type] = {
    "name": str, "served": bool, "storage": bool, "deprecated": bool, "deprecationWarning": str, "schema": dict,
    "subresources": dict, "additionalPrinterColumns": list, "selectableFields": list,
}  # fmt: skip
_COLUMN: dict[str, type] = {
    "name": str, "type": str, "format": str, "description": str, "priority": int, "jsonPath": str,
}  # fmt: skip
_SCALE: dict[str, type] = {"specReplicasPath": str, "statusReplicasPath": str, "labelSelectorPath": str}
_GO = {str: "string", bool: "bool", int: "int", list: "list", dict: "object"}


def misshapen(definition: Mapping[str, Any]) -> list[FieldError]:
    """Return a finding on the first part of a definition that has a wrong type, or none."""
    try:
        _definition(definition)
    except _Misshapen as found:
        return [found.finding]
    return []


class _Misshapen(Exception):
    def __init__(self, path: str, value: Any, expected: str) -> None:
        super().__init__(path)
        shown = value if isinstance(value, str | int | float | bool) else type(value).__name__
        self.finding = wrong(path, shown, f"must be of type {expected}")


def _is(path: str, value: Any, type_: type) -> None:
    if not isinstance(value, type_) or (type_ is int and isinstance(value, bool)):
        raise _Misshapen(path, value, _GO[type_])


def _fields(path: str, value: Any, table: Mapping[str, type]) -> None:
    _is(path, value, dict)
    for name, type_ in table.items():
        if value.get(name) is not None:
            _is(child(path, name), value[name], type_)


def _texts(path: str, values: Any) -> None:
    _is(path, values, list)
    for at, each in enumerate(values):
        _is(index(path, at), each, str)


def _definition(definition: Mapping[str, Any]) -> None:
    spec: Any = definition.get("spec")
    _fields("spec", spec, _SPEC)
    names = spec.get("names") or {}
    _fields("spec.names", names, _NAMES)
    for name in ("shortNames", "categories"):
        _texts(f"spec.names.{name}", names.get(name) or [])
    _conversion(spec.get("conversion") or {})
    for at, each in enumerate(spec.get("versions") or ()):
        _version(index("spec.versions", at), each)


def _conversion(conversion: Any) -> None:
    path = "spec.conversion"
    _fields(path, conversion, {"strategy": str, "webhook": dict})
    webhook = conversion.get("webhook") or {}
    path = child(path, "webhook")
    _fields(path, webhook, {"clientConfig": dict, "conversionReviewVersions": list})
    _texts(child(path, "conversionReviewVersions"), webhook.get("conversionReviewVersions") or [])
    client = webhook.get("clientConfig") or {}
    _fields(child(path, "clientConfig"), client, {"url": str, "service": dict, "caBundle": str})
    service = {"namespace": str, "name": str, "path": str, "port": int}
    _fields(child(path, "clientConfig", "service"), client.get("service") or {}, service)


def _version(path: str, version: Any) -> None:
    _fields(path, version, _VERSION)
    subresources = version.get("subresources") or {}
    _fields(child(path, "subresources"), subresources, {"status": dict, "scale": dict})
    _fields(child(path, "subresources", "scale"), subresources.get("scale") or {}, _SCALE)
    for name, table in (("additionalPrinterColumns", _COLUMN), ("selectableFields", {"jsonPath": str})):
        for at, each in enumerate(version.get(name) or ()):
            _fields(index(child(path, name), at), each, table)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        _schema(child(path, "schema", "openAPIV3Schema"), schema, 0)


def _schema(path: str, schema: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _Misshapen(path, "", f"schema that nests no deeper than {MAX_DEPTH} levels")
    _is(path, schema, dict)
    for name, value in schema.items():
        if value is not None:
            _keyword(child(path, name), name, value, depth + 1)


def _keyword(path: str, name: str, value: Any, depth: int) -> None:
    if name in _PLAIN:
        _is(path, value, _PLAIN[name])
    elif name in _NUMBERS:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _Misshapen(path, value, "number")
    elif name in _TEXTS:
        _texts(path, value)
    elif name in _SCHEMAS:
        _is(path, value, dict)
        for each, below in value.items():
            _schema(key(path, each), below, depth)
    elif name == "x-kubernetes-validations":
        _is(path, value, list)
        for at, each in enumerate(value):
            _fields(index(path, at), each, _RULE)
    else:
        _nested(path, name, value, depth)


def _nested(path: str, name: str, value: Any, depth: int) -> None:
    if name in _LISTS or (name == "items" and isinstance(value, list)):
        _is(path, value, list)
        for at, each in enumerate(value):
            _schema(index(path, at), each, depth)
    elif name in ("items", "not") or (name in _OR_FLAG and not isinstance(value, bool)):
        _schema(path, value, depth)
