"""Compares two sequences of watch events. Pure.

Events that are equal are paired first, in order. Between them, events of the same type and object are paired and
compared field by field. An event without a partner is a difference of its own.
"""

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

Event = dict[str, Any]


def with_progress(events: Sequence[Event]) -> list[Event]:
    """Add to each event whether its resource version is newer than that of the event before it of the same object."""
    last: dict[str, int] = {}
    found = []
    for each in events:
        metadata = each["object"].get("metadata") or {}
        version, uid = int(metadata.get("resourceVersion") or 0), metadata.get("uid", "")
        found.append({**each, "newer": version > last.get(uid, 0)})
        last[uid] = version
    return found


def by_object(events: Sequence[Event]) -> list[Event]:
    """Bring the events of each object together, because the order among objects has no meaning."""
    return sorted(events, key=_subject)


def pairs(real: Sequence[Event], ours: Sequence[Event]) -> Iterator[tuple[str, Event | None, Event | None]]:
    """Pair the events of two sequences; None: an event has no partner.

    The first value of a pair names it: position in the real sequence, type and object.
    """
    whole = [[json.dumps(each, sort_keys=True) for each in side] for side in (real, ours)]
    for start, end, other_start, other_end in _blocks(*whole):
        left, right = real[start:end], ours[other_start:other_end]
        for low, high, other_low, other_high in _blocks(_keys(left), _keys(right)):
            yield from _paired(start + low, left[low:high], right[other_low:other_high])


def _paired(
    position: int, left: Sequence[Event], right: Sequence[Event]
) -> Iterator[tuple[str, Event | None, Event | None]]:
    """Pair two runs of events that have either the same keys or no common ones."""
    if _keys(left) == _keys(right):
        for one, other in zip(left, right, strict=True):
            yield _named(position, one), one, other
            position += 1
        return
    for one in left:
        yield _named(position, one), one, None
        position += 1
    for other in right:
        yield _named(position, other), None, other


def _blocks(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    for _, *block in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        yield block[0], block[1], block[2], block[3]


def _keys(events: Sequence[Event]) -> list[str]:
    return [f"{each['type']} {_subject(each)}" for each in events]


def _subject(event: Event) -> str:
    """Name an event's object: by its name, or by the prefix from which a server generated the name."""
    metadata = event["object"].get("metadata") or {}
    return str(metadata.get("generateName") or metadata.get("name") or "")


def _named(position: int, event: Event) -> str:
    return f"events[{position}] {event['type']} {_subject(event)}"
