"""Records of tenants: keys, certificates and settings, at keys of the store that no request can reach. Pure."""

from typing import Literal

import msgspec

from vcsync.api.names import is_dns_label
from vcsync.apiserver.request.caller import ALL, SYSTEM
from vcsync.apiserver.tenants.request_limits import UNLIMITED, TenantLimits
from vcsync.apiserver.tenants.stalls import Stall

PREFIX = "~vcsync/"
"""Prefix of the keys that hold no tenant's objects. No tenant can have this name."""
TENANTS = f"{PREFIX}tenants/"
SERVER = f"{PREFIX}server"
"""Key of the certificate authority that signs serving certificates."""

LAYOUT = f"{PREFIX}layout"
"""Key of the version of the layout of all other keys."""

RESERVED = frozenset({ALL, SYSTEM})
"""Names that tenants cannot have."""


class Authority(msgspec.Struct, frozen=True):
    """A certificate authority.

    Attributes:
        certificate: The certificate as PEM.
        key: The private key as PEM.
        id: The subject key identifier in hex.
    """

    certificate: str
    key: str
    id: str

    def __repr__(self) -> str:
        return f"Authority({self.id!r})"


class Signer(msgspec.Struct, frozen=True):
    """The signer of ServiceAccount tokens.

    Attributes:
        key: The private key as PEM.
        id: The key id in tokens.
        issuer: The issuer in tokens.
    """

    key: str
    id: str
    issuer: str

    def __repr__(self) -> str:
        return f"Signer({self.id!r})"


class Upstream(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The API server of an external control plane, and the gateway's credential for it.

    Attributes:
        server: URL, `https://HOST[:PORT][/PATH]`.
        token: Bearer token of the gateway.
        authority: PEM certificates, one of which must have signed the server's. Empty: those of the system.
        server_name: Name that the server's certificate must carry. Empty: the host of the URL.
        readable: Resources that lists and watches over all tenants include, as in `deployments.apps`, or `*`.
    """

    server: str
    token: str
    authority: str = ""
    server_name: str = ""
    readable: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Upstream({self.server!r})"


Phase = Literal["Creating", "Ready", "Draining", "Deleting"]
LEAVING = frozenset({"Draining", "Deleting"})
"""Phases of a tenant that is being deleted: first its objects go as finalizers allow, then all that is left."""

Controllers = Literal["vcsync", "external"]
"""The controllers of a tenant: vcsync's, or a kube-controller-manager that the tenant runs."""

Nodes = Literal["virtual", "own"]
"""The nodes of a tenant: virtual nodes that syncers write, or nodes of its own, as in a cluster."""


class TenantRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tenant.

    Attributes:
        name: Name of the tenant.
        uid: Unique identifier, which differs for a later tenant of the same name.
        created: Time of creation, in RFC 3339.
        phase: `Creating` until its initial objects exist. In `Draining` and `Deleting` it has no credentials.
        authority: Issues the certificates of its users. None while it is being deleted.
        signer: Signs the tokens of its ServiceAccounts. None while it is being deleted.
        controllers: See `Controllers`.
        nodes: See `Nodes`.
        deadline: Time until which finalizers are respected, in RFC 3339. Only while draining.
        storage_bytes: Limit of its storage in bytes. 0: unlimited. None: the default of the control plane.
        storage_objects: Limit of the number of its objects. 0: unlimited. None: the default of the control plane.
        upstream: The API server of an external control plane. None: the control plane is embedded.
        limits: Limits of its requests. None: the defaults of the control plane.
        weight: Its share of seats, relative to other tenants, while they are scarce.
        suspended: Whether its users may only read.
        stalls: Times at which its work ended a process, as far as they may still set it aside.
        aside: Why the tenant is set aside, so that only the operator reaches it. Empty: it is not.
        front_proxy: Issues the certificate with which this server calls aggregated API servers of the tenant. None: it calls
            none.
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
    upstream: Upstream | None = None
    limits: TenantLimits | None = None
    weight: int = 1
    suspended: bool = False
    stalls: tuple[Stall, ...] = ()
    aside: str = ""
    front_proxy: Authority | None = None

    @property
    def request_limits(self) -> TenantLimits | None:
        """The limits of its requests, or None if the defaults apply. They are not for clusters, whose nodes are many clients."""
        return UNLIMITED if self.limits is None and self.nodes == "own" else self.limits


_decoder = msgspec.json.Decoder(TenantRecord)
_authority_decoder = msgspec.json.Decoder(Authority)


def record_key(tenant: str) -> str:
    """Return the key of a tenant's record."""
    return f"{TENANTS}{tenant}"


def decode(value: bytes) -> TenantRecord:
    """Read a stored record.

    Raises:
        msgspec.MsgspecError: The value is not a record.
    """
    return _decoder.decode(value)


def decode_authority(value: bytes) -> Authority:
    """Read a stored authority.

    Raises:
        msgspec.MsgspecError: The value is not an authority.
    """
    return _authority_decoder.decode(value)


def encode(record: TenantRecord | Authority) -> bytes:
    """Return the stored form of a record."""
    return msgspec.json.encode(record)


def name_problem(name: str) -> str:
    """Return why a new tenant cannot have a name, or an empty text if it can."""
    if not is_dns_label(name):
        return "use lower case letters, digits and '-', at most 63 of them"
    return "the name is reserved" if name in RESERVED else ""
