"""Bring objects of built-in kinds into the form in which the API keeps and answers them. Pure.

A Go program reads an object into typed fields and writes it again: what holds nothing is left out or, where a field
is always written, stands there empty (`"resources":{}`). `shapes.json` (made by hack/shapes.py from the public Go
types) tells which is which. A field's code is its mode and, after a space, the type of its value:

* `?` a pointer or free-form JSON: absent only when null
* `-` left out when it holds nothing: null, false, 0, an empty text, list or map
* `=X` always there, X when it holds nothing
* `n` a list or map that is always there, null when it holds nothing; `N` a pointer that is null when absent
* `+` an object that is always there; `z` an object that is left out when empty

The type is `Q` a quantity, `T` a time in seconds, `U` one in microseconds, `R` free-form JSON, `I` an integer, else
another object's, also of a list's items; `{` before it says that it is the type of a map's values. Members come in
the order of the Go types, keys of maps sorted.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

from vcsync.controlplane.kinds.rules import Object
from vcsync.kube import quantity

_EMPTY: tuple[Any, ...] = (None, "", 0, [], {})
_EMPTY_ITEMS = {"I": 0, "Q": "0"}
_FRACTION = re.compile(r"\.(\d+)")
_FieldCodes = dict[str, tuple[str, Any, str]]


@cache
def _shapes() -> tuple[dict[str, str], dict[str, _FieldCodes]]:
    source = resources.files(__package__).joinpath("shapes.json").read_text("utf-8")
    data = json.loads(source)
    types = {
        name: {field: _code(code) for field, code in fields.items()} for name, fields in data["types"].items()
    }
    return data["roots"], types


def _code(code: str) -> tuple[str, Any, str]:
    mode, _, reference = code.partition(" ")
    zero = json.loads(mode[1:]) if mode[0] == "=" else None
    return mode[0], zero, reference


def strip(group: str, kind: str, found: Object) -> None:
    """Drop what holds nothing from an object; write quantities and times as the API does."""
    roots, types = _shapes()
    if (root := roots.get(f"{group}/{kind}")) is not None:
        _strip(found, types[root], types)


def complete(group: str, kind: str, found: Object) -> None:
    """Add what is always there to an object."""
    roots, types = _shapes()
    if (root := roots.get(f"{group}/{kind}")) is not None:
        _complete(found, types[root], types)


def _strip(found: Object, fields: _FieldCodes, types: dict[str, _FieldCodes]) -> None:
    for key in list(found):
        code = fields.get(key)
        if code is None:
            continue
        mode, _, reference = code
        value = found[key]
        if reference != "R":
            value = found[key] = _stripped(value, reference, types)
        if value is None or (mode in "-z" and _holds_nothing(value)) or (mode == "n" and value in ([], {})):
            del found[key]


def _holds_nothing(value: Any) -> bool:
    return value is False or value in _EMPTY


def _stripped(value: Any, reference: str, types: dict[str, _FieldCodes]) -> Any:
    if isinstance(value, list):
        empty: Any = {} if reference in types else _EMPTY_ITEMS.get(reference, "")
        return [_stripped(_copied(empty) if each is None else each, reference, types) for each in value]
    if (write := _TEXTS.get(reference)) is not None:
        if isinstance(value, dict):
            return {key: write(value[key]) for key in sorted(value)}
        return write(value)
    if reference in ("", "I") and isinstance(value, dict):
        empty = _EMPTY_ITEMS.get(reference, "")
        return {key: empty if value[key] is None else value[key] for key in sorted(value)}
    if isinstance(value, dict) and reference[0] == "{":
        return {key: _stripped(value[key] or {}, reference[1:], types) for key in sorted(value)}
    if isinstance(value, dict) and (fields := types.get(reference)) is not None:
        _strip(value, fields, types)
    return value


def _copied(empty: Any) -> Any:
    return dict(empty) if isinstance(empty, dict) else empty


def _complete(found: Object, fields: _FieldCodes, types: dict[str, _FieldCodes]) -> None:
    given = dict(found)
    found.clear()
    for key, (mode, zero, reference) in fields.items():
        if key in given:
            found[key] = given.pop(key)
        elif mode == "=":
            found[key] = zero
        elif mode in "nN":
            found[key] = None
        elif mode == "+":
            found[key] = {}
        else:
            continue
        inner = types.get(reference.removeprefix("{"))
        if inner is not None:
            value = found[key]
            _complete_value(list((value or {}).values()) if reference[0] == "{" else value, inner, types)
    found.update(given)


def _complete_value(value: Any, fields: _FieldCodes, types: dict[str, _FieldCodes]) -> None:
    if isinstance(value, dict):
        _complete(value, fields, types)
    elif isinstance(value, list):
        for each in value:
            _complete_value(each, fields, types)


def quantity_text(value: Any) -> Any:
    """Write a quantity as the API does; what is none stays as it is."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return value
    try:
        return quantity.canonical(quantity.milli(value), value)
    except quantity.InvalidQuantity:
        return value


def time_text(value: Any) -> Any:
    """Write a time in UTC and whole seconds; what is none stays as it is."""
    if isinstance(value, str) and not value.endswith("Z"):
        return _utc(value)
    return _FRACTION.sub("", value) if isinstance(value, str) else value


def micro_time_text(value: Any) -> Any:
    """Write a time in UTC with six places after the point; what is none stays as it is."""
    if not isinstance(value, str):
        return value
    point = _FRACTION.search(value)
    digits = (point[1] if point else "")[:6].ljust(6, "0")
    whole = time_text(value)
    return f"{whole[:-1]}.{digits}Z" if isinstance(whole, str) and whole.endswith("Z") else value


def _utc(value: str) -> str:
    try:
        found = datetime.fromisoformat(_FRACTION.sub("", value)).astimezone(UTC)
    except ValueError:
        return value
    return found.strftime("%Y-%m-%dT%H:%M:%SZ")


_TEXTS: dict[str, Callable[[Any], Any]] = {"Q": quantity_text, "T": time_text, "U": micro_time_text}
