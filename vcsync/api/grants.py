"""Spec and status of TenantGrant and TenantGrantOffer, which embedded control planes serve, and their definitions."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from vcsync.api import names
from vcsync.api.conditions import Condition
from vcsync.api.crd import Column, Definition
from vcsync.api.fields import DnsLabel, Time, about
from vcsync.kube.resources import Resource

GRANTS: Final = Resource(
    group=names.GROUP, version=names.VERSION, plural="tenantgrants", kind="TenantGrant", namespaced=False
)
OFFERS: Final = Resource(
    group=names.GROUP,
    version=names.VERSION,
    plural="tenantgrantoffers",
    kind="TenantGrantOffer",
    namespaced=False,
)
MAX_LISTED: Final = 32
"""Subjects, roles or namespaces of one grant."""

Digest = Annotated[str, Meta(pattern="^([0-9a-f]{32})?$", max_length=32)]


class GrantSubject(Struct, frozen=True, kw_only=True):
    """A user or a group of the home tenant."""

    kind: Annotated[Literal["User", "Group"], about("User or Group.")]
    name: Annotated[
        str,
        Meta(min_length=1, max_length=256),
        about(
            "Name of the user or group, as the home tenant knows it. Names that begin with system: or vcsync: are refused."
        ),
    ]


class GrantRole(Struct, frozen=True, kw_only=True):
    """A role of the granting tenant."""

    kind: Annotated[Literal["ClusterRole", "Role"], about("ClusterRole, or Role of the same namespace.")]
    name: Annotated[str, Meta(min_length=1, max_length=253), about("Name of the role.")]


Subjects = Annotated[tuple[GrantSubject, ...], Meta(max_length=MAX_LISTED)]
Roles = Annotated[tuple[GrantRole, ...], Meta(max_length=MAX_LISTED)]
Namespaces = Annotated[tuple[DnsLabel, ...], Meta(max_length=MAX_LISTED, extra={"list": "set"})]


class TenantGrantSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The permissions that users of another tenant have here."""

    tenant: Annotated[DnsLabel, about("The home tenant, to which the users and groups belong.")]
    subjects: Annotated[
        Annotated[tuple[GrantSubject, ...], Meta(min_length=1, max_length=MAX_LISTED)],
        about("Users and groups of the home tenant."),
    ]
    roles: Annotated[
        Annotated[tuple[GrantRole, ...], Meta(min_length=1, max_length=MAX_LISTED)],
        about("Roles of this tenant. Later changes of a role change what is granted."),
    ]
    namespaces: Annotated[Namespaces, about("Namespaces in which the roles hold.")] = ()
    cluster_wide: Annotated[
        bool,
        about(
            "Whether the roles hold in all namespaces and at the cluster scope, instead of in named namespaces."
        ),
    ] = False
    expires: Annotated[Time | None, about("When the grant ends. Without it, it has no end.")] = None


class TenantGrantStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """State of a grant."""

    conditions: Annotated[tuple[Condition, ...], Meta(max_length=16, extra={"list_map_keys": ("type",)})] = ()


class TenantGrantOfferSpec(Struct, frozen=True, kw_only=True):
    """The home tenant's answer to a grant."""

    accept: Annotated[
        Digest, about("Digest of the accepted grant: copy status.digest. A changed grant has another digest.")
    ] = ""
    reject: Annotated[bool, about("Whether the grant is rejected, whatever else accepts it.")] = False


class TenantGrantOfferStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """A copy of the grant that another tenant offers."""

    tenant: Annotated[str, about("The granting tenant.")] = ""
    grant: Annotated[str, about("Name of the TenantGrant in the granting tenant.")] = ""
    subjects: Annotated[Subjects, about("Users and groups of this tenant.")] = ()
    roles: Annotated[Roles, about("Roles of the granting tenant.")] = ()
    namespaces: Annotated[
        Namespaces, about("Namespaces of the granting tenant in which the roles hold.")
    ] = ()
    cluster_wide: Annotated[
        bool,
        about("Whether the roles hold in all namespaces and at the cluster scope of the granting tenant."),
    ] = False
    expires: Annotated[Time | None, about("When the grant ends.")] = None
    digest: Annotated[Digest, about("Digest of the grant: copy it to spec.accept to accept the grant.")] = ""
    conditions: Annotated[tuple[Condition, ...], Meta(max_length=16, extra={"list_map_keys": ("type",)})] = ()


_ACCEPTED = '.status.conditions[?(@.type=="Accepted")]'
_COLUMNS: Final = (
    Column("Accepted", f"{_ACCEPTED}.status"),
    Column("Reason", f"{_ACCEPTED}.reason"),
)
_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")

DEFINITIONS: Final = (
    Definition(
        resource=GRANTS,
        short_names=("tg",),
        description="Permissions in this tenant for users and groups of another tenant, which has to accept them.",
        spec=TenantGrantSpec,
        status=TenantGrantStatus,
        columns=(
            Column("Tenant", ".spec.tenant"),
            *_COLUMNS,
            Column("Expires", ".spec.expires"),
            _AGE,
        ),
    ),
    Definition(
        resource=OFFERS,
        short_names=("tgo",),
        description="A grant that another tenant offers to users and groups of this one.",
        spec=TenantGrantOfferSpec,
        status=TenantGrantOfferStatus,
        columns=(
            Column("Tenant", ".status.tenant"),
            Column("Grant", ".status.grant"),
            *_COLUMNS,
            Column("Expires", ".status.expires"),
            Column("Digest", ".status.digest", priority=1),
            _AGE,
        ),
    ),
)
