"""Uniqueness of items in arrays of type set or map (`x-kubernetes-list-type`). Pure.

Source: apiextensions-apiserver's `schema/listtype`. A repeated value is reported once, at its first repetition.
"""

from typing import Any

import msgspec

from vcsync.apimachinery.errors import FieldError, duplicate, wrong
from vcsync.apimachinery.structural import field_names as paths
from vcsync.apimachinery.structural.schema import Structural

_ENCODER = msgspec.json.Encoder(order="deterministic")


def find_duplicates(path: str, node: Structural | None, value: Any) -> list[FieldError]:
    """Return the findings on repeated items in `value` and everything below it."""
    if node is None:
        return []
    found: list[FieldError] = []
    if isinstance(value, list):
        if node.list_type == "set":
            found += [duplicate(paths.index(path, at), value[at]) for at in _repeated(value)]
        elif node.list_type == "map":
            found += _map(path, node, value)
        if node.items is not None:
            for position, each in enumerate(value):
                found += find_duplicates(paths.index(path, position), node.items, each)
    elif isinstance(value, dict):
        if node.additional is not None:
            for name, each in value.items():
                found += find_duplicates(paths.key(path, name), node.additional, each)
        for name, below in node.properties.items():
            if name in value:
                found += find_duplicates(paths.child(path, name), below, value[name])
    return found


def _repeated(values: list[Any]) -> list[int]:
    seen: dict[bytes, int] = {}
    repeated = []
    for position, each in enumerate(values):
        text = _ENCODER.encode(each)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            repeated.append(position)
    return repeated


def _map(path: str, node: Structural, items: list[Any]) -> list[FieldError]:
    for position, each in enumerate(items):
        if each is not None and not isinstance(each, dict):
            return [
                wrong(paths.index(path, position), each, "must be an object for an array of list-type map")
            ]
    keys = [{name: each[name] for name in node.map_keys if name in each} if each else {} for each in items]
    return [duplicate(paths.index(path, at), keys[at]) for at in _repeated(keys)]
