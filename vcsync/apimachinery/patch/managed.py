"""Field management: tracks which manager owns which fields when objects are created, updated and patched. Pure.

The rules are those of apimachinery's `util/managedfields` and structured-merge-diff's `merge.Updater`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from vcsync.apimachinery.patch import fields, owners
from vcsync.apimachinery.patch.comparison import Comparison, compare
from vcsync.apimachinery.patch.fields import Set
from vcsync.apimachinery.patch.owners import Entry, Manager, Owned, Owners
from vcsync.apimachinery.patch.reconcile import reconciled
from vcsync.apimachinery.patch.resets import NOTHING, Reset
from vcsync.apimachinery.patch.shapes import BadItem
from vcsync.apimachinery.schema import builtin, walk
from vcsync.apimachinery.schema.node import Schema
from vcsync.apimachinery.strategy import Object

_MAX_NAME = 128
_NEVER_OWNED = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)
_STRIPPED: Set = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {fields.SELF: {}, **{f"f:{name}": {} for name in _NEVER_OWNED}},
}

Converted = tuple[Object, Schema]


@dataclass(frozen=True, slots=True)
class Tracking:
    """The facts about a resource, in the version of the request, that field management needs.

    Attributes:
        schema: Schema of objects.
        api_version: `apiVersion` of the request.
        kind: Kind of the resource.
        subresource: Subresource through which the request writes. Empty: the resource itself.
        reset: Fields that such a write never owns.
        empty: The empty object, with the fields that the API shows even then. None: it has none.
        versions: Versions in which objects can be read. Managers that wrote in another version lose their fields. None:
            any version.
        convert: (object, target apiVersion) -> the object in that version with its schema, or None if that version is no
            longer served. None: versions differ only by name.
    """

    schema: Schema
    api_version: str
    kind: str
    subresource: str = ""
    reset: Reset = NOTHING
    empty: Object | None = None
    versions: frozenset[str] | None = None
    convert: Callable[[Object, str], Converted | None] | None = None

    def at(self, obj: Object, api_version: str) -> Converted | None:
        """Return an object of the request's version in another version, or None if that version is no longer served."""
        target = self.comparable_version(api_version)
        if target is None or target == self.api_version or self.convert is None:
            return (obj, self.schema) if target else None
        return self.convert(obj, target)

    def comparable_version(self, api_version: str) -> str | None:
        """Return the version in which fields of a version are compared, or None if it is no longer served.

        It is the version of the request if versions differ only by name.
        """
        if api_version == self.api_version:
            return api_version
        if self.versions is not None and api_version not in self.versions:
            return None
        return api_version if self.convert else self.api_version


class Changes:
    """The differences between two objects, in each version in which managers own fields."""

    def __init__(self, old: Object, new: Object, tracking: Tracking) -> None:
        """Prepare a comparison, which is done on demand.

        Args:
            old: The object before the write, in the version of the request.
            new: The object after the write.
            tracking: Facts about the resource.
        """
        self._old, self._new, self._tracking = tracked(old), tracked(new), tracking
        self._compared: dict[str, Comparison | None] = {}
        self._ownable: dict[tuple[str, bool], Comparison] = {}

    def at(self, api_version: str) -> Comparison | None:
        """Return the changes that affect managers of a version, or None if the version is no longer served.

        Raises:
            BadItem: An item of a list cannot be identified.
        """
        target = self._tracking.comparable_version(api_version)
        if target is None:
            return None
        if target not in self._compared:
            self._compared[target] = self._compare(target)
        changes = self._compared[target]
        if changes is None:
            return None
        reset = self._tracking.reset
        applies = api_version == self._tracking.api_version or reset.every_version
        if (target, applies) not in self._ownable:
            self._ownable[target, applies] = Comparison(*map(reset.kept, changes)) if applies else changes
        return self._ownable[target, applies]

    def _compare(self, api_version: str) -> Comparison | None:
        before, after = self._tracking.at(self._old, api_version), self._tracking.at(self._new, api_version)
        return compare(after[1], before[0], after[0]) if before and after else None

    def without_changed(self, before: Owners, writer: Manager | None = None) -> Owners:
        """Return the owners, of which all except `writer` lose the changed fields."""
        after: Owners = {}
        for each, owned in before.items():
            changes = self.at(owned.api_version)
            if each == writer:
                after[each] = owned
            elif changes is not None:
                left = owned.fields
                for part in changes:
                    left = fields.difference(left, part)
                if left:
                    after[each] = owned if left is owned.fields else owned._replace(fields=left)
        return after

    def conflicts(self, others: Owners) -> dict[Manager, Set]:
        """Return the fields of other managers to which the changes assign other values."""
        found: dict[Manager, Set] = {}
        for each, owned in others.items():
            changes = self.at(owned.api_version)
            if changes is not None:
                both = fields.union(
                    fields.intersection(owned.fields, changes.modified),
                    fields.intersection(owned.fields, changes.added),
                )
                if both:
                    found[each] = both
        return found


def manager_name(field_manager: str, user_agent: str) -> str:
    """Return the name of the manager: the one of the request, otherwise its User-Agent up to the first slash."""
    if field_manager:
        return field_manager
    name = "".join(each for each in user_agent.partition("/")[0] if each.isprintable())
    return name.encode()[:_MAX_NAME].decode(errors="ignore")


@cache
def empty_object(group: str, version: str, kind: str) -> Object | None:
    """Return the empty object of a built-in kind, or None if the kind does not exist. Read only."""
    schema = builtin.schema(group, version, kind)
    return walk.normalize({}, schema) if schema else None


def update(
    live: Object | None, new: Object, manager: str, now: str, tracking: Tracking
) -> list[Entry] | None:
    """Return the managedFields of an object that is created, updated or patched (but not applied).

    Args:
        live: The current object. None: it is created.
        new: The new object, with the managedFields that the client sent.
        manager: Name of the manager.
        now: RFC 3339 time in whole seconds.
        tracking: Facts about the resource.

    Returns:
        The entries, or None if fields of this object are not tracked.
    """
    kept = (live or {}).get("metadata", {}).get("managedFields") or []
    before = _owners_before(kept, new, tracking)
    if not before and live is not None:
        return None
    writer = owners.manager(manager, owners.UPDATE, tracking.api_version, tracking.subresource)
    old = live if live is not None else _with_kind(tracking)
    try:
        result = updated(old, new, fitted(before, old, tracking), tracking, writer=writer, now=now)
    except (BadItem, RecursionError):
        return None
    return owners.written(owners.capped(result)) or None


def _owners_before(kept: list[Entry], new: Object, tracking: Tracking) -> Owners:
    """Return the owners before the write. Clients may edit managedFields, but not by accident or partially."""
    metadata = new.get("metadata") or {}
    sent = metadata.get("managedFields")
    if sent is None or sent == kept or tracking.subresource:
        return owners.read(kept)
    if sent in ([], [{}]):
        return {}
    return owners.read_from_client(sent) or owners.read(kept)


def _with_kind(tracking: Tracking) -> Object:
    return {"apiVersion": tracking.api_version, "kind": tracking.kind, **(tracking.empty or {})}


def updated(
    old: Object, new: Object, before: Owners, tracking: Tracking, *, writer: Manager, now: str
) -> Owners:
    """Return the owners after an update.

    Args:
        old: The object before the update.
        new: The object after it.
        before: The owners before it.
        tracking: Facts about the resource.
        writer: The manager that updates.
        now: RFC 3339 time in whole seconds.

    Raises:
        BadItem: An item of a list cannot be identified.
    """
    changes = Changes(old, new, tracking)
    mine = changes.at(tracking.api_version) or Comparison({}, {}, {})
    after = changes.without_changed(before)
    own = stripped(fields.union(mine.modified, mine.added))
    if own:
        previous = after.get(writer)
        if previous is not None:
            own = fields.union(own, previous.fields)
        after[writer] = Owned(fields.ordered(own), tracking.api_version, now)
    return after


def stripped(own: Set) -> Set:
    """Return a set without the fields that managers never own."""
    return fields.difference(own, _STRIPPED)


def tracked(obj: Object) -> Object:
    """Return an object without the metadata that managers never own, which changes with every write."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return obj
    return {**obj, "metadata": {name: each for name, each in metadata.items() if name not in _NEVER_OWNED}}


def fitted(before: Owners, live: Object, tracking: Tracking) -> Owners:
    """Return the owners with their fields fitted to the current schema."""
    schemas: dict[str, Schema | None] = {}
    after: Owners = {}
    for each, owned in before.items():
        version = owned.api_version
        if version not in schemas:
            converted = tracking.at(live, version)
            schemas[version] = converted[1] if converted else None
        schema = schemas[version]
        if schema is not None:
            fitting = reconciled(schema, owned.fields)
            after[each] = owned if fitting is owned.fields else owned._replace(fields=fitting)
    return after


def keep_times(old: Object, new: Object) -> None:
    """Restore the old times of managedFields in `new` if nothing else differs, so that the write is a no-op."""
    before: list[Entry] = old.get("metadata", {}).get("managedFields") or []
    after: list[Entry] = new.get("metadata", {}).get("managedFields") or []
    if before == after or len(before) != len(after) or _timeless(before) != _timeless(after):
        return
    if _without_entries(old) == _without_entries(new):
        new["metadata"]["managedFields"] = before


def _timeless(entries: list[Entry]) -> list[Entry]:
    return [{name: each for name, each in entry.items() if name != "time"} for entry in entries]


def _without_entries(obj: Object) -> Any:
    metadata = {name: each for name, each in obj.get("metadata", {}).items() if name != "managedFields"}
    return {**obj, "metadata": metadata}
