"""Cell functions for the columns of all kinds, and texts of times, labels and selectors. Pure."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from vcsync.apimachinery.wire import values

Object = Mapping[str, Any]
Cell = Callable[[Object, datetime], Any]
"""(object in its storage version, now) -> the cell."""
Printer = Mapping[str, Cell]
"""Cells by the names of their columns. A cell without a column follows the others, as with IPAddresses."""

NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"
SHOWN = 3
"""Number of addresses, ports or hosts that a cell lists. It counts the others."""


def look(obj: Object, path: str, default: Any = None) -> Any:
    """Return the value at a dotted path, or `default` if it is absent or null."""
    value: Any = obj
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
        if value is None:
            return default
    return value


def field(path: str, default: Any = "") -> Cell:
    """Return a cell with the value at a path."""
    return lambda obj, _: look(obj, path, default)


def filled(path: str, default: str) -> Cell:
    """Return a cell with the text at a path, or another text if it is empty."""
    return lambda obj, _: look(obj, path) or default


def count(*paths: str) -> Cell:
    """Return a cell with the number of items at the paths."""
    return lambda obj, _: sum(len(look(obj, path, ())) for path in paths)


def joined(path: str, default: str = "") -> Cell:
    """Return a cell with the texts of a list, joined by commas."""
    return lambda obj, _: ",".join(look(obj, path, ())) or default


def since(path: str, default: str = UNKNOWN) -> Cell:
    """Return a cell with the time that has passed since the time at a path."""
    return lambda obj, now: ago(look(obj, path), now, default)


name = field("metadata.name")
age = since("metadata.creationTimestamp")


def created(obj: Object, _: datetime) -> Any:
    """Return the time of creation, as shown for kinds without their own printer."""
    return look(obj, "metadata.creationTimestamp")


def ago(text: str | None, now: datetime, default: str = UNKNOWN) -> str:
    """Return the duration since a time as text."""
    at = moment(text)
    return default if at is None else lasting(now - at)


def moment(text: str | None) -> datetime | None:
    """Return the parsed time of an object, or None if it is absent or invalid."""
    if not text:
        return None
    try:
        seconds, nanos = values.seconds_of(text)
        return values.EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except (values.BadValue, OverflowError):
        return None


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_STEPS = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (48 * _HOUR, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (float("inf"), _YEAR, "y", 0, ""),
)
"""(upper bound in seconds, unit in seconds, its letter, smaller unit in seconds or 0, its letter) of durations as text."""


def lasting(span: timedelta) -> str:
    """Format a duration as kubectl does: `95s`, `5m10s`, `3h5m`, `2d4h`, `300d`, `2y30d`."""
    seconds = int(span.total_seconds())
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    _, large, unit, small, part = next(step for step in _STEPS if seconds < step[0])
    rest = seconds % large // small if small else 0
    return f"{seconds // large}{unit}" + (f"{rest}{part}" if rest else "")


def labels_text(labels: Mapping[str, str] | None) -> str:
    """Format labels as `a=b,c=d`."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Object | None, default: str = NONE) -> str:
    """Format a label selector as `a=b,c in (d,e),!f`."""
    if not selector:
        return default
    parts = [(key, f"{key}={value}") for key, value in look(selector, "matchLabels", {}).items()]
    parts += [(each.get("key", ""), _requirement(each)) for each in look(selector, "matchExpressions", ())]
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0])) or default


def _requirement(each: Object) -> str:
    key, listed = each.get("key", ""), ",".join(sorted(each.get("values") or ()))
    texts: dict[str, str] = {
        "In": f"{key} in ({listed})",
        "NotIn": f"{key} notin ({listed})",
        "Exists": key,
        "DoesNotExist": f"!{key}",
    }
    return texts.get(each.get("operator", ""), "")


def labels_at(path: str) -> Cell:
    """Return a cell with the labels at a path."""
    return lambda obj, _: labels_text(look(obj, path))


def selector_at(path: str, default: str = NONE) -> Cell:
    """Return a cell with the label selector at a path."""
    return lambda obj, _: selector_text(look(obj, path), default)


def containers_of(template: str) -> dict[str, Cell]:
    """Return the cells with containers and images of the Pod template at a path."""
    path = f"{template}.spec.containers"
    return {
        "Containers": lambda obj, _: ",".join(each.get("name", "") for each in look(obj, path, ())),
        "Images": lambda obj, _: ",".join(each.get("image", "") for each in look(obj, path, ())),
    }


def condition(obj: Object, kind: str) -> Object | None:
    """Return the first condition of a type."""
    return next((each for each in look(obj, "status.conditions", ()) if each.get("type") == kind), None)


def is_true(obj: Object, kind: str) -> bool:
    """Return whether the first condition of a type is True."""
    return (condition(obj, kind) or {}).get("status") == "True"


def more(texts: Sequence[str], total: int, limit: int) -> str:
    """Join texts up to the limit, and count the others."""
    listed = ",".join(texts[:limit])
    return f"{listed} + {total - limit} more..." if total > limit else listed


def boolean(path: str, default: str = UNSET) -> Cell:
    """Return a cell with the boolean at a path as text."""
    return lambda obj, _: {True: "True", False: "False"}.get(look(obj, path), default)


def aged(**cells: Cell) -> Printer:
    """Return the cells of a kind whose Table begins with the name and ends with the age."""
    return {"Name": name, **cells, "Age": age}


def counted(column: str, path: str) -> Printer:
    """Return the cells of a kind whose Table counts the items at a path."""
    return {"Name": name, column: count(path), "Age": age}
