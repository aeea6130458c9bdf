"""Grants and offers as they are stored: decoding, validation, the digest, and who is meant. Pure."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from vcsync.api import names
from vcsync.api.grants import GRANTS, OFFERS, TenantGrantOfferSpec, TenantGrantSpec
from vcsync.apimachinery.errors import FieldError, duplicate, not_allowed, required, wrong
from vcsync.apimachinery.resources import custom_group, object_key
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.request.caller import ALL, SYSTEM, Granted

RESERVED_NAMES = ("system:", "vcsync:")
"""Beginnings of the names of users and groups that a grant cannot name."""
STORED_GROUP = custom_group(names.GROUP)
"""Group segment of the keys of grants and offers."""
_KEY_PARTS = 4


class _Metadata(msgspec.Struct):
    name: str
    uid: str = ""
    generation: int = 0
    deletionTimestamp: str | None = None  # noqa: N815 - as JSON spells it


class _StoredGrant(msgspec.Struct):
    metadata: _Metadata
    spec: TenantGrantSpec


class _StoredOffer(msgspec.Struct):
    metadata: _Metadata
    spec: TenantGrantOfferSpec


_grants = msgspec.json.Decoder(_StoredGrant)
_offers = msgspec.json.Decoder(_StoredOffer)


@dataclass(frozen=True, slots=True)
class Grant:
    """One TenantGrant.

    Attributes:
        tenant: The granting tenant.
        name: Name of the TenantGrant.
        uid: UID of the TenantGrant.
        generation: Generation of the TenantGrant.
        spec: Its spec.
        expires: When it ends, in seconds since the epoch, or None.
    """

    tenant: str
    name: str
    uid: str
    generation: int
    spec: TenantGrantSpec
    expires: float | None = None

    @property
    def home(self) -> str:
        """The tenant whose users and groups the grant names."""
        return self.spec.tenant

    @property
    def offer(self) -> str:
        """Name of the TenantGrantOffer in the home tenant."""
        return f"{self.tenant}.{self.name}"

    def expired(self, now: float) -> bool:
        """Tell whether the grant has ended. `now`: seconds since the epoch."""
        return self.expires is not None and now >= self.expires

    def means(self, user: User) -> bool:
        """Tell whether the grant names a user of the home tenant, or one of the user's groups."""
        if _is_reserved(user.name):
            return False
        return any(
            each.name == user.name if each.kind == "User" else each.name in user.groups
            for each in self.spec.subjects
        )

    def digest(self, uid_of: Callable[[str], str]) -> str:
        """Return the digest that the home tenant accepts: 32 hex digits.

        It covers the whole grant and the UIDs of the grant and of both tenants: after any change, and after a deletion
        and a new creation of any of them, it is another one. It is empty if one of the tenants does not exist.

        Args:
            uid_of: Returns the UID of a tenant, or an empty text if it does not exist.
        """
        uids = (uid_of(self.tenant), uid_of(self.home))
        if not all(uids):
            return ""
        content = msgspec.json.encode([self.tenant, self.name, self.uid, uids, self.spec])
        return hashlib.sha256(content).hexdigest()[:32]

    def granted(self, digest: str) -> Granted:
        """Return the grant as a caller carries it."""
        spec = self.spec
        roles = tuple((each.kind, each.name) for each in spec.roles)
        return Granted(self.name, digest, roles, spec.namespaces, spec.cluster_wide, self.expires)


@dataclass(frozen=True, slots=True)
class Offer:
    """The answer of a home tenant: one TenantGrantOffer. `accept`: the accepted digest."""

    accept: str = ""
    reject: bool = False


def grant_key(tenant: str, name: str) -> str:
    """Return the key of a TenantGrant in the store."""
    return object_key(tenant, STORED_GROUP, GRANTS.plural, "", name)


def offer_key(tenant: str, name: str) -> str:
    """Return the key of a TenantGrantOffer in the store."""
    return object_key(tenant, STORED_GROUP, OFFERS.plural, "", name)


def place_of(key: str) -> tuple[str, str, str] | None:
    """Return tenant, plural and name of the grant or offer with a key, or None for other keys."""
    parts = key.split("/")
    if len(parts) != _KEY_PARTS or parts[1] != STORED_GROUP or parts[0] == SYSTEM:
        return None
    return (parts[0], parts[2], parts[3]) if parts[2] in (GRANTS.plural, OFFERS.plural) else None


def read_grant(tenant: str, value: bytes) -> Grant | None:
    """Read a stored TenantGrant. Returns None if it is being deleted or is invalid, so that it grants nothing.

    Raises:
        msgspec.MsgspecError: The value is no TenantGrant.
    """
    found = _grants.decode(value)
    metadata = found.metadata
    if metadata.deletionTimestamp is not None or findings(tenant, metadata.name, found.spec):
        return None
    return Grant(
        tenant, metadata.name, metadata.uid, metadata.generation, found.spec, seconds_of(found.spec.expires)
    )


def read_offer(value: bytes) -> Offer | None:
    """Read a stored TenantGrantOffer. Returns None if it is being deleted, so that it accepts nothing.

    Raises:
        msgspec.MsgspecError: The value is no TenantGrantOffer.
    """
    found = _offers.decode(value)
    if found.metadata.deletionTimestamp is not None:
        return None
    return Offer(found.spec.accept, found.spec.reject)


def spec_of(obj: Any) -> TenantGrantSpec:
    """Return the spec of a TenantGrant.

    Raises:
        msgspec.ValidationError: It does not fit the schema.
    """
    return msgspec.convert(obj.get("spec") or {}, TenantGrantSpec)


def findings(tenant: str, name: str, spec: TenantGrantSpec) -> list[FieldError]:
    """Validate a grant of a tenant beyond its schema. Nothing depends on whether the home tenant exists."""
    found = []
    if not names.is_dns_label(name):
        found.append(
            wrong("metadata.name", name, "use lower case letters, digits and '-', at most 63 of them")
        )
    if spec.tenant == tenant:
        found.append(not_allowed("spec.tenant", "this is the tenant itself: use a RoleBinding"))
    if spec.tenant in (ALL, SYSTEM):
        found.append(not_allowed("spec.tenant", f"{spec.tenant} is reserved: name one tenant"))
    for number, subject in enumerate(spec.subjects):
        path = f"spec.subjects[{number}]"
        if _is_reserved(subject.name):
            told = f"a grant cannot name {' or '.join(RESERVED_NAMES)} users and groups: name others"
            found.append(not_allowed(f"{path}.name", told))
        if subject in spec.subjects[:number]:
            found.append(duplicate(path, subject.name))
    return found + _extent_findings(spec)


def _extent_findings(spec: TenantGrantSpec) -> list[FieldError]:
    found = []
    if spec.cluster_wide and spec.namespaces:
        found.append(
            not_allowed("spec.namespaces", "clusterWide includes all namespaces: remove one of the two")
        )
    if not spec.cluster_wide and not spec.namespaces:
        found.append(required("spec.namespaces", "name namespaces, or set clusterWide: true"))
    for number, role in enumerate(spec.roles):
        path = f"spec.roles[{number}]"
        if role.kind == "Role" and spec.cluster_wide:
            found.append(
                not_allowed(f"{path}.kind", "a Role holds in its namespace only: name a ClusterRole")
            )
        if role in spec.roles[:number]:
            found.append(duplicate(path, role.name))
    if spec.expires is not None and seconds_of(spec.expires) is None:
        found.append(
            wrong("spec.expires", spec.expires, "give an RFC 3339 time, such as 2027-01-31T12:00:00Z")
        )
    return found


def seconds_of(text: str | None) -> float | None:
    """Return an RFC 3339 time in seconds since the epoch, or None if there is none or it is malformed."""
    if text is None:
        return None
    try:
        found = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return None
    return None if found.tzinfo is None else found.timestamp()


def _is_reserved(name: str) -> bool:
    return name.casefold().startswith(RESERVED_NAMES)
