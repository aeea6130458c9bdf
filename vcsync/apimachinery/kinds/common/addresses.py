"""Validation of IP addresses and CIDRs in fields of objects. Pure.

The rules are those of apimachinery's `util/validation/ip.go` with strict validation, as kube-apiserver 1.36 has it.
"""

import ipaddress
from collections.abc import Sequence

from vcsync.apimachinery import errors
from vcsync.apimachinery.validation.fields import Findings
from vcsync.patterns.linear import linear

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_LONGEST = 64
_DIGITS = linear("[0-9]{1,32}")
_BITS = linear("[0-9]{1,4}")
_BAD_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_BAD_INTERFACE = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
_BAD_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def parse(text: str) -> Address | None:
    """Parse an IP address. IPv4 addresses may have leading zeros. Return None if the text is no address."""
    if len(text) > _LONGEST or "%" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        pass
    parts = text.split(".")
    if len(parts) == 4 and all(_DIGITS.fullmatch(each) for each in parts):
        try:
            return ipaddress.IPv4Address(".".join(str(int(each)) for each in parts))
        except ValueError:
            return None
    return None


def shown(address: Address) -> str:
    """Format an address as Go does: an IPv4-mapped IPv6 address as its IPv4 address."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(address)


def is_v6(text: str) -> bool:
    """Return whether a text is an IPv6 address. An IPv4-mapped one counts as IPv4."""
    found = parse(text)
    return isinstance(found, ipaddress.IPv6Address) and not found.ipv4_mapped


def address(path: str, value: str, known: Sequence[str] = ()) -> Findings:
    """Check an IP address. Values in `known`, those of the stored object, are accepted as they are."""
    if value in known:
        return
    found = parse(value)
    if found is None:
        yield errors.wrong(path, value, _BAD_ADDRESS)
    elif isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            yield errors.wrong(path, value, "must not be an IPv4-mapped IPv6 address")
    elif any(len(each) > 1 and each[0] == "0" for each in value.split(".")):
        yield errors.wrong(path, value, "must not have leading 0s")


def canonical_address(path: str, value: str) -> Findings:
    """Check that an IP address is valid and in canonical form."""
    found = list(address(path, value))
    yield from found
    parsed = parse(value)
    if not found and parsed is not None and str(parsed) != value:
        yield errors.wrong(path, value, f'must be in canonical form ("{parsed}")')


def _parse_range(value: str) -> tuple[Address, int] | None:
    host, slash, length = value.partition("/")
    found = parse(host) if slash else None
    if found is None or not _BITS.fullmatch(length) or int(length) > found.max_prefixlen:
        return None
    return found, int(length)


def cidr(path: str, value: str, known: Sequence[str] = ()) -> Findings:
    """Check a CIDR. Values in `known`, those of the stored object, are accepted as they are."""
    if value in known:
        return
    found = _parse_range(value)
    if found is None:
        yield errors.wrong(path, value, _BAD_RANGE)
        return
    host, length = found
    text = value.partition("/")
    zeros = any(len(each) > 1 and each[0] == "0" for each in text[0].split(".")) and host.version == 4
    if zeros or (len(text[2]) > 1 and text[2][0] == "0"):
        yield errors.wrong(path, value, "must not have leading 0s in IP or prefix length")
    elif isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped:
        yield errors.wrong(path, value, "must not have an IPv4-mapped IPv6 address")
    elif int(host) & ((1 << (host.max_prefixlen - length)) - 1):
        yield errors.wrong(path, value, "must not have bits set beyond the prefix length")


def canonical_cidr(path: str, value: str) -> Findings:
    """Check that a CIDR is valid and in canonical form."""
    found = list(cidr(path, value))
    yield from found
    parsed = _parse_range(value)
    if not found and parsed is not None and f"{parsed[0]}/{parsed[1]}" != value:
        yield errors.wrong(path, value, f'must be in canonical form ("{parsed[0]}/{parsed[1]}")')


def interface_address(path: str, value: str) -> Findings:
    """Check that an interface address with its prefix length is valid and in canonical form."""
    parsed = _parse_range(value)
    if parsed is None:
        yield errors.wrong(path, value, _BAD_INTERFACE)
        return
    host, length = parsed
    mapped = host.ipv4_mapped if isinstance(host, ipaddress.IPv6Address) else None
    if mapped is not None and length > mapped.max_prefixlen:
        length -= host.max_prefixlen - mapped.max_prefixlen
    if value != f"{shown(host)}/{length}":
        yield errors.wrong(path, value, f'must be in canonical form ("{shown(host)}/{length}")')


def range_of(value: str) -> tuple[Address, int] | None:
    """Return a CIDR's address and prefix length, or None if the text is no CIDR."""
    return _parse_range(value)


def dual(found: Sequence[str]) -> bool:
    """Return whether the addresses contain both IP families."""
    return {is_v6(each) for each in found} == {True, False}


def reachable(path: str, value: str) -> Findings:
    """Check an endpoint's address: it must not be unspecified, loopback or link-local."""
    found = parse(value)
    if found is None:
        yield errors.wrong(path, value, "must be a valid IP address")
        return
    if found.is_unspecified:
        yield errors.wrong(path, value, f"may not be unspecified ({value})")
    if found.is_loopback:
        yield errors.wrong(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if found.is_link_local:
        yield errors.wrong(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if _link_local_multicast(found):
        yield errors.wrong(
            path, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        )


def _link_local_multicast(found: Address) -> bool:
    if found.version == 4:
        return found in ipaddress.ip_network("224.0.0.0/24")
    return found.packed[0] == 0xFF and found.packed[1] & 0x0F == 2
