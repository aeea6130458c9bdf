"""Decides which addresses may be called: public ones, and those in networks that the operator names. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(each) for each in texts)


SPECIAL = _networks(
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/3",
    "4000::/2",
    "8000::/1",
    "::/128",
    "::1/128",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2001:db8::/32",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
)
"""Networks that are not public: loopback, link-local, private, shared, multicast, unspecified and reserved addresses
(IANA's special-purpose registries), and all of IPv6 except 2000::/3. They include the addresses of cloud metadata."""
METADATA = frozenset(
    ip_address(each)
    for each in (
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
    )
)
"""Metadata services of clouds, which return the credentials of a machine. Only an allowed network that consists of this
one address opens it."""
EMBEDDED_IPV4 = (
    (ip_network("::/96"), 0),
    (ip_network("::ffff:0:0/96"), 0),
    (ip_network("::ffff:0:0:0/96"), 0),
    (ip_network("64:ff9b::/96"), 0),
    (ip_network("64:ff9b:1::/48"), None),
    (ip_network("2002::/16"), 80),
    (ip_network("2001::/32"), None),
)
"""IPv6 networks whose addresses contain an IPv4 address, and the number of bits behind that address. None: the IPv4
address is obfuscated or depends on the local network, so that these addresses are never called."""


def effective_address(address: Address) -> Address | None:
    """Return the address that connections to an address reach, or None if it cannot be determined.

    IPv4-compatible, IPv4-mapped, IPv4-translated, NAT64 and 6to4 addresses contain an IPv4 address.
    """
    if isinstance(address, IPv4Address) or int(address) in (0, 1):
        return address
    if address.scope_id is not None:
        return None
    for network, shift in EMBEDDED_IPV4:
        if address in network:
            return None if shift is None else IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return address


def parse_network(text: str) -> Network:
    """Parse a network or an address such as `10.0.0.0/8` or `10.1.2.3`.

    Raises:
        ValueError: The text is not a network. The message says why.
    """
    return ip_network(text)


@dataclass(frozen=True, slots=True)
class Allowed:
    """A network that the operator allows.

    Attributes:
        network: The network.
        tenant: Tenant that it is allowed to. Empty: all tenants.
    """

    network: Network
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Networks:
    """The networks that the operator allows and denies.

    Attributes:
        allowed: Allowed networks beyond the public ones. A network that is larger than a special range does not open
            that range: `0.0.0.0/0` opens neither loopback nor private networks, `127.0.0.1/32` opens loopback.
        denied: Public networks that belong to the operator. They take precedence.
    """

    allowed: Sequence[Allowed] = ()
    denied: Sequence[Network] = ()

    def named(self, address: Address, tenant: str) -> bool:
        """Return whether an allowed network of a tenant contains an address."""
        real = effective_address(address)
        if real is None or _within(real, self.denied):
            return False
        special = [each for each in SPECIAL if _in(real, each)]
        return any(
            _in(real, each.network) and each.tenant in ("", tenant) and _opens(each.network, real, special)
            for each in self.allowed
        )

    def permits(self, address: Address, tenant: str) -> bool:
        """Return whether an address may be called for a tenant: it is public or in an allowed network."""
        real = effective_address(address)
        if real is None or _within(real, self.denied):
            return False
        return is_public(real) or self.named(real, tenant)


def is_public(address: Address) -> bool:
    """Return whether an address is public. Embedded IPv4 addresses are not considered."""
    return not _within(address, SPECIAL)


def _opens(network: Network, address: Address, special: Sequence[Network]) -> bool:
    if address in METADATA:
        return network.num_addresses == 1
    return all(
        each.version == network.version and network.subnet_of(each)  # type: ignore[arg-type]  # same version
        for each in special
    )


def _in(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network


def _within(address: Address, networks: Sequence[Network]) -> bool:
    return any(_in(address, each) for each in networks)
