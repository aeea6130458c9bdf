"""What is kept of a tenant beside its objects: keys and certificates, where no request can reach it. Pure."""

from typing import Literal

import msgspec

from vcsync.api.names import is_dns_label
from vcsync.controlplane.identity.caller import ALL, SYSTEM

PREFIX = "~vcsync/"
"""Of the keys of everything that is no tenant's object; no tenant can have this name."""
TENANTS = f"{PREFIX}tenants/"
SERVER = f"{PREFIX}server"
"""Key of the authority that signs serving certificates."""

LAYOUT = f"{PREFIX}layout"
"""Key of the number of the layout that all other keys have."""

RESERVED = frozenset({ALL, SYSTEM})
"""Names that no tenant can be given."""


class Authority(msgspec.Struct, frozen=True):
    """A certificate authority. `certificate` and `key` as PEM; `id`: its subject key identifier in hex."""

    certificate: str
    key: str
    id: str


class Signer(msgspec.Struct, frozen=True):
    """What signs ServiceAccount tokens. `key` as PEM; `id`: the key id in tokens; `issuer`: who they say they are from."""

    key: str
    id: str
    issuer: str


Phase = Literal["Creating", "Ready", "Draining", "Deleting"]
LEAVING = frozenset({"Draining", "Deleting"})
"""Of a tenant that is being deleted: first as finalizers allow, then whatever there is."""

Controllers = Literal["vcsync", "external"]
"""Who makes a tenant's control plane live: ours, or a kube-controller-manager that the tenant brings."""

Nodes = Literal["virtual", "own"]
"""Whose a space's nodes are: shown to a tenant by syncers, or its own, as a cluster's are."""


class TenantRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tenant.

    Attributes:
        uid: differs when a tenant of the same name is made again.
        created: RFC 3339 time.
        phase: `Creating` until everything it begins with is there; `Draining` and `Deleting`: it has no credentials any more.
        authority: issues the certificates of its users; None while leaving.
        signer: of its ServiceAccounts' tokens; None while leaving.
        controllers: whose they are.
        nodes: whose they are.
        deadline: RFC 3339 time until which finalizers are respected; only while draining.
        storage_bytes, storage_objects: what it may keep, 0: any number; None: what holds for all.
    """

    name: str
    uid: str
    created: str
    phase: Phase = "Ready"
    authority: Authority | None = None
    signer: Signer | None = None
    controllers: Controllers = "vcsync"
    nodes: Nodes = "virtual"
    deadline: str = ""
    storage_bytes: int | None = None
    storage_objects: int | None = None


_decoder = msgspec.json.Decoder(TenantRecord)
_authority_decoder = msgspec.json.Decoder(Authority)


def record_key(tenant: str) -> str:
    """Return the key of a tenant's record."""
    return f"{TENANTS}{tenant}"


def decode(value: bytes) -> TenantRecord:
    """Read a stored record.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    return _decoder.decode(value)


def decode_authority(value: bytes) -> Authority:
    """Read a stored authority.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    return _authority_decoder.decode(value)


def encode(record: TenantRecord | Authority) -> bytes:
    """Write a record as it is stored."""
    return msgspec.json.encode(record)


def name_problem(name: str) -> str:
    """Say what is wrong with a name for a new tenant; empty: nothing."""
    if not is_dns_label(name):
        return "use lower case letters, digits and '-', at most 63 of them"
    return "the name is reserved" if name in RESERVED else ""
