"""Rows of the store that hold what tenants used: their keys, their values and their sums. Pure.

Each process writes rows of its own, one for each tenant and hour, with totals instead of differences. Writing a row twice
therefore changes nothing, and nothing is lost between two processes.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from vcsync.apiserver.metering.counters import Amounts
from vcsync.apiserver.tenants.records import PREFIX

USAGE = f"{PREFIX}usage/"
"""Prefix of the keys; TENANT/HOUR/UID/PROCESS follows."""

HOUR_SECONDS = 3600
_HOUR_FORMAT = "%Y-%m-%dT%H"


class Row(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Usage of a tenant in one hour, of one process.

    Attributes:
        reads: Number of requests that read.
        writes: Number of other requests.
        bytes_in: Bytes of the bodies of requests.
        bytes_out: Bytes of the bodies of answers.
        watch_milliseconds: Time during which watches were open, added up over all watches.
        objects: Largest number of stored objects that was seen.
        storage_bytes: Largest number of stored bytes that was seen.
    """

    reads: int = 0
    writes: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    watch_milliseconds: int = 0
    objects: int = 0
    storage_bytes: int = 0

    def plus(self, used: Amounts) -> "Row":
        """Return the row with amounts added."""
        return Row(
            self.reads + used.reads,
            self.writes + used.writes,
            self.bytes_in + used.bytes_in,
            self.bytes_out + used.bytes_out,
            self.watch_milliseconds + used.watch_milliseconds,
            self.objects,
            self.storage_bytes,
        )

    def with_peak(self, objects: int, storage_bytes: int) -> "Row":
        """Return the row with a sample of the storage taken into account."""
        if objects <= self.objects and storage_bytes <= self.storage_bytes:
            return self
        return msgspec.structs.replace(
            self,
            objects=max(objects, self.objects),
            storage_bytes=max(storage_bytes, self.storage_bytes),
        )


class RowKey(NamedTuple):
    """The tenant and hour of a row.

    Attributes:
        tenant: Name of the tenant.
        hour: The hour as `hour_text` formats it.
        uid: UID of the tenant.
    """

    tenant: str
    hour: str
    uid: str


class Used(NamedTuple):
    """Usage of a tenant in an hour, of all processes."""

    key: RowKey
    row: Row


_decoder = msgspec.json.Decoder(Row)


def hour_of(seconds: float) -> int:
    """Return the start of the hour of a time, in seconds since the epoch."""
    return int(seconds) // HOUR_SECONDS * HOUR_SECONDS


def hour_text(seconds: float) -> str:
    """Return the hour of a time as part of a key, for example `2026-11-25T05`. Texts sort like the hours."""
    return datetime.fromtimestamp(seconds, UTC).strftime(_HOUR_FORMAT)


def hour_seconds(text: str) -> int:
    """Return the start of an hour, in seconds since the epoch.

    Raises:
        ValueError: The text is not that of an hour.
    """
    return int(datetime.strptime(text, _HOUR_FORMAT).replace(tzinfo=UTC).timestamp())


def row_key(key: RowKey, process: str) -> str:
    """Return the key of the row of a process."""
    return f"{USAGE}{key.tenant}/{key.hour}/{key.uid}/{process}"


def parse_key(key: str) -> RowKey:
    """Return the tenant and hour of a key that `row_key` made."""
    tenant, hour, uid, _ = key.removeprefix(USAGE).split("/")
    return RowKey(tenant, hour, uid)


def encode(row: Row) -> bytes:
    """Return the stored form of a row."""
    return msgspec.json.encode(row)


def decode(value: bytes) -> Row:
    """Read a stored row.

    Raises:
        msgspec.MsgspecError: The value is not a row.
    """
    return _decoder.decode(value)


def added(rows: Iterable[Row]) -> Row:
    """Return the sums of the rows that several processes wrote for the same hour.

    The storage is the same for all processes, so that its peak is that of the largest row.
    """
    total = Row()
    for row in rows:
        used = Amounts(row.reads, row.writes, row.bytes_in, row.bytes_out, row.watch_milliseconds)
        total = total.plus(used).with_peak(row.objects, row.storage_bytes)
    return total


def by_hour(rows: Iterable[Used]) -> Iterator[Used]:
    """Add up the rows of the same tenant and hour, which must follow each other."""
    key: RowKey | None = None
    same: list[Row] = []
    for each in rows:
        if key is not None and each.key != key:
            yield Used(key, added(same))
            same = []
        key = each.key
        same.append(each.row)
    if key is not None:
        yield Used(key, added(same))
