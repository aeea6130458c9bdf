"""Merge rules of places in objects: which values are atomic, and which keys identify the items of lists. Pure.

The rules are those of kube-openapi's `schemaconv`, which converts schemas to the types of structured-merge-diff.
"""

from typing import Any

from vcsync.apimachinery.patch import fields
from vcsync.apimachinery.schema.node import Schema

DEDUCED = Schema("any")
"""Schema below free-form values: maps are merged, everything else is atomic."""

_MAPS = frozenset({"object", "map", "any"})
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_KEY_DEFAULTS: dict[str, dict[str, Any]] = {
    "io.k8s.api.core.v1.ContainerPort": {"protocol": "TCP"},
    "io.k8s.api.core.v1.ServicePort": {"protocol": "TCP"},
}
"""Defaults of the keys of list maps of built-in kinds, as in their published schemas."""

_ZEROS: dict[str, Any] = {"string": "", "integer": 0, "boolean": False}


class BadItem(Exception):
    """An item of a list cannot be identified. The message is that of structured-merge-diff."""


def merges_maps(schema: Schema) -> bool:
    """Return whether a map at this place is granular: its fields have separate owners."""
    return schema.type in _MAPS and not schema.atomic and schema.definition != _RAW


def merges_lists(schema: Schema) -> bool:
    """Return whether a list at this place is granular: its items have separate owners."""
    return schema.list_type != "atomic" and schema.type == "array"


def child(schema: Schema, name: str) -> Schema | None:
    """Return the schema below a key of a map, or None if the schema does not declare the field."""
    declared = schema.properties.get(name)
    if declared is not None:
        return declared
    if schema.values is not None:
        return schema.values
    return DEDUCED if schema.preserve_unknown or not schema.properties else None


def items(schema: Schema) -> Schema:
    """Return the schema of the items of a list."""
    return schema.items or DEDUCED


def element(schema: Schema, item: Any) -> str:
    """Return the path element of an item of a list.

    Raises:
        BadItem: The item cannot be identified.
    """
    if schema.list_type == "set":
        return _set_element(item)
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise BadItem(f"associative list with keys may not have {what}")
    known = {name: item[name] for name in schema.map_keys if name in item}
    if len(known) < len(schema.map_keys):
        known |= _defaults(schema, known)
    if not known and schema.map_keys:
        names = " ".join(f'"{each}"' for each in schema.map_keys)
        raise BadItem(
            f"associative list with keys has an element that omits all key fields [{names}]"
            " (and doesn't have default values for any key fields)"
        )
    return fields.key(known)


def _set_element(item: Any) -> str:
    if isinstance(item, dict):
        raise BadItem("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise BadItem("not supported: associative list with lists as elements")
    if item is None:
        raise BadItem("associative list without keys has an element that's an explicit null")
    return fields.value(item)


def _defaults(schema: Schema, known: dict[str, Any]) -> dict[str, Any]:
    below = items(schema)
    found: dict[str, Any] = {}
    for name in schema.map_keys:
        declared = below.properties.get(name)
        if name in known or declared is None:
            continue
        default = declared.default
        if default is None:
            default = _KEY_DEFAULTS.get(below.definition, {}).get(name)
        if default is None and below.definition and name in below.required:
            default = _ZEROS.get(declared.type)
        if default is not None:
            found[name] = default
    return found


def elements(schema: Schema, values: list[Any]) -> list[tuple[str, Any]]:
    """Return the items with their path elements.

    Raises:
        BadItem: An item cannot be identified.
    """
    return [(element(schema, each), each) for each in values]
