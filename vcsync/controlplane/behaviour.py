"""How one kind behaves beyond what all kinds share: its defaults, rules and effects, as plain functions. Pure.

Objects are JSON dicts. Functions that change one are given a private copy and change it in place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vcsync.controlplane.errors import FieldError

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """What a rule may know of the request. `now` is an RFC 3339 time in whole seconds."""

    tenant: str
    user: User
    now: str


def _nothing(*_: Any) -> None:
    return None


def _none(*_: Any) -> list[Any]:
    return []


def _no_fields(_: Object) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class StatusBehaviour:
    """What a write to `.../status` does beyond keeping everything but status (and metadata's few) as it was."""

    prepare: Callable[[Object, Object, Context], None] = _nothing
    """(new, old, context)"""
    validate: Callable[[Object, Object], list[FieldError]] = _none
    """(new, old)"""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The rules of one kind in its storage version. What all kinds share (metadata) is not repeated here.

    Attributes:
        default: fill in what was left out (`SetDefaults_*`).
        prepare_create: (new, context) before validation of a create: drop status, allocate nothing.
        prepare_update: (new, old, context) before validation of an update: keep status, move generation only
            if `generation` is None.
        validate: findings on a whole object.
        validate_update: (new, old) findings on a change, immutability among them; includes `validate`'s.
        warnings: (new, old or None) texts for Warning headers.
        fields: selectable fields beyond metadata.name and metadata.namespace.
        status: what writes to the status subresource do; None: the kind has none and status is part of the object.
        generation: top-level fields whose change moves metadata.generation; empty: the kind has no generation.
        name: findings on metadata.name, given (name, is_prefix); the default is a DNS subdomain.
        unconditional_update: whether a PUT may leave resourceVersion out.
        create_on_update: whether a PUT of what is not there creates it.
        grace_seconds: (object, options) default grace period of a deletion; None: no graceful deletion.
    """

    default: Callable[[Object], None] = _nothing
    prepare_create: Callable[[Object, Context], None] = _nothing
    prepare_update: Callable[[Object, Object, Context], None] = _nothing
    validate: Callable[[Object], list[FieldError]] = _none
    validate_update: Callable[[Object, Object], list[FieldError]] = _none
    warnings: Callable[[Object, Object | None], list[str]] = _none
    fields: Callable[[Object], dict[str, str]] = _no_fields
    status: StatusBehaviour | None = None
    generation: tuple[str, ...] = ("spec",)
    name: Callable[[str, bool], list[str]] | None = None
    unconditional_update: bool = True
    create_on_update: bool = False
    grace_seconds: Callable[[Object, Object], int] | None = None
