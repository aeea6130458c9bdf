"""Estimated costs of Kubernetes' CEL functions. Pure. Source: k8s.io/apiserver's `pkg/cel/library/cost.go`."""

from collections.abc import Callable, Sequence
from typing import Protocol

from vcsync.apimachinery.cel.ranges import (
    NOTHING,
    ONE,
    REGEX,
    TRAVERSAL,
    UNBOUNDED,
    Call,
    Operand,
    Range,
    fixed,
    scaled,
)


class Sizes(Protocol):
    """Provides the sizes of operands."""

    def sized(self, operand: Operand) -> Range:
        """Return the size of a value."""
        ...

    def element(self, operand: Operand) -> Operand | None:
        """Return an element of a list, or None if the operand is no list."""
        ...


Operands = Sequence[Operand]
Special = Callable[[Sizes, str, Operand | None, Operands], Call | None]


def _whole_list(of: Sizes, _: str, target: Operand | None, __: Operands) -> Call | None:
    if target is None:
        return None
    element = of.element(target)
    if element is None:
        return Call(of.sized(target).scale(TRAVERSAL))
    each = ONE
    if element.type.kind in ("string", "bytes"):
        each = each.add(of.sized(element).scale(TRAVERSAL))
    return Call(of.sized(target).multiply(each))


def _argument(factor: float, *, sized: bool) -> Special:
    def of_first(of: Sizes, _: str, __: Operand | None, args: Operands) -> Call | None:
        if not args:
            return None
        size = of.sized(args[0])
        return Call(size.scale(factor), size if sized else None)

    return of_first


def _same_text(of: Sizes, _: str, target: Operand | None, __: Operands) -> Call | None:
    if target is None:
        return None
    size = of.sized(target)
    return Call(size.scale(TRAVERSAL), size)


def _replaced(of: Sizes, _: str, target: Operand | None, args: Operands) -> Call | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = of.sized(target), of.sized(args[0]), of.sized(args[1])
    if old.least == 0:
        most = Range(0, min(size.most + 1, UNBOUNDED)), size.most
    elif new.most <= old.least:
        most = Range(0, 0), size.most
    else:
        most = Range(0, scaled(size.most, 1 / old.least)), 0
    if old.most == 0:
        least = min(size.least + 1, UNBOUNDED), size.least
    elif old.most <= new.least:
        least = 0, size.least
    else:
        least = scaled(size.least, 1 / old.most), 0
    count = Range(least[0], most[0].most)
    return Call(size.scale(2 * TRAVERSAL), count.multiply(new).add(Range(least[1], most[1])))


def _split(of: Sizes, _: str, target: Operand | None, args: Operands) -> Call | None:
    if target is None:
        return None
    size = of.sized(target)
    most = size.most
    if len(args) > 1 and args[1].expr is not None and isinstance(args[1].expr.value, int):
        most = args[1].expr.value % 2**64
    return Call(size.scale(2 * TRAVERSAL), Range(0, most))


def _joined(of: Sizes, _: str, target: Operand | None, args: Operands) -> Call | None:
    if target is None:
        return None
    count, size = of.sized(target), NOTHING
    element = of.element(target)
    if element is not None:
        size = count.multiply(of.sized(element))
    if args:
        separators = Range(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.add(of.sized(args[0]).multiply(separators))
    return Call(size.scale(TRAVERSAL), size)


def _found(of: Sizes, _: str, target: Operand | None, args: Operands) -> Call | None:
    if target is None or not args:
        return None
    size = of.sized(target)
    cost = size.add(ONE).scale(TRAVERSAL).multiply(of.sized(args[0]).scale(REGEX))
    return Call(cost, Range(0, size.most))


def _address(of: Sizes, overload: str, _: Operand | None, args: Operands) -> Call | None:
    if overload == "cidr_ip":
        return Call(ONE)
    return Call(of.sized(args[0]).scale(TRAVERSAL)) if args else None


_BYTES = Range(4, 16)


def _contains_ip(of: Sizes, overload: str, _: Operand | None, args: Operands) -> Call | None:
    cost = _BYTES.add(_BYTES).scale(TRAVERSAL)
    if overload == "cidr_contains_ip_string":
        cost = cost.add(of.sized(args[0]).scale(TRAVERSAL))
    return Call(cost)


def _contains_cidr(of: Sizes, overload: str, _: Operand | None, args: Operands) -> Call | None:
    cost = _BYTES.add(_BYTES).scale(TRAVERSAL).add(_BYTES.scale(TRAVERSAL)).add(ONE)
    if overload == "cidr_contains_cidr_string":
        cost = cost.add(of.sized(args[0]).scale(TRAVERSAL))
    return Call(cost)


def _validated(of: Sizes, _: str, __: Operand | None, args: Operands) -> Call | None:
    return Call(of.sized(args[0]).scale(TRAVERSAL).scale(128 * REGEX)) if args else None


def _nominal(_: Sizes, __: str, ___: Operand | None, ____: Operands) -> Call | None:
    return Call(ONE)


def _equals(_: Sizes, __: str, ___: Operand | None, args: Operands) -> Call | None:
    same = len(args) == 2 and args[0].type == args[1].type and args[0].type.kind == "opaque"
    return Call(ONE) if same and args[0].type.name != "optional_type" else None


def _sets(factor: float) -> Special:
    def product(of: Sizes, _: str, __: Operand | None, args: Operands) -> Call | None:
        if len(args) != 2:
            return None
        sizes = of.sized(args[0]).multiply(of.sized(args[1]))
        return Call(sizes.scale(factor).add(ONE), ONE)

    return product


def _allocated(power: int) -> Special:
    def list_call(of: Sizes, _: str, target: Operand | None, args: Operands) -> Call | None:
        own = target if target is not None else args[0] if args else None
        if own is None:
            return None
        size = of.sized(own)
        cost = size.multiply(size) if power == 2 else size
        return Call(cost.add(fixed(11)), size)

    return list_call


def _slice(_: Sizes, __: str, ___: Operand | None, args: Operands) -> Call | None:
    ends = [
        each.expr.value if each.expr is not None and isinstance(each.expr.value, int) else None
        for each in args
    ]
    start = ends[0] if ends and ends[0] is not None else 0
    end = ends[1] if len(ends) > 1 and ends[1] is not None else UNBOUNDED
    size = fixed((end - start) % 2**64)
    return Call(size.add(fixed(11)), size)


def _counted(_: Sizes, __: str, ___: Operand | None, args: Operands) -> Call | None:
    value = args[0].expr.value if args and args[0].expr is not None else None
    size = fixed(value if isinstance(value, int) and value >= 0 else UNBOUNDED)
    return Call(size.add(fixed(11)), size)


SPECIAL: dict[str, Special] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _whole_list),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_text),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _argument(0.1, sized=False)),
    **dict.fromkeys(
        ("masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast",
         "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan",
         "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch", "getScheme", "getHostname", "getHost",
         "getPort", "getEscapedPath", "getQuery"),
        _nominal,
    ),
    "url": _argument(TRAVERSAL, sized=True),
    "ip.isCanonical": _argument(2 * TRAVERSAL, sized=False),
    "ip": _address,
    "replace": _replaced,
    "split": _split,
    "join": _joined,
    "find": _found,
    "findAll": _found,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validated,
    "_==_": _equals,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
    "reverse": _allocated(1),
    "flatten": _allocated(1),
    "distinct": _allocated(2),
    "sort": _allocated(2),
    "@sortByAssociatedKeys": _allocated(2),
    "slice": _slice,
    "lists.range": _counted,
}  # fmt: skip
"""Estimate of each function's cost, by name. An estimate of None means that of the standard function."""
