"""The zero values that Go writes in JSON for absent members of a message. Pure."""

from collections.abc import Callable
from functools import cache
from typing import Any

from vcsync.apimachinery.wire import types

Zero = Callable[[], Any]


@cache
def always(name: str) -> tuple[tuple[str, Zero], ...]:
    """Return the members that a message always has, with functions that make their zero values."""
    members: list[tuple[str, Zero]] = []
    for field in types.message(name).fields:
        if field.inline:
            members += always(field.base)
        elif field.name != "-" and (zero := _zero(field)) is not None:
            members.append((field.name, zero))
    return tuple(members)


def _zero(field: types.Field) -> Zero | None:
    """Return a function that makes the value of an absent field, or None if Go omits it."""
    struct = field.base[0].islower() and "." in field.base and not field.many and not field.key
    if struct and not field.pointer:
        if field.omits_struct:
            return None
        return _ZERO_VALUES.get(field.base) or (lambda: _zero_struct(field.base))
    if field.omits:
        return None
    if field.pointer or field.many or field.key:
        return _null
    return _ZEROS.get(field.base, _null)


def _null() -> None:
    return None


def _zero_struct(name: str) -> dict[str, Any]:
    return {key: zero() for key, zero in always(name)}


_ZEROS: dict[str, Zero] = {"string": str, "bool": bool, "int32": int, "int64": int, "double": int}
_ZERO_VALUES: dict[str, Zero] = {
    "meta/v1.Time": _null,
    "meta/v1.MicroTime": _null,
    "meta/v1.Duration": lambda: "0s",
    "resource.Quantity": lambda: "0",
    "intstr.IntOrString": int,
    "runtime.RawExtension": _null,
    "meta/v1.FieldsV1": _null,
    "apiextensions/v1.JSON": _null,
}
