"""Conditions in the status of objects. Pure."""

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct


class Condition(Struct, gc=False, rename="camel"):
    """A condition; see "Typical status properties" in Kubernetes' API conventions."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


AnyCondition = TypeVar("AnyCondition", bound=Condition)


def find_condition(conditions: Iterable[AnyCondition] | None, type_: str) -> AnyCondition | None:
    """Return the condition of a type, or None if it is absent."""
    return next((each for each in conditions or () if each.type == type_), None)


def is_true(conditions: Iterable[Condition] | None, type_: str) -> bool:
    """Report whether the condition of a type is present and True."""
    condition = find_condition(conditions, type_)
    return condition is not None and condition.status == "True"
