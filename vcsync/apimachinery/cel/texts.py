"""String functions. Pure.

Each function takes the remaining work, then the arguments, target first. Messages are cel-go's.
"""

from typing import Any

from vcsync.apimachinery import gotext
from vcsync.apimachinery.cel import formatting
from vcsync.apimachinery.cel.arguments import Function, of_text, of_texts, of_types
from vcsync.apimachinery.cel.values import CelError, CostExceeded, NoOverload, Work, equal
from vcsync.apimachinery.structural import patterns

_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_QUOTED = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


@of_types(str, str)
def _matches(_: Work, text: str, pattern: str) -> bool:
    try:
        return patterns.compiled(pattern).found_in(text)
    except patterns.InvalidPattern as why:
        raise CelError(str(why)) from None
    except patterns.TooMuchWork:
        raise CostExceeded from None


@of_types(str, str)
def _find(_: Work, text: str, pattern: str) -> str:
    found = _find_all(_, text, pattern, 1)
    return str(found[0]) if found else ""


@of_types(str, str, int)
def _find_all(_: Work, text: str, pattern: str, most: int = -1) -> list[str]:
    try:
        return patterns.compiled(pattern).all_in(text, most)
    except patterns.InvalidPattern as why:
        raise CelError(f"Illegal regex: {why}") from None
    except patterns.TooMuchWork:
        raise CostExceeded from None


@of_types(str, int)
def _char_at(_: Work, text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise CelError(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(work: Work, target: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(target, list):
        return next((at for at, each in enumerate(target) if equal(each, wanted, work)), -1)
    if not isinstance(target, str) or not isinstance(wanted, str):
        raise NoOverload
    if not wanted:
        return start
    if start < 0:
        raise CelError(f"index out of range: {start}")
    return target.find(wanted, start) if start <= len(target) else -1


def _last_index_of(work: Work, target: Any, wanted: Any, start: int | None = None) -> int:
    if isinstance(target, list):
        found = [at for at, each in enumerate(target) if equal(each, wanted, work)]
        return found[-1] if found else -1
    if not isinstance(target, str) or not isinstance(wanted, str):
        raise NoOverload
    if start is None:
        return target.rfind(wanted)
    if not wanted:
        return start
    if start < 0:
        raise CelError(f"index out of range: {start}")
    return target.rfind(wanted, 0, start + len(wanted)) if start < len(target) else -1


@of_types(str, str, str, int)
def _replace(work: Work, text: str, old: str, new: str, most: int = -1) -> str:
    work.spend((len(text) + text.count(old) * len(new)) // 256)
    if text.count(old) * len(new) > 50_000_000:
        raise CelError("result is too large")
    return text.replace(old, new, most)


@of_types(str, str, int)
def _split(_: Work, text: str, separator: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not separator:
        return list(text) if most < 0 or most >= len(text) else [*text[: most - 1], text[most - 1 :]]
    return text.split(separator, most - 1 if most > 0 else -1)


@of_types(str, int, int)
def _substring(_: Work, text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if end is not None and start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for each in (start, stop):
        if not 0 <= each <= len(text):
            raise CelError(f"index out of range: {each}")
    return text[start:stop]


@of_types(list, str)
def _join(work: Work, items: list[Any], separator: str = "") -> str:
    for each in items:
        if not isinstance(each, str):
            raise CelError(f"join: invalid input: {gotext.plain(each)}")
    total = sum(len(each) for each in items) + len(separator) * len(items)
    work.spend(total // 256)
    if total > 50_000_000:
        raise CelError("result is too large")
    return separator.join(items)


_STRIPPED = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


FUNCTIONS: dict[str, Function] = {
    "contains": of_texts(lambda text, other: other in text),
    "startsWith": of_texts(str.startswith),
    "endsWith": of_texts(str.endswith),
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
    "charAt": _char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "lowerAscii": of_text(lambda text: text.translate(_LOWER)),
    "upperAscii": of_text(lambda text: text.translate(_UPPER)),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "trim": of_text(lambda text: text.strip(_STRIPPED)),
    "join": _join,
    "format": of_types(str, list)(formatting.format_text),
    "jsonpatch.escapeKey": of_text(lambda text: text.replace("~", "~0").replace("/", "~1")),
    "strings.quote": of_text(lambda text: f'"{text.translate(_QUOTED)}"'),
}
"""Implementation of each function, by name."""
