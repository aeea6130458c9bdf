"""Finds type errors and unknown fields of objects of built-in kinds, with the messages of kube-apiserver. Pure.

Follows `sigs.k8s.io/json` (Go's encoding/json, case-sensitive, with strict findings) and the types' own decoders.
It reports the first type mismatch. Errors of the types' own decoders precede it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from vcsync.apimachinery import numbers
from vcsync.apimachinery.message_size import extended
from vcsync.apimachinery.schema import scalars
from vcsync.apimachinery.schema.gotypes import SCHEMA, GoType, fields, go_type

MOST_UNKNOWN = 100
"""Most unknown fields to report."""


class DecodeError(Exception):
    """The JSON does not fit the type. The message is the part after `... cannot be handled as a Pod: `."""


class _Mismatch(DecodeError):
    """A value does not have the type of its field, or the whole object has a wrong type.

    Attributes:
        what: JSON type of the value.
        to: Go type of the field.
        names: Path of the field.
    """

    def __init__(self, what: str, to: str, struct: str, names: tuple[str, ...]) -> None:
        self.what, self.to, self.names = what, to, names
        where = f"struct field {struct}.{'.'.join(names)}" if names else "value"
        super().__init__(f"json: cannot unmarshal {what} into Go {where} of type {to}")


def strict_error(unknown: list[str], duplicate: list[str] | None = None) -> str:
    """Return the message of `fieldValidation=Strict` about unknown and duplicate fields, in the order of the lists."""
    messages = [f'unknown field "{each}"' for each in unknown] + [
        f'duplicate field "{each}"' for each in duplicate or ()
    ]
    return f"strict decoding error: {', '.join(messages)}"


def examine(obj: Any, definition: str) -> tuple[Any, list[str]]:
    """Return a copy of the object without its unknown fields, and the paths of these fields.

    Raises:
        DecodeError: A value has the wrong type.
    """
    search = _Search()
    try:
        pruned = search.value(obj, go_type(definition), "", _Context())
    except RecursionError:
        raise DecodeError("exceeded max depth") from None
    if search.mismatch:
        raise search.mismatch
    return pruned, list(search.unknown)


class _Context:
    """The position in messages of Go's decoder: the struct, and the path of field names, without list indexes."""

    __slots__ = ("names", "struct")

    def __init__(self, struct: str = "", names: tuple[str, ...] = ()) -> None:
        self.struct = struct
        self.names = names

    def mismatch(self, what: str, to: str, *below: str) -> DecodeError:
        return _Mismatch(what, to, self.struct, (*self.names, *below))


class _Search:
    def __init__(self) -> None:
        self.unknown: dict[str, None] = {}
        self.mismatch: DecodeError | None = None

    def value(self, value: Any, kind: GoType, path: str, context: _Context) -> Any:
        """Return the value without unknown fields. Values that do not fit are recorded and omitted."""
        if value is None or kind.sort == "any":
            return value
        if kind.sort in _OWN_DECODERS:
            return _OWN_DECODERS[kind.sort](value, context)
        if kind.sort == "bytes" and isinstance(value, list):
            kind = _BYTES
        if isinstance(value, _SHAPES.get(kind.sort, ())):
            return self._inside(value, kind, path, context)
        if not _fits(value, kind.sort):
            self._note(context.mismatch(_what(value, number=kind.sort in _NUMBERS), kind.name))
            return None
        return value

    def _inside(self, value: Any, kind: GoType, path: str, context: _Context) -> Any:
        if kind.sort == "bytes":
            return self._bytes(value)
        element = kind.element
        if element is None:
            return self._struct(value, kind, path, context)
        if kind.sort == "list":
            return [
                self.value(item, element, extended(path, f"[{at}]"), context) for at, item in enumerate(value)
            ]
        return {key: self.value(item, element, _below(path, key), context) for key, item in value.items()}

    def _struct(self, value: Mapping[str, Any], kind: GoType, path: str, context: _Context) -> dict[str, Any]:
        known = fields(kind.struct)
        struct = kind.struct.rpartition(".")[2]
        made = {}
        for key, item in value.items():
            field = known.get(key)
            here = _below(path, key)
            if field is None:
                if len(self.unknown) < MOST_UNKNOWN:
                    self.unknown[here] = None
                continue
            names = (*context.names, *field.through.split(".")[:-1], key)
            made[key] = self.value(item, field.type, here, _Context(struct, names))
        return made

    def _bytes(self, value: str) -> str | None:
        try:
            return scalars.base64_text(value)
        except scalars.InvalidScalar as error:
            self._note(DecodeError(str(error)))
            return None

    def _note(self, mismatch: DecodeError) -> None:
        self.mismatch = self.mismatch or mismatch


def _below(path: str, key: str) -> str:
    return extended(path, f".{key}" if path else key)


_LONGEST_NUMBER = 100
"""Most characters of a number that a message quotes."""
_BYTES = GoType("list", "[]uint8", GoType("uint8", "uint8"))
_SHAPES: Mapping[str, type] = {"struct": dict, "map": dict, "list": list, "bytes": str}
_NUMBERS: Mapping[str, range] = {
    "uint8": range(2**8),
    "int32": range(-(2**31), 2**31),
    "int64": range(-(2**63), 2**63),
}
_TYPES: Mapping[str, tuple[type, ...]] = {"string": (str,), "bool": (bool,)}


def _fits(value: Any, sort: str) -> bool:
    if sort in _NUMBERS:
        return type(value) is int and value in _NUMBERS[sort]
    if sort == "float64":
        return numbers.is_float64(value)
    return type(value) in _TYPES.get(sort, ())


def _what(value: Any, *, number: bool) -> str:
    """Return Go's name of the type of a value. `number`: a number is expected, so the message contains the value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        shown = number and (abs(value) <= scalars.LARGEST_NUMBER or isinstance(value, numbers.Written))
        return f"number {numbers.text(value)[:_LONGEST_NUMBER]}" if shown else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _time(value: Any, context: _Context) -> Any:
    return _text(value, context, scalars.time)


def _micro_time(value: Any, context: _Context) -> Any:
    return _text(value, context, scalars.micro_time)


def _text(value: Any, context: _Context, read: Callable[[str], Any]) -> Any:
    if not isinstance(value, str):
        raise context.mismatch(_what(value, number=False), "string")
    try:
        return read(value)
    except scalars.InvalidScalar as error:
        raise DecodeError(str(error)) from None


def _quantity(value: Any, context: _Context) -> Any:  # noqa: ARG001
    if isinstance(value, bool | list | dict) or (
        not isinstance(value, str) and abs(value) > scalars.LARGEST_NUMBER
    ):
        raise DecodeError(scalars.FORMAT_WRONG)
    try:
        return scalars.quantity(value.strip() if isinstance(value, str) else numbers.text(value))
    except scalars.InvalidScalar as error:
        raise DecodeError(str(error)) from None


def _int_or_string(value: Any, context: _Context) -> Any:
    if isinstance(value, str) or _fits(value, "int32"):
        return value
    raise context.mismatch(_what(value, number=True), "int32")


def _inner(value: Any, definition: str, context: _Context) -> Any:
    """Examine a value that a type's own decoder passes to a new decoder. Its unknown fields are not reported."""
    try:
        return examine(value, definition)[0]
    except _Mismatch as inner:
        raise context.mismatch(inner.what, inner.to, *inner.names) from None


def _schema_or_bool(value: Any, context: _Context) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return _inner(value, SCHEMA, context)
    raise DecodeError("boolean or JSON schema expected")


def _schema_or_list(value: Any, context: _Context) -> Any:
    return _schema_or(value, f"[]{SCHEMA}", context)


def _schema_or_strings(value: Any, context: _Context) -> Any:
    return _schema_or(value, "[]string", context)


def _schema_or(value: Any, listed: str, context: _Context) -> Any:
    if isinstance(value, dict):
        return _inner(value, SCHEMA, context)
    return _inner(value, listed, context) if isinstance(value, list) else None


_OWN_DECODERS: Mapping[str, Callable[[Any, _Context], Any]] = {
    "time": _time,
    "micro-time": _micro_time,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "schema-or-bool": _schema_or_bool,
    "schema-or-list": _schema_or_list,
    "schema-or-strings": _schema_or_strings,
}
"""Types with their own decoder. Its errors end the decoding immediately."""


def decodes_itself(kind: GoType) -> bool:
    """Return whether a type has its own decoder."""
    return kind.sort in _OWN_DECODERS


def decoded(value: Any, kind: GoType) -> Any:
    """Return a value as decoded by the decoder of its type; see `decodes_itself`.

    Raises:
        DecodeError: The decoder refuses the value.
    """
    return _OWN_DECODERS[kind.sort](value, _Context())
