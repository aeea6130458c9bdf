"""Validation of list types, map types and list-map keys in a schema. Pure.

Source: `ValidateCustomResourceDefinitionOpenAPISchema` of apiextensions-apiserver.
"""

from collections.abc import Mapping
from typing import Any

from vcsync.apimachinery.errors import FieldError, not_allowed, not_supported, required, wrong
from vcsync.apimachinery.structural.field_names import child, key

Raw = Mapping[str, Any]


def _typed(path: str, schema: Raw, name: str, expected: str) -> list[FieldError]:
    type_ = schema.get("type") or ""
    if schema.get(name) is None or type_ == expected:
        return []
    told = f"must be {expected} if {name} is specified"
    where = child(path, "type")
    return [wrong(where, type_, told) if type_ else required(where, told)]


def check_lists(path: str, schema: Raw) -> list[FieldError]:
    """Return the findings on a schema's list and map types."""
    found: list[FieldError] = []
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        found.append(
            wrong(child(path, "x-kubernetes-preserve-unknown-fields"), False, "must be true or undefined")
        )
    found += _typed(path, schema, "x-kubernetes-map-type", "object")
    map_type, list_type = schema.get("x-kubernetes-map-type"), schema.get("x-kubernetes-list-type")
    if map_type not in (None, "atomic", "granular"):
        found.append(not_supported(child(path, "x-kubernetes-map-type"), map_type, ("atomic", "granular")))
    mistyped = _typed(path, schema, "x-kubernetes-list-type", "array")
    found += mistyped
    items = schema.get("items")
    if not mistyped and list_type == "set" and isinstance(items, Mapping):
        told = "must be atomic as item of a list with x-kubernetes-list-type=set"
        own = items.get("x-kubernetes-list-type")
        if items.get("type") == "array" and own not in (None, "atomic"):
            found.append(wrong(child(path, "items", "x-kubernetes-list-type"), own, told))
        if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
            found.append(wrong(child(path, "items", "x-kubernetes-map-type"), own, told))
    if list_type not in (None, "atomic", "set", "map"):
        found.append(
            not_supported(child(path, "x-kubernetes-list-type"), list_type, ("atomic", "set", "map"))
        )
    map_keys = schema.get("x-kubernetes-list-map-keys") or ()
    if map_keys and list_type != "map":
        told = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = child(path, "x-kubernetes-list-type")
        found.append(required(where, told) if list_type is None else wrong(where, list_type, told))
    if list_type == "map":
        found += _list_map(path, items, list(map_keys))
    if list_type in ("set", "map") and isinstance(items, Mapping):
        found += _list_items(path, items, list_type, map_keys)
    return found


def _list_map(path: str, items: Any, map_keys: list[str]) -> list[FieldError]:
    found = []
    where = child(path, "x-kubernetes-list-map-keys")
    if not map_keys:
        found.append(required(where, "must not be empty if x-kubernetes-list-type is map"))
    if items is None:
        found.append(required(child(path, "items"), "must have a schema if x-kubernetes-list-type is map"))
    if not isinstance(items, Mapping):
        return found
    type_ = items.get("type") or ""
    if type_ != "object":
        told = "must be object if parent array's x-kubernetes-list-type is map"
        return [*found, wrong(child(path, "items", "type"), type_, told)]
    properties = items.get("properties") or {}
    seen: set[str] = set()
    for name in map_keys:
        if name not in properties:
            found.append(wrong(where, map_keys, "entries must all be names of item properties"))
        elif properties[name].get("type") in ("array", "object"):
            told = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            found.append(wrong(child(key(child(path, "items", "properties"), name), "type"), type_, told))
        if name in seen:
            found.append(wrong(where, map_keys, "must not contain duplicate entries"))
        seen.add(name)
    return found


def _list_items(path: str, items: Raw, list_type: str, map_keys: Any) -> list[FieldError]:
    found = []
    if items.get("nullable"):
        told = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        found.append(not_allowed(child(path, "items", "nullable"), told))
    if list_type == "set":
        return found
    required_names = set(items.get("required") or ())
    for name in map_keys:
        own = (items.get("properties") or {}).get(name)
        if own is None:
            continue
        where = key(child(path, "items", "properties"), name)
        if name not in required_names and own.get("default") is None:
            told = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            found.append(required(child(where, "default"), told))
        if own.get("nullable"):
            told = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            found.append(not_allowed(child(where, "nullable"), told))
    return found
