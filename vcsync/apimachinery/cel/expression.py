"""Checked expressions, decoded from the bytes that cel-expr-python returns (`cel.expr.CheckedExpr`). Pure.

Source: https://github.com/google/cel-spec/blob/master/proto/cel/expr/checked.proto
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from vcsync.apimachinery.cel.values import UInt

_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN = {1: "dyn", 2: "timestamp", 3: "duration"}


@dataclass(frozen=True, slots=True)
class Type:
    """A type: `kind` is `int`, `list`, `map`, `message`, `opaque`, `dyn`, ...; `name` of a message or opaque type."""

    kind: str
    name: str = ""
    parameters: tuple["Type", ...] = ()

    def __str__(self) -> str:
        told = self.name or self.kind
        return f"{told}({', '.join(str(each) for each in self.parameters)})" if self.parameters else told


@dataclass(slots=True)
class Expr:
    """One node of an expression.

    Attributes:
        kind: `const`, `ident`, `select`, `call`, `list`, `map`, `struct`, `fold`.
        name: the name of an identifier, field, function or message.
        value: the value of a constant.
        target: the operand of a selection, or the target of a call.
        args: the arguments or elements; of a map, keys and values alternately.
        test: whether a selection only tests that the field exists.
        optional: the positions of elements or entries that are omitted if they have no value.
        fold: the parts of a comprehension.
    """

    id: int = 0
    kind: str = ""
    name: str = ""
    value: Any = None
    target: "Expr | None" = None
    args: list["Expr"] = field(default_factory=list)
    test: bool = False
    optional: set[int] = field(default_factory=set)
    fold: "Fold | None" = None


@dataclass(slots=True)
class Fold:
    """The parts of a comprehension."""

    variable: str
    variable2: str
    range: Expr
    accumulator: str
    initial: Expr
    condition: Expr
    step: Expr
    result: Expr


@dataclass(slots=True)
class Checked:
    """An expression with the checker's results: types and overloads of nodes, and constants that names refer to."""

    root: Expr
    types: dict[int, Type]
    overloads: dict[int, tuple[str, ...]]
    names: dict[int, str]
    constants: dict[int, Any]
    positions: dict[int, int] = field(default_factory=dict)

    @property
    def output(self) -> Type:
        """The type of the result."""
        return self.types.get(self.root.id, Type("dyn"))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            value: Any
            value, at = _varint(data, at)
        elif wire == 1:
            value, at = data[at : at + 8], at + 8
        elif wire == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            value, at = data[at : at + 4], at + 4
        yield tag >> 3, value


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def read(data: bytes) -> Checked:
    """Decode an expression as cel-expr-python serializes it: a CheckedExpr in a google.protobuf.Any."""
    body = next(value for number, value in _fields(data) if number == 2)
    checked = Checked(Expr(), {}, {}, {}, {})
    for number, value in _fields(body):
        if number == 2:
            entry = dict(_fields(value))
            _reference(checked, entry.get(1, 0), entry.get(2, b""))
        elif number == 3:
            entry = dict(_fields(value))
            checked.types[entry.get(1, 0)] = _type(entry.get(2, b""))
        elif number == 4:
            checked.root = _expr(value)
        elif number == 5:
            _positions(checked, value)
    return checked


def read_parsed(data: bytes) -> Checked:
    """Decode an expression that was parsed but not checked: a ParsedExpr in a google.protobuf.Any."""
    body = next(value for number, value in _fields(data) if number == 2)
    parsed = Checked(Expr(), {}, {}, {}, {})
    for number, value in _fields(body):
        if number == 2:
            parsed.root = _expr(value)
        elif number == 3:
            _positions(parsed, value)
    return parsed


def _positions(checked: Checked, data: bytes) -> None:
    for part, each in _fields(data):
        if part == 4:
            entry = dict(_fields(each))
            checked.positions[entry.get(1, 0)] = entry.get(2, 0)


def _reference(checked: Checked, node: int, data: bytes) -> None:
    overloads = []
    for number, value in _fields(data):
        if number == 1:
            checked.names[node] = value.decode()
        elif number == 3:
            overloads.append(value.decode())
        elif number == 4:
            checked.constants[node] = _constant(value)
    if overloads:
        checked.overloads[node] = tuple(overloads)


def _element(data: bytes) -> Type:
    return _type(dict(_fields(data)).get(1, b""))


def _map_type(data: bytes) -> Type:
    entry = dict(_fields(data))
    return Type("map", parameters=(_type(entry.get(1, b"")), _type(entry.get(2, b""))))


def _opaque(data: bytes) -> Type:
    parts = list(_fields(data))
    name = next((each.decode() for at, each in parts if at == 1), "")
    return Type("opaque", name, tuple(_type(each) for at, each in parts if at == 2))


_TYPES: dict[int, Callable[[Any], Type]] = {
    2: lambda _: Type("null"),
    3: lambda value: Type(_PRIMITIVES.get(value, "dyn")),
    4: lambda value: Type("wrapper", parameters=(Type(_PRIMITIVES.get(value, "dyn")),)),
    5: lambda value: Type(_WELL_KNOWN.get(value, "dyn")),
    6: lambda value: Type("list", parameters=(_element(value),)),
    7: _map_type,
    9: lambda value: Type("message", value.decode()),
    10: lambda value: Type("parameter", value.decode()),
    11: lambda value: Type("type", parameters=(_type(value),) if value else ()),
    14: _opaque,
}


def _type(data: bytes) -> Type:
    for number, value in _fields(data):
        if number in _TYPES:
            return _TYPES[number](value)
    return Type("dyn")


def _constant(data: bytes) -> Any:
    number: int
    value: Any
    number, value = next(_fields(data), (1, 0))
    if number == 2:
        return bool(value)
    if number == 3:
        return _signed(value)
    if number == 4:
        return UInt(value)
    if number == 5:
        return struct.unpack("<d", value)[0]
    if number == 6:
        return value.decode()
    return value if number == 7 else None


def _expr(data: bytes) -> Expr:
    expr = Expr()
    for number, value in _fields(data):
        if number == 2:
            expr.id = value
        elif number == 3:
            expr.kind, expr.value = "const", _constant(value)
        elif number == 4:
            expr.kind, expr.name = "ident", dict(_fields(value)).get(1, b"").decode()
        elif number == 5:
            _select(expr, value)
        elif number == 6:
            _call(expr, value)
        elif number == 7:
            _list(expr, value)
        elif number == 8:
            _struct(expr, value)
        elif number == 9:
            _fold(expr, value)
    return expr


def _select(expr: Expr, data: bytes) -> None:
    parts = dict(_fields(data))
    expr.kind, expr.name = "select", parts.get(2, b"").decode()
    expr.target, expr.test = _expr(parts[1]), bool(parts.get(3))


def _call(expr: Expr, data: bytes) -> None:
    expr.kind = "call"
    for number, value in _fields(data):
        if number == 1:
            expr.target = _expr(value)
        elif number == 2:
            expr.name = value.decode()
        elif number == 3:
            expr.args.append(_expr(value))


def _list(expr: Expr, data: bytes) -> None:
    expr.kind = "list"
    for number, value in _fields(data):
        if number == 1:
            expr.args.append(_expr(value))
        elif isinstance(value, bytes):
            at = 0
            while at < len(value):
                position, at = _varint(value, at)
                expr.optional.add(position)
        else:
            expr.optional.add(value)


def _struct(expr: Expr, data: bytes) -> None:
    expr.kind = "map"
    for number, value in _fields(data):
        if number == 1 and value:
            expr.kind, expr.name = "struct", value.decode()
        elif number == 2:
            entry = dict(_fields(value))
            if entry.get(5):
                expr.optional.add(len(expr.args) // 2)
            key = _expr(entry[3]) if 3 in entry else Expr(kind="const", value=entry.get(2, b"").decode())
            expr.args += [key, _expr(entry[4])]


def _fold(expr: Expr, data: bytes) -> None:
    parts = dict(_fields(data))
    expr.kind = "fold"
    expr.fold = Fold(
        parts.get(1, b"").decode(),
        parts.get(8, b"").decode(),
        _expr(parts[2]),
        parts.get(3, b"").decode(),
        _expr(parts[4]),
        _expr(parts[5]),
        _expr(parts[6]),
        _expr(parts[7]),
    )


def below(expr: Expr) -> Iterator[Expr]:
    """Yield a node and every node below it."""
    stack = [expr]
    while stack:
        each = stack.pop()
        yield each
        if each.target is not None:
            stack.append(each.target)
        stack += each.args
        if each.fold is not None:
            fold = each.fold
            stack += [fold.range, fold.initial, fold.condition, fold.step, fold.result]
