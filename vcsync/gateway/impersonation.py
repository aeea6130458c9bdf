"""The headers that make an external API server act as a user. Pure.

Behaviour of the server: apiserver's `endpoints/filters/impersonation`. It adds `system:authenticated` to every
impersonated user, and a ServiceAccount's groups to a ServiceAccount that is impersonated without groups. So no group of
Kubernetes' own is ever sent, and the gateway needs no right to impersonate one.
"""

import unicodedata
from urllib.parse import quote

from vcsync.api import names
from vcsync.apimachinery.errors import StatusError, forbidden
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization.policy import ACCOUNT_PREFIX
from vcsync.apiserver.request.caller import ANONYMOUS, AUTHENTICATED, quoted
from vcsync.gateway.headers import Pairs
from vcsync.objects.text_cache import cache_short_texts

SYSTEM_PREFIX = "system:"
"""Prefix of the groups that Kubernetes reserves for itself."""
ACCOUNTS = "system:serviceaccounts"
KEPT = 1024
"""Number of texts whose form as a header is remembered, because each request of a user has the same ones."""
_SAFE = "-._"
"""Punctuation in the key of an extra that a header name can contain as it is."""


def impersonation_headers(user: User) -> Pairs:
    """Return the Impersonate-* headers for exactly this user.

    Raises:
        StatusError: 403, the user is anonymous, is in a group of Kubernetes' own or in that of the gateway's reader, or cannot
            be written as headers.
    """
    if not user.name or user.name == ANONYMOUS:
        raise _refused(user, "anonymous users have no access to an external control plane")
    headers = [("Impersonate-User", _value(user, user.name))]
    if user.uid:
        headers.append(("Impersonate-Uid", _value(user, user.uid)))
    headers += [("Impersonate-Group", _value(user, group)) for group in _own_groups(user)]
    headers += [
        (f"Impersonate-Extra-{_key(user, key)}", _value(user, value))
        for key, values in user.extra.items()
        for value in values
    ]
    return headers


def _own_groups(user: User) -> list[str]:
    """Return the groups of a user besides those that the API server adds itself."""
    implied = {AUTHENTICATED, *_account_groups(user.name)}
    groups = [group for group in user.groups if group not in implied]
    for group in groups:
        if _plain(group).startswith(SYSTEM_PREFIX) or _plain(group) == names.TENANT_READERS:
            raise _refused(user, f"the group {quoted(group)} is not available in an external control plane")
    missing = implied - set(user.groups)
    if missing or (groups and len(implied) > 1):
        raise _refused(user, "its groups are not those that the external control plane would give it")
    return groups


def _account_groups(name: str) -> tuple[str, ...]:
    """Return the groups of the ServiceAccount with a user name, or nothing for other users."""
    namespace, colon, account = name.removeprefix(ACCOUNT_PREFIX).partition(":")
    is_account = name.startswith(ACCOUNT_PREFIX) and colon and namespace and account and ":" not in account
    return (ACCOUNTS, f"{ACCOUNTS}:{namespace}") if is_account else ()


def _key(user: User, key: str) -> str:
    if not (encoded := encoded_key(key)):
        raise _refused(user, "the keys of its extra must not be empty or malformed")
    return encoded


@cache_short_texts(KEPT, 256)
def encoded_key(key: str) -> str:
    """Return the key of an extra as part of a header name, or an empty text if it is malformed.

    The server makes header names lower case and then decodes them, so capital letters are encoded too.
    """
    if any(unicodedata.category(each) == "Cs" for each in key):
        return ""
    return "".join(
        f"%{ord(each):02x}" if each.isascii() and each.isupper() else quote(each, safe=_SAFE) for each in key
    )


def _value(user: User, value: str) -> str:
    """Return a text as the value of a header, which must not be empty, have spaces around it or control characters."""
    if not is_clean(value):
        raise _refused(user, "its name, groups and extra must not be empty or contain control characters")
    return value


@cache_short_texts(KEPT, 256)
def is_clean(value: str) -> bool:
    """Return whether a text means the same as the value of a header: it is not empty, and has no spaces around it."""
    return (
        value != ""
        and value == value.strip()
        and not any(unicodedata.category(each) in ("Cc", "Cs") for each in value)
    )


@cache_short_texts(KEPT, 256)
def _plain(group: str) -> str:
    """Return the name of a group without characters that other programs may ignore."""
    normal = unicodedata.normalize("NFKC", group)
    return "".join(each for each in normal if unicodedata.category(each)[0] not in "CZ").casefold()


def _refused(user: User, why: str) -> StatusError:
    return forbidden("users", "", user.name, why)
