"""Keeping track of who owns which fields when objects are created, updated and patched. Pure.

The rules are those of apimachinery's `util/managedfields` over structured-merge-diff's `merge.Updater`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.patch import fields, owners
from vcsync.controlplane.patch.comparison import Comparison, compare
from vcsync.controlplane.patch.fields import Set
from vcsync.controlplane.patch.owners import Entry, Manager, Owned, Owners
from vcsync.controlplane.patch.reconcile import reconciled
from vcsync.controlplane.patch.resets import NOTHING, Reset
from vcsync.controlplane.patch.shapes import BadItem
from vcsync.controlplane.schema import builtin, walk
from vcsync.controlplane.schema.node import Schema

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
    """What tracking has to know of a resource in the version of the request.

    Attributes:
        schema: of whole objects.
        api_version: the request's.
        kind: the resource's.
        subresource: through which the request writes; empty: the resource itself.
        reset: what such a write never owns.
        empty: the object in which nothing is given, with what the API shows even then; None: it shows nothing.
        versions: in which objects of this kind can be read; who wrote in another one owns nothing any more. None: in
            any.
        convert: (object, wanted apiVersion) -> the object in that version with its schema; None as its result: that
            version is served no more. None: versions differ in nothing but their name.
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
        """Return an object of the request's version in another one; None: that one is gone."""
        seen = self.seen_as(api_version)
        if seen is None or seen == self.api_version or self.convert is None:
            return (obj, self.schema) if seen else None
        return self.convert(obj, seen)

    def seen_as(self, api_version: str) -> str | None:
        """Return in which version objects of another one are looked at, the same for all alike; None: it is gone."""
        if api_version == self.api_version:
            return api_version
        if self.versions is not None and api_version not in self.versions:
            return None
        return api_version if self.convert else self.api_version


class Changes:
    """What differs between two objects, as seen in each version in which somebody owns fields."""

    def __init__(self, old: Object, new: Object, tracking: Tracking) -> None:
        self._old, self._new, self._tracking = tracked(old), tracked(new), tracking
        self._seen: dict[str, Comparison | None] = {}
        self._counted: dict[tuple[str, bool], Comparison] = {}

    def at(self, api_version: str) -> Comparison | None:
        """Return the changes that count for owners in a version; None: it is gone. Raises BadItem."""
        seen = self._tracking.seen_as(api_version)
        if seen is None:
            return None
        if seen not in self._seen:
            self._seen[seen] = self._compared(seen)
        changes = self._seen[seen]
        if changes is None:
            return None
        reset = self._tracking.reset
        judged = api_version == self._tracking.api_version or reset.every_version
        if (seen, judged) not in self._counted:
            self._counted[seen, judged] = Comparison(*map(reset.kept, changes)) if judged else changes
        return self._counted[seen, judged]

    def _compared(self, api_version: str) -> Comparison | None:
        before, after = self._tracking.at(self._old, api_version), self._tracking.at(self._new, api_version)
        return compare(after[1], before[0], after[0]) if before and after else None

    def taken(self, before: Owners, who: Manager | None = None) -> Owners:
        """Return the owners without the fields that the changes take from all but `who`."""
        after: Owners = {}
        for each, owned in before.items():
            changes = self.at(owned.api_version)
            if each == who:
                after[each] = owned
            elif changes is not None:
                left = owned.fields
                for part in changes:
                    left = fields.difference(left, part)
                if left:
                    after[each] = owned if left is owned.fields else owned._replace(fields=left)
        return after

    def contested(self, others: Owners) -> dict[Manager, Set]:
        """Return which fields of others the changes set to something else."""
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
    """Return who writes: what the request says, else its User-Agent up to the first slash."""
    if field_manager:
        return field_manager
    name = "".join(each for each in user_agent.partition("/")[0] if each.isprintable())
    return name.encode()[:_MAX_NAME].decode(errors="ignore")


@cache
def empty_object(group: str, version: str, kind: str) -> Object | None:
    """Return the object of a built-in kind in which nothing is given. Read only. None: no such kind."""
    schema = builtin.schema(group, version, kind)
    return walk.normalize({}, schema) if schema else None


def update(
    live: Object | None, new: Object, manager: str, now: str, tracking: Tracking
) -> list[Entry] | None:
    """Return the managedFields of an object that is created, updated or patched (but not applied).

    Args:
        live: the object as it is; None: it is created.
        new: as it shall be, with the managedFields that the client sent.
        manager: who writes.
        now: RFC 3339 in whole seconds.
        tracking: of the resource.

    Returns:
        The entries; None: nothing is tracked of this object.

    """
    kept = (live or {}).get("metadata", {}).get("managedFields") or []
    now_owned = _claimed(kept, new, tracking)
    if not now_owned and live is not None:
        return None
    who = owners.manager(manager, owners.UPDATE, tracking.api_version, tracking.subresource)
    old = live if live is not None else _with_kind(tracking)
    try:
        result = updated(old, new, fitted(now_owned, old, tracking), tracking, who=who, now=now)
    except (BadItem, RecursionError):
        return None
    return owners.written(owners.capped(result)) or None


def _claimed(kept: list[Entry], new: Object, tracking: Tracking) -> Owners:
    """Return who owns what before the write: clients may edit managedFields, but not by accident or in part."""
    metadata = new.get("metadata") or {}
    given = metadata.get("managedFields")
    if given is None or given == kept or tracking.subresource:
        return owners.read(kept)
    if given in ([], [{}]):
        return {}
    return owners.read_from_client(given) or owners.read(kept)


def _with_kind(tracking: Tracking) -> Object:
    return {"apiVersion": tracking.api_version, "kind": tracking.kind, **(tracking.empty or {})}


def updated(
    old: Object, new: Object, before: Owners, tracking: Tracking, *, who: Manager, now: str
) -> Owners:
    """Return who owns what after `who` has turned one object into another by an update. Raises BadItem."""
    changes = Changes(old, new, tracking)
    mine = changes.at(tracking.api_version) or Comparison({}, {}, {})
    after = changes.taken(before)
    own = stripped(fields.union(mine.modified, mine.added))
    if own:
        previous = after.get(who)
        if previous is not None:
            own = fields.union(own, previous.fields)
        after[who] = Owned(fields.ordered(own), tracking.api_version, now)
    return after


def stripped(own: Set) -> Set:
    """Return a set without what nobody owns."""
    return fields.difference(own, _STRIPPED)


def tracked(obj: Object) -> Object:
    """Return an object without those parts of its metadata that change all the time and are nobody's."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return obj
    return {**obj, "metadata": {name: each for name, each in metadata.items() if name not in _NEVER_OWNED}}


def fitted(before: Owners, live: Object, tracking: Tracking) -> Owners:
    """Return the owners with their fields fitted to the schema as it is now."""
    schemas: dict[str, Schema | None] = {}
    after: Owners = {}
    for each, owned in before.items():
        version = owned.api_version
        if version not in schemas:
            here = tracking.at(live, version)
            schemas[version] = here[1] if here else None
        schema = schemas[version]
        if schema is not None:
            fitting = reconciled(schema, owned.fields)
            after[each] = owned if fitting is owned.fields else owned._replace(fields=fitting)
    return after


def keep_times(old: Object, new: Object) -> None:
    """Put back the old times of managedFields in `new` if nothing else differs, so that a write that does nothing is none."""
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
