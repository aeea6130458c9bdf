"""Records of tenants' quotas: limits and usage, at keys of the store that no request can reach. Pure."""

from collections.abc import Mapping

import msgspec

from vcsync.apiserver.tenants.records import PREFIX
from vcsync.quota.tenants import BYTES

QUOTAS = f"{PREFIX}quotas/"
"""Prefix of the keys; the name of the tenant follows."""


class QuotaRecord(msgspec.Struct, frozen=True):
    """The quota of one tenant.

    Every write that counts changes `used` in its own transaction. A deletion does not: a count corrects it afterwards.

    Attributes:
        hard: The limits by resource name.
        used: The usage of each limit except bytes. It is never less than what exists, once the limit was counted.
        counted: Revision of the store as of which the usage was last counted. 0: it was not counted yet.
    """

    hard: dict[str, str]
    used: dict[str, str]
    counted: dict[str, int]

    def uncounted(self) -> list[str]:
        """Return the resource names whose usage was not counted yet."""
        return [name for name in self.used if not self.counted.get(name)]


_decoder = msgspec.json.Decoder(QuotaRecord)


def quota_key(tenant: str) -> str:
    """Return the key of a tenant's quota."""
    return f"{QUOTAS}{tenant}"


def decode_quota(value: bytes) -> QuotaRecord:
    """Read a stored record.

    Raises:
        msgspec.MsgspecError: The value is not a record.
    """
    return _decoder.decode(value)


def encode_quota(record: QuotaRecord) -> bytes:
    """Return the stored form of a record."""
    return msgspec.json.encode(record)


def with_limits(old: QuotaRecord | None, hard: Mapping[str, str]) -> QuotaRecord:
    """Return a record with other limits. What the old one counted remains counted; the rest is to be counted."""
    used, counted = (old.used, old.counted) if old is not None else ({}, {})
    names = [name for name in hard if name != BYTES]
    return QuotaRecord(
        dict(hard),
        {name: used.get(name, "0") for name in names},
        {name: counted.get(name, 0) for name in names},
    )
