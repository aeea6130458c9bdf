"""The JSONPath of printer columns: fields, indices, slices, wildcards, unions, filters, descent. Pure.

The dialect is that of https://kubernetes.io/docs/reference/kubectl/jsonpath/, without templates. Tenants write the paths
and the objects, so the length of a path is limited, and each value that it visits takes a step of a `Budget`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from vcsync.objects.budget import Budget, BudgetExceeded

MAX_LENGTH = 1024
MAX_COMPILED = 32 * 1024
"""Most characters that `parse_all` compiles."""

Step = Callable[[Any, Budget], Iterator[Any]]
"""Yields the values that one part of a path finds in a value. It spends a step for each value that it looks at."""
Path = tuple[Step, ...]
"""A compiled path."""

_STEP = re.compile(
    r"""
      \.\.(?P<descend>(?:[^.\[\\]|\\.)*)
    | \.(?P<field>\*|(?:[^.\[\\]|\\.)+)
    | \[\?\((?P<filter>(?:[^'"\]]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*)\)\]
    | \[(?P<bracket>(?:[^'"\]]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*)\]
    """,
    re.VERBOSE,
)
_PART = re.compile(r"""\s*+(?:'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)"|([^'",]++))\s*+(?:,|$)""")
_RANGE = re.compile(r"(-?\d{1,9})?(?::(-?\d{1,9})?(?::(-?\d{1,9})?)?)?")
_COMPARISON = re.compile(
    r"""\s*+@(?P<path>(?:[^=!<>'"]|'[^']*+'|"[^"]*+")*+)(?:(?P<operator>==|!=|<=|>=|<|>)\s*+(?P<literal>.+))?""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)")
_END = object()


class BadPath(ValueError):
    """A text is not a supported JSONPath."""


def first(path: Path, obj: Any, budget: Budget) -> tuple[bool, Any]:
    """Return whether a path has results, and its first result.

    Raises:
        BudgetExceeded: The path visits too many values.
    """
    found = list(islice(find(path, obj, budget), 1))
    return (True, found[0]) if found else (False, None)


def find(path: Path, obj: Any, budget: Budget) -> Iterator[Any]:
    """Yield the results of a path.

    Raises:
        BudgetExceeded: The path visits too many values.
    """
    waiting = [iter((obj,))]
    while waiting:
        value = next(waiting[-1], _END)
        if value is _END:
            waiting.pop()
            continue
        budget.spend()
        if len(waiting) > len(path):
            yield value
        else:
            waiting.append(path[len(waiting) - 1](value, budget))


def parse_all(paths: Iterable[str]) -> list[Path | None]:
    """Compile the paths of the columns of one Table.

    Returns:
        The paths. None: the path is not supported. Paths beyond `MAX_COMPILED` characters raise `BudgetExceeded`.
    """
    made: list[Path | None] = []
    left = MAX_COMPILED
    for path in paths:
        left -= len(path)
        try:
            made.append(parse(path) if left >= 0 else (_exceed,))
        except BadPath:
            made.append(None)
    return made


def _exceed(_value: Any, _budget: Budget) -> Iterator[Any]:
    raise BudgetExceeded(f"the paths of the columns have more than {MAX_COMPILED} characters")


def parse(path: str) -> Path:
    """Compile a path such as `.spec.items[?(@.type=="Ready")].status`.

    Raises:
        BadPath: The path is not supported.
    """
    if len(path) > MAX_LENGTH:
        raise BadPath("path is too long")
    text = path.strip().removeprefix("$")
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
    parts = tuple(_bracket(*part.groups()) for part in _parts(match["bracket"]))
    return parts[0] if len(parts) == 1 else _union(parts)


def _union(parts: Path) -> Step:
    def members(value: Any, budget: Budget) -> Iterator[Any]:
        for part in parts:
            budget.spend()
            yield from part(value, budget)

    return members


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
        return lambda value, _: iter(
            value[index:][:1] if isinstance(value, list) and index >= -len(value) else ()
        )
    start, end, step = (int(each) if each else None for each in match.groups())
    if step is not None and step <= 0:
        raise BadPath("step must be positive")
    chosen = slice(start, end, step)
    return lambda value, _: (
        (value[at] for at in range(*chosen.indices(len(value)))) if isinstance(value, list) else iter(())
    )


def _field(name: str) -> Step:
    key = _ESCAPED.sub(r"\1", name)
    return lambda value, _: iter((value[key],) if isinstance(value, dict) and key in value else ())


def _everything(value: Any, _: Budget) -> Iterator[Any]:
    return _items(value)


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        return iter(value.values())
    return iter(value if isinstance(value, list) else ())


def _descend(value: Any, budget: Budget) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, dict | list):
            budget.spend(1 + len(each))
            waiting += reversed([item for item in _items(each) if isinstance(item, dict | list)])


def _filter(text: str) -> Step:
    match = _COMPARISON.fullmatch(text)
    if match is None:
        raise BadPath(f"unrecognized filter {text!r}")
    path, operator = parse(match["path"].strip()), match["operator"]
    literal = _literal(match["literal"].rstrip()) if operator else None

    def keeps(item: Any, budget: Budget) -> bool:
        found, value = first(path, item, budget)
        return found and (operator is None or _compare(value, operator, literal))

    def kept(value: Any, budget: Budget) -> Iterator[Any]:
        for item in _items(value):
            budget.spend()
            if keeps(item, budget):
                yield item

    return kept


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
