"""Fits owned fields to a schema that has become atomic at some places. Pure."""

from vcsync.apimachinery.patch import shapes
from vcsync.apimachinery.patch.fields import SELF, Set
from vcsync.apimachinery.schema.node import Schema


def reconciled(schema: Schema, owned: Set) -> Set:
    """Return the set with paths below atomic fields replaced by the paths of these fields.

    It returns the same set if no such paths exist (structured-merge-diff's `ReconcileFieldSetWithSchema`).
    """
    out: Set | None = None
    for element, node in owned.items():
        if not node or element == SELF:
            continue
        below = _below(schema, element)
        if below is None:
            continue
        fitting = {} if _is_atomic(below) else reconciled(below, node)
        if fitting is not node:
            out = dict(owned) if out is None else out
            out[element] = fitting
    return owned if out is None else out


def _is_atomic(schema: Schema) -> bool:
    if schema.type == "array":
        return not shapes.merges_lists(schema)
    return schema.type in {"object", "map"} and not shapes.merges_maps(schema)


def _below(schema: Schema, element: str) -> Schema | None:
    if element.startswith("f:"):
        return shapes.child(schema, element[2:])
    return schema.items
