"""Host names of tenants: `TENANT.DOMAIN` names a tenant as the path `/tenants/TENANT` does. Pure.

A host name is compared as text, without its letters' case and one dot at the end. Nothing is decoded or looked up, so that two
servers cannot read a name differently, and an answer does not tell which tenants exist.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vcsync.api.names import is_dns_label
from vcsync.apimachinery.errors import StatusError, bad_request
from vcsync.apiserver.request.caller import ALL, SYSTEM
from vcsync.apiserver.request.request_info import RequestInfo
from vcsync.patterns.linear import linear

MISDIRECTED = 421
MAX_DOMAIN = 253 - 1 - 63
"""Characters of a domain, so that every tenant has a host name below it."""
_LABEL = r"[A-Za-z0-9_-]+"
_HOST = linear(rf"(?P<name>\[[0-9A-Fa-f:.]*\]|(?:{_LABEL}(?:\.{_LABEL})*\.?)?)(?::[0-9]{{0,5}})?")
"""A Host header: an IPv6 literal, an IPv4 address, a host name or nothing, and a port."""
_AGREE = (
    "the request's Host is not the host name for which its TLS connection was opened; open a new connection"
)


def domain_problem(domain: str) -> str:
    """Return why tenants cannot have host names below a domain, or an empty text if they can."""
    labels = domain.split(".")
    if not all(is_dns_label(label) for label in labels) or labels[-1].isdigit():
        return "give a DNS name in lower case letters, without a dot at its beginning or end, like tenants.example.com"
    if len(labels) == 1:
        return "TLS clients accept no wildcard certificate for it: give at least two labels, like tenants.example.com"
    return f"give at most {MAX_DOMAIN} characters" if len(domain) > MAX_DOMAIN else ""


@dataclass(frozen=True, slots=True)
class HostNames:
    """The host names of tenants below a domain.

    Attributes:
        domain: The domain, for which `domain_problem` finds nothing.
    """

    domain: str

    def resolve(self, info: RequestInfo, hosts: Sequence[str], server_name: str | None) -> RequestInfo:
        """Return a RequestInfo with the tenant that the host name of the request names, if it names one.

        Args:
            info: What the path says.
            hosts: Values of all Host headers.
            server_name: Name that the client asked for in its TLS handshake, empty if it asked for none. None: there was
                no handshake.

        Raises:
            StatusError: 400, the host name is malformed, below the domain but no tenant's, or another tenant's than the path
                names; 421, the connection was opened for another host name.
        """
        tenant = self._tenant(hosts, server_name)
        if tenant is None:
            return info
        if info.tenant is None:
            return replace(info, tenant=tenant, by_host=True)
        if info.tenant != tenant:
            raise bad_request(
                "the request's path names another tenant than its host name: leave one of them out"
            )
        return info

    def covers(self, name: str) -> bool:
        """Tell whether a host name is below the domain."""
        return _normal(name).endswith(f".{self.domain}")

    def _tenant(self, hosts: Sequence[str], server_name: str | None) -> str | None:
        if len(hosts) > 1:
            raise bad_request("the request has several Host headers")
        match = _HOST.fullmatch(hosts[0]) if hosts else None
        if hosts and match is None:
            raise bad_request("the request's Host is not a host name or an address")
        name = match["name"] if match else ""
        label = _normal(name).removesuffix(f".{self.domain}") if self.covers(name) else None
        if label is not None and (not is_dns_label(label) or label in (ALL, SYSTEM)):
            raise bad_request(
                f"the request's Host is no host name of a tenant: these are TENANT.{self.domain}"
            )
        if server_name is None or _normal(name) == _normal(server_name):
            return label
        if label is not None or self.covers(server_name):
            raise StatusError(MISDIRECTED, "", _AGREE)
        return None


def _normal(name: str) -> str:
    return name.removesuffix(".").lower()
