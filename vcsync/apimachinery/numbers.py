"""Reads numbers of JSON as Go does: int64 if the text is one, float64 otherwise, and whole ones without a fraction. Pure.

kube-apiserver decodes every number of an untyped document to int64 or float64 (`sigs.k8s.io/json`) and encodes it again
(`encoding/json`), so that 4.0 becomes 4 and 3e2 becomes 300. Typed clients rely on it: they cannot decode 4.0 to an integer.
"""

import math
from decimal import Decimal
from typing import Any

import msgspec

from vcsync.apimachinery.gotext import INT64_MAX, INT64_MIN

WHOLE_BELOW = 1e21
"""Magnitude from which on Go writes a float64 with an exponent."""
_EXACT_BELOW = 2.0**53
_INFINITE = 2**1024 - 2**970
"""Magnitude from which on an integer rounds to no float64."""
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_LONG = b"0" * 19
"""Digits of the shortest integers that may not be an int64, after every digit has become a zero."""


class OutOfRange(ValueError):
    """A number is no float64. The message is its text."""


class Written(float):
    """A number with a fraction or an exponent that keeps its text, because Go's typed decoder reads the text."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "Written":
        """Return the number that a text of JSON means. It is infinite if it is no float64."""
        made = super().__new__(cls, text)
        made.text = text
        return made


def number(text: str) -> float:
    """Return a JSON number with a fraction or an exponent as Go does: a whole one below 1e21 as an integer.

    Raises:
        OutOfRange: It is no float64.
    """
    value = float(text)
    if math.isinf(value):
        raise OutOfRange(text)
    return _whole(value)


def whole(value: Any) -> float:
    """Return a decoded number as Go encodes a float64.

    Raises:
        OutOfRange: It is no float64, or no number.
    """
    if not is_float64(value):
        raise OutOfRange(str(type(value)))
    return integer(value) if isinstance(value, int) else _whole(float(value))


def is_float64(value: Any) -> bool:
    """Return whether a decoded value is a number that Go's decoder accepts as a float64."""
    if type(value) is int:
        return abs(value) < _INFINITE
    return isinstance(value, float) and math.isfinite(value)


def integer(value: int) -> float:
    """Return a JSON integer as Go does: one that is no int64 has the digits of the nearest float64.

    Raises:
        OutOfRange: It is no float64.
    """
    if INT64_MIN <= value <= INT64_MAX:
        return value
    if abs(value) >= _INFINITE:
        raise OutOfRange(str(Decimal(value)))
    return _whole(float(value))


def _whole(value: float) -> float:
    if not value.is_integer() or abs(value) >= WHOLE_BELOW:
        return value
    return int(value) if abs(value) < _EXACT_BELOW else int(Decimal(repr(value)))


def may_exceed_int64(data: bytes) -> bool:
    """Return whether a text may contain an integer that is no int64: it has nineteen digits in a row."""
    return _LONG in data.translate(_ZEROS)


def settled(value: Any) -> Any:
    """Return a decoded value in which every number is as Go decodes and encodes it.

    Raises:
        OutOfRange: A number is no float64.
    """
    if isinstance(value, dict):
        return {key: settled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [settled(each) for each in value]
    if type(value) is Written:
        return number(value.text)
    return integer(value) if type(value) is int else value


def text(value: float) -> str:
    """Return the JSON text of a number: as it was written, or as Go's encoding/json writes it."""
    if isinstance(value, Written):
        return value.text
    if isinstance(value, int) or value.is_integer():
        value = _whole(float(value)) if isinstance(value, float) else value
        if isinstance(value, int):
            return str(value)
    if 1e-6 <= abs(value) < WHOLE_BELOW:
        return format(Decimal(repr(value)), "f")
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa}e{'-' if exponent.startswith('-') else '+'}{exponent.lstrip('+-0')}"


def encoded(value: Any) -> bytes:
    """Encode a decoded value as JSON. Its numbers are as they were written."""
    return _encode(value)


def _written(value: Any) -> msgspec.Raw:
    if isinstance(value, Written):
        return msgspec.Raw(value.text.encode())
    raise NotImplementedError


_encode = msgspec.json.Encoder(enc_hook=_written).encode
