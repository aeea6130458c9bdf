"""String formats of custom resources' schemas, as kube-openapi's `strfmt` checks them. Pure."""

import ipaddress
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

from vcsync.apimachinery.wire.values import BadValue, duration_of
from vcsync.patterns.linear import linear

_HEX = "[0-9a-f]"
_UUID = f"(?i){_HEX}{{8}}-?{_HEX}{{4}}-?%s-?%s-?{_HEX}{{12}}"
_ANY4 = f"{_HEX}{{4}}"
_VARIANT = f"[89ab]{_HEX}{{3}}"
_SHORT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOSTNAME = (
    r"([a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?(\.[a-zA-Z]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*)|"
    r"([a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*)\.?"
)
_CARD = linear(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|"
    r"3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})"
)
_CHANNEL = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_WRONG_ESCAPE = linear("%[0-9a-fA-F]?(?:[^0-9a-fA-F]|$)")
_SCHEME = linear("[a-zA-Z][a-zA-Z0-9+.-]*:")
_ADDRESS = linear(r"(?:[^<>@]*<)?([^<>@\s\v]+)@([^<>@\s\v]+?)>?")
_DOTTED = linear(r"[^\s\v()<>\[\]:;@\\,.\"]+(\.[^\s\v()<>\[\]:;@\\,.\"]+)*")
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
    return len(text) <= 255 and _like(_HOSTNAME)(text) and all(len(each) <= 63 for each in text.split("."))


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
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 -- raises when it is no number
    except ValueError:
        return False
    if (
        any(ord(each) < 0x20 or ord(each) == 0x7F for each in text)
        or " " in parts.netloc
        or _WRONG_ESCAPE.search(text)
    ):
        return False
    return text.startswith("/") or (bool(parts.scheme) and _SCHEME.match(text) is not None)


def _email(text: str) -> bool:
    match = _ADDRESS.fullmatch(text)
    if match is None or ("<" in text) != text.endswith(">"):
        return False
    local, domain = match[1], match[2]
    return _DOTTED.fullmatch(local) is not None and _DOTTED.fullmatch(domain) is not None


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
    "mac": _like(
        r"([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2}[:-]){0,14}[0-9A-Fa-f]{2}|([0-9A-Fa-f]{4}\.){2,9}[0-9A-Fa-f]{4}"
    ),
    "uuid": _like(_UUID % (_ANY4, _ANY4)),
    "uuid3": _like(_UUID % (f"3{_HEX}{{3}}", _ANY4)),
    "uuid4": _like(_UUID % (f"4{_HEX}{{3}}", _VARIANT)),
    "uuid5": _like(_UUID % (f"5{_HEX}{{3}}", _VARIANT)),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _creditcard,
    "ssn": _like(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
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
