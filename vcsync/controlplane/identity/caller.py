"""Who asks and what for, as authentication finds it out and authorization judges it. Pure."""

from dataclasses import dataclass
from typing import Protocol

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError, qualified

SYSTEM = "system"
"""The tenant of the operator and of vcsync's own programs."""
ALL = "all"
"""Names every tenant at once; only system callers may."""

ELSEWHERE = "forbidden: the credential is not valid here"
"""What a tenant's credential is told everywhere but in its own tenant."""

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        user: name, groups and what else policies may look at.
        tenant: from the credential alone; of an anonymous caller the one that the URL names, or "" for none.
        system: whether it is the operator or one of vcsync's own programs, who may name any tenant.
        impersonated: whether `user` is somebody the true caller may act as.
        constraint: the verb of constrained impersonation that allowed it, if that did.
    """

    user: User
    tenant: str
    system: bool = False
    impersonated: bool = False
    constraint: str = ""


class Asked(Protocol):
    """What is asked, as authorizers see it; a RequestInfo will do."""

    @property
    def verb(self) -> str:
        """`get`, `list`, ... for resources; the method in lower case for other paths."""

    @property
    def resource_request(self) -> bool:
        """Whether it is about a resource; otherwise about a path."""

    @property
    def path(self) -> str:
        """The URL's path without its tenant."""

    @property
    def group(self) -> str:
        """Of the resource."""

    @property
    def resource(self) -> str:
        """Its plural."""

    @property
    def subresource(self) -> str:
        """What follows the name, if anything."""

    @property
    def namespace(self) -> str:
        """Empty: in none, or in all."""

    @property
    def name(self) -> str:
        """Empty: none in particular."""

    @property
    def selected(self) -> tuple[tuple[str, str], ...]:
        """The fields, with their values, to which a field selector limits what is listed, watched or deleted."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked; see `Asked`."""

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
    """Whether it may be. `reason`: by what, or what stood in the way of knowing; may be empty."""

    allowed: bool
    reason: str = ""


def settle_tenant(caller: Caller, tenant_in_url: str | None) -> str:
    """Return the tenant that a request is about: the URL's, else the caller's own.

    Raises:
        StatusError: 403; the credential is not for that tenant. The answer does not depend on whether there is one.
    """
    if tenant_in_url is None:
        return caller.tenant
    if caller.system or (tenant_in_url and tenant_in_url == caller.tenant):
        return tenant_in_url
    raise StatusError(403, "Forbidden", ELSEWHERE, empty_details=True)


def refusal(caller: Caller, asked: Asked, reason: str = "") -> StatusError:
    """Say that the caller may not, in the words of apiserver's `responsewriters.ForbiddenStatusError`."""
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
    """Write a text as Go's `%q` does; what comes out can always be encoded."""
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
