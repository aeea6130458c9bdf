"""The table of all functions that expressions may call; also functions of optionals and maps. Pure."""

from typing import Any

from vcsync.apimachinery.cel import arithmetic, authorizing, conversions, kubernetes, lists, texts
from vcsync.apimachinery.cel.arguments import Function, of_types
from vcsync.apimachinery.cel.values import NONE, CelError, NoOverload, Optional, TypeValue, Work


@of_types(Optional)
def _value(_: Work, value: Optional) -> Any:
    if not value.present:
        raise CelError("optional.none() dereference")
    return value.value


def _of_non_zero(_: Work, value: Any) -> Optional:
    zero = value is None or (
        not isinstance(value, TypeValue) and not value and not hasattr(value, "type_name")
    )
    return NONE if zero else Optional(value)


@of_types(dict)
def _insert(_: Work, into: dict[Any, Any], *more: Any) -> dict[Any, Any]:
    entries = more[0] if len(more) == 1 else {more[0]: more[1]}
    if not isinstance(entries, dict):
        raise NoOverload
    for key, value in entries.items():
        if key in into:
            raise CelError(f"insert failed: key {key} already exists")
        into[key] = value
    return into


FUNCTIONS: dict[str, Function] = {
    "optional.of": lambda _, value: Optional(value),
    "optional.ofNonZeroValue": _of_non_zero,
    "optional.none": lambda _: NONE,
    "hasValue": of_types(Optional)(lambda _, value: value.present),
    "value": _value,
    "cel.@mapInsert": _insert,
    **arithmetic.FUNCTIONS,
    **conversions.FUNCTIONS,
    **texts.FUNCTIONS,
    **lists.FUNCTIONS,
    **kubernetes.FUNCTIONS,
    **authorizing.FUNCTIONS,
}
"""Implementation of each function, by name."""
