"""The findings of cel-go's validators, which look at the literals of a checked expression. Pure.

Source: cel-go's `cel/validator.go` and `ext/formatting.go`.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

from vcsync.apimachinery.cel.expression import Checked, Expr, Type, below
from vcsync.apimachinery.cel.formatting import FITTING, read_clause, unfit
from vcsync.apimachinery.cel.go_words import marked
from vcsync.apimachinery.cel.values import CelError, Duration, Timestamp
from vcsync.apimachinery.structural import patterns

_RUNTIME_NAMES = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}
_DYN = Type("dyn")
_PARSED: dict[str, Callable[[str], Any]] = {
    "duration": Duration.parse,
    "timestamp": Timestamp.parse,
    "matches": patterns.compiled,
}
"""Functions whose first argument must be well-formed if it is a constant."""


def report(source: str, at: int, told: str) -> str:
    """Format an error with its source line, as cel-go does; `at` is its position in the source."""
    before = source[:at]
    line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1)
    text = source.split("\n")[line - 1]
    return f"ERROR: <input>:{line}:{column + 1}: {told}{marked(text, column)}"


def findings(checked: Checked) -> Iterator[tuple[int, str]]:
    """Yield (node, message) of each finding: mixed literals, constants that cannot be parsed, unfit arguments."""
    mixable = {
        inner.id
        for each in below(checked.root)
        if each.kind == "call" and each.name == "format"
        for inner in below(each)
    }
    for each in below(checked.root):
        if each.kind == "const" and isinstance(each.value, float) and math.isinf(each.value):
            yield each.id, "invalid double literal"
        elif each.kind in ("list", "map") and each.id not in mixable:
            yield from _mixed(checked, each)
        elif each.kind == "call" and each.args:
            if each.name == "format":
                yield from _unformatted(checked, each)
            elif each.name in _PARSED and not _parses(each.name, each.args[0]):
                yield each.args[0].id, f"invalid {each.name} argument"


def _unformatted(checked: Checked, call: Expr) -> Iterator[tuple[int, str]]:
    """Yield the finding on a constant format string and its arguments."""
    template, values = call.target, call.args[-1]
    if template is None or not isinstance(template.value, str) or values.kind != "list":
        return
    at = used = 0
    while (found := template.value.find("%", at)) >= 0:
        if template.value.startswith("%%", found):
            at = found + 2
            continue
        if used >= len(values.args):
            told = (
                "unexpected end of string"
                if found + 1 == len(template.value)
                else f"index {used} out of range"
            )
            yield call.id, told
            return
        try:
            letter, _, at = read_clause(template.value, found)
        except CelError as why:
            yield call.id, str(why)
            return
        unfitting = _unfitting(checked, values.args[used], letter)
        if unfitting is not None:
            yield unfitting.id, str(unfit(letter, _type_name(checked, unfitting)))
            return
        used += 1
    if len(values.args) > used:
        told = f"too many arguments supplied to string.format (expected {used}, got {len(values.args)})"
        yield call.id, told


def _unfitting(checked: Checked, value: Expr, letter: str) -> Expr | None:
    """Return the argument, or the part of it, that a clause does not format, or None."""
    name = _type_name(checked, value)
    if name not in (*FITTING[letter.lower()][0], "dyn"):
        return value
    if letter == "s" and value.kind in ("list", "map"):
        parts = (_unfitting(checked, each, letter) for each in value.args)
        return next((each for each in parts if each is not None), None)
    return None


def _type_name(checked: Checked, value: Expr) -> str:
    """Return the name of a value's type without its parameters."""
    type_ = checked.types.get(value.id, _DYN)
    return type_.name or _RUNTIME_NAMES.get(type_.kind, type_.kind)


def _exact(value: Expr) -> bool:
    """Return whether a value's type is that of cel-go. Some types of a schema are dynamic only here."""
    return value.name == "dyn" or (
        value.kind in ("const", "list", "map") and all(_exact(each) for each in value.args)
    )


def _agree(left: Type, right: Type) -> bool:
    if "dyn" in (left.kind, right.kind):
        return True
    if left.kind != right.kind or left.name != right.name or len(left.parameters) != len(right.parameters):
        return False
    return all(_agree(*pair) for pair in zip(left.parameters, right.parameters, strict=True))


def _mixed(checked: Checked, literal: Expr) -> Iterator[tuple[int, str]]:
    """Yield the first element of a list that differs in type, or all keys and values of a map that do."""
    if literal.kind == "list":
        yield from itertools.islice(_differing(checked, literal.args, literal.optional), 1)
        return
    yield from _differing(checked, literal.args[0::2], set())
    yield from _differing(checked, literal.args[1::2], literal.optional)


def _differing(checked: Checked, elements: list[Expr], optional: set[int]) -> Iterator[tuple[int, str]]:
    wanted: Type | None = None
    for at, each in enumerate(elements):
        type_ = checked.types.get(each.id, _DYN)
        if at in optional and type_.parameters:
            type_ = type_.parameters[0]
        wanted = wanted or type_
        exact = _exact(elements[0]) and _exact(each)
        if (exact and wanted != type_) or not _agree(wanted, type_):
            yield each.id, f"expected type '{wanted}' but found '{type_}'"


def _parses(function: str, argument: Expr) -> bool:
    """Return whether a function takes an argument, if that is a constant string."""
    try:
        if argument.kind == "const" and isinstance(argument.value, str):
            _PARSED[function](argument.value)
    except (CelError, patterns.InvalidPattern):
        return False
    return True
