"""Quantities with Go's two representations, and their CEL functions. Pure.

Source: `quantity.go` of k8s.io/apiserver's `pkg/cel/library`, `pkg/api/resource` of k8s.io/apimachinery.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from vcsync.apimachinery import gotext
from vcsync.apimachinery.cel.arguments import Function, of_types, succeeds
from vcsync.apimachinery.cel.values import INT_MAX, INT_MIN, CelError, NoOverload, Work
from vcsync.patterns.linear import linear

_QUANTITY = linear(r"([+-]?)(0*)([1-9]\d*)?(?:\.(\d*))?((?:[eEinumkKMGTP]+[+-]?\d*|[+-]\d*)?)")
_EXPONENT = linear(r"[eE]([+-]?)(\d+)")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SMALLEST = -9
_FAST_DIGITS = 18
_LARGEST_EXPONENT = 999
"""Largest exponent. Go accepts larger ones, and computes for minutes with them."""
_LONGEST = 4096
_WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_SUFFIX = "unable to parse quantity's suffix"


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A quantity: `unscaled` times ten to the power of `exponent`.

    Attributes:
        unscaled: the digits.
        exponent: the power of ten.
        fast: whether Go has it as an int64 with a scale, which alone it takes for an integer. Otherwise it has it as a
            decimal number of any size.
    """

    unscaled: int
    exponent: int = 0
    fast: bool = True
    type_name: ClassVar[str] = "kubernetes.Quantity"

    @property
    def amount(self) -> Fraction:
        """The exact value."""
        return self.unscaled * Fraction(10) ** self.exponent

    def order(self, other: "Quantity") -> int:
        """Compare two quantities: negative, zero or positive."""
        return (self.amount > other.amount) - (self.amount < other.amount)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.order(other) == 0

    def __hash__(self) -> int:
        return hash(self.amount)

    def integer(self) -> int | None:
        """Return the value if Go's `AsInt64` does, else None."""
        if not self.fast or self.exponent < 0:
            return None
        value = self.unscaled * 10**self.exponent
        return value if INT_MIN <= value <= INT_MAX else None

    def real(self) -> float:
        """Return the value as Go's `AsApproximateFloat64` does, which rounds twice."""
        base = gotext.as_float(self.unscaled)
        return base * float(f"1e{self.exponent}") if self.exponent else base

    def plus(self, other: "Quantity") -> "Quantity":
        """Add another quantity. The sum of two fast ones is fast if all of it fits into an int64."""
        fast = self.fast and other.fast
        if fast and other.unscaled == 0:
            return self
        if fast and self.unscaled == 0:
            return other
        exponent = min(self.exponent, other.exponent)
        parts = [each.unscaled * 10 ** (each.exponent - exponent) for each in (self, other)]
        total = sum(parts)
        fits = all(INT_MIN <= each <= INT_MAX for each in (*parts, total))
        return Quantity(total, exponent, fast=fast and fits)

    def negative(self) -> "Quantity":
        """Return the quantity with the other sign."""
        return Quantity(-self.unscaled, self.exponent, self.fast)


def _suffix(text: str) -> tuple[int, int]:
    """Return (powers of two, powers of ten) of a suffix."""
    if text in _DECIMAL:
        return 0, _DECIMAL[text]
    if text in _BINARY:
        return _BINARY[text], 0
    match = _EXPONENT.fullmatch(text)
    if match is None or len(match[2].lstrip("0")) > 18:
        raise CelError(_WRONG_SUFFIX)
    exponent = int(match[2].lstrip("0") or "0")
    if match[1] == "-":
        return 0, -exponent
    if exponent > _LARGEST_EXPONENT:
        raise CelError(_WRONG_SUFFIX)
    return 0, exponent


@of_types(str)
def _quantity(work: Work, text: str) -> Quantity:
    if not text or len(text) > _LONGEST:
        raise CelError(_WRONG_FORMAT)
    work.spend(len(text) // 16)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise CelError(_WRONG_FORMAT)
    whole, part = match[3] or "0", match[4] or ""
    binary, decimal = _suffix(match[5])
    sign = -1 if match[1] == "-" else 1
    unscaled = int(whole + part)
    exponent = decimal - len(part)
    if binary:
        room = 14 - len(whole) - binary * 3 // 10 if not part else -1
        unscaled <<= binary
    else:
        room = _FAST_DIGITS - len(whole) - len(part)
    if room >= 0 and exponent >= _SMALLEST and unscaled <= INT_MAX:
        return Quantity(sign * unscaled, exponent)
    if not (match[2] or match[3] or part):
        raise CelError("unable to parse numeric part of quantity")
    return _precise(sign, unscaled, exponent, binary=bool(binary))


def _precise(sign: int, unscaled: int, exponent: int, *, binary: bool) -> Quantity:
    """Return a decimal number: rounded up to billionths, and limited if its suffix is binary."""
    if unscaled == 0:
        return Quantity(0, exponent, fast=False)
    if exponent >= _SMALLEST:
        unscaled *= 10 ** (exponent - _SMALLEST)
    elif _SMALLEST - exponent > _LONGEST:
        unscaled = 1
    else:
        unscaled = -(-unscaled // 10 ** (_SMALLEST - exponent))
    if binary and unscaled > INT_MAX * 10**-_SMALLEST:
        return Quantity(sign * INT_MAX, 0, fast=False)
    return Quantity(sign * unscaled, _SMALLEST, fast=False)


def _other(value: Any) -> Quantity:
    if isinstance(value, Quantity):
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise NoOverload
    return Quantity(int(value))


@of_types(Quantity)
def _as_integer(_: Work, value: Quantity) -> int:
    found = value.integer()
    if found is None:
        raise CelError("cannot convert value to integer")
    return found


def _about(get: Callable[[Quantity], Any]) -> Function:
    return of_types(Quantity)(lambda _, value: get(value))


FUNCTIONS: dict[str, Function] = {
    "quantity": _quantity,
    "isQuantity": succeeds(_quantity),
    "sign": _about(lambda value: (value.unscaled > 0) - (value.unscaled < 0)),
    "asInteger": _as_integer,
    "isInteger": succeeds(_as_integer),
    "asApproximateFloat": _about(Quantity.real),
    "add": of_types(Quantity)(lambda _, left, right: left.plus(_other(right))),
    "sub": of_types(Quantity)(lambda _, left, right: left.plus(_other(right).negative())),
}
"""Implementation of each function, by name."""
