"""String formatting: `'%d of %s'.format([1, 'a'])`. Pure.

Source: cel-go's `ext/formatting.go`, the form before version 4 of its strings library: numbers of `%f` and `%e` are
written in American English.
"""

import math
import re
from collections.abc import Callable
from typing import Any

from vcsync.apimachinery import gotext
from vcsync.apimachinery.cel.values import (
    CelError,
    Duration,
    Timestamp,
    TypeValue,
    Work,
    type_name,
)

_CLAUSE = re.compile(r"%(?P<dot>\.(?P<precision>[0-9]*))?(?P<letter>.)?", re.DOTALL)
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_TIMES = "\N{MULTIPLICATION SIGN}"
_PRECISION = 6
_LARGEST_PRECISION = 999
"""Largest precision. Go writes as many digits as an expression asks for."""
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")

_TEXTUAL = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"

FITTING: dict[str, tuple[tuple[str, ...], str]] = {
    "s": (
        ("list", "map", "int", "uint", "double", "bool", "string", "google.protobuf.Timestamp", "bytes",
         "google.protobuf.Duration", "type", "null_type"),
        _TEXTUAL,
    ),
    "d": (("int", "uint"), "decimal clause can only be used on integers"),
    "f": (("double", "string"), "fixed-point clause can only be used on doubles"),
    "e": (("double", "string"), "scientific clause can only be used on doubles"),
    "b": (("int", "uint", "bool"), "only integers and bools can be formatted as binary"),
    "x": (("int", "uint", "string", "bytes"), "only integers, byte buffers, and strings can be formatted as hex"),
    "o": (("int", "uint"), "octal clause can only be used on integers"),
}  # fmt: skip
"""The letter of a clause, in lower case -> the types that it formats, and what a message says about others."""


def unfit(letter: str, type_: str) -> CelError:
    """Return the error about a value of a type that a clause does not format."""
    return CelError(f"error during formatting: {FITTING[letter.lower()][1]}, was given {type_}")


def _plain(value: Any) -> str:
    """Format a value that has no parts as `%s` does."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            told = 'could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string'
            raise CelError(f"error during formatting: {told}") from None
    for type_, write in _WRITERS:
        if isinstance(value, type_):
            return write(value)
    raise unfit("s", type_name(value))


_WRITERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (str, str),
    (bool, lambda value: "true" if value else "false"),
    (type(None), lambda _: "null"),
    (Duration, Duration.text),
    (Timestamp, Timestamp.text),
    (float, gotext.general),
    (int, lambda value: str(int(value))),
    (TypeValue, lambda value: str(value.name)),
)


def _text(value: Any, work: Work) -> str:
    """Format a value as `%s` does."""
    work.spend()
    if isinstance(value, list):
        return f"[{', '.join(_part(each, work) for each in value)}]"
    if isinstance(value, dict):
        entries = sorted((_key(name, work), _part(each, work)) for name, each in value.items())
        return f"{{{', '.join(f'{name}:{each}' for name, each in entries)}}}"
    return _plain(value)


def _part(value: Any, work: Work) -> str:
    """Format an element of a list or a value of a map as a literal of CEL."""
    if isinstance(value, str):
        return gotext.quoted(value)
    if isinstance(value, bytes):
        return f"b{gotext.quoted(_plain(value))}"
    if isinstance(value, Timestamp | Duration):
        name = "timestamp" if isinstance(value, Timestamp) else "duration"
        return f"{name}({gotext.quoted(value.text())})"
    if isinstance(value, float):
        return f"{value:.{_PRECISION}f}" if math.isfinite(value) else f'"{gotext.number(value)}"'
    if type_name(value) not in FITTING["s"][0]:
        raise CelError(f"error during formatting: no formatting function for {type_name(value)}")
    return _text(value, work)


def _key(name: Any, work: Work) -> str:
    if not isinstance(name, str | bool | int):
        told = f"no formatting function for map key of type {type_name(name)}"
        raise CelError(f"error during formatting: {told}")
    return _part(name, work)


def _number(value: Any, precision: int, letter: str) -> str:
    """Format a double as `%f` or `%e` does in American English."""
    if isinstance(value, str) and value in _NOT_FINITE:
        value = float(value)
    if not isinstance(value, float):
        raise unfit(letter, type_name(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if letter == "f":
        return f"{value:,.{precision}f}"
    # cel-go takes the precision of `%e` for a width, which has no effect.
    mantissa, _, exponent = f"{value:.{_PRECISION}e}".partition("e")
    return f"{mantissa}{_TIMES}10{exponent.removeprefix('+').translate(_RAISED)}"


def _digits(value: Any, letter: str) -> str:
    if type_name(value) not in FITTING[letter.lower()][0]:
        raise unfit(letter, type_name(value))
    if isinstance(value, str | bytes):
        data = value.encode("utf-8", "replace") if isinstance(value, str) else value
        return data.hex().upper() if letter == "X" else data.hex()
    return f"{int(value):{letter}}"


def _clause(value: Any, letter: str, precision: int, work: Work) -> str:
    if letter == "s":
        return _text(value, work)
    return _number(value, precision, letter) if letter in "fe" else _digits(value, letter)


def read_clause(template: str, at: int) -> tuple[str, int, int]:
    """Read the clause that begins at a position of a template.

    Returns:
        Its letter, its precision, and the position after it.

    Raises:
        CelError: the clause is malformed.
    """
    found = _CLAUSE.match(template, at)
    if found is None or found.end() == at + 1:
        raise CelError("unexpected end of string")
    precision = _PRECISION if found["dot"] is None else _precision(found["precision"], found["letter"])
    if found["letter"].lower() not in FITTING or found["letter"] in "SDFEBO":
        # cel-go shows one byte.
        shown = chr(found["letter"].encode("utf-8", "replace")[0])
        raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{shown}"')
    return found["letter"], precision, found.end()


def _precision(digits: str, letter: str | None) -> int:
    fault = "could not parse formatting clause: error while parsing precision: "
    if letter is None:
        raise CelError(f"{fault}could not find end of precision specifier")
    fault += f"error while converting precision to integer: strconv.Atoi: parsing {gotext.quoted(digits)}: "
    if not digits:
        raise CelError(f"{fault}invalid syntax")
    if len(digits.lstrip("0")) > len(str(_LARGEST_PRECISION)):
        raise CelError(f"{fault}value out of range")
    return int(digits)


def format_text(work: Work, template: str, values: list[Any]) -> str:
    """Format the values of a list by the clauses of a template.

    Raises:
        CelError: a clause is malformed, or has no value of a fitting type.
    """
    parts: list[str] = []
    at = used = 0
    while (found := template.find("%", at)) >= 0:
        parts.append(template[at:found])
        if template.startswith("%%", found):
            parts.append("%")
            at = found + 2
            continue
        if used >= len(values):
            raise CelError(f"index {used} out of range")
        letter, precision, at = read_clause(template, found)
        parts.append(_clause(values[used], letter, precision, work))
        used += 1
        work.spend(len(parts[-1]) // 256)
    parts.append(template[at:])
    return "".join(parts)
