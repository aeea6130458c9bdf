"""Applies the results of mutations to an object: apply configurations and JSON patches. Pure.

Behaviour: `plugin/policy/mutating/patch` of apiserver's `pkg/admission`.
"""

from collections.abc import Iterator
from typing import Any

from vcsync.apimachinery.cel.making import as_json, misnamed
from vcsync.apimachinery.cel.values import CelError, Made
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.patch import checks, documents, fields, jsonpatch, merging, shapes
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Object


class NotApplied(Exception):
    """The mutation cannot be applied to the object. The message says why."""


def applied(schema: Schema, live: Object, made: Any) -> Object:
    """Return an object with an apply configuration merged in.

    Raises:
        NotApplied: The configuration does not fit the object.
    """
    _check_names(made)
    try:
        patch = as_json(made)
    except CelError as why:
        raise NotApplied(str(why)) from None
    patch |= {"apiVersion": live.get("apiVersion"), "kind": live.get("kind")}
    if wrong := checks.findings(schema, patch):
        raise _not_applied(f"failed to convert patch object to typed object: {wrong}")
    if atomic := list(_atomics(schema, patch, ())):
        names = ", ".join(atomic)
        raise _not_applied(
            f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {names}"
        )
    try:
        return merging.merge(schema, live, patch)
    except shapes.BadItem as why:
        raise _not_applied(f"failed to merge patch: {why}") from None


def _not_applied(why: str) -> NotApplied:
    return NotApplied(f"error applying patch: {why}")


def _check_names(made: Any) -> None:
    if wrong := misnamed(made):
        raise NotApplied("type mismatch: " + "\n".join(wrong))


def _atomics(schema: Schema, value: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths of atomic maps and lists."""
    if isinstance(value, dict):
        if not shapes.merges_maps(schema):
            yield fields.shown(path)
        for name, each in value.items():
            below = shapes.child(schema, name)
            if below is not None:
                yield from _atomics(below, each, (*path, fields.field(name)))
    elif isinstance(value, list):
        if not shapes.merges_lists(schema):
            yield fields.shown(path)
        for index, each in enumerate(value):
            yield from _atomics(shapes.items(schema), each, (*path, f"i:{index}"))


def patched(live: Object, operations: list[Any]) -> Object:
    """Return an object changed by JSON patch operations. If a test fails, the object is returned unchanged.

    Raises:
        NotApplied: The operations cannot be applied.
        StatusError: There are too many operations.
    """
    if len(operations) > jsonpatch.MAX_OPERATIONS:
        raise documents.unprocessable()
    try:
        found = jsonpatch.apply(live, [_operation(each) for each in operations])
    except jsonpatch.TestFailed:
        return live
    except jsonpatch.DoesNotApply as why:
        raise NotApplied(f"JSON Patch: {why}") from None
    if not isinstance(found, dict):
        raise StatusError(500, "InternalError", "Internal error occurred: the patched object is no object")
    return found


def _operation(made: Any) -> Object:
    if not isinstance(made, Made) or made.type_name != "JSONPatch":
        raise NotApplied("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
    _check_names(made.fields.get("value"))
    try:
        found = as_json(made.fields)
    except CelError as why:
        problem = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"
        raise NotApplied(f"{problem}: {why}") from None
    operation = {"op": found.get("op") or "", "path": found.get("path") or ""}
    if found.get("from"):
        operation["from"] = found["from"]
    if "value" in found:
        operation["value"] = found["value"]
    return operation
