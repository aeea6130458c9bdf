"""The findings of a schema validation, and their form as field errors of the API. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vcsync.apimachinery.errors import FieldError, not_supported, required, wrong, wrong_type
from vcsync.apimachinery.message_size import LONGEST_ANSWER, left_out

_MOST_FINDINGS = 1000
"""Most findings about one object. More would only cost memory: nobody reads them."""
_MOST_TEXT = LONGEST_ANSWER
"""Most characters of all messages about one object. Each may list all values of an enumeration."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. `code` selects the field error that it becomes; `limit` and `choices` belong to some codes."""

    code: str
    path: str
    value: Any
    message: str
    limit: int = 0
    choices: Sequence[str] = ()


@dataclass(slots=True)
class Result:
    """The findings on one value, and how many of its parts a schema matched.

    Attributes:
        problems: The findings, by message.
        matches: How many parts matched.
        size: Characters of the messages.
        left_out: How many findings had no room.
    """

    problems: dict[str, Problem] = field(default_factory=dict)
    matches: int = 0
    size: int = 0
    left_out: int = 0

    def add(self, problem: Problem | None) -> None:
        """Add a finding, if there is one and it is new."""
        if problem is None or problem.message in self.problems:
            return
        if len(self.problems) >= _MOST_FINDINGS or self.size > _MOST_TEXT:
            self.left_out += 1
            return
        self.problems[problem.message] = problem
        self.size += len(problem.message)

    def merge(self, other: "Result") -> None:
        """Add all findings on a part of the value."""
        for each in other.problems.values():
            self.add(each)
        self.matches += other.matches
        self.left_out += other.left_out

    @property
    def valid(self) -> bool:
        """Whether there are no findings."""
        return not self.problems


def field_errors(path: str, result: Result) -> list[FieldError]:
    """Return the field errors of all findings, and one about those that had no room."""
    found = [field_error(path, each) for each in result.problems.values()]
    if result.left_out:
        found.append(FieldError("FieldValueInvalid", path or "<nil>", left_out(result.left_out)))
    return found


def field_error(path: str, problem: Problem) -> FieldError:  # noqa: PLR0911 -- one case for each kind of finding
    """Return the field error of a finding."""
    if problem.code == "composite":
        return wrong(path or "<nil>", "", problem.message)
    name = problem.path.removeprefix(".")
    where = f"{path}.{name}" if path and name else path or name or "<nil>"
    if problem.code == "required":
        return required(where)
    if problem.code == "enum":
        return not_supported(where, problem.value, problem.choices)
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
