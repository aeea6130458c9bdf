"""Kubernetes quantities (`500m`, `1.5Gi`, `2e3`) as exact integers of thousandths. Pure."""

import re

_LARGEST_UNITS = 2**63 - 1
"""Kubernetes limits a quantity to 2^63-1 units."""
_LONGEST_TEXT = 64
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only>[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?",
    re.ASCII,
)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


class InvalidQuantity(ValueError):
    """A text is not a Kubernetes quantity."""


def milli(text: str, *, field: str = "") -> int:
    """Return a quantity in thousandths, rounded up: `1` is 1000, `250m` is 250, `1Ki` is 1024000.

    Grammar: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/

    Args:
        text: The quantity.
        field: Path of its field, for the message.

    Raises:
        InvalidQuantity: The text is not a quantity.
    """
    return _scaled(text, 3, field)


def nano(text: str) -> int:
    """Return a quantity in billionths, rounded up, as metrics servers measure CPU: `1` is 1000000000, `5n` is 5.

    Raises:
        InvalidQuantity: The text is not a quantity.
    """
    return _scaled(text, 9)


def _scaled(text: str, power: int, field: str = "") -> int:
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        where = f"{field}: " if field else ""
        quoted = text[:_LONGEST_TEXT]
        raise InvalidQuantity(f"{where}{quoted!r} is not a quantity; write it like 2, 500m, 1.5Gi or 1e3")
    part = match["only"] or match["part"] or ""
    digits = int((match["whole"] or "") + part)
    suffix = match["suffix"] or ""
    exponent: int = int(match["exponent"] or 0) + _DECIMAL.get(suffix, 0) + power - len(part)
    above: int = digits << _BINARY.get(suffix, 0)
    if exponent >= 0:
        above *= 10**exponent
        below = 1
    else:
        below = 10**-exponent
    largest: int = _LARGEST_UNITS * 10**power
    if match["sign"] == "-":
        return max(-(above // below), -largest)
    return min(-(-above // below), largest)


def canonical(value: int, like: str = "") -> str:
    """Format thousandths as Kubernetes does: without a fraction, with the largest suffix that is exact.

    Args:
        value: Thousandths.
        like: A quantity whose notation to use: binary (`1Gi`), exponents (`1e3`) or, by default, decimal (`1G`).
    """
    match = _QUANTITY.fullmatch(like)
    if match is not None and match["exponent"] is not None:
        return _decimal(value, exponents=True)
    if match is not None and match["suffix"] in _BINARY and value % 1000 == 0 and abs(value) >= 1024_000:
        return _binary(value // 1000)
    return _decimal(value, exponents=False)


def _binary(units: int) -> str:
    name = ""
    for suffix, shift in _BINARY.items():
        if units % (1 << shift):
            break
        name = suffix
    return f"{units >> _BINARY.get(name, 0)}{name}"


def _decimal(value: int, *, exponents: bool) -> str:
    name, power = "m", -3
    for suffix, exponent in _DECIMAL.items():
        if exponent > -3 and value % 10 ** (exponent + 3) == 0:
            name, power = suffix, exponent
    if value == 0:
        return "0"
    if exponents and power:
        name = f"e{power}"
    return f"{value // 10 ** (power + 3)}{name}"
