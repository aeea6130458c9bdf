"""How a place of an object merges: which values are one field, and what tells the items of a list apart. Pure.

The rules are those by which kube-openapi's `schemaconv` makes structured-merge-diff's types from schemas.
"""

from typing import Any

from vcsync.controlplane.patch import fields
from vcsync.controlplane.schema.node import Schema

DEDUCED = Schema("any")
"""What is below free-form values: maps merge, all else is one field."""

_MAPS = frozenset({"object", "map", "any"})
_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_KEY_DEFAULTS: dict[str, dict[str, Any]] = {
    "io.k8s.api.core.v1.ContainerPort": {"protocol": "TCP"},
    "io.k8s.api.core.v1.ServicePort": {"protocol": "TCP"},
}
"""Defaults of list-map keys of built-in kinds, as their published schemas have them."""

_ZEROS: dict[str, Any] = {"string": "", "integer": 0, "boolean": False}


class BadItem(Exception):
    """A list's item cannot be told from others; the text is structured-merge-diff's."""


def merges_maps(schema: Schema) -> bool:
    """Say whether a map at this place has fields of its own instead of being one field."""
    return schema.type in _MAPS and not schema.atomic and schema.definition != _RAW


def merges_lists(schema: Schema) -> bool:
    """Say whether a list at this place has items of its own instead of being one field."""
    return schema.list_type != "atomic" and schema.type == "array"


def child(schema: Schema, name: str) -> Schema | None:
    """Return what stands below a map's key; None: the schema knows no such field."""
    declared = schema.properties.get(name)
    if declared is not None:
        return declared
    if schema.values is not None:
        return schema.values
    return DEDUCED if schema.preserve_unknown or not schema.properties else None


def items(schema: Schema) -> Schema:
    """Return what stands at each place of a list."""
    return schema.items or DEDUCED


def element(schema: Schema, item: Any) -> str:
    """Return the path element of a list's item. Raises BadItem."""
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
    """Return each item with its path element. Raises BadItem."""
    return [(element(schema, each), each) for each in values]
