"""CEL values beyond those of Python: times, durations, optionals, types; equality and order.

Integers are `int`, unsigned ones `UInt`, lists and maps are Python's, objects with declared fields `Struct`. Pure.
"""

import base64
import binascii
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from vcsync.apimachinery.cel.declared import RESERVED, Declared
from vcsync.patterns.linear import linear

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_NUMBER_AND_UNIT = linear(r"(\d{0,30})(?:\.(\d{0,30}))?(ns|us|µs|μs|ms|s|m|h)")
_TIME = linear(r"(\d{4}-\d{2}-\d{2})(?:[Tt](\d{2}:\d{2}:\d{2})(?:[.,](\d{1,20}))?([Zz]|[+-]\d{2}:\d{2}))?")
_SECOND = 1_000_000_000
_UNITS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CelError(Exception):
    """The expression has no value. The message is cel-go's."""


class NoOverload(CelError):
    """No overload of a function accepts these arguments."""

    def __init__(self) -> None:
        super().__init__("no such overload")


class CostExceeded(Exception):
    """The evaluation exceeds its cost limit and ends."""


class UInt(int):
    """An unsigned integer."""

    __slots__ = ()


class Optional:
    """A value that may be absent."""

    __slots__ = ("present", "value")

    def __init__(self, value: Any = None, *, present: bool = True) -> None:
        self.value = value
        self.present = present


NONE = Optional(present=False)


class TypeValue:
    """The value of `type(x)`, or of the name of a type."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Duration(int):
    """A duration in nanoseconds."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Parse a duration such as `1h15m`.

        Raises:
            CelError: the text is no duration.
        """
        sign = -1 if text.startswith("-") else 1
        rest = text.removeprefix("-").removeprefix("+")
        if rest == "0":
            return cls(0)
        total = at = 0
        for match in _NUMBER_AND_UNIT.finditer(rest):
            if match.start() != at or not (match[1] or match[2]):
                break
            at = match.end()
            fraction = match[2] or ""
            total += int((match[1] or "0") + fraction) * _UNITS[match[3]] // 10 ** len(fraction)
        if not rest or at != len(rest) or total > INT_MAX:
            raise CelError(f'time: invalid duration "{text}"' if rest else 'time: invalid duration ""')
        return cls(sign * total)

    def text(self) -> str:
        """Format the duration in seconds, as CEL does."""
        sign = "-" if self < 0 else ""
        seconds, rest = divmod(abs(int(self)), _SECOND)
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        return f"{sign}{seconds}{fraction}s"


class Timestamp(int):
    """A time, in nanoseconds since 1970 in UTC. Its text has the time zone that it was written with."""

    zone: timezone = UTC

    def moved(self, nanoseconds: int) -> "Timestamp":
        """Return a later time in the same time zone, or an earlier one."""
        found = Timestamp(int(self) + nanoseconds)
        found.zone = self.zone
        return found

    @classmethod
    def parse(cls, text: str) -> "Timestamp":
        """Parse an RFC 3339 time or date.

        Raises:
            CelError: the text is neither.
        """
        match = _TIME.fullmatch(text)
        try:
            if match is None:
                raise ValueError(text)  # noqa: TRY301 -- told as what fromisoformat raises is
            zone = "+00:00" if (match[4] or "Z") in "Zz" else match[4]
            moment = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00:00'}{zone}")
        except ValueError:
            raise CelError(
                f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}"'
            ) from None
        fraction = int((match[3] or "0").ljust(9, "0")[:9])
        found = cls((moment - _EPOCH) // timedelta(seconds=1) * _SECOND + fraction)
        if moment.utcoffset():
            found.zone = timezone(moment.utcoffset() or timedelta())
        return found

    def moment(self) -> datetime:
        """Return the time as a datetime. Fractions below microseconds are lost."""
        try:
            return _EPOCH + timedelta(microseconds=int(self) // 1000)
        except OverflowError:
            raise CelError("timestamp overflow") from None

    def text(self) -> str:
        """Format the time as RFC 3339."""
        rest = int(self) % _SECOND
        fraction = f".{rest:09d}".rstrip("0") if rest else ""
        try:
            moment = self.moment().astimezone(self.zone)
        except OverflowError:
            raise CelError("timestamp overflow") from None
        zone = "Z" if self.zone == UTC else f"{moment:%z}"[:3] + ":" + f"{moment:%z}"[3:5]
        return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}{zone}"


class Struct:
    """An object with declared fields. The value of a field is converted on first use."""

    __slots__ = ("_made", "declared", "raw")

    def __init__(self, raw: dict[str, Any], declared: Declared) -> None:
        self.raw = raw
        self.declared = declared
        self._made: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        """Return whether a field exists, by its escaped name. A null field does not."""
        known = self.declared.fields.get(name)
        return known is not None and self.raw.get(known[0]) is not None

    def get(self, name: str) -> Any:
        """Return the value of a field, by its escaped name.

        Raises:
            CelError: the field does not exist.
        """
        if name in self._made:
            return self._made[name]
        known = self.declared.fields.get(name)
        if known is None or self.raw.get(known[0]) is None:
            raise CelError(f"no such key: {name}")
        value = self._made[name] = from_json(self.raw[known[0]], known[1])
        return value


class Made:
    """An object that an expression constructs: `Object.spec{replicas: 1}`."""

    __slots__ = ("fields", "type_name")

    def __init__(self, type_name: str, fields: dict[str, Any]) -> None:
        self.type_name = type_name
        self.fields = fields

    def get(self, name: str) -> Any:
        """Return the value of a field, or null if it is not set."""
        return self.fields.get(name)


class SetList(list[Any]):
    """A list of type `set`, or of type `map` with keys: the order of its items does not matter."""

    __slots__ = ("declared",)

    def __init__(self, items: Any, declared: Declared) -> None:
        super().__init__(items)
        self.declared = declared


def from_json(value: Any, declared: Declared | None) -> Any:  # noqa: PLR0911 -- one case for each type
    """Convert JSON data of a declared type to a CEL value. Data of another type raises when it is used."""
    if value is None or declared is None:
        return value
    kind = declared.kind
    if kind == "object":
        return Struct(value, declared) if isinstance(value, dict) else value
    if kind == "list" and isinstance(value, list) and not declared.plain:
        items = [from_json(each, declared.element) for each in value]
        return SetList(items, declared) if declared.list_type in ("set", "map") else items
    if kind == "map" and isinstance(value, dict) and not declared.plain:
        return {name: from_json(each, declared.element) for name, each in value.items()}
    if kind == "double" and isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 1 << 1023 else value
    if kind == "int" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind in ("timestamp", "duration", "bytes") and isinstance(value, str):
        return _special(value, kind)
    return value


def _special(value: str, kind: str) -> Any:
    try:
        if kind == "bytes":
            return base64.b64decode(value, validate=True)
        return Timestamp.parse(value) if kind == "timestamp" else Duration.parse(value)
    except (CelError, binascii.Error):
        return value


def type_name(value: Any) -> str:
    """Return the name of a value's type in CEL."""
    for class_, name in (
        (bool, "bool"), (UInt, "uint"), (Duration, "google.protobuf.Duration"),
        (Timestamp, "google.protobuf.Timestamp"), (int, "int"), (float, "double"), (str, "string"),
        (bytes, "bytes"), (list, "list"), (dict, "map"), (Optional, "optional_type"), (TypeValue, "type"),
        (Struct, "object"),
    ):  # fmt: skip
        if isinstance(value, class_):
            return name
    return "null_type" if value is None else str(getattr(value, "type_name", "object"))


def is_number(value: Any) -> bool:
    """Return whether a value is an int, uint or double."""
    return isinstance(value, int | float) and not isinstance(value, bool | Duration | Timestamp)


class Work:
    """Counts steps that no cost covers, such as comparisons of deep values, up to a limit."""

    __slots__ = ("left",)

    def __init__(self, limit: int) -> None:
        self.left = limit

    def spend(self, steps: int = 1) -> None:
        """Count steps.

        Raises:
            CostExceeded: no steps are left.
        """
        self.left -= steps
        if self.left < 0:
            raise CostExceeded


def equal(left: Any, right: Any, work: Work) -> bool:  # noqa: PLR0911 -- one case for each type
    """Return whether two values are equal. Numbers compare by value across types; other types are never equal."""
    work.spend()
    if is_number(left) and is_number(right):
        return bool(left == right)
    if isinstance(left, Struct) or isinstance(right, Struct):
        return isinstance(left, Struct) and isinstance(right, Struct) and _equal_structs(left, right, work)
    if isinstance(left, Made) and isinstance(right, Made):
        return left.type_name == right.type_name and equal(left.fields, right.fields, work)
    if isinstance(left, list) and isinstance(right, list):
        return _equal_lists(left, right, work)
    if isinstance(left, dict) and isinstance(right, dict):
        return len(left) == len(right) and all(
            name in right and equal(each, right[name], work) for name, each in left.items()
        )
    if isinstance(left, Optional) and isinstance(right, Optional):
        if not (left.present and right.present):
            return left.present == right.present
        return equal(left.value, right.value, work)
    if isinstance(left, str | bytes):
        work.spend(len(left) // 1024)
    return type(left) is type(right) and bool(left == right)


def _equal_structs(left: Struct, right: Struct, work: Work) -> bool:
    if len(left.raw) != len(right.raw):
        return False
    for escaped, (name, _) in left.declared.fields.items():
        if escaped in RESERVED:  # the escaped name of the same field is there, too
            continue
        if (name in left.raw) != (name in right.raw):
            return False
        if name in left.raw and not equal(left.get(escaped), right.get(escaped), work):
            return False
    return True


def _equal_lists(left: list[Any], right: list[Any], work: Work) -> bool:
    if len(left) != len(right):
        return False
    if isinstance(left, SetList):
        return all(any(equal(each, other, work) for other in right) for each in left)
    return all(equal(*pair, work) for pair in zip(left, right, strict=True))


def compare(left: Any, right: Any) -> int:
    """Compare two values: negative, zero or positive.

    Raises:
        NoOverload: the values have no order.
    """
    comparable = (is_number(left) and is_number(right)) or (
        type(left) is type(right) and isinstance(left, bool | str | bytes | Duration | Timestamp)
    )
    if not comparable:
        order = getattr(left, "order", None)
        if order is None or type(left) is not type(right):
            raise NoOverload
        return int(order(right))
    if any(isinstance(each, float) and math.isnan(each) for each in (left, right)):
        raise CelError("NaN values cannot be ordered")
    return int(left > right) - int(left < right)


def size(value: Any) -> int:
    """Return a value's size for costs: characters, bytes or elements; 1 for all other values."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, Struct):
        return 1
    if isinstance(value, Optional):
        return size(value.value) if value.present else 1
    return int(getattr(value, "size", 1))


def iterate(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (index or key, element) of a list or map.

    Raises:
        NoOverload: the value is neither.
    """
    if isinstance(value, list):
        yield from enumerate(value)
    elif isinstance(value, dict):
        yield from value.items()
    else:
        raise NoOverload
