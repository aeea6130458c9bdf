"""Repairs of drift, as data: what differed in the super cluster, who had changed it, and what the repair restored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.syncer.drift.managers import Manager, last_manager, managed_fields

MAX_CHANGES: Final = 20
"""Changed fields of one repair that are recorded."""
MAX_VALUE: Final = 80
"""Characters of a value that are recorded."""
PRECONDITIONS: Final = (("metadata", "uid"), ("metadata", "resourceVersion"))
"""Fields of a merge patch that change nothing."""
CONTENT: Final = frozenset({"data", "stringData"})
"""Fields of a Secret whose values are secret."""
CHANGED: Final = "changed"
"""Cause of a repair: fields of the object were changed."""
REMOVED: Final = "removed"
"""Cause of a repair: the object was deleted."""
REPLACED: Final = "replaced"
"""Cause of a repair: a field was changed that no update can restore, so that the object is deleted and created again."""
CAUSES: Final = (CHANGED, REMOVED, REPLACED)

Path = tuple[str, ...]


class FieldChange(Struct, frozen=True, omit_defaults=True):
    """One field that differed.

    Attributes:
        field: Path of the field.
        found: Value in the super cluster, shortened; empty: absent or unknown. Values of Secrets are hashes.
        restored: Value that the repair wrote, in the same form; empty: the field was removed.
        manager: Field manager that wrote the found value; empty: unknown, as when it removed the field.
        changed_at: Time of its last write, in RFC 3339.
    """

    field: str
    found: str = ""
    restored: str = ""
    manager: str = ""
    changed_at: str = ""


class Repair(Struct, frozen=True, omit_defaults=True):
    """One repair of an object that was changed in the super cluster and not in the tenant.

    Attributes:
        when: Time of the repair.
        tenant: Cluster key.
        kind: Plural name of the tenant's object.
        namespace: Namespace in the tenant.
        name: Name in the tenant.
        cause: One of `CAUSES`.
        changes: Fields that differed, at most `MAX_CHANGES`.
        more: Number of further fields.
    """

    when: datetime
    tenant: str
    kind: str
    namespace: str
    name: str
    cause: str
    changes: tuple[FieldChange, ...] = ()
    more: int = 0


class Shown:
    """Shows values of fields in the form in which they may be recorded.

    Args:
        salt: Key of the hashes of secret values, which nobody outside of the process knows. Without it, short values could be
            found by trying.
    """

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def text(self, value: Any, *, secret: bool) -> str:
        """Return a value in at most `MAX_VALUE` characters; empty for an absent one."""
        if value is None:
            return ""
        text = value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
        if secret:
            return "hash " + hashlib.blake2b(text.encode(), key=self._salt, digest_size=6).hexdigest()
        return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"


def field_paths(patch: Mapping[str, Any], prefix: Path = ()) -> Iterator[Path]:
    """Yield the paths of the fields that a merge patch changes, without its preconditions."""
    for key, value in patch.items():
        path = (*prefix, key)
        if path in PRECONDITIONS:
            continue
        if isinstance(value, Mapping) and value:
            yield from field_paths(value, path)
        else:
            yield path


def field_name(path: Path) -> str:
    """Return the path of a field as people write it: `metadata.labels[example.org/team]`."""
    name = ""
    for key in path:
        plain = "." not in key and "/" not in key
        name += (f".{key}" if name else key) if plain else f"[{key}]"
    return name


def field_changes(
    patch: Mapping[str, Any], live: Mapping[str, Any] | None, shown: Shown, *, secret: bool
) -> tuple[tuple[FieldChange, ...], int]:
    """Return what a merge patch restores, and the number of fields that are left out.

    Args:
        patch: The merge patch.
        live: The object before the patch, as its API server returns it; None: it is unknown.
        shown: Shows values.
        secret: Whether the object is a Secret.
    """
    paths = sorted(field_paths(patch))
    managed = managed_fields(live) if live is not None else ()
    changes = tuple(
        _change(
            path, patch, live or {}, last_manager(managed, path), shown, secret=secret and path[0] in CONTENT
        )
        for path in paths[:MAX_CHANGES]
    )
    return changes, len(paths) - len(changes)


def _change(
    path: Path, patch: Mapping[str, Any], live: Mapping[str, Any], by: Manager, shown: Shown, *, secret: bool
) -> FieldChange:
    return FieldChange(
        field_name(path),
        shown.text(_value(live, path), secret=secret),
        shown.text(_value(patch, path), secret=secret),
        by.name[:MAX_VALUE],
        by.time,
    )


def _value(found: Any, path: Path) -> Any:
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
