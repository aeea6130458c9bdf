"""The strategy of a kind: its defaults, rules and effects beyond those of all kinds, as plain functions. Pure.

Objects are JSON dicts. A function that changes an object gets a private copy and changes it in place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vcsync.apimachinery.errors import FieldError

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class User:
    """The authenticated user of a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """The facts about a request that rules may use.

    Attributes:
        tenant: The tenant.
        user: The authenticated user.
        now: Time in RFC 3339, in whole seconds.
        forwards: Whether the operator allows requests for aggregated APIs to be forwarded to Services of the tenant.
        unlabelled: Whether the object to create was sent without labels, so that those that it has are defaults.
    """

    tenant: str
    user: User
    now: str
    forwards: bool = False
    unlabelled: bool = False


def nothing(*_: Any) -> None:
    """Change nothing."""


def none(*_: Any) -> list[Any]:
    """Find nothing."""
    return []


def no_fields(_: Object) -> dict[str, str]:
    """Return no selectable fields."""
    return {}


@dataclass(frozen=True, slots=True)
class StatusBehaviour:
    """The strategy of writes to `.../status`, which keep everything except status and a few fields of metadata."""

    prepare: Callable[[Object, Object, Context], None] = nothing
    """(new, old, context)"""
    validate: Callable[[Object, Object], list[FieldError]] = none
    """(new, old)"""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The rules of one kind in its storage version, without the rules that all kinds share (metadata).

    Attributes:
        default: Sets the defaults of absent fields (`SetDefaults_*`).
        prepare_create: (new, context): runs before the validation of a create. Drops status, and allocates nothing.
        prepare_update: (new, old, context): runs before the validation of an update. Keeps status. Increases
            generation only if `generation` is empty.
        validate: Returns the findings on a whole object.
        validate_update: (new, old) -> the findings on an update, including immutable fields and those of `validate`.
        warnings: (new, old or None) -> texts for Warning headers.
        fields: Returns the selectable fields besides metadata.name and metadata.namespace.
        status: Strategy of the status subresource. None: the kind has no such subresource; status is part of the object.
        generation: Top-level fields whose change increases metadata.generation. Empty: the kind has no generation.
        name: (name, is_prefix) -> the findings on metadata.name. None: the name must be a DNS subdomain.
        unconditional_update: Whether a PUT may omit resourceVersion.
        create_on_update: Whether a PUT creates an object that does not exist.
        grace_seconds: (object, options) -> default grace period of a deletion. None: the kind has no graceful deletion.
    """

    default: Callable[[Object], None] = nothing
    prepare_create: Callable[[Object, Context], None] = nothing
    prepare_update: Callable[[Object, Object, Context], None] = nothing
    validate: Callable[[Object], list[FieldError]] = none
    validate_update: Callable[[Object, Object], list[FieldError]] = none
    warnings: Callable[[Object, Object | None], list[str]] = none
    fields: Callable[[Object], dict[str, str]] = no_fields
    status: StatusBehaviour | None = None
    generation: tuple[str, ...] = ("spec",)
    name: Callable[[str, bool], list[str]] | None = None
    unconditional_update: bool = True
    create_on_update: bool = False
    grace_seconds: Callable[[Object, Object], int] | None = None
