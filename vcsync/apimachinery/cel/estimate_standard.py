"""Estimated costs of CEL's standard functions. Pure. Source: cel-go's `checker/cost.go`."""

from collections.abc import Callable, Sequence

from vcsync.apimachinery.cel.ranges import ONE, REGEX, TRAVERSAL, UNBOUNDED, UNKNOWN, Call, Operand, Range

Operands = Sequence[Operand]


def _known(operand: Operand) -> Range:
    return operand.size if operand.size is not None else UNKNOWN


def _smaller(_: Operand | None, args: Operands) -> Call:
    most = min(_known(args[0]).most, _known(args[1]).most)
    return Call(Range(1 if most > 0 else 0, most).scale(TRAVERSAL))


def _first(_: Operand | None, args: Operands) -> Call | None:
    return Call(_known(args[0]).scale(TRAVERSAL)) if len(args) == 1 else None


def _of_target(target: Operand | None, _: Operands) -> Call | None:
    return Call(_known(target).scale(TRAVERSAL)) if target is not None else None


def _encoded(_: Operand | None, args: Operands) -> Call:
    size = _known(args[0])
    return Call(size.scale(TRAVERSAL), Range(size.least, min(size.most * 4, UNBOUNDED)))


def _decoded(_: Operand | None, args: Operands) -> Call:
    size = _known(args[0])
    return Call(size.scale(TRAVERSAL), Range(size.least // 4, size.most))


def _quoted(_: Operand | None, args: Operands) -> Call:
    size = _known(args[0])
    return Call(size.scale(TRAVERSAL), Range(size.least + 2, min(size.most * 2 + 2, UNBOUNDED)))


def _in_list(_: Operand | None, args: Operands) -> Call:
    return Call(_known(args[1]))


def _matches(target: Operand | None, args: Operands) -> Call | None:
    if target is None or len(args) != 1:
        return None
    text = _known(target).add(ONE).scale(TRAVERSAL)
    return Call(text.multiply(_known(args[0]).scale(REGEX)))


def _contains(target: Operand | None, args: Operands) -> Call | None:
    if target is None or len(args) != 1:
        return None
    return Call(_known(target).scale(TRAVERSAL).multiply(_known(args[0]).scale(TRAVERSAL)))


STANDARD: dict[str, Callable[[Operand | None, Operands], Call | None]] = {
    **dict.fromkeys(
        ("equals", "not_equals", "less_string", "greater_string", "less_equals_string", "greater_equals_string",
         "less_bytes", "greater_bytes", "less_equals_bytes", "greater_equals_bytes"),
        _smaller,
    ),
    "starts_with_string": _first,
    "ends_with_string": _first,
    "string_format": _of_target,
    "string_to_bytes": _encoded,
    "bytes_to_string": _decoded,
    "strings_quote": _quoted,
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
}  # fmt: skip
"""Estimate of a call's cost, by overload."""
