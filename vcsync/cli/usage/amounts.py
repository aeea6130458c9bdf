"""Amounts that tenants used, added up by tenant and interval, and their costs. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal, NamedTuple

import msgspec

GIB = 2**30
SECONDS_PER_HOUR = 3600
Step = Literal["hour", "day", "all"]
PRICES: Mapping[str, str] = {
    "reads": "a request that reads",
    "writes": "another request",
    "bytesIn": "a GiB of bodies of requests",
    "bytesOut": "a GiB of bodies of answers",
    "watches": "an open watch for an hour",
    "objects": "a stored object for an hour",
    "storage": "a GiB of stored objects for an hour",
}
"""Names of prices, and the unit of each."""


class Hour(msgspec.Struct, frozen=True, rename="camel"):
    """Usage of a tenant in one hour, as the operator's API shows it.

    Attributes:
        tenant: Name of the tenant.
        uid: UID of the tenant, which differs for a later tenant of the same name.
        hour: Start of the hour.
        reads: Number of requests that read.
        writes: Number of other requests.
        bytes_in: Bytes of the bodies of requests.
        bytes_out: Bytes of the bodies of answers.
        watch_milliseconds: Time during which watches were open, added up over all watches.
        objects: Largest number of stored objects.
        storage_bytes: Largest number of stored bytes.
    """

    tenant: str
    uid: str
    hour: datetime
    reads: int = 0
    writes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    watch_milliseconds: int = 0
    objects: int = 0
    storage_bytes: int = 0


class Interval(NamedTuple):
    """Usage of a tenant in an interval.

    Attributes:
        tenant: Name of the tenant.
        uid: UID of the tenant.
        begin: Start of the first hour.
        end: End of the last hour.
        hours: The hours, in order. At least one.
    """

    tenant: str
    uid: str
    begin: datetime
    end: datetime
    hours: Sequence[Hour]

    @property
    def reads(self) -> int:
        """Number of requests that read."""
        return sum(each.reads for each in self.hours)

    @property
    def writes(self) -> int:
        """Number of other requests."""
        return sum(each.writes for each in self.hours)

    @property
    def bytes_in(self) -> int:
        """Bytes of the bodies of requests."""
        return sum(each.bytes_in for each in self.hours)

    @property
    def bytes_out(self) -> int:
        """Bytes of the bodies of answers."""
        return sum(each.bytes_out for each in self.hours)

    @property
    def watch_seconds(self) -> Decimal:
        """Time during which watches were open, added up over all watches."""
        return Decimal(sum(each.watch_milliseconds for each in self.hours)) / 1000

    @property
    def objects(self) -> int:
        """Largest number of stored objects."""
        return max(each.objects for each in self.hours)

    @property
    def storage_bytes(self) -> int:
        """Largest number of stored bytes."""
        return max(each.storage_bytes for each in self.hours)

    @property
    def object_hours(self) -> int:
        """Largest number of stored objects of each hour, added up."""
        return sum(each.objects for each in self.hours)

    @property
    def storage_byte_hours(self) -> int:
        """Largest number of stored bytes of each hour, added up."""
        return sum(each.storage_bytes for each in self.hours)


def by_step(hours: Iterable[Hour], step: Step) -> list[Interval]:
    """Add up hours by tenant and step, in order. A day is one in UTC."""
    groups: dict[tuple[str, str, object], list[Hour]] = {}
    for each in sorted(hours, key=lambda each: (each.tenant, each.hour)):
        part = {"hour": each.hour, "day": each.hour.date(), "all": None}[step]
        groups.setdefault((each.tenant, each.uid, part), []).append(each)
    return [
        Interval(tenant, uid, group[0].hour, group[-1].hour + timedelta(hours=1), group)
        for (tenant, uid, _), group in groups.items()
    ]


def costs(used: Interval, prices: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Return the cost of what was used, by the name of the price."""
    amounts = {
        "reads": Decimal(used.reads),
        "writes": Decimal(used.writes),
        "bytesIn": Decimal(used.bytes_in) / GIB,
        "bytesOut": Decimal(used.bytes_out) / GIB,
        "watches": used.watch_seconds / SECONDS_PER_HOUR,
        "objects": Decimal(used.object_hours),
        "storage": Decimal(used.storage_byte_hours) / GIB,
    }
    return {name: amounts[name] * price for name, price in prices.items() if name in amounts}
