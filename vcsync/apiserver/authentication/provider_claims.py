"""Limits what external identity providers may assert about a user. Pure.

Names that start with `system:` belong to Kubernetes: a provider that asserts one could make its users nodes, controllers
or masters.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authentication.tokens import TokenError
from vcsync.apiserver.authorization.impersonation import with_group
from vcsync.apiserver.request.caller import ALL, AUTHENTICATED, SYSTEM

RESERVED = "system:"
MAX_GROUPS = 512
MAX_EXTRA = 256
MAX_TEXT = 1024
"""Most characters of a name or group."""
_KUBERNETES = ("kubernetes.io", "k8s.io")


@dataclass(frozen=True, slots=True)
class Identified:
    """The user and tenant of a token. `audiences`: its audiences, or None for this server."""

    user: User
    tenant: str
    audiences: tuple[str, ...] | None = None


def of_tenant(tenant: object, *, claimed: bool, exists: Callable[[str], bool]) -> str:
    """Return the tenant of a user.

    Args:
        tenant: The configured or claimed tenant.
        claimed: Whether the token or the webhook names the tenant. It cannot name the system space.
        exists: Tells whether a tenant exists.

    Raises:
        TokenError: The tenant does not exist or cannot be claimed.
    """
    if not isinstance(tenant, str) or not tenant:
        raise TokenError("the token names no tenant")
    if tenant == ALL or (claimed and tenant == SYSTEM) or not exists(tenant):
        raise TokenError("the token names a tenant that it cannot be of")
    return tenant


def checked(user: User, *, reserved: Iterable[str] = (RESERVED,)) -> User:
    """Return the user of an external provider without groups and extra that it must not assert.

    Raises:
        TokenError: The name belongs to Kubernetes, or a value is too long.
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
    """Tell whether a key of extra belongs to a domain of Kubernetes, which authorization trusts."""
    domain = key.partition("/")[0].lower()
    return any(domain == each or domain.endswith(f".{each}") for each in _KUBERNETES)
