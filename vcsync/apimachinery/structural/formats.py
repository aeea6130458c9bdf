"""String formats of custom resources' schemas, as kube-openapi's `strfmt` checks them. Pure."""

import ipaddress
from collections.abc import Callable
from datetime import date

from vcsync.apimachinery.wire.values import BadValue, duration_of
from vcsync.patterns.linear import linear

_HEX = "[0-9a-f]"
_UUID = f"(?i){_HEX}{{8}}-?{_HEX}{{4}}-?%s-?%s-?{_HEX}{{12}}"
_ANY4 = f"{_HEX}{{4}}"
_VARIANT = f"[89ab]{_HEX}{{3}}"
_SHORT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = r"a-zA-Z0-9\p{S}\p{L}"
_HOSTNAME = linear(
    rf"[{_NAME}](?:-?[{_NAME}]*)?|(?:[{_NAME}](?:[-{_NAME}]*[{_NAME}])?\.)+[a-zA-Z\p{{L}}][a-zA-Z\p{{L}}]+"
)
"""A label with one hyphen at most, after its first character, or labels of which the last has two letters at least.

Lengths are checked apart: repetitions of classes of all letters make a pattern too large.
"""
_CARD = linear(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|"
    r"3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})"
)
_CHANNEL = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_WRONG_ESCAPE = linear("%[0-9a-fA-F]?(?:[^0-9a-fA-F]|$)")
_SCHEME = linear("[a-zA-Z][a-zA-Z0-9+.-]*:")
_QUOTED = r'"(?:[^"\\\r\n]|\\[ -~\t])+"'
_ADDRESS = linear(rf"(?:[^<>@]*<)?({_QUOTED}|[^<>@\s\v]+)@([^<>@\s\v]+?)>?")
_DOTTED = linear(r"[^\s\v()<>\[\]:;@\\,.\"]+(\.[^\s\v()<>\[\]:;@\\,.\"]+)*")
_QUOTED_LOCAL = linear(_QUOTED)
_USER = linear(r"(?:[A-Za-z0-9._:~!$&'()*+,;=@-]|%[0-9a-fA-F]{2})*")
_HOST = linear(r"(?:[^\x00-\x7f]|[A-Za-z0-9_.~!$&'()*+,;=\[\]<>\"-]|%[89a-fA-F][0-9a-fA-F]|%25)*(?::[0-9]*)?")
"""A host as Go's net/url accepts it: escapes are for bytes beyond ASCII only."""
_HEX_DIGITS = linear("[0-9a-fA-F]+")
_MAC_GROUPS = ((":", 2), ("-", 2), (".", 4))
_MAC_DIGITS = (12, 16, 40)
_SPACES_AND_DASHES = str.maketrans("", "", " \t\n\v\f\r-")
_ISBN10 = linear("(?:[0-9]{9}X|[0-9]{10})")
_ISBN13 = linear("[0-9]{13}")
_BASE64 = linear("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = linear(r"\d{4}-\d{2}-\d{2}")
_CLOCK = linear(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_NUMBER_AND_UNIT = linear(r"(\d+)\s*([A-Za-zµ]+)")
_MOST = 2**63 - 1
_UNITS = ("ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "min", "hr", "wk")
_UNIT_STARTS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def _like(pattern: str) -> Callable[[str], bool]:
    matcher = linear(pattern)
    return lambda text: matcher.fullmatch(text) is not None


def _hostname(text: str) -> bool:
    """Check a host name as `strfmt.IsHostname` does. Lengths are in bytes."""
    if _HOSTNAME.fullmatch(text) is None:
        return False
    return len(text.encode()) <= 255 and all(len(each.encode()) <= 63 for each in text.split("."))


def _sloppy(text: str) -> str:
    """Drop leading zeros of an IPv4 address, which Kubernetes accepts."""
    if ":" in text:
        return text
    return ".".join(
        each.lstrip("0") or "0" if each.isascii() and each.isdigit() else each for each in text.split(".")
    )


def _address(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(_sloppy(text)).version == version and "%" not in text
    except ValueError:
        return False


def _ipv4(text: str) -> bool:
    return _address(text, 4) or ("." in text and _address(text, 6))


def _cidr(text: str) -> bool:
    host, slash, bits = text.partition("/")
    if not slash or not (bits.isascii() and bits.isdigit()) or "%" in host:
        return False
    try:
        return int(bits[:4]) <= ipaddress.ip_address(_sloppy(host)).max_prefixlen
    except ValueError:
        return False


def _uri(text: str) -> bool:
    """Check a URI as Go's `url.ParseRequestURI` does: an absolute path, or a scheme with anything, or with a host."""
    if any(ord(each) < 0x20 or ord(each) == 0x7F for each in text):
        return False
    scheme = _SCHEME.match(text)
    rest = text[scheme.end() :] if scheme is not None else text
    if scheme is not None and not rest.startswith("/"):
        return True
    path = rest.partition("?")[0]
    if scheme is not None and path.startswith("//"):
        authority, slash, path = path[2:].partition("/")
        path = slash + path
        user, _, host = authority.rpartition("@")
        if _USER.fullmatch(user) is None or not _is_host(host):
            return False
    return (scheme is not None or text == "*" or path.startswith("/")) and not _WRONG_ESCAPE.search(path)


def _is_host(host: str) -> bool:
    if not host.startswith("["):
        return _HOST.fullmatch(host) is not None
    address, closed, port = host[1:].rpartition("]")
    digits = port.removeprefix(":")
    return (
        bool(closed)
        and _address(address.partition("%25")[0], 6)
        and (port == digits == "" or digits.isdecimal() or port == ":")
    )


def _email(text: str) -> bool:
    """Check an address as Go's `mail.ParseAddress` does, without comments and encoded words."""
    match = _ADDRESS.fullmatch(text)
    if match is None or ("<" in text) != text.endswith(">"):
        return False
    local, domain = match[1], match[2]
    if _QUOTED_LOCAL.fullmatch(local) is None and _DOTTED.fullmatch(local) is None:
        return False
    if domain.startswith("[") and domain.endswith("]"):
        return _is_ip(domain[1:-1])
    return _DOTTED.fullmatch(domain) is not None


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _mac(text: str) -> bool:
    """Check a hardware address as Go's `net.ParseMAC` does: six, eight or twenty bytes, with separators or without."""
    for separator, size in _MAC_GROUPS:
        if text[size : size + 1] == separator:
            groups = text.split(separator)
            hexadecimal = all(len(each) == size and _HEX_DIGITS.fullmatch(each) for each in groups)
            return hexadecimal and len(groups) * size in _MAC_DIGITS
    return len(text) in _MAC_DIGITS and _HEX_DIGITS.fullmatch(text) is not None


def _isbn10(text: str) -> bool:
    digits = text.translate(_SPACES_AND_DASHES)
    if _ISBN10.fullmatch(digits) is None:
        return False
    total = sum((at + 1) * int(each) for at, each in enumerate(digits[:9]))
    return (total + 10 * (10 if digits[9] == "X" else int(digits[9]))) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = text.translate(_SPACES_AND_DASHES)
    if _ISBN13.fullmatch(digits) is None:
        return False
    total = sum((1, 3)[at % 2] * int(each) for at, each in enumerate(digits[:12]))
    return int(digits[12]) == (10 - total % 10) % 10


def _creditcard(text: str) -> bool:
    digits = "".join(filter("0123456789".__contains__, text))
    if _CARD.fullmatch(digits) is None:
        return False
    total = 0
    for at, each in enumerate(reversed(digits)):
        value = int(each) * (1 + at % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _byte(text: str) -> bool:
    return _BASE64.fullmatch(text) is not None


def _date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return text.startswith("0000") and _date("2000" + text[4:])
    return True


def _datetime(text: str) -> bool:
    """Check a time as `strfmt.IsDateTime` does: RFC 3339 with optional fraction of seconds and zone."""
    day, sign, rest = text.replace("t", "T").partition("T")
    if not sign or not _date(day):
        return False
    match = _CLOCK.fullmatch(rest.lower())
    return match is not None and int(match[1]) <= 23 and int(match[2]) <= 59 and int(match[3]) <= 59


def _duration(text: str) -> bool:
    """Check a duration as `strfmt.ParseDuration` does: Go's, or numbers of which one has a unit."""
    if len(text) > 256:
        return False
    try:
        duration_of(text)
    except BadValue:
        pass
    else:
        return True
    parts = [match.groups() for match in _NUMBER_AND_UNIT.finditer(text)]
    if any(int(number) > _MOST for number, _ in parts):
        return False
    return any(unit.lower() in _UNITS or unit.lower().startswith(_UNIT_STARTS) for _, unit in parts)


FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _like("[0-9a-fA-F]{24}"),
    "uri": _uri,
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": lambda text: _address(text, 6),
    "cidr": _cidr,
    "mac": _mac,
    "uuid": _like(_UUID % (_ANY4, _ANY4)),
    "uuid3": _like(_UUID % (f"3{_HEX}{{3}}", _ANY4)),
    "uuid4": _like(_UUID % (f"4{_HEX}{{3}}", _VARIANT)),
    "uuid5": _like(_UUID % (f"5{_HEX}{{3}}", _VARIANT)),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _creditcard,
    "ssn": _like(r"\d{3}[- ]\d{2}[- ]\d{4}"),
    "hexcolor": _like("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _like(rf"rgb\({_CHANNEL},{_CHANNEL},{_CHANNEL}\)"),
    "byte": _byte,
    "password": lambda _: True,
    "date": _date,
    "duration": _duration,
    "datetime": _datetime,
    "k8sshortname": lambda text: len(text) <= 63 and _like(_SHORT)(text),
    "k8slongname": lambda text: len(text) <= 253 and _like(rf"{_SHORT}(\.{_SHORT})*")(text),
}
"""Checks of formats, by name without dashes."""

_NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def recognized(type_: str, format_: str) -> bool:
    """Return whether a format is checked for values of a type, or of any type if the type is empty."""
    if type_ in ("", "string"):
        return format_.replace("-", "") in FORMATS
    return format_ in _NUMBERS.get(type_, ())
