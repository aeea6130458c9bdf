"""The JSONPath of printer columns: fields, indices, slices, wildcards, unions, filters, descent. Pure.

The dialect is that of https://kubernetes.io/docs/reference/kubectl/jsonpath/, without templates. Tenants write the paths,
so their length and the number of results are limited.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain, islice
from typing import Any

MAX_LENGTH = 1024
MAX_FOUND = 1000
"""Most results of one step."""
MAX_VISITED = 20_000
"""Most values that a recursive descent visits."""

Step = Callable[[Any], Iterator[Any]]

_STEP = re.compile(
    r"""
      \.\.(?P<descend>(?:[^.\[\\]|\\.)*)
    | \.(?P<field>\*|(?:[^.\[\\]|\\.)+)
    | \[\?\((?P<filter>(?:[^'"\]]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*)\)\]
    | \[(?P<bracket>(?:[^'"\]]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*)\]
    """,
    re.VERBOSE,
)
_PART = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^'",]+))\s*(?:,|$)""")
_RANGE = re.compile(r"(-?\d{1,9})?(?::(-?\d{1,9})?(?::(-?\d{1,9})?)?)?")
_COMPARISON = re.compile(
    r"""\s*@(?P<path>(?:[^=!<>'"]|'[^']*'|"[^"]*")*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<literal>.+?))?\s*""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)")


class BadPath(ValueError):
    """A text is not a supported JSONPath."""


def first(path: str, obj: Any) -> tuple[bool, Any]:
    """Return whether a path has results, and its first result.

    Raises:
        BadPath: The path is not supported.
    """
    found = list(islice(find(path, obj), 1))
    return (True, found[0]) if found else (False, None)


def find(path: str, obj: Any) -> Iterator[Any]:
    """Yield the results of a path.

    Raises:
        BadPath: The path is not supported.
    """
    found: Iterator[Any] = iter((obj,))
    for step in parse(path):
        found = islice(chain.from_iterable(map(step, found)), MAX_FOUND)
    return found


@lru_cache(maxsize=4096)
def parse(path: str) -> tuple[Step, ...]:
    """Compile a path such as `.spec.items[?(@.type=="Ready")].status`.

    Raises:
        BadPath: The path is not supported.
    """
    text = path.strip().removeprefix("$")
    if len(text) > MAX_LENGTH:
        raise BadPath("path is too long")
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or match.end() == at:
            raise BadPath(f"unrecognized path {path!r}")
        steps.append(_step(match))
        if match["descend"]:
            steps.append(_field(match["descend"]))
        at = match.end()
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["descend"] is not None:
        return _descend
    if match["field"] is not None:
        return _everything if match["field"] == "*" else _field(match["field"])
    if match["filter"] is not None:
        return _filter(match["filter"])
    parts = [_bracket(*part.groups()) for part in _parts(match["bracket"])]
    return lambda value: chain.from_iterable(part(value) for part in parts)


def _parts(text: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise BadPath(f"unrecognized index {text!r}")
        yield match
        at = match.end()


def _bracket(single: str | None, double: str | None, plain: str | None) -> Step:
    quoted = double if single is None else single
    if quoted is not None:
        return _field(quoted)
    text = (plain or "").strip()
    if text == "*":
        return _everything
    match = _RANGE.fullmatch(text)
    if match is None or not text:
        raise BadPath(f"unrecognized index {text!r}")
    if ":" not in text:
        index = int(text)
        return lambda value: iter(
            value[index:][:1] if isinstance(value, list) and index >= -len(value) else ()
        )
    start, end, step = (int(each) if each else None for each in match.groups())
    if step is not None and step <= 0:
        raise BadPath("step must be positive")
    return lambda value: iter(value[start:end:step] if isinstance(value, list) else ())


def _field(name: str) -> Step:
    key = _ESCAPED.sub(r"\1", name)
    return lambda value: iter((value[key],) if isinstance(value, dict) and key in value else ())


def _everything(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        return iter(value.values())
    return iter(value if isinstance(value, list) else ())


def _descend(value: Any) -> Iterator[Any]:
    waiting, visited = [value], 0
    while waiting and visited < MAX_VISITED:
        each = waiting.pop()
        visited += 1
        yield each
        waiting += reversed([item for item in _everything(each) if isinstance(item, dict | list)])


def _filter(text: str) -> Step:
    match = _COMPARISON.fullmatch(text)
    if match is None:
        raise BadPath(f"unrecognized filter {text!r}")
    path, operator = match["path"].strip(), match["operator"]
    parse(path)
    literal = _literal(match["literal"]) if operator else None

    def keep(item: Any) -> bool:
        found, value = first(path, item)
        return found and (operator is None or _compare(value, operator, literal))

    return lambda value: (item for item in _everything(value) if keep(item))


def _literal(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return _ESCAPED.sub(r"\1", text[1:-1])
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text or "e" in text.lower() else int(text[:20])
    except ValueError:
        raise BadPath(f"unrecognized literal {text!r}") from None


def _compare(value: Any, operator: str, literal: Any) -> bool:
    numbers = isinstance(value, int | float) and isinstance(literal, int | float)
    if type(value) is not type(literal) and not numbers:
        return operator == "!="
    if operator == "==":
        return bool(value == literal)
    if operator == "!=":
        return bool(value != literal)
    if not isinstance(value, int | float | str):
        return False
    less, equal = bool(value < literal), bool(value == literal)
    return {"<": less, "<=": less or equal, ">": not (less or equal), ">=": not less}[operator]
