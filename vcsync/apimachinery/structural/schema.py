"""Structural schemas, built from openAPIV3Schema; pruning and defaulting of objects. Pure.

Source: apiextensions-apiserver's `pkg/apiserver/schema` with its `pruning` and `defaulting`.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vcsync.apimachinery.message_size import extended

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
MAX_DEPTH = 100
"""Deepest nesting of a schema. Deeper ones are refused before they are built."""
MOST_UNKNOWN = 1_000
"""Most unknown fields that are reported about one object. kube-apiserver reports all."""


@dataclass(slots=True)
class Structural:
    """One node of a structural schema. Read-only once built.

    Attributes:
        raw: the node as it was written, with its value validations.
        additional: the schema of the values of additionalProperties.
        free_keys: whether additionalProperties is given, in any form.
        default: the default value. None: there is none, since null is no default.
        rules: x-kubernetes-validations.
    """

    raw: Mapping[str, Any]
    type: str = ""
    nullable: bool = False
    default: Any = None
    properties: dict[str, "Structural"] = field(default_factory=dict)
    additional: "Structural | None" = None
    free_keys: bool = False
    items: "Structural | None" = None
    embedded: bool = False
    preserve: bool = False
    int_or_string: bool = False
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    map_type: str = ""
    rules: tuple[Mapping[str, Any], ...] = ()
    has_rules: bool = False
    has_default: bool = False


def build(raw: Mapping[str, Any]) -> Structural:
    """Build a structural schema from an openAPIV3Schema that has passed validation."""
    node = Structural(
        raw,
        type=raw.get("type") or "",
        nullable=bool(raw.get("nullable")),
        default=raw.get("default"),
        embedded=bool(raw.get("x-kubernetes-embedded-resource")),
        preserve=bool(raw.get("x-kubernetes-preserve-unknown-fields")),
        int_or_string=bool(raw.get("x-kubernetes-int-or-string")),
        list_type=raw.get("x-kubernetes-list-type") or "",
        map_keys=tuple(raw.get("x-kubernetes-list-map-keys") or ()),
        map_type=raw.get("x-kubernetes-map-type") or "",
        rules=tuple(raw.get("x-kubernetes-validations") or ()),
    )
    node.properties = {name: build(each) for name, each in (raw.get("properties") or {}).items()}
    additional = raw.get("additionalProperties")
    node.free_keys = additional is not None
    if isinstance(additional, Mapping):
        node.additional = build(additional)
    items = raw.get("items")
    if isinstance(items, Mapping):
        node.items = build(items)
    below = [*node.properties.values(), *(each for each in (node.additional, node.items) if each is not None)]
    node.has_rules = bool(node.rules) or any(each.has_rules for each in below)
    node.has_default = node.default is not None or any(each.has_default for each in below)
    return node


def root(node: Structural) -> Structural:
    """Return the schema of whole objects: `node` with apiVersion, kind and metadata added."""
    if node.embedded:
        return node
    whole = copy.copy(node)
    whole.embedded = True
    return whole


def prune(value: Any, node: Structural | None) -> list[str]:
    """Remove fields that the schema does not name, in place.

    Returns:
        The paths of the removed fields, sorted, at most `MOST_UNKNOWN`. Fields below a removed field are not listed.
    """
    removed: list[str] = []
    _prune(value, node, "", removed)
    return sorted(removed)


def _join(path: str, name: str) -> str:
    return extended(path, f".{name}" if path else name)


def _prune(value: Any, node: Structural | None, path: str, removed: list[str]) -> None:
    if node is not None and node.preserve:
        _prune_known(value, node, path, removed)
        return
    if isinstance(value, dict):
        for name in list(value):
            if node is not None and node.embedded and name in META_FIELDS:
                continue
            known = node.properties.get(name) if node is not None else None
            if known is not None:
                _prune(value[name], known, _join(path, name), removed)
            elif node is not None and node.free_keys:
                _prune(value[name], node.additional, _join(path, name), removed)
            else:
                if (name not in META_FIELDS or path) and len(removed) < MOST_UNKNOWN:
                    removed.append(_join(path, name))
                del value[name]
    elif isinstance(value, list):
        for position, each in enumerate(value):
            _prune(each, node.items if node is not None else None, extended(path, f"[{position}]"), removed)


def _prune_known(value: Any, node: Structural | None, path: str, removed: list[str]) -> None:
    """Keep unknown fields, but prune below those that have a schema."""
    if node is None:
        return
    if isinstance(value, dict):
        for name in list(value):
            if node.embedded and name in META_FIELDS:
                continue
            known = node.properties.get(name)
            if known is not None:
                _prune(value[name], known, _join(path, name), removed)
            elif node.free_keys:
                _prune(value[name], node.additional, _join(path, name), removed)
    elif isinstance(value, list):
        for position, each in enumerate(value):
            _prune_known(each, node.items, extended(path, f"[{position}]"), removed)


def prune_nulls(value: Any, node: Structural | None) -> None:
    """Remove nulls in place where the schema neither allows null nor has a default."""
    if isinstance(value, dict):
        for name in list(value):
            below = None
            if node is not None:
                below = node.properties.get(name)
                if below is None:
                    below = node.additional
            each = value[name]
            if each is None and below is not None and not below.nullable and below.default is None:
                del value[name]
            else:
                prune_nulls(each, below)
    elif isinstance(value, list):
        for each in value:
            prune_nulls(each, node.items if node is not None else None)


def apply_defaults(value: Any, node: Structural | None) -> None:
    """Set defaults in place. A null that the schema does not allow is replaced by the default."""
    if node is None or not node.has_default:
        return
    if isinstance(value, dict):
        for name, below in node.properties.items():
            if below.default is not None and (
                name not in value or (value[name] is None and not below.nullable)
            ):
                value[name] = copy.deepcopy(below.default)
        for name in value:
            known = node.properties.get(name)
            if known is not None:
                apply_defaults(value[name], known)
            elif node.additional is not None:
                if value[name] is None and not node.additional.nullable:
                    value[name] = copy.deepcopy(node.additional.default)
                apply_defaults(value[name], node.additional)
    elif isinstance(value, list) and node.items is not None:
        for position, each in enumerate(value):
            if each is None and not node.items.nullable:
                value[position] = copy.deepcopy(node.items.default)
            apply_defaults(value[position], node.items)
