"""Canonical forms of quantities, times and base64. Pure.

Follows apimachinery's `api/resource/quantity.go`, `meta/v1/time.go`, `meta/v1/micro_time.go` and Go's `time.Parse`.
"""

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta

from vcsync.objects.text_cache import cache_short_texts

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<zeros>0*)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?P<suffix>.*)", re.DOTALL
)
_SUFFIX_SHAPE = re.compile(r"[eEinumkKMGTP]*[+-]?[0-9]*")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,9})")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_FINE = re.compile(r"(?P<sign>-?)(?P<digits>[0-9]+)(?P<suffix>[nu]|e-[69])")
_FINER = {"n": 6, "u": 3, "e-9": 6, "e-6": 3}
"""Powers of ten by which units are finer than thousandths."""
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIX = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LARGEST = 2**63 - 1
_NANO = 10**9
_LONGEST = 100
"""Longest accepted number. The cost of parsing grows with the square of the length."""
_LARGEST_EXPONENT = 1000
LARGEST_NUMBER = 10**_LONGEST
"""Largest quantity in the form of a JSON number."""

FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_WRONG = "unable to parse quantity's suffix"


class InvalidScalar(ValueError):
    """A text is not a valid scalar. The message is that of Go's decoder."""


@cache_short_texts(4096, _LONGEST)
def quantity(text: str) -> str:
    """Return the canonical form of a quantity: `0.5` is `500m`, `1024Mi` is `1Gi`, `1.5Gi` is `1536Mi`.

    Raises:
        InvalidScalar: The text is not a quantity.
    """
    match = _QUANTITY.fullmatch(text) if 0 < len(text) <= _LONGEST else None
    if match is None:
        raise InvalidScalar(FORMAT_WRONG)
    suffix = match["suffix"]
    if not _SUFFIX_SHAPE.fullmatch(suffix):
        raise InvalidScalar(FORMAT_WRONG)
    whole, part = match["whole"] or "0", match["part"] or ""
    negative = match["sign"] == "-"
    if suffix in _BINARY:
        return _binary(text, whole, part, _BINARY[suffix], negative)
    exponents = _EXPONENT.fullmatch(suffix)
    if exponents is None and suffix not in _DECIMAL:
        raise InvalidScalar(SUFFIX_WRONG)
    exponent = int(exponents[1]) if exponents else _DECIMAL[suffix]
    digits, scale = whole + part, exponent - len(part)
    if _canonical(digits, scale):
        return text
    return _decimal(digits, scale, negative, exponents is not None)


@cache_short_texts(4096, _LONGEST)
def rounded_quantity(text: str) -> str:
    """Return the canonical form of a quantity in a ResourceList: rounded away from zero to thousandths (`500u` is `1m`).

    Source: `SetDefaults_ResourceList` of Kubernetes' pkg/apis/core/v1/defaults.go.

    Raises:
        InvalidScalar: The text is not a quantity.
    """
    found = quantity(text)
    fine = _FINE.fullmatch(found)
    if fine is None:
        return found
    thousandths = -(-int(fine["digits"]) // 10 ** _FINER[fine["suffix"]])
    return _decimal(str(thousandths), -3, bool(fine["sign"]), fine["suffix"].startswith("e"))


def _canonical(digits: str, scale: int) -> bool:
    """Return whether Go keeps the original text."""
    kept = len(digits) <= 18 and scale >= -9 and scale % 3 == 0
    return kept and not digits.endswith("000") and not digits.startswith("0")


def _decimal(digits: str, scale: int, negative: bool, exponents: bool) -> str:
    if abs(scale) > _LARGEST_EXPONENT:
        raise InvalidScalar(FORMAT_WRONG)
    if scale >= -9:
        return _written(int(digits) * 10 ** (scale + 9), negative, exponents)
    return _written(-(-int(digits) // 10 ** (-9 - scale)), negative, exponents)


def _binary(text: str, whole: str, part: str, shift: int, negative: bool) -> str:
    if not part and len(whole) <= 15 - shift * 3 // 10 - 1 and int(whole) % 8:
        return text
    nanos = -(-(int(whole + part) * _NANO << shift) // 10 ** len(part))
    nanos = min(nanos, _LARGEST * _NANO)
    if nanos < 1024 * _NANO or nanos % _NANO:
        return _written(nanos, negative, False)
    value, power = nanos // _NANO, 0
    while value % 1024 == 0 and power < len(_BINARY_SUFFIX) - 1:
        value, power = value // 1024, power + 1
    return f"{'-' if negative else ''}{value}{_BINARY_SUFFIX[power]}"


def _written(nanos: int, negative: bool, exponents: bool) -> str:
    """Format a number of units of 10^-9 with the largest suffix (or exponent) that is exact."""
    if nanos == 0:
        return "0"
    exponent = -9
    while nanos % 1000 == 0 and (exponents or exponent < 18):
        nanos, exponent = nanos // 1000, exponent + 3
    suffix = (f"e{exponent}" if exponent else "") if exponents else _DECIMAL_SUFFIX[exponent]
    return f"{'-' if negative else ''}{nanos}{suffix}"


SECONDS_LAYOUT = "2006-01-02T15:04:05Z07:00"
MICROS_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_ZERO_TIME = "0001-01-01T00:00:00"
_TIME = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})T(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})(?P<fraction>[.,][0-9]+)?"
    r"(?:Z|(?P<sign>[+-])(?P<hours>[0-9]{2}):(?P<minutes>[0-9]{2}))"
)
_STEPS = (
    (re.compile(r"[0-9]{4}"), "2006"),
    (re.compile("-"), "-"),
    (re.compile(r"[0-9]{2}"), "01"),
    (re.compile("-"), "-"),
    (re.compile(r"[0-9]{2}"), "02"),
    (re.compile("T"), "T"),
    (re.compile(r"[0-9]{2}"), "15"),
    (re.compile(":"), ":"),
    (re.compile(r"[0-9]{2}"), "04"),
    (re.compile(":"), ":"),
    (re.compile(r"[0-9]{2}"), "05"),
)
_MICROS = (re.compile(r"\.[0-9]{6}(?![0-9])"), ".000000")
_ZONE = (re.compile(r"Z|[+-][0-9]{2}:[0-9]{2}"), "Z07:00")
_RANGES = (("month", 5, 1, 12), ("hour", 11, 0, 23), ("minute", 14, 0, 59), ("second", 17, 0, 59))


def time(text: str) -> str | None:
    """Return an RFC 3339 time in UTC and whole seconds, or None for Go's zero time, which counts as absent.

    Raises:
        InvalidScalar: The text is not a time.
    """
    return _seconds(text)


def micro_time(text: str) -> str | None:
    """Return a time in UTC with exactly six fractional digits, or None for Go's zero time.

    Raises:
        InvalidScalar: The text is not such a time.
    """
    return _micros(text)


@cache_short_texts(4096, _LONGEST)
def _seconds(text: str) -> str | None:
    return _time(text, SECONDS_LAYOUT)


@cache_short_texts(4096, _LONGEST)
def _micros(text: str) -> str | None:
    return _time(text, MICROS_LAYOUT)


def _time(text: str, layout: str) -> str | None:
    match = _TIME.fullmatch(text)
    micros = layout == MICROS_LAYOUT
    if match is None or (micros and len(match["fraction"] or "") != 7):
        raise InvalidScalar(why_no_time(text, layout))
    date, clock, fraction = match["date"], match["clock"], match["fraction"] or ""
    try:
        moment = datetime.fromisoformat(f"{date}T{clock}").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidScalar(out_of_range(text)) from None
    if match["sign"]:
        for name, most in (("hour", 24), ("minute", 60)):
            if int(match[f"{name}s"]) > most:
                raise InvalidScalar(f'parsing time "{text}": time zone offset {name} out of range')
        away = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"]))
        try:
            moment = moment - away if match["sign"] == "+" else moment + away
        except OverflowError:
            raise InvalidScalar(out_of_range(text)) from None
    written = moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0") if match["sign"] else f"{date}T{clock}"
    if written == _ZERO_TIME and not fraction.strip(".,0"):
        return None
    return f"{written}.{fraction[1:]}Z" if micros else f"{written}Z"


def why_no_time(text: str, layout: str) -> str:
    """Return the error of Go's time.Parse: it names the first part of the layout that does not match."""
    steps = (*_STEPS, _MICROS, _ZONE) if layout == MICROS_LAYOUT else (*_STEPS, _ZONE)
    at = 0
    for pattern, part in steps:
        if part == "Z07:00" and layout == SECONDS_LAYOUT:
            fraction = re.compile(r"[.,][0-9]+").match(text, at)
            at = fraction.end() if fraction else at
        match = pattern.match(text, at)
        if match is None:
            return f'parsing time "{text}" as "{layout}": cannot parse "{text[at:]}" as "{part}"'
        at = match.end()
    return f'parsing time "{text}": extra text: "{text[at:]}"'


def out_of_range(text: str) -> str:
    """Return Go's error about the first part of a well-formed time that is out of range."""
    for name, at, low, high in _RANGES:
        if not low <= int(text[at : at + 2]) <= high:
            return f'parsing time "{text}": {name} out of range'
    return f'parsing time "{text}": day out of range'


_DIGIT = re.compile(r"[A-Za-z0-9+/]")


def base64_text(text: str) -> str:
    """Return the canonical base64 of a text in base64 (RFC 4648, without line breaks).

    Raises:
        InvalidScalar: The text is not base64.
    """
    packed = text.replace("\n", "").replace("\r", "")
    try:
        return base64.b64encode(binascii.a2b_base64(packed, strict_mode=True)).decode()
    except (binascii.Error, ValueError):
        raise InvalidScalar(f"illegal base64 data at input byte {_first_illegal(text)}") from None


def _first_illegal(text: str) -> int:
    """Return the offset at which Go's decoder stops. It reads four characters at a time and skips line breaks."""
    at = 0
    while at < len(text):
        digits = 0
        while digits < 4:
            if at == len(text):
                return at - digits
            character = text[at]
            at += 1
            if character == "=":
                return _after_padding(text, at, digits)
            if character in "\r\n":
                continue
            if not _DIGIT.match(character):
                return at - 1
            digits += 1
    return at


def _after_padding(text: str, at: int, digits: int) -> int:
    """Return the offset of the error in padding.

    Args:
        text: The whole text.
        at: Offset after the first padding character.
        digits: Number of digits before the padding, in its group of four.
    """
    if digits < 2:
        return at - 1
    at = _skip_breaks(text, at)
    if digits == 3 or at == len(text):
        return at
    return _skip_breaks(text, at + 1) if text[at] == "=" else at - 1


def _skip_breaks(text: str, at: int) -> int:
    while at < len(text) and text[at] in "\r\n":
        at += 1
    return at
