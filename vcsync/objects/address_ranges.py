"""Ranges of IP addresses in CIDR notation. Pure."""

import ipaddress

from vcsync.objects.text_cache import cache_short_texts

AddressRange = ipaddress.IPv4Network | ipaddress.IPv6Network


@cache_short_texts(4096, 128)
def address_range(text: str) -> AddressRange | None:
    """Return the range that a text such as `10.64.0.0/20` stands for; None if it is no range, or has bits beyond its prefix."""
    try:
        return ipaddress.ip_network(text) if "/" in text else None
    except ValueError:
        return None


@cache_short_texts(4096, 128)
def address_ranges(text: str) -> tuple[AddressRange, ...]:
    """Return the ranges of a text: one, or one of each family with a comma between; none if the text is something else.

    Kube-apiserver's `--service-cluster-ip-range` has this form, for example `10.64.0.0/20,fd00:64::/116`.
    """
    found = [address_range(each) for each in text.split(",")]
    ranges = tuple(each for each in found if each is not None)
    families = {each.version for each in ranges}
    return ranges if len(found) == len(ranges) == len(families) else ()


def has_address(within: AddressRange, address: str) -> bool:
    """Return whether an IP address is in a range."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return found.version == within.version and found in within


def covers(outer: AddressRange, inner: AddressRange) -> bool:
    """Return whether all addresses of a range are in another one."""
    return (
        outer.version == inner.version
        and outer.network_address <= inner.network_address  # type: ignore[operator]  # of the same version
        and outer.broadcast_address >= inner.broadcast_address  # type: ignore[operator]
    )
