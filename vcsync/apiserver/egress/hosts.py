"""The operator's list of hosts whose URLs may be called. Pure."""

from dataclasses import dataclass

HTTPS = 443
ANY_PORT = 0


@dataclass(frozen=True, slots=True)
class HostPattern:
    """One entry of the list.

    Attributes:
        host: Host in lower case. `*.example.com` matches every host below example.com.
        port: Port, or `ANY_PORT`.
        tenant: Tenant that the entry is for. Empty: all tenants.
    """

    host: str
    port: int = HTTPS
    tenant: str = ""

    def matches(self, host: str, port: int, tenant: str) -> bool:
        """Return whether a tenant may call a host and port."""
        if self.tenant not in ("", tenant) or self.port not in (ANY_PORT, port):
            return False
        if self.host.startswith("*."):
            return host.endswith(self.host[1:]) and len(host) > len(self.host) - 1
        return host == self.host


def parse_host(text: str, tenant: str = "") -> HostPattern:
    """Parse an entry such as `hooks.example.com`, `*.example.com:8443`, `[2001:db8::1]:443` or `10.1.2.3:*`.

    Raises:
        ValueError: The text is not a valid entry. The message says why.
    """
    if "/" in text or "@" in text:
        raise ValueError("it is HOST[:PORT], without scheme and path")
    host, port = text.lower(), ""
    if host.startswith("["):
        host, bracket, rest = host[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError("an IPv6 address is written [ADDRESS] or [ADDRESS]:PORT")
        port = rest[1:]
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    if not host or "*" in host.removeprefix("*.") or host == "*." or any(each.isspace() for each in host):
        raise ValueError("the host is a name, an address, or *. and a domain")
    if port == "*":
        return HostPattern(host, ANY_PORT, tenant)
    if port and not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise ValueError("the port is a number from 1 to 65535, or *")
    return HostPattern(host, int(port or HTTPS), tenant)


def canonical(host: str) -> str:
    """Return a host in the form that patterns match: lower case, without a trailing dot."""
    return host.lower().removesuffix(".")
