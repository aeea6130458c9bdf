"""What a module of kinds tells about one kind; `assemble` makes Behaviours of it. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vcsync.controlplane.behaviour import Context, Object
from vcsync.controlplane.errors import FieldError


def nothing(*_: Any) -> None:
    """Change nothing."""
    return


def none(*_: Any) -> list[Any]:
    """Find nothing."""
    return []


def no_fields(_: Object) -> dict[str, str]:
    """Select by nothing."""
    return {}


@dataclass(frozen=True, slots=True)
class Part:
    """The rules of one kind. Members as in `Behaviour`; `status_*` are those of its status subresource.

    `validate_update` None: everything that `validate` says, nothing more.
    `prepare_*` are called after what `assemble` does for all kinds: status and generation.
    """

    default: Callable[[Object], None] = nothing
    prepare_create: Callable[[Object, Context], None] = nothing
    prepare_update: Callable[[Object, Object, Context], None] = nothing
    validate: Callable[[Object], list[FieldError]] = none
    validate_update: Callable[[Object, Object], list[FieldError]] | None = None
    warnings: Callable[[Object, Object | None], list[str]] = none
    fields: Callable[[Object], dict[str, str]] = no_fields
    status_prepare: Callable[[Object, Object, Context], None] = nothing
    status_validate: Callable[[Object, Object], list[FieldError]] = none
    name: Callable[[str, bool], list[str]] | None = None
    grace_seconds: Callable[[Object, Object], int] | None = None
