"""The worst-case cost of an expression, estimated when it is declared. Pure.

Source: cel-go's `checker/cost.go`, with sizes and call costs of k8s.io/apiserver `pkg/cel/library/cost.go`. The
estimates decide which rules a definition may have.
"""

from collections.abc import Callable, Sequence
from typing import cast

from vcsync.apimachinery.cel.declared import Declared
from vcsync.apimachinery.cel.estimate_calls import SPECIAL
from vcsync.apimachinery.cel.estimate_standard import STANDARD
from vcsync.apimachinery.cel.expression import Checked, Expr, Fold, Type
from vcsync.apimachinery.cel.ranges import (
    NOTHING,
    ONE,
    TRAVERSAL,
    UNBOUNDED,
    UNKNOWN,
    Call,
    Entry,
    Local,
    Operand,
    Range,
    fixed,
)

_SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})


def estimate_cost(checked: Checked, declared: Declared) -> int:
    """Return the worst-case cost of an expression about values of a declared type."""
    return Estimator(checked, declared).cost(checked.root).most


class Estimator:
    """Estimates the cost of the nodes of one expression."""

    def __init__(self, checked: Checked, declared: Declared) -> None:
        """Take the expression and the type of the variable `self`."""
        self._checked = checked
        self._declared = declared
        self._paths: dict[int, tuple[str, ...]] = {}
        self._locals: dict[str, list[Local]] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, Entry] = {}

    def cost(self, expr: Expr) -> Range:
        """Return the cost of a node and everything below it."""
        if expr.kind == "const":
            return NOTHING
        maker: Callable[[Expr], Range] = getattr(self, f"_{expr.kind}")
        return maker(expr)

    def _type(self, expr: Expr) -> Type:
        return self._checked.types.get(expr.id, Type("dyn"))

    def _local(self, name: str) -> Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _path(self, expr: Expr) -> tuple[str, ...]:
        if expr.kind == "ident" and (local := self._local(expr.name)) is not None:
            return local.path
        return self._paths.get(expr.id, ())

    def _ident(self, expr: Expr) -> Range:
        local = self._local(expr.name)
        self._paths[expr.id] = local.path if local is not None else (expr.name,)
        return ONE

    def _select(self, expr: Expr) -> Range:
        target = cast("Expr", expr.target)
        if expr.id in self._checked.names:
            return ONE
        total = self.cost(target)
        if expr.test:
            return total
        if self._type(target).kind in ("map", "message", "parameter"):
            total = total.add(ONE)
        self._paths[expr.id] = (*self._path(target), expr.name)
        return total

    def _list(self, expr: Expr) -> Range:
        total, size = NOTHING, Range(UNBOUNDED if expr.args else 0, 0)
        for each in expr.args:
            total = total.add(self.cost(each))
            size = size.union(self.size(each) or UNKNOWN)
        self._entries[expr.id] = Entry("list", ONE, size)
        return total.add(fixed(10))

    def _map(self, expr: Expr) -> Range:
        total = NOTHING
        least = UNBOUNDED if expr.args else 0
        sizes = [Range(least, 0), Range(least, 0)]
        for at, each in enumerate(expr.args):
            total = total.add(self.cost(each))
            sizes[at % 2] = sizes[at % 2].union(self.size(each) or UNKNOWN)
        self._entries[expr.id] = Entry("map", *sizes)
        return total.add(fixed(30))

    def _struct(self, expr: Expr) -> Range:
        total = fixed(40)
        for each in expr.args[1::2]:
            total = total.add(self.cost(each))
        return total

    def _push(self, name: str, local: Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _fold(self, expr: Expr) -> Range:
        fold = cast("Fold", expr.fold)
        total = self.cost(fold.range).add(self.cost(fold.initial))
        self._push(
            fold.accumulator,
            Local(self._path(fold.initial), self.size(fold.initial), self.entry(fold.initial)),
        )
        entry, path = self.entry(fold.range), self._path(fold.range)
        kind = entry.kind if entry is not None else self._type(fold.range).kind
        key, value = (entry.key, entry.value) if entry is not None else (None, None)
        keys, values = ("@indices", "@items") if kind == "list" else ("@keys", "@values")
        if fold.variable2:
            self._push(fold.variable, Local((*path, keys), key, None))
            self._push(fold.variable2, Local((*path, values), value, None))
        elif kind == "list":
            self._push(fold.variable, Local((*path, "@items"), value, None))
        else:
            self._push(fold.variable, Local((*path, "@keys"), key, None))
        loop = self.cost(fold.condition).add(self.cost(fold.step))
        for name in filter(None, (fold.variable, fold.variable2)):
            self._locals[name].pop()
        total = total.add(self.cost(fold.result))
        self._locals[fold.accumulator].pop()
        count = self.size(fold.range) or UNKNOWN
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
            total = self.cost(expr.args[0]).add(ONE)
            self._keep(expr, self.size(expr.args[0]))
            if (entry := self.entry(expr.args[0])) is not None:
                self._entries[expr.id] = entry
            return total
        costs = [self.cost(each) for each in expr.args]
        operands = [self._operand(each) for each in expr.args]
        total, target = NOTHING, None
        if expr.target is not None:
            total = self.cost(expr.target)
            target = self._operand(expr.target)
        overloads = self._checked.overloads.get(expr.id, ())
        if not overloads:
            return NOTHING
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

    def _operand(self, expr: Expr) -> Operand:
        path = self._path(expr)
        if path and path[0] in ("@result", "__result__"):
            path = ()
        return Operand(expr, path, self._type(expr), self.size(expr))

    def size(self, expr: Expr) -> Range | None:
        """Return the size of a node's value, or None if it is unknown."""
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
            return ONE
        if expr.kind == "ident" and (local := self._local(expr.name)) is not None:
            return local.size
        return None

    def _declared_size(self, path: tuple[str, ...]) -> Range | None:
        """Return the size that the schema gives to a path that starts at `self`."""
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

    def entry(self, expr: Expr) -> Entry | None:
        """Return the sizes of a container's entries, or None if they are unknown."""
        if expr.id in self._entries:
            return self._entries[expr.id]
        if expr.kind == "ident" and (local := self._local(expr.name)) is not None:
            return local.entry
        return None

    def sized(self, operand: Operand) -> Range:
        """Return the size of a value."""
        if operand.size is not None:
            return operand.size
        return self._declared_size(operand.path) or UNKNOWN

    def element(self, operand: Operand) -> Operand | None:
        """Return an element of a list, or None if the operand is no list."""
        if not operand.type.parameters:
            return None
        path = (*operand.path, "@items") if operand.path else ()
        return Operand(None, path, operand.type.parameters[0], None)

    def _one(
        self,
        expr: Expr,
        overload: str,
        target: Operand | None,
        args: Sequence[Operand],
        costs: Sequence[Range],
    ) -> Call:
        spent = NOTHING
        for each in costs:
            spent = spent.add(each)
        special = SPECIAL.get(expr.name)
        call = special(self, overload, target, args) if special is not None else None
        if call is not None:
            return Call(call.cost.add(spent), call.size)
        if overload in ("logical_and", "logical_or"):
            return Call(Range(costs[0].least, costs[0].add(costs[1]).most))
        if overload == "conditional":
            return self._conditional(expr, args, costs)
        if overload in ("add_string", "add_bytes", "add_list") and len(args) == 2:
            return self._added(expr, overload, args, spent)
        standard = STANDARD.get(overload)
        call = standard(target, args) if standard is not None else None
        return Call(
            (call.cost if call is not None else ONE).add(spent), call.size if call is not None else None
        )

    def _conditional(self, expr: Expr, args: Sequence[Operand], costs: Sequence[Range]) -> Call:
        size = (args[1].size or UNKNOWN).union(args[2].size or UNKNOWN)
        self._unite(expr, args[1], args[2])
        return Call(costs[0].add(costs[1].union(costs[2])), size)

    def _added(self, expr: Expr, overload: str, args: Sequence[Operand], spent: Range) -> Call:
        size = (args[0].size or UNKNOWN).add(args[1].size or UNKNOWN)
        self._unite(expr, *args)
        own = ONE if overload == "add_list" else size.scale(TRAVERSAL)
        return Call(own.add(spent), size)

    def _unite(self, expr: Expr, left: Operand, right: Operand) -> None:
        first = self.entry(left.expr) if left.expr is not None else None
        second = self.entry(right.expr) if right.expr is not None else None
        if first is not None and second is not None:
            united = Entry(first.kind, first.key.union(second.key), first.value.union(second.value))
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
