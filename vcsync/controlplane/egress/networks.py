"""Which addresses may be called: public ones, and those of networks that the operator names. Pure."""

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
"""What is not public: loopback, link-local, private, shared, multicast, unspecified and reserved addresses (IANA's
special-purpose registries), all of IPv6 but 2000::/3. Cloud metadata lies within."""
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
"""Where clouds hand out a machine's credentials: only an allowed network of this one address opens it."""
CARRIERS = (
    (ip_network("::/96"), 0),
    (ip_network("::ffff:0:0/96"), 0),
    (ip_network("::ffff:0:0:0/96"), 0),
    (ip_network("64:ff9b::/96"), 0),
    (ip_network("64:ff9b:1::/48"), None),
    (ip_network("2002::/16"), 80),
    (ip_network("2001::/32"), None),
)
"""IPv6 networks whose addresses stand for IPv4 ones, and how far right of them the IPv4 address lies, in bits; None:
it is not told by the address alone, or hidden: none of these is ever called."""


def undisguised(address: Address) -> Address | None:
    """Return the address that is truly reached; None: what that is cannot be told.

    IPv4-compatible, IPv4-mapped, IPv4-translated, NAT64 and 6to4 addresses stand for an IPv4 address.
    """
    if isinstance(address, IPv4Address) or int(address) in (0, 1):
        return address
    if address.scope_id is not None:
        return None
    for network, shift in CARRIERS:
        if address in network:
            return None if shift is None else IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return address


def parse_network(text: str) -> Network:
    """Read `10.0.0.0/8` or `10.1.2.3`.

    Raises:
        ValueError: it is no network; the message says why.
    """
    return ip_network(text)


@dataclass(frozen=True, slots=True)
class Allowed:
    """One network that the operator allows; `tenant` empty: to all tenants."""

    network: Network
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Networks:
    """The operator's choice.

    Attributes:
        allowed: networks beyond the public ones. One that reaches beyond a special range does not open that range:
            `0.0.0.0/0` opens neither loopback nor private networks, `127.0.0.1/32` opens loopback.
        denied: public networks of the operator's own; they win.
    """

    allowed: Sequence[Allowed] = ()
    denied: Sequence[Network] = ()

    def named(self, address: Address, tenant: str) -> bool:
        """Whether an allowed network names this address for this tenant."""
        real = undisguised(address)
        if real is None or _within(real, self.denied):
            return False
        special = [each for each in SPECIAL if _in(real, each)]
        return any(
            _in(real, each.network) and each.tenant in ("", tenant) and _opens(each.network, real, special)
            for each in self.allowed
        )

    def permits(self, address: Address, tenant: str) -> bool:
        """Whether this tenant may have an address called: it is public or named."""
        real = undisguised(address)
        if real is None or _within(real, self.denied):
            return False
        return is_public(real) or self.named(real, tenant)


def is_public(address: Address) -> bool:
    """Whether an address, as it is, belongs to the open Internet."""
    return not _within(address, SPECIAL)


def _opens(network: Network, address: Address, special: Sequence[Network]) -> bool:
    if address in METADATA:
        return network.num_addresses == 1
    return all(
        each.version == network.version and network.subnet_of(each)  # type: ignore[arg-type]  # of one version
        for each in special
    )


def _in(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network


def _within(address: Address, networks: Sequence[Network]) -> bool:
    return any(_in(address, each) for each in networks)
