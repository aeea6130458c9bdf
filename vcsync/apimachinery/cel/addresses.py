"""IP addresses and CIDRs: the texts that Go's `net/netip` accepts, its messages, and the CEL functions. Pure.

Source: `ip.go` and `cidr.go` of k8s.io/apiserver's `pkg/cel/library`.
"""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from vcsync.apimachinery import gotext
from vcsync.apimachinery.cel.arguments import Function, of_types, succeeds
from vcsync.apimachinery.cel.values import CelError, NoOverload, Work
from vcsync.patterns.linear import linear

_IP = ipaddress.IPv4Address | ipaddress.IPv6Address
_GROUPS, _LONGEST_GROUP = 8, 4
_BITS = linear("[0-9]|[1-9][0-9]{1,17}")
_HEX = linear("[0-9a-fA-F]*")


class InvalidAddress(ValueError):
    """The text is no address. The message is that of `netip.ParseAddr`."""


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address."""

    value: _IP
    type_name: ClassVar[str] = "net.IP"

    @property
    def size(self) -> int:
        """The length of the address in bytes."""
        return self.value.max_prefixlen // 8

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Range:
    """A CIDR as it was written. Address bits beyond the prefix may be set."""

    value: ipaddress.IPv4Interface | ipaddress.IPv6Interface
    type_name: ClassVar[str] = "net.CIDR"

    @property
    def size(self) -> int:
        """The length of the prefix in bytes."""
        return -(-self.value.network.prefixlen // 8)

    def __str__(self) -> str:
        return str(self.value)


def _fault(text: str, why: str, at: str = "") -> InvalidAddress:
    where = f" (at {gotext.quoted(at)})" if at else ""
    return InvalidAddress(f"ParseAddr({gotext.quoted(text)}): {why}{where}")


def parse(text: str) -> tuple[_IP, str]:
    """Parse an address; return it and its zone, which is empty if the text has none.

    Raises:
        InvalidAddress: the text is no address.
    """
    for each in text:
        if each == ".":
            return ipaddress.IPv4Address(_fields(text, text)), ""
        if each == ":":
            return _parse_v6(text)
        if each == "%":
            raise _fault(text, "missing IPv6 address")
    raise _fault(text, "unable to parse IP")


def _fields(whole: str, part: str) -> int:
    """Return the value of four decimal fields, which are a part of an address or all of it."""
    total = value = digits = fields = 0
    for at, each in enumerate(part):
        if each in "0123456789":
            if digits == 1 and value == 0:
                raise _fault(whole, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(each), digits + 1
            if value > 255:
                raise _fault(whole, "IPv4 field has value >255")
        elif each == ".":
            if at in (0, len(part) - 1) or part[at - 1] == ".":
                raise _fault(whole, "IPv4 field must have at least one digit", part[at:])
            if fields == 3:
                raise _fault(whole, "IPv4 address too long")
            total, value, digits, fields = total << 8 | value, 0, 0, fields + 1
        else:
            raise _fault(whole, "unexpected character", part[at:])
    if fields < 3:
        raise _fault(whole, "IPv4 address too short")
    return total << 8 | value


def _parse_v6(text: str) -> tuple[_IP, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _fault(text, "zone must be a non-empty string")
    groups: list[int] = []
    gap = -1
    """Number of groups before `::`, or -1."""
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
    while rest and len(groups) < _GROUPS:
        digits = _group(text, rest)
        after = rest[len(digits) :]
        if after.startswith("."):
            _check_embedded(text, rest, len(groups), gap)
            fields = _fields(text, rest)
            groups += [fields >> 16, fields & 0xFFFF]
            rest = ""
            break
        groups.append(int(digits, 16))
        rest = after
        if not rest:
            break
        if not rest.startswith(":"):
            raise _fault(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _fault(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest.startswith(":"):
            if gap >= 0:
                raise _fault(text, "multiple :: in address", rest)
            gap, rest = len(groups), rest[1:]
    if rest:
        raise _fault(text, "trailing garbage after address", rest)
    return ipaddress.IPv6Address(_whole(text, groups, gap)), zone


def _group(text: str, rest: str) -> str:
    """Return the hexadecimal digits at the start of the rest."""
    digits = _HEX.match(rest)
    found = digits[0] if digits is not None else ""
    if len(found) > _LONGEST_GROUP:
        raise _fault(text, "each group must have 4 or less digits", rest)
    if not found:
        raise _fault(text, "each colon-separated field must have at least one digit", rest)
    return found


def _check_embedded(text: str, rest: str, groups: int, gap: int) -> None:
    """Check that an IPv4 address may stand after this number of groups."""
    if gap < 0 and groups != _GROUPS - 2:
        raise _fault(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if groups > _GROUPS - 2:
        told = "too many hex fields to fit an embedded IPv4 at the end of the address"
        raise _fault(text, told, rest)


def _whole(text: str, groups: list[int], gap: int) -> int:
    """Return the number of an address, with zeros in the place of `::`."""
    lacking = _GROUPS - len(groups)
    if lacking and gap < 0:
        raise _fault(text, "address string too short")
    if not lacking and gap >= 0:
        raise _fault(text, "the :: must expand to at least one field of zeros")
    total = 0
    for each in [*groups[: max(gap, 0)], *[0] * lacking, *groups[max(gap, 0) :]]:
        total = total << 16 | each
    return total


def _mapped(value: _IP) -> bool:
    return isinstance(value, ipaddress.IPv6Address) and value.ipv4_mapped is not None


@of_types(str)
def _address(_: Work, text: str) -> Address:
    try:
        found, zone = parse(text)
    except InvalidAddress as why:
        told = f"IP Address {gotext.quoted(text)} parse error during conversion from string: {why}"
        raise CelError(told) from None
    if zone:
        raise CelError(f"IP address {gotext.quoted(text)} with zone value is not allowed")
    if _mapped(found):
        raise CelError(f"IPv4-mapped IPv6 address {gotext.quoted(text)} is not allowed")
    return Address(found)


def _parse_range(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    """Parse a CIDR; raise InvalidAddress with the message of `netip.ParsePrefix`."""
    fault = f"netip.ParsePrefix({gotext.quoted(text)}): "
    host, slash, bits = text.rpartition("/")
    if not slash:
        raise InvalidAddress(f"{fault}no '/'")
    try:
        found, zone = parse(host)
    except InvalidAddress as why:
        raise InvalidAddress(f"{fault}{why}") from None
    if zone:
        raise InvalidAddress(f"{fault}IPv6 zones cannot be present in a prefix")
    if not _BITS.fullmatch(bits):
        raise InvalidAddress(f"{fault}bad bits after slash: {gotext.quoted(bits)}")
    if int(bits) > found.max_prefixlen:
        raise InvalidAddress(f"{fault}prefix length out of range")
    return ipaddress.ip_interface((int(found) if found.version == 4 else found, int(bits)))


@of_types(str)
def _range(_: Work, text: str) -> Range:
    fault = "network address parse error during conversion from string: "
    try:
        found = _parse_range(text)
    except InvalidAddress as why:
        raise CelError(f"{fault}{fault}{why}") from None
    if _mapped(found.ip):
        raise CelError(f"{fault}IPv4-mapped IPv6 address {gotext.quoted(text)} is not allowed")
    return Range(found)


def _ip(work: Work, value: Any) -> Any:
    return Address(value.value.ip) if isinstance(value, Range) else _address(work, value)


@of_types(Range)
def _contains_ip(work: Work, own: Range, other: Any) -> bool:
    try:
        address = other if isinstance(other, Address) else _address(work, other)
    except CelError:
        raise NoOverload from None
    return address.value in own.value.network


@of_types(Range)
def _contains_cidr(work: Work, own: Range, other: Any) -> bool:
    network = own.value.network
    inner = (other if isinstance(other, Range) else _range(work, other)).value
    return bool(
        inner.version == network.version
        and inner.network.prefixlen >= network.prefixlen
        and inner.ip in network
    )


def _about(check: Callable[[Any], Any]) -> Function:
    return of_types(Address)(lambda _, value: check(value.value))


def _link_local_multicast(value: _IP) -> bool:
    if isinstance(value, ipaddress.IPv4Address):
        return value in ipaddress.ip_network("224.0.0.0/24")
    return value.packed[0] == 0xFF and value.packed[1] & 0x0F == 2


def _global(value: _IP) -> bool:
    broadcast = value.version == 4 and int(value) == 2**32 - 1
    return not (
        value.is_unspecified or value.is_loopback or value.is_multicast or value.is_link_local or broadcast
    )


def _of_range(get: Callable[[Any], Any]) -> Function:
    return of_types(Range)(lambda _, value: get(value.value))


FUNCTIONS: dict[str, Function] = {
    "ip": _ip,
    "isIP": succeeds(_address),
    "ip.isCanonical": lambda work, text: str(_address(work, text)) == text,
    "family": _about(lambda value: value.version),
    "isUnspecified": _about(lambda value: value.is_unspecified),
    "isLoopback": _about(lambda value: value.is_loopback),
    "isLinkLocalMulticast": _about(_link_local_multicast),
    "isLinkLocalUnicast": _about(lambda value: value.is_link_local),
    "isGlobalUnicast": _about(_global),
    "cidr": _range,
    "isCIDR": succeeds(_range),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": _of_range(lambda value: value.network.prefixlen),
    "masked": _of_range(lambda value: Range(ipaddress.ip_interface(str(value.network)))),
}
"""Implementation of each function, by name."""
