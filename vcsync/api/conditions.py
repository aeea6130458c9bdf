"""Conditions of our objects and how one is set without losing when it last changed."""

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from vcsync.api.fields import Message, Time, about

ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(Struct, frozen=True, kw_only=True, rename="camel"):
    """One aspect of an object's state, as in Kubernetes' API conventions ("Typical status properties")."""

    type: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=316),
        about("What the condition speaks of."),
    ]
    status: Annotated[ConditionStatus, about("Whether it holds.")]
    reason: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=1024),
        about("Why, in one CamelCase word for programs."),
    ]
    message: Annotated[Message, about("Why, in a sentence for people.")] = ""
    last_transition_time: Annotated[Time, about("When the status last changed.")]
    observed_generation: Annotated[
        int, Meta(ge=0), about("The metadata.generation on which this was decided; 0 if not known.")
    ] = 0


def set_condition(
    conditions: Iterable[Condition],
    kind: str,
    *,
    status: bool | None,
    reason: str,
    message: str,
    now: str,
    observed_generation: int = 0,
) -> tuple[Condition, ...]:
    """Return `conditions` with the one of type `kind` set, in its old place or appended.

    The time of the last transition is kept while the status stays what it was.

    Args:
        conditions: what the object has now.
        kind: the condition's type, for example `Ready`.
        status: whether it holds; None for unknown.
        reason: why, one CamelCase word.
        message: why, for people.
        now: RFC 3339 text in UTC.
        observed_generation: the `metadata.generation` this was decided on.
    """
    old = tuple(conditions)
    new = Condition(
        type=kind,
        status="Unknown" if status is None else "True" if status else "False",
        reason=reason,
        message=message,
        last_transition_time=now,
        observed_generation=observed_generation,
    )
    for index, condition in enumerate(old):
        if condition.type == kind:
            if condition.status == new.status:
                new = replace(new, last_transition_time=condition.last_transition_time)
            return (*old[:index], new, *old[index + 1 :])
    return (*old, new)


def condition_of(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of type `kind`, None if there is none."""
    return next((condition for condition in conditions if condition.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Tell whether the condition of type `kind` is there and holds."""
    condition = condition_of(conditions, kind)
    return condition is not None and condition.status == "True"
