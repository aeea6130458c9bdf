"""What identity providers outside may say of a caller, and what they may not. Pure.

Names that begin with `system:` are Kubernetes' own: a provider that asserts one would make its users nodes,
controllers or masters.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.identity.caller import ALL, AUTHENTICATED, SYSTEM
from vcsync.controlplane.identity.impersonation import with_group
from vcsync.controlplane.identity.tokens import TokenError

RESERVED = "system:"
MAX_GROUPS = 512
MAX_EXTRA = 256
MAX_TEXT = 1024
"""Characters of a name or group."""
_KUBERNETES = ("kubernetes.io", "k8s.io")


@dataclass(frozen=True, slots=True)
class Identified:
    """Whom a token identifies, and in which tenant. `audiences`: whom it is meant for; None: this server."""

    user: User
    tenant: str
    audiences: tuple[str, ...] | None = None


def of_tenant(tenant: object, *, claimed: bool, exists: Callable[[str], bool]) -> str:
    """Return the tenant that a caller is of.

    Args:
        tenant: what was configured, or claimed.
        claimed: whether the token, or the webhook, says it: then it is never the operator's own space.
        exists: tells whether there is such a tenant.

    Raises:
        TokenError: it is none, or one that cannot be claimed.
    """
    if not isinstance(tenant, str) or not tenant:
        raise TokenError("the token names no tenant")
    if tenant == ALL or (claimed and tenant == SYSTEM) or not exists(tenant):
        raise TokenError("the token names a tenant that it cannot be of")
    return tenant


def checked(user: User, *, reserved: Iterable[str] = (RESERVED,)) -> User:
    """Return a user whom a provider outside asserts, without groups and extra that it cannot give.

    Raises:
        TokenError: it asserts one of Kubernetes' own users, or more than makes sense.
    """
    prefixes = tuple(reserved)
    if not user.name or user.name.startswith(RESERVED):
        raise TokenError(f"a user from outside has a name that does not begin with {RESERVED}")
    if len(user.groups) > MAX_GROUPS or len(user.extra) > MAX_EXTRA:
        raise TokenError("the user has too many groups or too much extra")
    if any(len(text) > MAX_TEXT for text in (user.name, user.uid, *user.groups)):
        raise TokenError("a name or group of the user is too long")
    groups = tuple(dict.fromkeys(each for each in user.groups if each and not each.startswith(prefixes)))
    extra = {key: tuple(values) for key, values in user.extra.items() if not is_kubernetes(key)}
    return User(user.name, user.uid, with_group(groups, AUTHENTICATED), extra)


def is_kubernetes(key: str) -> bool:
    """Whether a key of extra is below one of Kubernetes' own domains, which authorization trusts."""
    domain = key.partition("/")[0].lower()
    return any(domain == each or domain.endswith(f".{each}") for each in _KUBERNETES)
