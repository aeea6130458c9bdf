"""Coverage of the built-in types' fields by the corpus. Pure.

A field is a property of a type that a served built-in resource contains. `core.v1.Container.image` counts once, no
matter how many types contain containers. A field is covered if a request's body has a value of the field's JSON type
there, whether the servers accept or refuse the request.
"""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from hack.parity.corpus import Step
from vcsync.apimachinery.schema import builtin
from vcsync.apimachinery.schema.node import Schema

Field = tuple[str, str]
"""(public name of the type, name of the property)."""


@cache
def fields() -> frozenset[Field]:
    """Return every field of the built-in types."""
    found: dict[str, Schema] = {}
    for resource in builtin.resources():
        schema = builtin.schema(resource.group, resource.version, resource.kind)
        if schema is not None:
            _reach(schema, found)
    return frozenset((name, each) for name, schema in found.items() for each in schema.properties)


def _reach(schema: Schema, found: dict[str, Schema]) -> None:
    if schema.definition in found:
        return
    if schema.definition:
        found[schema.definition] = schema
    for each in (*schema.properties.values(), schema.items, schema.values):
        if each is not None:
            _reach(each, found)


def fields_set(step: Step) -> frozenset[Field]:
    """Return the fields that a request's body sets; none if it has no body of a built-in kind."""
    body = step.body
    if body is None and step.raw is not None:
        try:
            body = json.loads(step.raw)
        except (ValueError, RecursionError):
            return frozenset()
    schema = _schema_at(step.path)
    return frozenset(_set(schema, body)) & fields() if schema is not None else frozenset()


def _schema_at(path: str) -> Schema | None:
    """Return the schema of the bodies of requests at a path."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[0] == "api":
        parts = ["apis", "", *parts[1:]]
    if parts[0] != "apis" or len(parts) < 4:
        return None
    group, version, *rest = parts[1:]
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        rest = rest[2:]
    subresource = rest[2] if len(rest) > 2 else ""
    for each in builtin.resources():
        if rest and (each.group, each.version, each.plural) == (group, version, rest[0]):
            if not subresource:
                return builtin.schema(group, version, each.kind)
            served = each.subresources.get(subresource)
            return builtin.schema(served.group, served.version, served.kind) if served else None
    return None


_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "int-or-string": (int, str),
    "quantity": (int, float, str),
    "array": (list,),
    "map": (dict,),
    "object": (dict,),
}


def _set(schema: Schema, value: Any) -> Iterator[Field]:
    if isinstance(value, dict):
        for key, each in value.items():
            below = schema.properties.get(key)
            if below is not None and _fits(below, each):
                yield schema.definition, key
                yield from _set(below, each)
            elif below is None and schema.values is not None:
                yield from _set(schema.values, each)
    elif isinstance(value, list) and schema.items is not None:
        for each in value:
            yield from _set(schema.items, each)


def _fits(schema: Schema, value: Any) -> bool:
    if isinstance(value, bool):
        return schema.type in ("boolean", "any")
    return value is not None and isinstance(value, _JSON_TYPES.get(schema.type, (object,)))
