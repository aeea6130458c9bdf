"""Managers and their fields: reads and writes `metadata.managedFields`, and limits the number of managers. Pure."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from vcsync.apimachinery.patch import fields
from vcsync.apimachinery.patch.fields import Set

APPLY = "Apply"
UPDATE = "Update"
_MAX_UPDATERS = 10
_ANCIENT = "ancient-changes"
_MIN_MERGED = 2

Entry = dict[str, Any]
"""One entry of managedFields as JSON."""


class Manager(NamedTuple):
    """A field manager. `api_version` is empty for `Apply`, whose version belongs to the owned fields."""

    name: str
    operation: str
    api_version: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        """Return the manager as in messages about conflicts."""
        text = json.dumps(self.name, ensure_ascii=False)
        if self.subresource:
            text += f" with subresource {json.dumps(self.subresource, ensure_ascii=False)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


def manager(name: str, operation: str, api_version: str, subresource: str) -> Manager:
    """Return the manager of a write."""
    version = api_version if operation == UPDATE else ""
    return Manager(name or "unknown", operation, version, subresource)


class Owned(NamedTuple):
    """The fields of a manager, the version in which it wrote them, and the time (RFC 3339; empty: unknown)."""

    fields: Set
    api_version: str
    time: str = ""


Owners = dict[Manager, Owned]


def read(entries: Sequence[Entry]) -> Owners:
    """Read entries that this package has written."""
    return {
        _identity(entry): Owned(entry["fieldsV1"], entry["apiVersion"], entry.get("time") or "")
        for entry in entries
    }


def read_from_client(entries: Any) -> Owners | None:
    """Read entries that a client has written. Returns None if they are invalid."""
    owners: Owners = {}
    try:
        for entry in entries:
            if entry.get("operation") not in {APPLY, UPDATE} or entry.get("fieldsType") != "FieldsV1":
                return None
            if not isinstance(entry.get("apiVersion"), str) or not entry["apiVersion"]:
                return None
            if not all(_is_text(entry.get(name)) for name in ("manager", "subresource", "time")):
                return None
            owned = fields.ordered(fields.parse(entry.get("fieldsV1") or {}))
            owners[_identity(entry)] = Owned(owned, entry["apiVersion"], entry.get("time") or "")
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None
    return owners


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _identity(entry: Entry) -> Manager:
    operation = entry["operation"]
    version = entry["apiVersion"] if operation == UPDATE else ""
    return Manager(entry.get("manager") or "", operation, version, entry.get("subresource") or "")


def written(owners: Owners) -> list[Entry]:
    """Return entries in the order of the API: `Apply` first, then by age and name."""
    ranked = sorted(
        owners,
        key=lambda each: (
            each.operation,
            owners[each].time,
            each.name,
            owners[each].api_version,
            each.subresource,
        ),
    )
    return [_entry(each, owners[each]) for each in ranked]


def _entry(who: Manager, owned: Owned) -> Entry:
    entry: Entry = {"manager": who.name} if who.name else {}
    entry |= {"operation": who.operation, "apiVersion": owned.api_version}
    if owned.time:
        entry["time"] = owned.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": owned.fields}
    if who.subresource:
        entry["subresource"] = who.subresource
    return entry


def capped(owners: Owners) -> Owners:
    """Return the owners with the oldest of too many updaters merged, separately for each version.

    This is apimachinery's `capManagersManager`. Without it, an object would grow with every new client.
    """
    updaters = [each for each in owners if each.operation == UPDATE]
    excess = len(updaters) - _MAX_UPDATERS
    if excess <= 0:
        return owners
    updaters.sort(key=lambda each: (owners[each].time, each))
    merged: dict[str, list[Manager]] = {}
    for each in updaters:
        if excess <= 0:
            break
        version = owners[each].api_version
        excess -= version in merged
        merged.setdefault(version, []).append(each)
    return _with_buckets(owners, merged)


def _with_buckets(owners: Owners, merged: dict[str, list[Manager]]) -> Owners:
    """Return the owners with each group of managers merged into one manager."""
    kept = dict(owners)
    for version, group in merged.items():
        if len(group) < _MIN_MERGED:
            continue
        bucket = Manager(_ANCIENT, UPDATE, version)
        together = [kept.pop(each) for each in group]
        if bucket in kept:
            together.append(kept.pop(bucket))
        time = owners[group[-1]].time
        kept[bucket] = Owned(
            fields.ordered(fields.union_all([each.fields for each in together])), version, time
        )
    return kept
