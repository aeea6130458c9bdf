"""Kubernetes' CEL functions: quantities, URLs, IP addresses, CIDRs, versions, named formats. Pure.

Source: `pkg/cel/library` of k8s.io/apiserver.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar
from urllib.parse import parse_qsl, quote, urlsplit

from vcsync.apimachinery import gotext
from vcsync.apimachinery.cel.values import INT_MAX, INT_MIN, NONE, CelError, NoOverload, Optional, Work
from vcsync.apimachinery.structural import formats
from vcsync.apimachinery.validation import names

_QUANTITY = re.compile(
    r"([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII
)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SEMVER = re.compile(
    r"(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact quantity."""

    amount: Fraction
    type_name: ClassVar[str] = "kubernetes.Quantity"

    def order(self, other: "Quantity") -> int:
        """Compare two quantities: negative, zero or positive."""
        return (self.amount > other.amount) - (self.amount < other.amount)


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL."""

    scheme: str
    host: str
    path: str
    query: str
    type_name: ClassVar[str] = "kubernetes.URL"


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address."""

    value: ipaddress.IPv4Address | ipaddress.IPv6Address
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


@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    type_name: ClassVar[str] = "kubernetes.Semver"

    def order(self, other: "Semver") -> int:
        """Compare two versions. A pre-release precedes its release."""
        left, right = self._key(), other._key()
        return int(left > right) - int(left < right)

    def _key(self) -> Any:
        parts = [(0, len(each), each) if each.isdigit() else (1, 0, each) for each in self.pre]
        return (self.major, self.minor, self.patch, not self.pre, parts)


@dataclass(frozen=True, slots=True)
class Format:
    """A named format. `check` returns the messages about a text."""

    name: str
    check: Callable[[str], list[str]]
    type_name: ClassVar[str] = "kubernetes.NamedFormat"


def _as(value: Any, type_: Any) -> Any:
    if not isinstance(value, type_) or (type_ is int and isinstance(value, bool)):
        raise NoOverload
    return value


def _tried(parse: Callable[..., Any]) -> Callable[..., bool]:
    def check(work: Work, *args: Any) -> bool:
        try:
            parse(work, *args)
        except NoOverload:
            raise
        except CelError:
            return False
        return True

    return check


def _quantity(_: Work, text: Any) -> Quantity:
    match = _QUANTITY.fullmatch(_as(text, str)) if len(_as(text, str)) <= 256 else None
    if match is None:
        raise CelError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    sign, whole, part, only, suffix, exponent = match.groups()
    digits = only or part or ""
    amount = Fraction(int((whole or "") + digits or "0"), 10 ** len(digits))
    if suffix in _BINARY:
        amount *= 1 << _BINARY[suffix]
    else:
        amount *= Fraction(10) ** (int(exponent or 0) + _DECIMAL[suffix or ""])
    return Quantity(-amount if sign == "-" else amount)


def _other(value: Any) -> Fraction:
    if isinstance(value, Quantity):
        return value.amount
    return Fraction(_as(value, int))


def _as_integer(_: Work, value: Any) -> int:
    amount = _as(value, Quantity).amount
    if amount.denominator != 1 or not INT_MIN <= amount <= INT_MAX:
        raise CelError("cannot convert value to integer")
    return int(amount)


def _as_float(_: Work, value: Any) -> float:
    return gotext.as_float(_as(value, Quantity).amount)


def _compared(check: Callable[[int], Any]) -> Callable[..., Any]:
    def compare(_: Work, left: Any, right: Any) -> Any:
        if type(left) is not type(right) or not isinstance(left, Quantity | Semver):
            raise NoOverload
        return check(left.order(right))

    return compare


def _url(_: Work, text: Any) -> Url:
    text = _as(text, str)
    fault = (
        f"URL parse error during conversion from string: parse {gotext.quoted(text)}: invalid URI for request"
    )
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 -- raises when it is no number
    except ValueError:
        raise CelError(fault) from None
    if " " in parts.netloc:
        raise CelError(fault)
    absolute = bool(parts.scheme) and re.match("[a-zA-Z][a-zA-Z0-9+.-]*:", text) is not None
    if not (absolute or text.startswith("/")) or re.search(r"[\x00-\x1f\x7f]|%(?![0-9a-fA-F]{2})", text):
        raise CelError(fault)
    # Go's `url.ParseRequestURI` knows no fragments: `#` belongs to the path or query.
    _, mark, query = text.partition("?")
    path = parts.path if not parts.fragment or mark else f"{parts.path}#{parts.fragment}"
    return Url(parts.scheme, parts.netloc.rpartition("@")[2], path, query)


def _host_port(host: str) -> tuple[str, str]:
    match = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d*))?", host)
    if match is None:
        return host, ""
    return match[1].strip("[]"), match[2] or ""


def _query(_: Work, value: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, each in parse_qsl(_as(value, Url).query, keep_blank_values=True):
        found.setdefault(name, []).append(each)
    return found


def _address(_: Work, text: Any) -> Address:
    text = _as(text, str)
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        told = f"IP Address {gotext.quoted(text)} parse error during conversion from string: "
        raise CelError(told + f"ParseAddr({gotext.quoted(text)}): unable to parse IP") from None
    if "%" in text:
        raise CelError(f"IP address {gotext.quoted(text)} with zone value is not allowed")
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise CelError(f"IPv4-mapped IPv6 address {gotext.quoted(text)} is not allowed")
    return Address(found)


def _ip(work: Work, value: Any) -> Address:
    return Address(value.value.ip) if isinstance(value, Range) else _address(work, value)


def _range(_: Work, text: Any) -> Range:
    text = _as(text, str)
    fault = "network address parse error during conversion from string: "
    host, slash, bits = text.partition("/")
    try:
        if not slash or not re.fullmatch("0|[1-9][0-9]{0,2}", bits) or "%" in host:
            raise ValueError(text)  # noqa: TRY301 -- told as what ipaddress raises is
        found = ipaddress.ip_interface(text)
    except ValueError:
        why = "unable to parse" if slash else "no '/'"
        told = f"netip.ParsePrefix({gotext.quoted(text)}): {why}"
        raise CelError(fault + fault + told) from None
    if isinstance(found, ipaddress.IPv6Interface) and found.ip.ipv4_mapped is not None:
        raise CelError(f"IPv4-mapped IPv6 address {gotext.quoted(text)} is not allowed")
    return Range(found)


def _contains_ip(work: Work, own: Any, other: Any) -> bool:
    address = other if isinstance(other, Address) else _address(work, other)
    return address.value in _as(own, Range).value.network


def _contains_cidr(work: Work, own: Any, other: Any) -> bool:
    network = _as(own, Range).value.network
    inner = (other if isinstance(other, Range) else _range(work, other)).value
    return bool(
        inner.version == network.version
        and inner.network.prefixlen >= network.prefixlen
        and inner.ip in network
    )


def _about(check: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda _, value: check(_as(value, Address).value)


def _global(value: Any) -> bool:
    broadcast = value.version == 4 and int(value) == 2**32 - 1
    return not (
        value.is_unspecified or value.is_loopback or value.is_multicast or value.is_link_local or broadcast
    )


def _semver(_: Work, text: Any, normalize: Any = False) -> Semver:
    text = _as(text, str)[:4096]
    if _as(normalize, bool):
        text = _normalized(text)
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise CelError(
            "No Major.Minor.Patch elements found"
            if text.count(".") < 2
            else f"Invalid character(s) found in version {gotext.quoted(text)}"
        )
    pre = tuple(match[4].split(".")) if match[4] else ()
    return Semver(int(match[1]), int(match[2]), int(match[3]), pre)


def _normalized(text: str) -> str:
    """Drop a leading `v` and leading zeros, and add missing parts."""
    core = text.removeprefix("v")
    cut = min((at for at in (core.find("-"), core.find("+")) if at >= 0), default=len(core))
    parts = [each.lstrip("0") or "0" if each.isdigit() else each for each in core[:cut].split(".")]
    return ".".join([*parts, "0", "0"][: max(3, len(parts))]) + core[cut:]


def _prefixed(rule: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: rule(f"{text[:-1]}a" if text.endswith("-") else text)


def _has_format(name: str, words: str) -> Callable[[str], list[str]]:
    return lambda text: [] if formats.FORMATS[name](text) else [words]


_FORMATS = {
    name: Format(name, check)
    for name, check in {
        "dns1123Label": names.dns_label,
        "dns1123Subdomain": names.dns_subdomain,
        "dns1035Label": names.dns_label_1035,
        "qualifiedName": names.qualified_name,
        "dns1123LabelPrefix": _prefixed(names.dns_label),
        "dns1123SubdomainPrefix": _prefixed(names.dns_subdomain),
        "dns1035LabelPrefix": _prefixed(names.dns_label_1035),
        "labelValue": names.label_value,
        "uri": _has_format("uri", "invalid URI"),
        "uuid": _has_format("uuid", "does not match the UUID format"),
        "byte": _has_format("byte", "invalid base64"),
        "date": _has_format("date", "invalid date"),
        "datetime": _has_format("datetime", "invalid datetime"),
    }.items()
}


def _named(_: Work, name: Any) -> Optional:
    found = _FORMATS.get(_as(name, str))
    return NONE if found is None else Optional(found)


def _validate(_: Work, format_: Any, text: Any) -> Optional:
    problems = _as(format_, Format).check(_as(text, str))
    return Optional(list(problems)) if problems else NONE


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantity": _quantity,
    "isQuantity": _tried(_quantity),
    "sign": lambda _, value: (_as(value, Quantity).amount > 0) - (value.amount < 0),
    "isGreaterThan": _compared(lambda order: order > 0),
    "isLessThan": _compared(lambda order: order < 0),
    "compareTo": _compared(lambda order: order),
    "asInteger": _as_integer,
    "isInteger": _tried(_as_integer),
    "asApproximateFloat": _as_float,
    "add": lambda _, left, right: Quantity(_as(left, Quantity).amount + _other(right)),
    "sub": lambda _, left, right: Quantity(_as(left, Quantity).amount - _other(right)),
    "url": _url,
    "isURL": _tried(_url),
    "getScheme": lambda _, value: _as(value, Url).scheme,
    "getHost": lambda _, value: _as(value, Url).host,
    "getHostname": lambda _, value: _host_port(_as(value, Url).host)[0],
    "getPort": lambda _, value: _host_port(_as(value, Url).host)[1],
    "getEscapedPath": lambda _, value: quote(_as(value, Url).path, safe="/%:@!$&'()*+,;=-._~"),
    "getQuery": _query,
    "ip": _ip,
    "isIP": _tried(_address),
    "ip.isCanonical": lambda work, text: str(_address(work, text)) == text,
    "family": _about(lambda value: value.version),
    "isUnspecified": _about(lambda value: value.is_unspecified),
    "isLoopback": _about(lambda value: value.is_loopback),
    "isLinkLocalMulticast": _about(
        lambda value: value in ipaddress.ip_network("224.0.0.0/24" if value.version == 4 else "ff02::/16")
    ),
    "isLinkLocalUnicast": _about(lambda value: value.is_link_local),
    "isGlobalUnicast": _about(_global),
    "cidr": _range,
    "isCIDR": _tried(_range),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": lambda _, value: _as(value, Range).value.network.prefixlen,
    "masked": lambda _, value: Range(ipaddress.ip_interface(str(_as(value, Range).value.network))),
    "semver": _semver,
    "isSemver": _tried(_semver),
    "major": lambda _, value: _as(value, Semver).major,
    "minor": lambda _, value: _as(value, Semver).minor,
    "patch": lambda _, value: _as(value, Semver).patch,
    "format.named": _named,
    "validate": _validate,
    **{f"format.{name}": (lambda _, found=found: found) for name, found in _FORMATS.items()},
}
"""Implementation of each function, by name."""
