"""Compares what two servers say of expressions. Pure but for the questions, which `Ask` sends."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from hack.upstream_cel.asking import Question, Told

AT_ONCE = 40
"""Expressions in one request: kube-apiserver compiles each several times, within its time limit."""
NO_BOOL = "cel expression must evaluate to a bool"
_SYNTAX = re.compile(r"Syntax error")
_TABLE = Path(__file__).parent / "differences.yaml"

Ask = Callable[[Sequence[Question]], tuple[Told, Told]]
"""Sends questions to both servers."""


@dataclass(frozen=True)
class Difference:
    """Answers of kube-apiserver (`real`) and the embedded control plane (`ours`) about an expression."""

    expression: str
    real: tuple[str, ...]
    ours: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"    real {each}" for each in self.real or ("accepts it",)]
        lines += [f"    ours {each}" for each in self.ours or ("accepts it",)]
        return "\n".join((self.expression, *lines))


@dataclass(frozen=True)
class Reason:
    """Reason for a difference: patterns of the expression and of both servers' messages."""

    expression: re.Pattern[str]
    real: re.Pattern[str]
    ours: re.Pattern[str]
    reason: str

    def covers(self, found: Difference) -> bool:
        """Return whether this is the reason of a difference."""
        real, ours = "\n".join(found.real), "\n".join(found.ours)
        return all(
            pattern.search(text)
            for pattern, text in ((self.expression, found.expression), (self.real, real), (self.ours, ours))
        )


def reasons(path: Path = _TABLE) -> list[Reason]:
    """Read the table of differences that are meant."""
    entries = yaml.safe_load(path.read_text())
    return [
        Reason(_pattern(each, "expression"), _pattern(each, "real"), _pattern(each, "ours"), each["reason"])
        for each in entries
    ]


def _pattern(entry: dict[str, str], key: str) -> re.Pattern[str]:
    return re.compile(entry.get(key, ""), re.DOTALL)


def differences(expressions: Sequence[str], compile_: Ask, evaluate: Ask) -> Iterator[Difference]:
    """Yield the expressions of which two servers say different things.

    Args:
        expressions: the expressions.
        compile_: asks about compiling.
        evaluate: asks about values.
    """
    questions = [Question(each) for each in expressions]
    for start in range(0, len(questions), AT_ONCE):
        some = questions[start : start + AT_ONCE]
        real, ours = compile_(some)
        yield from _unequal(some, real, ours)
        yield from _values(_boolean(some, real, ours), evaluate)
        others = [each for at, each in enumerate(some) if real.get(at) == ours.get(at) == (NO_BOOL,)]
        yield from _other_types(others, compile_, evaluate)


def _other_types(questions: Sequence[Question], compile_: Ask, evaluate: Ask) -> Iterator[Difference]:
    """Compare the values of expressions that are no bools: as texts, or else only whether there is a value."""
    texts = [Question(f"{_text(each.rule)} == '?'", _text(each.rule)) for each in questions]
    real, ours = compile_(texts) if texts else ({}, {})
    yield from _unequal(texts, real, ours)
    yield from _values(_boolean(texts, real, ours), evaluate)
    opaque = [
        Question(f"dyn({each.rule}\n) == 0 || true")
        for at, each in enumerate(questions)
        if real.get(at) and real.get(at) == ours.get(at)
    ]
    if opaque:
        real, ours = compile_(opaque)
        yield from _unequal(opaque, real, ours)
        yield from _values(_boolean(opaque, real, ours), evaluate)


def _text(expression: str) -> str:
    return f"'%s'.format([{expression}\n])"


def _values(questions: Sequence[Question], evaluate: Ask) -> Iterator[Difference]:
    if questions:
        yield from _unequal(questions, *evaluate(questions))


def _boolean(questions: Sequence[Question], real: Told, ours: Told) -> list[Question]:
    """Return the questions that both servers take for rules."""
    return [each for at, each in enumerate(questions) if not real.get(at) and not ours.get(at)]


def _unequal(questions: Sequence[Question], real: Told, ours: Told) -> Iterator[Difference]:
    for at, each in enumerate(questions):
        found = Difference(each.rule, real.get(at, ()), ours.get(at, ()))
        if _comparable(found.real) != _comparable(found.ours):
            yield found


def _comparable(told: tuple[str, ...]) -> tuple[str, ...]:
    """Return messages as they are compared. The parsers of Go and C++ describe syntax errors in different words."""
    return tuple("Syntax error" if _SYNTAX.search(each) else each for each in told)
