"""How much an expression can cost at most, estimated when it is declared. Pure.

As cel-go's `checker/cost.go`, with the sizes and call costs of k8s.io/apiserver `pkg/cel/library/cost.go`: which rules
a definition may hold depends on these figures.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from vcsync.controlplane.cel.declared import Declared
from vcsync.controlplane.cel.expression import Checked, Expr, Fold, Type

UNBOUNDED = 2**64 - 1
_TRAVERSAL, _REGEX = 0.1, 0.25
_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})


class Range(NamedTuple):
    """Least and most of a cost or size."""

    least: int
    most: int

    def add(self, other: "Range") -> "Range":
        """Return the sum."""
        return Range(min(self.least + other.least, UNBOUNDED), min(self.most + other.most, UNBOUNDED))

    def multiply(self, other: "Range") -> "Range":
        """Return the product."""
        return Range(min(self.least * other.least, UNBOUNDED), min(self.most * other.most, UNBOUNDED))

    def scale(self, factor: float) -> "Range":
        """Return a multiple, rounded up."""
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: "Range") -> "Range":
        """Return what encloses both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def _scaled(value: int, factor: float) -> int:
    return min(math.ceil(float(value) * factor), UNBOUNDED)


def fixed(value: int) -> Range:
    """Return a figure that is known."""
    return Range(value, value)


_NOTHING, _ONE, _UNKNOWN = fixed(0), fixed(1), Range(0, UNBOUNDED)


@dataclass(frozen=True, slots=True)
class _Entry:
    """Sizes of a container's keys (or indices) and values."""

    kind: str
    key: Range
    value: Range


@dataclass(frozen=True, slots=True)
class _Local:
    path: tuple[str, ...]
    size: Range | None
    entry: _Entry | None


@dataclass(frozen=True, slots=True)
class _Operand:
    """A target or argument: where its value comes from, its type, its size if it is known."""

    expr: Expr | None
    path: tuple[str, ...]
    type: Type
    size: Range | None


class _Call(NamedTuple):
    cost: Range
    size: Range | None = None


def estimate_cost(checked: Checked, declared: Declared) -> int:
    """Return the most that an expression about values of a declared type can cost."""
    return _Estimator(checked, declared).cost(checked.root).most


class _Estimator:
    def __init__(self, checked: Checked, declared: Declared) -> None:
        self._checked = checked
        self._declared = declared
        self._paths: dict[int, tuple[str, ...]] = {}
        self._locals: dict[str, list[_Local]] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entry] = {}

    def cost(self, expr: Expr) -> Range:
        if expr.kind == "const":
            return _NOTHING
        maker: Callable[[Expr], Range] = getattr(self, f"_{expr.kind}")
        return maker(expr)

    def _type(self, expr: Expr) -> Type:
        return self._checked.types.get(expr.id, Type("dyn"))

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _path(self, expr: Expr) -> tuple[str, ...]:
        if expr.kind == "ident" and (local := self._local(expr.name)) is not None:
            return local.path
        return self._paths.get(expr.id, ())

    def _ident(self, expr: Expr) -> Range:
        local = self._local(expr.name)
        self._paths[expr.id] = local.path if local is not None else (expr.name,)
        return _ONE

    def _select(self, expr: Expr) -> Range:
        target = cast("Expr", expr.target)
        if expr.id in self._checked.names:
            return _ONE
        total = self.cost(target)
        if expr.test:
            return total
        if self._type(target).kind in ("map", "message", "parameter"):
            total = total.add(_ONE)
        self._paths[expr.id] = (*self._path(target), expr.name)
        return total

    def _list(self, expr: Expr) -> Range:
        total, size = _NOTHING, Range(UNBOUNDED if expr.args else 0, 0)
        for each in expr.args:
            total = total.add(self.cost(each))
            size = size.union(self.size(each) or _UNKNOWN)
        self._entries[expr.id] = _Entry("list", _ONE, size)
        return total.add(fixed(10))

    def _map(self, expr: Expr) -> Range:
        total = _NOTHING
        least = UNBOUNDED if expr.args else 0
        sizes = [Range(least, 0), Range(least, 0)]
        for at, each in enumerate(expr.args):
            total = total.add(self.cost(each))
            sizes[at % 2] = sizes[at % 2].union(self.size(each) or _UNKNOWN)
        self._entries[expr.id] = _Entry("map", *sizes)
        return total.add(fixed(30))

    def _struct(self, expr: Expr) -> Range:
        total = fixed(40)
        for each in expr.args[1::2]:
            total = total.add(self.cost(each))
        return total

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _fold(self, expr: Expr) -> Range:
        fold = cast("Fold", expr.fold)
        total = self.cost(fold.range).add(self.cost(fold.initial))
        self._push(
            fold.accumulator,
            _Local(self._path(fold.initial), self.size(fold.initial), self.entry(fold.initial)),
        )
        entry, path = self.entry(fold.range), self._path(fold.range)
        kind = entry.kind if entry is not None else self._type(fold.range).kind
        key, value = (entry.key, entry.value) if entry is not None else (None, None)
        keys, values = ("@indices", "@items") if kind == "list" else ("@keys", "@values")
        if fold.variable2:
            self._push(fold.variable, _Local((*path, keys), key, None))
            self._push(fold.variable2, _Local((*path, values), value, None))
        elif kind == "list":
            self._push(fold.variable, _Local((*path, "@items"), value, None))
        else:
            self._push(fold.variable, _Local((*path, "@keys"), key, None))
        loop = self.cost(fold.condition).add(self.cost(fold.step))
        for name in filter(None, (fold.variable, fold.variable2)):
            self._locals[name].pop()
        total = total.add(self.cost(fold.result))
        self._locals[fold.accumulator].pop()
        count = self.size(fold.range) or _UNKNOWN
        if fold.initial.kind == "const":
            self._keep(expr, self.size(fold.initial))
        elif fold.initial.kind in ("list", "map"):
            self._sizes[expr.id] = count
            if (made := self.entry(fold.step)) is not None:
                self._entries[expr.id] = made
        return total.add(count.multiply(loop))

    def _keep(self, expr: Expr, size: Range | None) -> None:
        if size is not None:
            self._sizes[expr.id] = size

    def _call(self, expr: Expr) -> Range:
        if expr.name == "dyn":
            total = self.cost(expr.args[0]).add(_ONE)
            self._keep(expr, self.size(expr.args[0]))
            if (entry := self.entry(expr.args[0])) is not None:
                self._entries[expr.id] = entry
            return total
        costs = [self.cost(each) for each in expr.args]
        operands = [self._operand(each) for each in expr.args]
        total, target = _NOTHING, None
        if expr.target is not None:
            total = self.cost(expr.target)
            target = self._operand(expr.target)
        overloads = self._checked.overloads.get(expr.id, ())
        if not overloads:
            return _NOTHING
        found = Range(UNBOUNDED, 0)
        size: Range | None = None
        for overload in overloads:
            call = self._one(expr, overload, target, operands, costs)
            found = found.union(call.cost)
            if call.size is not None:
                size = call.size if size is None else size.union(call.size)
            if overload in ("index_list", "index_map") and expr.args:
                entry = self.entry(expr.args[0])
                size = entry.value if entry is not None else None
                step = "@items" if overload == "index_list" else "@values"
                self._paths[expr.id] = (*self._path(expr.args[0]), step)
            if size is None:
                size = self.size(expr)
        self._keep(expr, size)
        return total.add(found)

    def _operand(self, expr: Expr) -> _Operand:
        path = self._path(expr)
        if path and path[0] in ("@result", "__result__"):
            path = ()
        return _Operand(expr, path, self._type(expr), self.size(expr))

    def size(self, expr: Expr) -> Range | None:
        """Return the size of a node's value, None: it is not known."""
        if expr.id in self._sizes:
            return self._sizes[expr.id]
        literal = _literal_size(expr)
        if literal is not None:
            return literal
        declared = self._declared_size(self._path(expr))
        if declared is not None:
            self._sizes[expr.id] = declared
            return declared
        if _scalar(self._type(expr)):
            return _ONE
        if expr.kind == "ident" and (local := self._local(expr.name)) is not None:
            return local.size
        return None

    def _declared_size(self, path: tuple[str, ...]) -> Range | None:
        """Follow a path from `self` to the size that the schema gives."""
        if not path:
            return None
        declared: Declared | None = self._declared
        for name in path[1:]:
            if declared is None:
                return None
            if name in ("@items", "@values"):
                declared = declared.element
            elif name == "@keys":
                return Range(0, 0) if declared.kind == "map" else None
            else:
                known = declared.fields.get(name)
                declared = known[1] if known is not None else None
        return None if declared is None else Range(0, declared.largest)

    def entry(self, expr: Expr) -> _Entry | None:
        """Return the sizes of a container's entries, None: they are not known."""
        if expr.id in self._entries:
            return self._entries[expr.id]
        if expr.kind == "ident" and (local := self._local(expr.name)) is not None:
            return local.entry
        return None

    def _sized(self, operand: _Operand) -> Range:
        if operand.size is not None:
            return operand.size
        return self._declared_size(operand.path) or _UNKNOWN

    def _element(self, operand: _Operand) -> _Operand | None:
        if not operand.type.parameters:
            return None
        path = (*operand.path, "@items") if operand.path else ()
        return _Operand(None, path, operand.type.parameters[0], None)

    def _one(
        self,
        expr: Expr,
        overload: str,
        target: _Operand | None,
        args: Sequence[_Operand],
        costs: Sequence[Range],
    ) -> _Call:
        spent = _NOTHING
        for each in costs:
            spent = spent.add(each)
        special = _SPECIAL.get(expr.name)
        call = special(self, overload, target, args) if special is not None else None
        if call is not None:
            return _Call(call.cost.add(spent), call.size)
        if overload in ("logical_and", "logical_or"):
            return _Call(Range(costs[0].least, costs[0].add(costs[1]).most))
        if overload == "conditional":
            return self._conditional(expr, args, costs)
        if overload in ("add_string", "add_bytes", "add_list") and len(args) == 2:
            return self._added(expr, overload, args, spent)
        standard = _STANDARD.get(overload)
        call = standard(target, args) if standard is not None else None
        return _Call(
            (call.cost if call is not None else _ONE).add(spent), call.size if call is not None else None
        )

    def _conditional(self, expr: Expr, args: Sequence[_Operand], costs: Sequence[Range]) -> _Call:
        size = (args[1].size or _UNKNOWN).union(args[2].size or _UNKNOWN)
        self._unite(expr, args[1], args[2])
        return _Call(costs[0].add(costs[1].union(costs[2])), size)

    def _added(self, expr: Expr, overload: str, args: Sequence[_Operand], spent: Range) -> _Call:
        size = (args[0].size or _UNKNOWN).add(args[1].size or _UNKNOWN)
        self._unite(expr, *args)
        own = _ONE if overload == "add_list" else size.scale(_TRAVERSAL)
        return _Call(own.add(spent), size)

    def _unite(self, expr: Expr, left: _Operand, right: _Operand) -> None:
        first = self.entry(left.expr) if left.expr is not None else None
        second = self.entry(right.expr) if right.expr is not None else None
        if first is not None and second is not None:
            united = _Entry(first.kind, first.key.union(second.key), first.value.union(second.value))
            self._entries[expr.id] = united


def _literal_size(expr: Expr) -> Range | None:
    if expr.kind == "const":
        return fixed(len(expr.value) if isinstance(expr.value, str | bytes) else 1)
    if expr.kind in ("list", "map"):
        return fixed(len(expr.args) // (2 if expr.kind == "map" else 1))
    return None


def _scalar(type_: Type) -> bool:
    if type_.kind == "opaque" and type_.name == "optional_type":
        return bool(type_.parameters) and _scalar(type_.parameters[0])
    return type_.kind in _SCALARS


_Operands = Sequence[_Operand]
_Special = Callable[[_Estimator, str, _Operand | None, _Operands], _Call | None]


def _whole_list(of: _Estimator, _: str, target: _Operand | None, __: _Operands) -> _Call | None:
    if target is None:
        return None
    element = of._element(target)
    if element is None:
        return _Call(of._sized(target).scale(_TRAVERSAL))
    each = _ONE
    if element.type.kind in ("string", "bytes"):
        each = each.add(of._sized(element).scale(_TRAVERSAL))
    return _Call(of._sized(target).multiply(each))


def _argument(factor: float, *, sized: bool) -> _Special:
    def of_first(of: _Estimator, _: str, __: _Operand | None, args: _Operands) -> _Call | None:
        if not args:
            return None
        size = of._sized(args[0])
        return _Call(size.scale(factor), size if sized else None)

    return of_first


def _same_text(of: _Estimator, _: str, target: _Operand | None, __: _Operands) -> _Call | None:
    if target is None:
        return None
    size = of._sized(target)
    return _Call(size.scale(_TRAVERSAL), size)


def _replaced(of: _Estimator, _: str, target: _Operand | None, args: _Operands) -> _Call | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = of._sized(target), of._sized(args[0]), of._sized(args[1])
    if old.least == 0:
        most = Range(0, min(size.most + 1, UNBOUNDED)), size.most
    elif new.most <= old.least:
        most = Range(0, 0), size.most
    else:
        most = Range(0, _scaled(size.most, 1 / old.least)), 0
    if old.most == 0:
        least = min(size.least + 1, UNBOUNDED), size.least
    elif old.most <= new.least:
        least = 0, size.least
    else:
        least = _scaled(size.least, 1 / old.most), 0
    count = Range(least[0], most[0].most)
    return _Call(size.scale(2 * _TRAVERSAL), count.multiply(new).add(Range(least[1], most[1])))


def _split(of: _Estimator, _: str, target: _Operand | None, args: _Operands) -> _Call | None:
    if target is None:
        return None
    size = of._sized(target)
    most = size.most
    if len(args) > 1 and args[1].expr is not None and isinstance(args[1].expr.value, int):
        most = args[1].expr.value % 2**64
    return _Call(size.scale(2 * _TRAVERSAL), Range(0, most))


def _joined(of: _Estimator, _: str, target: _Operand | None, args: _Operands) -> _Call | None:
    if target is None:
        return None
    count, size = of._sized(target), _NOTHING
    element = of._element(target)
    if element is not None:
        size = count.multiply(of._sized(element))
    if args:
        separators = Range(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.add(of._sized(args[0]).multiply(separators))
    return _Call(size.scale(_TRAVERSAL), size)


def _found(of: _Estimator, _: str, target: _Operand | None, args: _Operands) -> _Call | None:
    if target is None or not args:
        return None
    size = of._sized(target)
    cost = size.add(_ONE).scale(_TRAVERSAL).multiply(of._sized(args[0]).scale(_REGEX))
    return _Call(cost, Range(0, size.most))


def _address(of: _Estimator, overload: str, _: _Operand | None, args: _Operands) -> _Call | None:
    if overload == "cidr_ip":
        return _Call(_ONE)
    return _Call(of._sized(args[0]).scale(_TRAVERSAL)) if args else None


_BYTES = Range(4, 16)


def _contains_ip(of: _Estimator, overload: str, _: _Operand | None, args: _Operands) -> _Call | None:
    cost = _BYTES.add(_BYTES).scale(_TRAVERSAL)
    if overload == "cidr_contains_ip_string":
        cost = cost.add(of._sized(args[0]).scale(_TRAVERSAL))
    return _Call(cost)


def _contains_cidr(of: _Estimator, overload: str, _: _Operand | None, args: _Operands) -> _Call | None:
    cost = _BYTES.add(_BYTES).scale(_TRAVERSAL).add(_BYTES.scale(_TRAVERSAL)).add(_ONE)
    if overload == "cidr_contains_cidr_string":
        cost = cost.add(of._sized(args[0]).scale(_TRAVERSAL))
    return _Call(cost)


def _validated(of: _Estimator, _: str, __: _Operand | None, args: _Operands) -> _Call | None:
    return _Call(of._sized(args[0]).scale(_TRAVERSAL).scale(128 * _REGEX)) if args else None


def _nominal(_: _Estimator, __: str, ___: _Operand | None, ____: _Operands) -> _Call | None:
    return _Call(_ONE)


def _equals(_: _Estimator, __: str, ___: _Operand | None, args: _Operands) -> _Call | None:
    same = len(args) == 2 and args[0].type == args[1].type and args[0].type.kind == "opaque"
    return _Call(_ONE) if same and args[0].type.name != "optional_type" else None


def _sets(factor: float) -> _Special:
    def product(of: _Estimator, _: str, __: _Operand | None, args: _Operands) -> _Call | None:
        if len(args) != 2:
            return None
        sizes = of._sized(args[0]).multiply(of._sized(args[1]))
        return _Call(sizes.scale(factor).add(_ONE), _ONE)

    return product


def _allocated(power: int) -> _Special:
    def list_call(of: _Estimator, _: str, target: _Operand | None, args: _Operands) -> _Call | None:
        own = target if target is not None else args[0] if args else None
        if own is None:
            return None
        size = of._sized(own)
        cost = size.multiply(size) if power == 2 else size
        return _Call(cost.add(fixed(11)), size)

    return list_call


def _slice(_: _Estimator, __: str, ___: _Operand | None, args: _Operands) -> _Call | None:
    ends = [
        each.expr.value if each.expr is not None and isinstance(each.expr.value, int) else None
        for each in args
    ]
    start = ends[0] if ends and ends[0] is not None else 0
    end = ends[1] if len(ends) > 1 and ends[1] is not None else UNBOUNDED
    size = fixed((end - start) % 2**64)
    return _Call(size.add(fixed(11)), size)


def _counted(_: _Estimator, __: str, ___: _Operand | None, args: _Operands) -> _Call | None:
    value = args[0].expr.value if args and args[0].expr is not None else None
    size = fixed(value if isinstance(value, int) and value >= 0 else UNBOUNDED)
    return _Call(size.add(fixed(11)), size)


_SPECIAL: dict[str, _Special] = {
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
    "url": _argument(_TRAVERSAL, sized=True),
    "ip.isCanonical": _argument(2 * _TRAVERSAL, sized=False),
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


def _known(operand: _Operand) -> Range:
    return operand.size if operand.size is not None else _UNKNOWN


def _smaller(_: _Operand | None, args: _Operands) -> _Call:
    most = min(_known(args[0]).most, _known(args[1]).most)
    return _Call(Range(1 if most > 0 else 0, most).scale(_TRAVERSAL))


def _first(_: _Operand | None, args: _Operands) -> _Call | None:
    return _Call(_known(args[0]).scale(_TRAVERSAL)) if len(args) == 1 else None


def _of_target(target: _Operand | None, _: _Operands) -> _Call | None:
    return _Call(_known(target).scale(_TRAVERSAL)) if target is not None else None


def _encoded(_: _Operand | None, args: _Operands) -> _Call:
    size = _known(args[0])
    return _Call(size.scale(_TRAVERSAL), Range(size.least, min(size.most * 4, UNBOUNDED)))


def _decoded(_: _Operand | None, args: _Operands) -> _Call:
    size = _known(args[0])
    return _Call(size.scale(_TRAVERSAL), Range(size.least // 4, size.most))


def _quoted(_: _Operand | None, args: _Operands) -> _Call:
    size = _known(args[0])
    return _Call(size.scale(_TRAVERSAL), Range(size.least + 2, min(size.most * 2 + 2, UNBOUNDED)))


def _in_list(_: _Operand | None, args: _Operands) -> _Call:
    return _Call(_known(args[1]))


def _matches(target: _Operand | None, args: _Operands) -> _Call | None:
    if target is None or len(args) != 1:
        return None
    text = _known(target).add(_ONE).scale(_TRAVERSAL)
    return _Call(text.multiply(_known(args[0]).scale(_REGEX)))


def _contains(target: _Operand | None, args: _Operands) -> _Call | None:
    if target is None or len(args) != 1:
        return None
    return _Call(_known(target).scale(_TRAVERSAL).multiply(_known(args[0]).scale(_TRAVERSAL)))


_STANDARD: dict[str, Callable[[_Operand | None, _Operands], _Call | None]] = {
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
