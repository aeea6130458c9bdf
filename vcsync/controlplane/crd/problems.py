"""What a value is found to lack of its schema, and how the API tells it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vcsync.controlplane import gotext
from vcsync.controlplane.errors import (
    FieldError,
    not_supported,
    required,
    wrong,
    wrong_type,
)

_MOST_FINDINGS = 1000
"""A tenant's object may be wrong in a million places; nobody reads further than this."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. `code` says which kind of field error it becomes; `limit` and `choices` are for those."""

    code: str
    path: str
    value: Any
    message: str
    limit: int = 0
    choices: Sequence[Any] = ()


@dataclass(slots=True)
class Result:
    """What was found of one value, and how much of it a schema knows."""

    problems: dict[str, Problem] = field(default_factory=dict)
    matches: int = 0

    def add(self, problem: Problem | None) -> None:
        """Take one, if there is any; what was said already is not said again."""
        if problem is not None and len(self.problems) < _MOST_FINDINGS:
            self.problems.setdefault(problem.message, problem)

    def merge(self, other: "Result") -> None:
        """Take all that was found of a part."""
        for each in other.problems.values():
            self.add(each)
        self.matches += other.matches

    @property
    def valid(self) -> bool:
        """Whether nothing was found."""
        return not self.problems


def field_error(path: str, problem: Problem) -> FieldError:  # noqa: PLR0911 -- one case for each kind of finding
    """Tell a problem as the API does."""
    if problem.code == "composite":
        return wrong(path or "<nil>", "", problem.message)
    name = problem.path.removeprefix(".")
    where = f"{path}.{name}" if path and name else path or name or "<nil>"
    if problem.code == "required":
        return required(where)
    if problem.code == "enum":
        return not_supported(where, problem.value, [_choice(each) for each in problem.choices])
    if problem.code == "long":
        unit = "byte" if problem.limit == 1 else "bytes"
        return FieldError(
            "FieldValueTooLong", where, f"Too long: may not be more than {problem.limit} {unit}"
        )
    if problem.code == "many":
        unit = "item" if problem.limit == 1 else "items"
        told = f"Too many: {problem.value}: must have at most {problem.limit} {unit}"
        return FieldError("FieldValueTooMany", where, told)
    value = "" if problem.value is None else problem.value
    if problem.code == "type":
        return wrong_type(where, value, problem.message)
    return wrong(where, value, problem.message)


def _choice(value: Any) -> str:
    return value if isinstance(value, str) else gotext.plain(value)
