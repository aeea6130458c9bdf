"""String formatting: `'%d of %s'.format([1, 'a'])`. Pure. Source: cel-go's `ext/formatting.go`."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from vcsync.apimachinery import gotext
from vcsync.apimachinery.cel.values import (
    CelError,
    Duration,
    Optional,
    Struct,
    Timestamp,
    TypeValue,
    Work,
    is_number,
    type_name,
)

_CLAUSE = re.compile(r"%(?:(%)|(?:\.(\d{1,3}))?([sdfeboxX]))")


def text(value: Any, work: Work) -> str:
    """Format a value as `%s` does.

    Raises:
        CelError: values of this type have no text.
    """
    work.spend()
    if isinstance(value, list):
        return f"[{', '.join(text(each, work) for each in value)}]"
    if isinstance(value, dict):
        entries = sorted((text(name, work), text(each, work)) for name, each in value.items())
        return f"{{{', '.join(f'{name}: {each}' for name, each in entries)}}}"
    for type_, write in _WRITERS:
        if isinstance(value, type_):
            return write(value)
    raise _unfit("string", value)


_WRITERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (str, str),
    (bool, lambda value: "true" if value else "false"),
    (type(None), lambda _: "null"),
    (bytes, lambda value: value.decode("utf-8", "replace")),
    (Duration, Duration.text),
    (Timestamp, Timestamp.text),
    (float, gotext.number),
    (int, lambda value: str(int(value))),
    (TypeValue, lambda value: str(value.name)),
)


def _unfit(clause: str, value: Any) -> CelError:
    told = {
        "string": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types,"
        " durations, and timestamps",
        "decimal": "decimal clause can only be used on integers",
    }
    return CelError(f"error during formatting: {told.get(clause, clause)}, was given {type_name(value)}")


def _number(value: Any, precision: int, style: str) -> str:
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return value
    if not is_number(value):
        raise _unfit("fixed-point clause can only be used on doubles", value)
    real = gotext.as_float(value)
    return f"{real:.{precision}{style}}"


def _digits(value: Any, style: str) -> str:
    if style in "xX" and isinstance(value, str | bytes):
        data = value.encode("utf-8", "replace") if isinstance(value, str) else value
        return data.hex().upper() if style == "X" else data.hex()
    if style == "b" and isinstance(value, bool):
        return "1" if value else "0"
    if not isinstance(value, int) or isinstance(value, bool | Duration | Timestamp):
        raise _unfit("only integers can be formatted with this clause", value)
    return f"{int(value):{style}}"


def clauses(template: str) -> Iterator[str]:
    """Yield the letter of each clause of a template. The last one is empty if the template ends within a clause."""
    at = template.find("%")
    while at >= 0:
        found = _CLAUSE.match(template, at)
        if found is None:
            yield ""
            return
        if not found[1]:
            yield found[3]
        at = template.find("%", found.end())


def unknown(template: str) -> str:
    """Return the letter of the first unknown clause, or an empty string."""
    at = template.find("%")
    while at >= 0 and (found := _CLAUSE.match(template, at)) is not None:
        at = template.find("%", found.end())
    return template[at + 1 : at + 2]


def clause(value: Any, style: str, precision: int, work: Work) -> str:
    """Format a value in a style, which is the letter after `%`.

    Raises:
        CelError: the style does not apply to the value.
    """
    if isinstance(value, Optional | Struct):
        raise _unfit("string", value)
    if style == "s":
        return text(value, work)
    if style == "d":
        if not is_number(value) or isinstance(value, float):
            raise _unfit("decimal", value)
        return str(int(value))
    return _number(value, precision, style) if style in "fe" else _digits(value, style)


def format_text(work: Work, template: str, values: list[Any]) -> str:
    """Format the values of a list by the clauses of a template.

    Raises:
        CelError: a clause is malformed, or has no value of a fitting type.
    """
    parts: list[str] = []
    at = used = 0
    while True:
        found = template.find("%", at)
        if found < 0:
            break
        part = _CLAUSE.match(template, found)
        if part is None:
            shown = template[found + 1 : found + 2]
            raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{shown}"')
        parts.append(template[at:found])
        at = part.end()
        if part[1]:
            parts.append("%")
            continue
        if used >= len(values):
            raise CelError(f"index {used} out of range")
        parts.append(clause(values[used], part[3], int(part[2] or 6), work))
        used += 1
        work.spend(len(parts[-1]) // 256)
    parts.append(template[at:])
    return "".join(parts)
