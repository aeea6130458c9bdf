"""The progress of a claim's expansion in the super cluster, as the tenant sees it. Pure.

Types, states and amounts come up. Reasons and messages of the operator's driver do not: they name servers, volumes and nodes.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from vcsync.objects.envelope import Envelope, decode
from vcsync.objects.quantity import milli

Json = dict[str, Any]

_STORAGE: Final = "storage"
_MESSAGES: Final = {
    "Resizing": "The volume is being resized.",
    "FileSystemResizePending": "Waiting for user to (re-)start a pod to finish file system resize of volume on node.",
    "ControllerResizeError": "The cluster that your Pods run on could not resize the volume; its operator can read the details.",
    "NodeResizeError": "The node of the Pod could not resize the volume; the operator of its cluster can read the details.",
}
"""The conditions that come up, and their messages. `ModifyingVolume` and `ModifyVolumeError` concern VolumeAttributesClasses,
which claims cannot name."""
_STATES: Final = frozenset(
    {
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizePending",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
    }
)
_STATUSES: Final = frozenset({"True", "False", "Unknown"})
_KEPT: Final = ("type", "status", "lastProbeTime", "lastTransitionTime")


class _Status(Struct, frozen=True, gc=False, rename="camel"):
    capacity: dict[str, str] = {}
    conditions: tuple[Json, ...] | None = None
    allocated_resources: dict[str, str] | None = None
    allocated_resource_statuses: dict[str, str] | None = None


def status_patch(v: Envelope, p: Envelope) -> Json:
    """Return the fields of a claim's status that differ from its copy's, as part of a merge patch; empty if none does.

    Conditions of other types in the tenant's claim remain.

    Args:
        v: the tenant's claim, bound.
        p: its copy, bound.
    """
    theirs, shown = _status(p), _status(v)
    patch: Json = {}
    capacity, before = theirs.capacity.get(_STORAGE), shown.capacity.get(_STORAGE)
    if capacity is not None and before is not None and milli(capacity) != milli(before):
        patch["capacity"] = {_STORAGE: capacity}
    conditions = _conditions(theirs, shown)
    if conditions != [_without_nulls(each) for each in shown.conditions or ()]:
        patch["conditions"] = conditions or None
    allocated = (theirs.allocated_resources or {}).get(_STORAGE)
    allocated_before = (shown.allocated_resources or {}).get(_STORAGE)
    if not _same_amount(allocated, allocated_before):
        patch["allocatedResources"] = {_STORAGE: allocated} if allocated is not None else None
    state = (theirs.allocated_resource_statuses or {}).get(_STORAGE)
    state = state if state in _STATES else None
    if state != (shown.allocated_resource_statuses or {}).get(_STORAGE):
        patch["allocatedResourceStatuses"] = {_STORAGE: state} if state is not None else None
    return patch


def _status(claim: Envelope) -> _Status:
    return decode(claim.status, _Status) if claim.status else _Status()


def _conditions(theirs: _Status, shown: _Status) -> list[Json]:
    """Return the tenant's conditions with those of the copy in place of the earlier ones of their types."""
    mine = {each["type"]: each for each in map(_translated, theirs.conditions or ()) if each is not None}
    kept = []
    for each in shown.conditions or ():
        kind = each.get("type", "")
        if kind in mine:
            kept.append(mine.pop(kind))
        elif kind not in _MESSAGES:
            kept.append(_without_nulls(each))
    return [*kept, *mine.values()]


def _translated(condition: Json) -> Json | None:
    message = _MESSAGES.get(condition.get("type", ""))
    if message is None or condition.get("status") not in _STATUSES:
        return None
    kept = {field: condition[field] for field in _KEPT if condition.get(field) is not None}
    return kept | ({"message": message} if condition["status"] == "True" else {})


def _without_nulls(condition: Json) -> Json:
    """Return a condition as it was written: API servers add times that are null."""
    return {field: value for field, value in condition.items() if value is not None}


def _same_amount(amount: str | None, other: str | None) -> bool:
    if amount is None or other is None:
        return amount == other
    return amount == other or milli(amount) == milli(other)
