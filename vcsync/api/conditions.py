"""Conditions of vcsync's own objects. Setting one keeps its transition time while the status stays the same."""

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
        about("Type of the condition, in CamelCase."),
    ]
    status: Annotated[ConditionStatus, about("Status of the condition: True, False or Unknown.")]
    reason: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=1024),
        about("Machine-readable reason for the last transition, one CamelCase word."),
    ]
    message: Annotated[Message, about("Human-readable details of the last transition.")] = ""
    last_transition_time: Annotated[Time, about("When the status last changed.")]
    observed_generation: Annotated[
        int, Meta(ge=0), about("The metadata.generation that the condition was set for; 0 if unknown.")
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
    """Return `conditions` with the condition of type `kind` replaced in place, or appended.

    The time of the last transition does not change while the status stays the same.

    Args:
        conditions: the object's current conditions.
        kind: the condition's type, for example `Ready`.
        status: True, False, or None for unknown.
        reason: machine-readable reason, one CamelCase word.
        message: human-readable details.
        now: current time, RFC 3339 text in UTC.
        observed_generation: the `metadata.generation` that the condition is set for.
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
    """Return the condition of type `kind`, or None if it is absent."""
    return next((condition for condition in conditions if condition.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Report whether the condition of type `kind` is present and True."""
    condition = condition_of(conditions, kind)
    return condition is not None and condition.status == "True"
