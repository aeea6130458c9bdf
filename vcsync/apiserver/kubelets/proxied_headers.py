"""The headers that pass between a client and the program in a Pod that it reaches by the subresource `proxy`. Pure.

Programs need headers of their own, so all pass but those listed here. Credentials and cookies are among these: programs of a
tenant must not learn the credentials of its users, nor leave cookies for an address that all tenants share.
"""

from collections.abc import Iterable, Mapping
from typing import Final

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers about a single connection (RFC 9110, section 7.6.1)."""
_NOT_SENT = _HOP_BY_HOP | {
    "accept-encoding",
    "authorization",
    "content-length",
    "cookie",
    "expect",
    "x-forwarded-for",
}
"""Links in compressed pages could not be translated, so none is asked for."""
_NOT_SENT_PREFIXES = ("audit-id", "impersonate-", "x-remote-", "x-kubernetes-")
_NOT_RETURNED = _HOP_BY_HOP | {
    "alt-svc",
    "audit-id",
    "clear-site-data",
    "content-length",
    "content-type",
    "date",
    "set-cookie",
    "strict-transport-security",
    "www-authenticate",
}
"""Among them are headers that browsers apply to everything at the same address."""
_NOT_RETURNED_PREFIXES = ("access-control-allow-", "x-kubernetes-")
SANDBOX: Final = {"Content-Security-Policy": "sandbox allow-forms allow-scripts"}
"""Headers for callers of other tenants and operators: pages of a tenant must not act with the rights of their browsers."""


def sent_headers(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the headers of a client's request that a program receives, besides the length of its body."""
    connection = [value for name, value in headers.items() if name.lower() == "connection"]
    named = {each.strip().lower() for value in connection for each in value.split(",")}
    return [
        (name, value)
        for name, value in headers.items()
        if name.lower() not in _NOT_SENT
        and name.lower() not in named
        and not name.lower().startswith(_NOT_SENT_PREFIXES)
    ]


def returned_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers of a program's answer that the client receives, besides its type and length."""
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in _NOT_RETURNED and not name.lower().startswith(_NOT_RETURNED_PREFIXES)
    ]
