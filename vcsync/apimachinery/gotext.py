"""Formats numbers, texts and types as Go does in messages. Pure."""

import json
import math
from decimal import Decimal
from typing import Any

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip
_TYPES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}
_JSON_TYPES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "number",
    list: "array",
    dict: "object",
}


def is_integer(value: Any) -> bool:
    """Return whether Go decodes a JSON number as int64 instead of float64."""
    return isinstance(value, int) and not isinstance(value, bool) and INT64_MIN <= value <= INT64_MAX


def is_number(value: Any) -> bool:
    """Return whether a value is a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_float(value: float) -> float:
    """Return a JSON number as a float64. Numbers beyond its range become infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def whole(value: float) -> bool:
    """Return whether a float64 counts as an integer in JSON: it is nearly one, which is exactly representable."""
    real = abs(as_float(value))
    if not real <= 2**53 - 1:
        return False
    down = float(int(real))
    return real == down or (down > 0 and (real - down) / (real + down) < 1e-9)


def as_json(value: Any) -> str:
    """Format a value as Go's encoding/json does, which escapes `<`, `>` and `&` for HTML."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for each in "<>&":
        text = text.replace(each, f"\\u{ord(each):04x}")
    return text


def number(value: float) -> str:
    """Format a number as `%v` does: in the shortest form, with exponents below 1e-4 and from 1e21 on."""
    if is_integer(value):
        return str(value)
    real = as_float(value)
    if math.isinf(real):
        return "+Inf" if real > 0 else "-Inf"
    if math.isnan(real):
        return "NaN"
    if real == 0 or 1e-4 <= abs(real) < 1e21:
        text = repr(real)
        if "e" in text:
            text = f"{real:.0f}"
        return text.removesuffix(".0")
    mantissa, _, exponent = f"{real!r}".partition("e")
    if not exponent:
        mantissa, _, exponent = f"{real:e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
    power = int(exponent)
    return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def general(value: float) -> str:
    """Format a number as `%g` does: in the shortest form, with exponents below 1e-4 and from 1e6 on."""
    if not math.isfinite(value) or value == 0 or 1e-4 <= abs(value) < 1e6:
        return number(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    power = int(exponent) + len(rest)
    mantissa = f"{first}.{''.join(rest)}" if rest else first
    return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def quoted(text: str) -> str:
    """Format a text as `%q` does."""
    return f'"{"".join(_quoted_character(each) for each in text)}"'


def _quoted_character(each: str) -> str:
    if each in _ESCAPES:
        return _ESCAPES[each]
    if each.isprintable():
        return each
    code = ord(each)
    if each.isascii():
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def plain(value: Any) -> str:
    """Format a JSON value as `%v` does."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return f"[{' '.join(plain(each) for each in value)}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{plain(value[name])}' for name in sorted(value))}]"
    return number(value)


def type_name(value: Any) -> str:
    """Return the name of the Go type of a JSON value."""
    return _TYPES.get(type(value), "<nil>")


def json_type(value: Any) -> str:
    """Return the type of a JSON value in the words of encoding/json: `cannot unmarshal array into ...`."""
    return "number" if isinstance(value, float) else _JSON_TYPES.get(type(value), "null")


def ordered(value: Any) -> Any:
    """Return a JSON value with the members of its objects sorted, as Go writes maps."""
    if isinstance(value, dict):
        return {name: ordered(value[name]) for name in sorted(value)}
    return [ordered(each) for each in value] if isinstance(value, list) else value
