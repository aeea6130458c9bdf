"""Evaluates checked expressions and counts their cost, so that every evaluation is bounded.

`prepare` turns an expression into a tree of Python closures once. Costs are those of cel-go's
`interpreter/runtimecost.go` and Kubernetes' `pkg/cel/library/cost.go`. A limit of work counts every step besides.
"""

from collections.abc import Callable
from typing import Any, cast

from vcsync.apimachinery.cel.access import field_of, has
from vcsync.apimachinery.cel.costs import call_cost
from vcsync.apimachinery.cel.expression import Checked, Expr, Fold, below
from vcsync.apimachinery.cel.functions import FUNCTIONS
from vcsync.apimachinery.cel.operators import OPERATORS, collected
from vcsync.apimachinery.cel.running import Run, Step, caught
from vcsync.apimachinery.cel.values import (
    CelError,
    CostExceeded,
    Made,
    Optional,
    Struct,
    TypeValue,
    Work,
    iterate,
)
from vcsync.apimachinery.structural import patterns

__all__ = ["MOST_ELEMENTS", "Run", "Step", "constant_fault", "prepare"]

_TYPES = {"timestamp": "google.protobuf.Timestamp", "duration": "google.protobuf.Duration"}
_LIST_COST, _MAP_COST, _STRUCT_COST = 10, 30, 40
_WALKING = frozenset(
    {
        "sum",
        "isSorted",
        "max",
        "min",
        "indexOf",
        "lastIndexOf",
        "join",
        "sort",
        "@sortByAssociatedKeys",
        "reverse",
    }
)
"""Functions that visit every element of a list."""
_STEP_COST = 10
"""Cost of one call that counts as one step."""
MOST_ELEMENTS = 1_000_000
"""Most elements or characters of a list or string that an expression may make."""


def prepare(checked: Checked) -> Step:
    """Return a closure that evaluates an expression.

    The closure raises `CelError` if the expression has no value, and `CostExceeded` if it costs too much.
    """
    return _Planner(checked).plan(checked.root)


_FOLDED = frozenset({"int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp"})


def constant_fault(checked: Checked) -> str:
    """Return why a conversion of a constant, or a constant pattern, always fails; an empty string if none does."""
    for each in below(checked.root):
        if each.kind != "call" or not each.args:
            continue
        value = each.args[0].value if each.args[0].kind == "const" else None
        try:
            if each.name in _FOLDED and value is not None:
                FUNCTIONS[each.name](Work(1000), value)
            elif each.name in ("find", "findAll", "matches"):
                pattern = each.args[-1] if each.name == "matches" else each.args[0]
                if pattern.kind == "const" and isinstance(pattern.value, str):
                    patterns.compiled(pattern.value)
        except (CelError, patterns.InvalidPattern) as why:
            return str(why)
    return ""


class _Planner:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked

    def plan(self, expr: Expr) -> Step:
        maker: Callable[[Expr], Step] = getattr(self, f"_{expr.kind}")
        return maker(expr)

    def _const(self, expr: Expr) -> Step:
        value = expr.value
        return lambda _: value

    def _ident(self, expr: Expr) -> Step:
        name = expr.name
        if expr.id in self._checked.constants:
            constant = self._checked.constants[expr.id]
            return lambda _: constant
        type_ = self._checked.types.get(expr.id)
        if type_ is not None and type_.kind == "type":
            known = TypeValue(_TYPES.get(name, name))

            def of(run: Run) -> Any:
                run.charge(1)
                return run.variables.get(name, known)

            return of

        def look(run: Run) -> Any:
            run.charge(1)
            try:
                value = run.variables[name]
            except KeyError:
                raise CelError(f"no such attribute(s): {name}") from None
            if isinstance(value, CelError):
                raise value
            return value

        return look

    def _select(self, expr: Expr) -> Step:
        if expr.id in self._checked.names:
            whole = self._checked.names[expr.id]
            known = TypeValue(whole)
            return lambda run: run.variables.get(whole, known)
        operand, name = self.plan(cast("Expr", expr.target)), expr.name
        if expr.test:
            return lambda run: has(operand(run), name)

        def select(run: Run) -> Any:
            value = operand(run)
            run.charge(1)
            return field_of(value, name)

        return select

    def _list(self, expr: Expr) -> Step:
        elements = [(self.plan(each), at in expr.optional) for at, each in enumerate(expr.args)]

        def make(run: Run) -> list[Any]:
            found = []
            for step, optional in elements:
                value = step(run)
                if not optional:
                    found.append(value)
                elif not isinstance(value, Optional):
                    raise CelError(f"cannot initialize optional list element from non-optional value {value}")
                elif value.present:
                    found.append(value.value)
            run.charge(_LIST_COST)
            return found

        return make

    def _map(self, expr: Expr) -> Step:
        steps = [self.plan(each) for each in expr.args]
        entries = list(zip(steps[0::2], steps[1::2], strict=True))

        def make(run: Run) -> dict[Any, Any]:
            found: dict[Any, Any] = {}
            for at, (key_step, value_step) in enumerate(entries):
                key, value = key_step(run), value_step(run)
                if isinstance(key, list | dict | Struct | Optional):
                    raise CelError("unsupported key type")
                if at in expr.optional:
                    if not isinstance(value, Optional):
                        raise CelError(
                            f"cannot initialize optional entry '{key}' from non-optional value {value}"
                        )
                    if not value.present:
                        continue
                    value = value.value
                if key in found:
                    raise CelError(f"Failed with repeated key '{key}'")
                found[key] = value
            run.charge(_MAP_COST)
            return found

        return make

    def _struct(self, expr: Expr) -> Step:
        names = [str(each.value) for each in expr.args[0::2]]
        steps = [self.plan(each) for each in expr.args[1::2]]

        def make(run: Run) -> Made:
            found: dict[str, Any] = {}
            for at, (name, step) in enumerate(zip(names, steps, strict=True)):
                value = step(run)
                if at in expr.optional:
                    if not isinstance(value, Optional):
                        raise CelError(
                            f"cannot initialize optional entry '{name}' from non-optional value {value}"
                        )
                    if not value.present:
                        continue
                    value = value.value
                found[name] = value
            run.charge(_STRUCT_COST)
            return Made(expr.name, found)

        return make

    def _call(self, expr: Expr) -> Step:
        steps = [self.plan(each) for each in ([expr.target] if expr.target is not None else []) + expr.args]
        special = OPERATORS.get(expr.name)
        if special is not None:
            return special(steps)
        if expr.name in ("_+_", "cel.@mapInsert") and expr.args[0].name in ("@result", "__result__"):
            return collected(steps)
        function = FUNCTIONS.get(expr.name)
        name = expr.name
        if function is None:
            raise KeyError(name)
        walks = name in _WALKING

        def call(run: Run) -> Any:
            arguments = [step(run) for step in steps]
            if walks and isinstance(arguments[0], list):
                run.work.spend(len(arguments[0]))
            cost = call_cost(name, arguments)
            run.charge(cost)
            if cost > _STEP_COST and name != "check":
                run.work.spend(cost // _STEP_COST)
            result = function(run.work, *arguments)
            if isinstance(result, str | bytes | list | dict) and len(result) > MOST_ELEMENTS:
                raise CostExceeded
            return result

        return call

    def _fold(self, expr: Expr) -> Step:
        fold = cast("Fold", expr.fold)
        over, initial = self.plan(fold.range), self.plan(fold.initial)
        condition, step, result = self.plan(fold.condition), self.plan(fold.step), self.plan(fold.result)
        first, second, accumulator = fold.variable, fold.variable2, fold.accumulator

        def loop(run: Run) -> Any:
            values = over(run)
            variables = run.variables
            kept = dict(variables)
            accumulated = initial(run)
            keys_only = isinstance(values, dict) and not second
            try:
                for key, element in list(iterate(values)):
                    run.charge(0)
                    variables[accumulator] = accumulated
                    variables[first] = key if second or keys_only else element
                    if second:
                        variables[second] = element
                    if condition(run) is False:
                        break
                    accumulated = caught(step, run)
                variables[accumulator] = accumulated
                if isinstance(accumulated, CelError):
                    raise accumulated
                return result(run)
            finally:
                variables.clear()
                variables.update(kept)

        return loop
