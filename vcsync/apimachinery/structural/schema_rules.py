"""Validation that an openAPIV3Schema is structural, as apiextensions' `apiserver/schema` defines it. Pure."""

from collections.abc import Mapping
from typing import Any

from vcsync.apimachinery.errors import FieldError, not_allowed, required, wrong
from vcsync.apimachinery.structural import patterns
from vcsync.apimachinery.structural.field_names import child, index, key

Raw = Mapping[str, Any]

_UNSUPPORTED = (
    "id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions",
)  # fmt: skip
_EMPTY_LEVEL = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_NESTED_FORBIDDEN = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_UNDEFINED = {"additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type"}


def unsupported(schema: Raw) -> str:
    """Return the first keyword that structural schemas do not support, or an empty string."""
    for name in _UNSUPPORTED:
        if schema.get(name) or (name == "additionalItems" and schema.get(name) is not None):
            shown = name.removeprefix("$") if name == "$schema" else name
            return f"OpenAPIV3Schema '{shown}' is not supported"
    if isinstance(schema.get("items"), list) and schema["items"]:
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    for each in _below(schema):
        if found := unsupported(each):
            return found
    return ""


def _below(schema: Raw) -> list[Raw]:
    found = list((schema.get("properties") or {}).values())
    found += [
        schema[name]
        for name in ("items", "additionalProperties", "not")
        if isinstance(schema.get(name), Mapping)
    ]
    for name in ("allOf", "anyOf", "oneOf"):
        found += schema.get(name) or ()
    return found


def validate_structural(path: str, schema: Raw) -> list[FieldError]:
    """Return the findings on a schema that is not structural, sorted as text."""
    found = _invariants(schema, "root", path) + _complete(schema, schema, path, path)
    return sorted(found, key=str)


def _invariants(schema: Raw, level: str, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    type_ = schema.get("type") or ""
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if type_ == "array" and items is None:
        found.append(required(child(path, "items"), "must be specified"))
    if isinstance(items, Mapping):
        found += _invariants(items, "item", child(path, "items"))
    for name, each in (schema.get("properties") or {}).items():
        found += _invariants(each, "field", key(child(path, "properties"), name))
    if additional is not None:
        if level == "root":
            found.append(not_allowed(child(path, "additionalProperties"), "must not be used at the root"))
        if isinstance(additional, Mapping):
            found += _invariants(additional, "field", child(path, "additionalProperties"))
    found += _extensions(schema, path)
    skip_any, skip_all = _int_or_string(schema)
    found += _junctors(schema, path, skip_any=skip_any, skip_first=skip_all)
    found += _types(schema, level, path, type_)
    found += _meta(schema, level, path)
    embedded = schema.get("x-kubernetes-embedded-resource")
    if embedded and not schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        told = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        found.append(required(child(path, "properties"), told))
    return found


def _types(schema: Raw, level: str, path: str, type_: str) -> list[FieldError]:
    found = []
    where = child(path, "type")
    embedded = schema.get("x-kubernetes-embedded-resource")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if embedded and type_ != "object":
        told = "must be object if x-kubernetes-embedded-resource is true"
        found.append(wrong(where, type_, told) if type_ else required(where, told))
    elif not type_ and not free:
        found.append(required(where, _EMPTY_LEVEL[level]))
    if embedded and schema.get("additionalProperties") is not None:
        told = "must not be used if x-kubernetes-embedded-resource is set"
        found.append(not_allowed(child(path, "additionalProperties"), told))
    if level == "root" and type_ and type_ != "object":
        found.append(wrong(where, type_, "must be object at the root"))
    return found


def _meta(schema: Raw, level: str, path: str) -> list[FieldError]:
    properties = schema.get("properties") or {}
    own = level == "root" or bool(schema.get("x-kubernetes-embedded-resource"))
    where = child(path, "properties")
    found = [
        wrong(child(key(where, name), "type"), properties[name].get("type") or "", "must be string")
        for name in ("kind", "apiVersion")
        if own and name in properties and properties[name].get("type") != "string"
    ]
    metadata = properties.get("metadata")
    if metadata is None:
        return found
    if own and metadata.get("type") != "object":
        found.append(
            wrong(child(key(where, "metadata"), "type"), metadata.get("type") or "", "must be object")
        )
    if level == "root":
        others = {name for name, each in metadata.items() if each not in (None, "", [], {}, False)}
        named = set(metadata.get("properties") or {})
        if others - {"type", "default", "properties"} or named - {"name", "generateName"}:
            told = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            found.append(not_allowed(key(where, "metadata"), told))
    return found


def _extensions(schema: Raw, path: str) -> list[FieldError]:
    if not schema.get("x-kubernetes-int-or-string"):
        return []
    return [
        wrong(child(path, name), True, "must be false if x-kubernetes-int-or-string is true")
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
        if schema.get(name)
    ]


def _is_pair(alternatives: Any) -> bool:
    return bool(alternatives == [{"type": "integer"}, {"type": "string"}])


def _int_or_string(schema: Raw) -> tuple[bool, bool]:
    """Return which form an int-or-string uses to name its types: under anyOf, or in the first of allOf."""
    all_of = schema.get("allOf") or [{}]
    return _is_pair(schema.get("anyOf")), _is_pair(all_of[0].get("anyOf"))


def _junctors(schema: Raw, path: str, *, skip_any: bool, skip_first: bool) -> list[FieldError]:
    found: list[FieldError] = []
    for name in ("anyOf", "allOf", "oneOf"):
        if name == "anyOf" and skip_any:
            continue
        for at, each in enumerate(schema.get(name) or ()):
            skip = name == "allOf" and skip_first and at == 0
            found += _nested(each, index(child(path, name), at), skip_any=skip)
    if isinstance(schema.get("not"), Mapping):
        found += _nested(schema["not"], child(path, "not"), skip_any=False)
    if pattern := schema.get("pattern"):
        try:
            patterns.compiled(pattern)
        except patterns.InvalidPattern as why:
            told = f"must be a valid regular expression, but isn't: {why}"
            found.append(wrong(child(path, "pattern"), pattern, told))
    return found


def _nested(schema: Raw, path: str, *, skip_any: bool) -> list[FieldError]:
    found = _junctors(schema, path, skip_any=skip_any, skip_first=False)
    if isinstance(schema.get("items"), Mapping):
        found += _nested(schema["items"], child(path, "items"), skip_any=False)
    properties = schema.get("properties") or {}
    for name, each in properties.items():
        found += _nested(each, key(child(path, "properties"), name), skip_any=False)
    for name, told in _NESTED_FORBIDDEN:
        value = schema.get(name)
        if value or (
            name in _UNDEFINED
            and value is not None
            and (name != "additionalProperties" or value is not False)
        ):
            found.append(not_allowed(child(path, name), told))
    if "metadata" in properties:
        where = key(child(path, "properties"), "metadata")
        found.append(not_allowed(where, "must not be specified in a nested context"))
    return found


def _complete(values: Raw, schema: Raw | None, path: str, from_: str) -> list[FieldError]:
    """Check that value validations refer only to fields that the structural part defines."""
    found: list[FieldError] = []
    if isinstance(values.get("not"), Mapping):
        found += _nested_complete(values["not"], schema, path, child(from_, "not"))
    for name in ("allOf", "anyOf", "oneOf"):
        for at, each in enumerate(values.get(name) or ()):
            found += _nested_complete(each, schema, path, index(child(from_, name), at))
    return found


def _nested_complete(values: Raw, schema: Raw | None, path: str, from_: str) -> list[FieldError]:
    if schema is None:
        return [required(path, f"because it is defined in {from_}")]
    found = _complete(values, schema, path, from_)
    items = schema.get("items")
    if isinstance(values.get("items"), Mapping):
        below = items if isinstance(items, Mapping) else None
        found += _nested_complete(values["items"], below, child(path, "items"), child(from_, "items"))
    properties = schema.get("properties") or {}
    for name, each in (values.get("properties") or {}).items():
        where, origin = key(child(path, "properties"), name), key(child(from_, "properties"), name)
        if name in properties:
            found += _nested_complete(each, properties[name], where, origin)
        else:
            found.append(required(where, f"because it is defined in {origin}"))
    return found
