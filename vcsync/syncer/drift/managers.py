"""Field managers: who wrote a field of an object last, according to its `metadata.managedFields`.

Format: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct


class Manager(NamedTuple):
    """A field manager, and the time of its last write in RFC 3339; both empty: nobody is known."""

    name: str = ""
    time: str = ""


class ManagedFields(Struct, frozen=True, rename="camel"):
    """One entry of `metadata.managedFields`."""

    manager: str = ""
    time: str = ""
    fields_v1: dict[str, Any] = msgspec.field(name="fieldsV1", default_factory=dict)


def managed_fields(found: Mapping[str, Any]) -> Sequence[ManagedFields]:
    """Return the entries of an object; none if they are malformed."""
    metadata = found.get("metadata")
    entries = metadata.get("managedFields") if isinstance(metadata, Mapping) else None
    try:
        return msgspec.convert(entries or [], type=list[ManagedFields])
    except msgspec.ValidationError:
        return ()


def last_manager(managed: Sequence[ManagedFields], path: Sequence[str]) -> Manager:
    """Return who wrote a field last: the latest of the managers that own it, or parts of it."""
    owners = [Manager(each.manager, each.time) for each in managed if _owns(each.fields_v1, path)]
    return max(owners, key=lambda owner: owner.time, default=Manager())


def _owns(fields: Any, path: Sequence[str]) -> bool:
    for key in path:
        fields = fields.get(f"f:{key}") if isinstance(fields, Mapping) else None
    return fields is not None
