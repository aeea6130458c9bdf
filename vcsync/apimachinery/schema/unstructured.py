"""Type errors of an object of a built-in kind, with the messages of Go's conversion by reflection. Pure.

Strategic merge patches and apply convert objects to Go types in this way instead of through JSON. Follows apimachinery's
`runtime/converter.go`.
"""

from collections.abc import Mapping
from typing import Any

from vcsync.apimachinery.schema import findings, scalars
from vcsync.apimachinery.schema.findings import DecodeError
from vcsync.apimachinery.schema.gotypes import GoType, fields, go_type

_KINDS: Mapping[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "slice",
    dict: "map",
}
_SIMPLE: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "bool": (bool,),
    "uint8": (int,),
    "int32": (int,),
    "int64": (int,),
    "float64": (int, float),
}
_CONVERTIBLE = frozenset(
    {("int64", "string"), ("float64", "uint8"), ("float64", "int32"), ("float64", "int64")}
)
"""(from, to) that Go can convert. The converter accepts whole floats, and refuses all other values as not convertible."""


def complaint(obj: Any, definition: str) -> str:
    """Return the message about the first part of an object that does not fit its type; empty if all parts fit.

    Args:
        obj: The object.
        definition: Public name of its type.
    """
    try:
        _check(obj, go_type(definition))
    except DecodeError as error:
        return str(error)
    except RecursionError:
        return "exceeded max depth"
    return ""


def _check(value: Any, kind: GoType) -> None:
    if value is None or kind.sort == "any":
        return
    if kind.sort in _SIMPLE:
        _check_simple(value, kind)
    elif findings.decodes_itself(kind):
        findings.decoded(value, kind)
    elif kind.sort == "struct":
        _check_struct(value, kind)
    elif kind.sort == "bytes" and isinstance(value, str):
        _check_bytes(value)
    elif kind.sort == "map":
        if not isinstance(value, dict):
            raise DecodeError(f"cannot restore map from {_KINDS[type(value)]}")
        for name in sorted(value):
            _check(value[name], kind.element or kind)
    else:
        if not isinstance(value, list):
            raise DecodeError(f"cannot restore slice from {_KINDS[type(value)]}")
        for each in value:
            _check(each, kind.element or _BYTE)


_BYTE = GoType("uint8", "uint8")


def _check_simple(value: Any, kind: GoType) -> None:
    actual = _KINDS[type(value)]
    if type(value) in _SIMPLE[kind.sort] or (
        isinstance(value, float) and value.is_integer() and (actual, kind.sort) in _CONVERTIBLE
    ):
        return
    if (actual, kind.sort) in _CONVERTIBLE:
        raise DecodeError(f"cannot convert {actual} to {kind.name}")
    raise DecodeError(f"unrecognized type: {kind.sort}")


def _check_struct(value: Any, kind: GoType) -> None:
    if not isinstance(value, dict):
        raise DecodeError(f"cannot restore struct from: {_KINDS[type(value)]}")
    for name, field in fields(kind.struct).items():
        if name in value:
            _check(value[name], field.type)


def _check_bytes(value: str) -> None:
    try:
        scalars.base64_text(value)
    except scalars.InvalidScalar as error:
        raise DecodeError(f"error decoding from json: {error}") from None
