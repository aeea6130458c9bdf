"""Bring objects of built-in kinds into the form that kube-apiserver gives them. Pure.

A kube-apiserver decodes every built-in object into Go types and encodes what it stores and answers from them. This
does the same to JSON objects: what Go would not keep is gone, what Go would write is there. Each struct's rules are
compiled once into a plan; what is in order is walked at once, anything else is looked at again by `findings`.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from vcsync.controlplane.schema import findings, scalars
from vcsync.controlplane.schema.findings import DecodeError
from vcsync.controlplane.schema.gotypes import EXTENSIONS, SCHEMA, GoType, fields
from vcsync.controlplane.schema.node import Schema

Object = dict[str, Any]
Make = Callable[[Any], Any]
_Rule = tuple[type | None, Make | None, bool, int]
"""Of a field: the type its value must be of, or what makes the value; whether an empty one stays; its place."""

_KEPT_AS_JSON = (EXTENSIONS, "io.k8s.kube-aggregator.")
"""Where a store holds JSON, an empty list stays one; elsewhere it comes back from protobuf as no list."""


_REMEMBERED = ("spec", "status")
"""Fields whose values are long and mostly the same from one walk to the next."""
_LONGEST_REMEMBERED = 16 * 1024
_MOST_REMEMBERED = 16 * 2**20
"""Bytes: of one value, and of all."""
_encode = msgspec.json.Encoder().encode


class _Odd(Exception):
    """Something that is not as it should be."""


def decode(obj: Any, schema: Schema, *, complete: bool = False) -> tuple[Object, list[str]]:
    """Read an object as a request carries it: without unknown fields, nulls and empty values that Go does not see.

    Args:
        obj: what was sent.
        schema: of its kind.
        complete: add the zeros that the API adds, as `normalize` does.

    Returns:
        the object (new, but for free-form parts, and lists and maps of texts), and the paths of unknown fields (`spec.foo`),
        at most 100, in the order in which kube-apiserver names them.

    Raises:
        DecodeError: a value is of the wrong type.
    """
    plan = _plan(schema.definition, complete)
    try:
        return plan(obj), []
    except (_Odd, scalars.InvalidScalar):
        pruned, unknown = findings.examine(obj, schema.definition)
        return plan(pruned), unknown
    except RecursionError:
        raise DecodeError("exceeded max depth") from None


def normalize(obj: Any, schema: Schema) -> Object:
    """Return an object as the API stores and answers it; idempotent. Unknown fields are dropped without a word.

    Members come in the order of the Go types, keys of maps sorted.

    Raises:
        DecodeError: a value is of the wrong type.
    """
    return decode(obj, schema, complete=True)[0]


def fingerprint(obj: Object) -> bytes | None:
    """Return what two objects have in common only if they are the same to the order of their members; None: cannot tell."""
    try:
        return _encode(obj)
    except (TypeError, ValueError, RecursionError):  # half of a surrogate pair, say
        return None


@cache
def _plan(definition: str, complete: bool) -> Make:
    """Compile the rules of a struct; `complete`: with the zeros that are written though nothing was given."""
    rules: dict[str, _Rule] = {}
    zeros: list[tuple[str, Callable[[], Any]]] = []
    struct = _COMPILING[definition, complete] = _walker(rules, zeros, ordered=complete)
    kept_empty = definition.startswith(_KEPT_AS_JSON)
    for place, (name, field) in enumerate(fields(definition).items()):
        kind = field.type
        keep = _keeps_empty(kind, field.omit_empty, kept_empty)
        expected, make = _rule(kind, complete)
        if complete and make is not None and name in _REMEMBERED and kind.sort == "struct":
            make = _remembering(make)
        rules[name] = (expected, make, keep, place)
        if complete and not _omitted(kind, field.omit_empty, field.omit_zero):
            zeros.append((name, _zero(kind, complete)))
    return struct


def _remembering(make: Make) -> Make:
    """Return what does as `make` does, but passes at once what it has made lately: every write walks objects several times.

    Encoding a value is ten times as fast as walking it. What is passed is the value itself, but for its outermost level.
    """

    def made(value: Any) -> Any:
        if type(value) is not dict:
            return make(value)
        if (make, fingerprint(value)) in _known:
            return dict(value)
        normal = make(value)
        told = fingerprint(normal)
        if told is not None and len(told) <= _LONGEST_REMEMBERED:
            _remember(make, told)
        return normal

    return made


_known: dict[tuple[Make, bytes | None], int] = {}
"""(what has made it, what it has made) -> bytes of all that came before."""


def _remember(make: Make, told: bytes) -> None:
    size = next(reversed(_known.values()), 0) + len(told)
    if size > _MOST_REMEMBERED:
        _known.clear()
        size = len(told)
    _known[make, told] = size


def _completed(
    rules: Mapping[str, _Rule], zeros: Sequence[tuple[str, Callable[[], Any]]]
) -> Callable[[Object, bool], Object]:
    """Return what adds the zeros of a struct, and brings its fields into their places unless they are."""

    def place(key: str) -> int:
        return rules[key][3]

    def whole(made: Object, in_place: bool) -> Object:
        for key, zero in zeros:
            if key not in made:
                made[key] = zero()
                in_place = False
        return made if in_place else {key: made[key] for key in sorted(made, key=place)}

    return whole


def _walker(
    rules: Mapping[str, _Rule], zeros: Sequence[tuple[str, Callable[[], Any]]], *, ordered: bool
) -> Make:
    """Return what walks one struct. This is where the time goes: it runs for every object of every write.

    Args:
        rules: of its fields.
        zeros: what is written though nothing was given.
        ordered: whether fields come in their places, or in the order in which they were given.
    """
    whole = _completed(rules, zeros)

    def struct(value: Any) -> Object:
        if type(value) is not dict:
            raise _Odd
        made = {}
        last, in_place = -1, True
        for key, item in value.items():
            rule = rules.get(key)
            if rule is None:
                raise _Odd
            if item is None:
                continue
            expected, make, keep, at = rule
            if make is not None:
                written = make(item)
            elif type(item) is expected:
                written = item
            else:
                raise _Odd
            if written or (keep and written is not None):
                made[key] = written
                in_place = in_place and at > last
                last = at
        return whole(made, in_place) if ordered else made

    return struct


_COMPILING: dict[tuple[str, bool], Make] = {}
"""Plans by definition, from the moment at which they are begun: types refer to themselves."""


def _struct(definition: str, complete: bool) -> Make:
    return _COMPILING.get((definition, complete)) or _plan(definition, complete)


def _keeps_empty(kind: GoType, omit_empty: bool, kept_as_json: bool) -> bool:
    """Whether an empty value that was given stays."""
    if kind.pointer or kind.sort in _NEVER_EMPTY:
        return True
    if kind.sort in ("list", "map"):
        return kept_as_json and not omit_empty
    return not omit_empty


def _omitted(kind: GoType, omit_empty: bool, omit_zero: bool) -> bool:
    """Whether Go writes nothing for a zero value. Structs are never empty for it, unless told to look for zero."""
    whole = not kind.pointer and kind.sort not in (
        "string",
        "bool",
        "int32",
        "int64",
        "float64",
        "bytes",
        "list",
        "map",
    )
    return omit_zero if whole else omit_empty


def _zero(kind: GoType, complete: bool) -> Callable[[], Any]:
    """Return what makes the zero value of a type as Go writes it."""
    if kind.pointer:
        return _null
    if kind.sort == "struct":
        struct = _struct(kind.struct, complete)
        return lambda: struct({})
    return _ZEROS.get(kind.sort, _null)


def _null() -> None:
    return None


_ZEROS: Mapping[str, Callable[[], Any]] = {
    "string": str,
    "bool": bool,
    "int32": int,
    "int64": int,
    "float64": int,
    "quantity": lambda: "0",
    "int-or-string": int,
    "schema-or-bool": bool,
}


def _rule(kind: GoType, complete: bool) -> tuple[type | None, Make | None]:
    """Return the type that a value must be of, or what makes the value from what was given."""
    if kind.sort in _PLAIN:
        return _PLAIN[kind.sort], None
    return None, _maker(kind, complete)


def _maker(kind: GoType, complete: bool) -> Make:
    if kind.sort == "struct":
        return _struct(kind.struct, complete)
    if kind.sort == "list" and kind.element:
        return _list(kind.element, complete)
    if kind.sort == "map" and kind.element:
        return _map(kind.element, complete)
    if kind.sort.startswith("schema-or-"):
        return _schema_or(kind.sort, complete)
    return _SCALARS[kind.sort]


def _list(element: GoType, complete: bool) -> Make:
    make = _maker(element, complete)
    zero = _zero(element, complete)

    def made(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _Odd
        return [zero() if item is None else make(item) for item in value]

    def texts(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _Odd
        for item in value:
            if type(item) is not str:
                return made(value)
        return value

    return texts if element.sort == "string" else made


def _map(element: GoType, complete: bool) -> Make:
    make = _maker(element, complete)
    zero = _zero(element, complete)

    def made(value: Any) -> Object:
        if type(value) is not dict:
            raise _Odd
        return {key: zero() if value[key] is None else make(value[key]) for key in sorted(value)}

    def texts(value: Any) -> Object:
        if type(value) is not dict:
            raise _Odd
        for item in value.values():
            if type(item) is not str:
                return made(value)
        ordered = sorted(value)
        return value if ordered == [*value] else {key: value[key] for key in ordered}

    return texts if element.sort == "string" else made


def _schema_or(sort: str, complete: bool) -> Make:
    """Fields of a schema that hold a schema or something simpler; within, unknown fields pass without a word."""

    def schema(value: Any) -> Object:
        struct = _struct(SCHEMA, complete)
        try:
            return struct(value)  # type: ignore[no-any-return]
        except (_Odd, scalars.InvalidScalar):
            return struct(_pruned(value))  # type: ignore[no-any-return]

    def made(value: Any) -> Any:
        if type(value) is dict:
            return schema(value)
        if type(value) is bool and sort == "schema-or-bool":
            return value
        if value == []:
            return None
        if type(value) is list and sort == "schema-or-list":
            return [schema({} if item is None else item) for item in value]
        if type(value) is list and sort == "schema-or-strings" and all(type(item) is str for item in value):
            return value
        raise _Odd

    return made


def _pruned(schema: Object) -> Any:
    try:
        return findings.examine(schema, SCHEMA)[0]
    except DecodeError:
        raise _Odd from None  # to be told with the path that leads here


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _Odd
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise _Odd
    return value


def _int32(value: Any) -> int:
    if type(value) is not int or not -0x80000000 <= value <= 0x7FFFFFFF:
        raise _Odd
    return value


def _int64(value: Any) -> int:
    if type(value) is not int or not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise _Odd
    return value


def _float(value: Any) -> float:
    if type(value) is not float and type(value) is not int:
        raise _Odd
    return value


def _quantity(value: Any) -> str:
    if type(value) is str:
        return scalars.quantity(value.strip() if value != "null" else "0")
    if (type(value) is not int and type(value) is not float) or abs(value) > scalars.LARGEST_NUMBER:
        raise _Odd
    return scalars.quantity(str(value))


def _int_or_string(value: Any) -> int | str:
    return value if type(value) is str else _int32(value)


def _time(value: Any) -> str | None:
    return scalars.time(_text(value))


def _micro_time(value: Any) -> str | None:
    return scalars.micro_time(_text(value))


def _bytes(value: Any) -> str:
    if type(value) is list and all(type(each) is int and 0 <= each <= 255 for each in value):
        return base64.b64encode(bytes(value)).decode()
    return scalars.base64_text(_text(value))


def _anything(value: Any) -> Any:
    return value


_NEVER_EMPTY = frozenset(
    {"struct", "any", "int-or-string", "schema-or-bool", "schema-or-list", "schema-or-strings"}
)
_PLAIN: Mapping[str, type] = {"string": str, "bool": bool}
_SCALARS: Mapping[str, Make] = {
    "string": _text,
    "bool": _flag,
    "int32": _int32,
    "int64": _int64,
    "float64": _float,
    "bytes": _bytes,
    "time": _time,
    "micro-time": _micro_time,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "any": _anything,
}
