"""Checks an applied object against its schema, with the messages of structured-merge-diff. Pure."""

from collections.abc import Iterator
from typing import Any

from vcsync.apimachinery.gotext import plain, type_name
from vcsync.apimachinery.message_size import extended
from vcsync.apimachinery.patch import fields, shapes
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Object

_MAX_FINDINGS = 100


def findings(schema: Schema, applied: Object) -> str:
    """Return the message about all findings, or an empty text if the object fits."""
    found = []
    for path, text in _check(schema, applied, ""):
        found.append(f"{path}: {text}" if path else text)
        if len(found) == _MAX_FINDINGS:
            break
    return (
        found[0]
        if len(found) == 1
        else "\n".join(["errors:", *(f"  {each}" for each in found)])
        if found
        else ""
    )


def _check(schema: Schema, value: Any, path: str) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if schema.type == "any":
        if isinstance(value, dict):
            yield from _check_map(schema, value, path)
    elif schema.type in {"object", "map"}:
        if isinstance(value, dict):
            yield from _check_map(schema, value, path)
        else:
            yield path, f"expected map, got &{{{plain(value)}}}"
    elif schema.type == "array":
        if isinstance(value, list):
            yield from _check_list(schema, value, path)
        else:
            yield path, f"expected list, got &{{{plain(value)}}}"
    else:
        wrong = _check_scalar(schema, value)
        if wrong:
            yield path, wrong


def _check_map(schema: Schema, value: Object, path: str) -> Iterator[tuple[str, str]]:
    for name, each in value.items():
        below = shapes.child(schema, name)
        if below is None:
            yield extended(path, f".{name}"), "field not declared in schema"
            return
        yield from _check(below, each, extended(path, f".{name}"))


def _check_list(schema: Schema, value: list[Any], path: str) -> Iterator[tuple[str, str]]:
    below, seen = shapes.items(schema), set[str]()
    for index, each in enumerate(value):
        place = f"[{index}]"
        if shapes.merges_lists(schema):
            try:
                element = shapes.element(schema, each)
            except shapes.BadItem as bad:
                yield path, f"element {index}: {bad}"
                return
            place = fields.shown((element,))
            if element in seen:
                yield path, f"duplicate entries for key {place}"
            seen.add(element)
        yield from _check(below, each, extended(path, place))


def _check_scalar(schema: Schema, value: Any) -> str:
    kind = schema.type
    if kind in {"integer", "number"}:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return f"expected numeric (int or float), got {type_name(value)}"
    elif kind == "boolean":
        if not isinstance(value, bool):
            return f"expected boolean, got &{{{plain(value)}}}"
    elif kind == "string" and schema.format in {"", "byte"}:
        if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_go(value)}}}"
    elif kind != "int-or-string" and isinstance(value, dict | list):
        return f"expected any scalar, got &{{{plain(value)}}}"
    return ""


def _go(value: Any) -> str:
    """Format a value as `%#v` does."""
    if isinstance(value, dict):
        inside = ", ".join(f"{_go(name)}:{_go(value[name])}" for name in sorted(value))
        return f"map[string]interface {{}}{{{inside}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return fields.shown((fields.value(value),))[2:-1]
