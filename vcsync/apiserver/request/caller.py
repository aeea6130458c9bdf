"""Callers and attributes of requests, for authentication and authorization. Pure."""

from dataclasses import dataclass
from typing import Protocol

from vcsync.apimachinery.errors import StatusError, qualified
from vcsync.apimachinery.strategy import User

SYSTEM = "system"
"""Tenant of the operator and of vcsync's programs."""
ALL = "all"
"""Tenant in URLs that stands for all tenants. Only system callers may use it."""

ELSEWHERE = "forbidden: the credential is not valid here"
"""Message for a credential that is used outside its tenant."""

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"


@dataclass(frozen=True, slots=True)
class Granted:
    """The permissions that a TenantGrant gives to a guest.

    Attributes:
        name: Name of the TenantGrant.
        digest: Digest of the TenantGrant, which differs after any change.
        roles: Kind and name of each role.
        namespaces: Namespaces in which the roles hold.
        cluster_wide: Whether the roles hold everywhere instead.
        expires: When the grant ends, in seconds since the epoch, or None.
    """

    name: str
    digest: str
    roles: tuple[tuple[str, str], ...]
    namespaces: tuple[str, ...] = ()
    cluster_wide: bool = False
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request.

    Attributes:
        user: Name, groups and extra of the user.
        tenant: Tenant of the credentials. For anonymous callers the tenant of the URL, or nothing.
        system: Whether it is the operator or one of vcsync's programs, which may name any tenant.
        impersonated: Whether `user` is impersonated.
        constraint: Verb of constrained impersonation, if that allowed the impersonation.
        home: Tenant of the credentials of a guest, whom grants admit to `tenant`. Empty: the caller is no guest.
        grants: Grants of a guest. They are all the permissions that it has.
        by_control_plane: Whether the credential is a token of the tenant's external control plane, to which it is forwarded.
    """

    user: User
    tenant: str
    system: bool = False
    impersonated: bool = False
    constraint: str = ""
    home: str = ""
    grants: tuple[Granted, ...] = ()
    by_control_plane: bool = False


class Asked(Protocol):
    """The attributes of a request for authorizers; RequestInfo implements it."""

    @property
    def verb(self) -> str:
        """`get`, `list`, ... for resources; the method in lower case for other paths."""

    @property
    def resource_request(self) -> bool:
        """Whether the request is for a resource instead of a path."""

    @property
    def path(self) -> str:
        """Path of the URL without the tenant."""

    @property
    def group(self) -> str:
        """API group of the resource."""

    @property
    def resource(self) -> str:
        """Plural of the resource."""

    @property
    def subresource(self) -> str:
        """Subresource, or nothing."""

    @property
    def namespace(self) -> str:
        """Namespace. Empty: none or all."""

    @property
    def name(self) -> str:
        """Name of the object, or nothing."""

    @property
    def selected(self) -> tuple[tuple[str, str], ...]:
        """Fields and values that the field selector of a list, watch or deletion requires."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes of a request that is not a RequestInfo; see `Asked`."""

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    resource_request: bool = True
    selected: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of the authorizer. `reason` says why, or which errors occurred; it may be empty."""

    allowed: bool
    reason: str = ""


HOME_EXTRA = "tenancy.x-k8s.io/home-tenant"
"""Key of a guest's extra, and of the annotation in audit events, that names its home tenant."""
GRANTS_EXTRA = "tenancy.x-k8s.io/grants"
"""Key of a guest's extra, and of the annotation in audit events, that names its grants."""


def guest(caller: Caller, tenant: str, grants: tuple[Granted, ...]) -> Caller:
    """Return a caller of another tenant as a guest of a tenant.

    Its user has a name that no user of the tenant has by accident, and neither groups nor extra of its home tenant, so
    that nothing in the tenant takes it for a user of its own.
    """
    extra = {HOME_EXTRA: (caller.tenant,), GRANTS_EXTRA: tuple(each.name for each in grants)}
    user = User(f"tenant:{caller.tenant}:{caller.user.name}", extra=extra)
    return Caller(user, tenant, home=caller.tenant, grants=grants)


def settle_tenant(caller: Caller, tenant_in_url: str | None) -> str:
    """Return the tenant of a request: that of the URL, otherwise that of the caller.

    Raises:
        StatusError: 403, the caller belongs to another tenant. The response does not reveal whether the tenant exists.
    """
    if tenant_in_url is None:
        return caller.tenant
    if caller.system or (tenant_in_url and tenant_in_url == caller.tenant):
        return tenant_in_url
    raise StatusError(403, "Forbidden", ELSEWHERE, empty_details=True)


def refusal(caller: Caller, asked: Asked, reason: str = "") -> StatusError:
    """Return a 403 with the message of apiserver's `responsewriters.ForbiddenStatusError`."""
    said = f"User {quoted(caller.user.name)} cannot {asked.verb} "
    if not asked.resource_request:
        return _forbidden("", said + f"path {quoted(asked.path)}", reason, {})
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    said += f"resource {quoted(resource)} in API group {quoted(asked.group)} "
    said += f"in the namespace {quoted(asked.namespace)}" if asked.namespace else "at the cluster scope"
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    subject = qualified(asked.resource, asked.group)
    if asked.name:
        subject += f" {quoted(asked.name)}"
    return _forbidden(f"{subject} is ", said, reason, {key: value for key, value in details.items() if value})


def _forbidden(subject: str, said: str, reason: str, details: dict[str, str]) -> StatusError:
    text = f"{said}: {reason}" if reason else said
    return StatusError(403, "Forbidden", f"{subject}forbidden: {text}", dict(details), empty_details=True)


def quoted(text: str) -> str:
    """Return a text as Go's `%q` formats it. The result is always valid UTF-8."""
    return '"' + "".join(_ESCAPES.get(each) or _shown(each) for each in text) + '"'


_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    number = ord(character)
    return (
        f"\\x{number:02x}"
        if number < 0x80
        else f"\\u{number:04x}"
        if number < 0x10000
        else f"\\U{number:08x}"
    )
