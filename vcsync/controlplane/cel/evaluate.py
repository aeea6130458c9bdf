"""Evaluation of checked expressions, counting what it costs; bounded whatever the expression says.

An expression becomes a tree of Python closures once. Costs are those of cel-go's `interpreter/runtimecost.go` with
Kubernetes' of `pkg/cel/library/cost.go`; besides, every step is counted against a limit of work.
"""

from collections.abc import Callable
from typing import Any, cast

from vcsync.controlplane.cel.costs import call_cost
from vcsync.controlplane.cel.expression import Checked, Expr, Fold, below
from vcsync.controlplane.cel.functions import FUNCTIONS
from vcsync.controlplane.cel.values import (
    NONE,
    CelError,
    CostExceeded,
    Made,
    NoOverload,
    Optional,
    Struct,
    TypeValue,
    Work,
    equal,
    iterate,
)
from vcsync.controlplane.crd import patterns

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
"""Functions that look at every element of a list."""
_STEP_COST = 10
"""So much of what one call costs counts as a step."""
MOST_ELEMENTS = 1_000_000
"""Longest list or text that an expression may make."""


class Run:
    """One evaluation."""

    __slots__ = ("cost", "limit", "variables", "work")

    def __init__(self, variables: dict[str, Any], limit: int, work: Work) -> None:
        """Take the values of `self` and `oldSelf`, and how much this evaluation may cost."""
        self.variables = variables
        self.limit = limit
        self.work = work
        self.cost = 0

    def charge(self, cost: int) -> None:
        """Count cost.

        Raises:
            CostExceeded: it is more than this evaluation may cost, or too much work.
        """
        self.cost += cost
        self.work.spend()
        if self.cost > self.limit:
            raise CostExceeded


Step = Callable[[Run], Any]


def prepare(checked: Checked) -> Step:
    """Make an expression ready to be evaluated many times.

    The result raises `CelError` when it has no value, `CostExceeded` when it costs too much.
    """
    return _Planner(checked).plan(checked.root)


_FOLDED = frozenset({"int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp"})


def constant_fault(checked: Checked) -> str:
    """Say why a conversion of a constant or a constant pattern can never succeed, empty: all can."""
    for each in below(checked.root):
        if each.kind != "call" or not each.args:
            continue
        value = each.args[0].value if each.args[0].kind == "const" else None
        try:
            if each.name in _FOLDED and value is not None:
                FUNCTIONS[each.name](Work(1000), value)
            elif each.name in ("find", "findAll") and isinstance(value, str):
                patterns.compiled(value)
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
        special = _SPECIAL.get(expr.name)
        if special is not None:
            return special(steps)
        if expr.name in ("_+_", "cel.@mapInsert") and expr.args[0].name in ("@result", "__result__"):
            return _collect(steps)
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
                    accumulated = _caught(step, run)
                variables[accumulator] = accumulated
                if isinstance(accumulated, CelError):
                    raise accumulated
                return result(run)
            finally:
                variables.clear()
                variables.update(kept)

        return loop


def _caught(step: Step, run: Run) -> Any:
    """Evaluate a step of a loop: an error is a value that a later element may make irrelevant."""
    try:
        return step(run)
    except CelError as problem:
        return problem


def _raised(value: Any) -> Any:
    if isinstance(value, CelError):
        raise value
    return value


def has(value: Any, name: str) -> bool:
    """Tell whether a field or key is there.

    Raises:
        NoOverload: the value has neither.
    """
    if isinstance(value, Struct):
        return value.has(name)
    if isinstance(value, dict):
        return name in value
    if isinstance(value, Made):
        return name in value.fields
    if isinstance(value, Optional):
        return value.present and has(value.value, name)
    raise NoOverload


def field_of(value: Any, name: str) -> Any:
    """Return a field's or key's value.

    Raises:
        CelError: it is not there.
    """
    if isinstance(value, Struct):
        return value.get(name)
    if isinstance(value, dict):
        if name not in value:
            raise CelError(f"no such key: {name}")
        return value[name]
    if isinstance(value, Made):
        return value.get(name)
    if isinstance(value, Optional):
        return optional_field(value, name)
    raise NoOverload


def optional_field(value: Any, name: str) -> Optional:
    """Return a field's value as an optional one."""
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    return Optional(field_of(value, name)) if has(value, name) else NONE


def at(value: Any, key: Any) -> Any:
    """Return an element of a list or the value of a key.

    Raises:
        CelError: it is not there.
    """
    if isinstance(value, Optional):
        return optional_at(value, key)
    if isinstance(value, list):
        if isinstance(key, float) and key.is_integer():
            key = int(key)
        if not isinstance(key, int) or isinstance(key, bool):
            raise CelError(f"unsupported index type '{type(key).__name__}' in list")
        if not 0 <= key < len(value):
            raise CelError(f"index out of bounds: {int(key)}")
        return value[key]
    if isinstance(value, dict):
        if isinstance(key, list | dict | Struct | Optional) or key not in value:
            raise CelError(f"no such key: {key}")
        return value[key]
    if isinstance(value, Struct) and isinstance(key, str):
        return value.get(key)
    raise NoOverload


def optional_at(value: Any, key: Any) -> Optional:
    """Return an element or value as an optional one."""
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    try:
        return Optional(at(value, key))
    except NoOverload:
        raise
    except CelError:
        return NONE


def _logic(steps: list[Step], decisive: bool) -> Step:
    """`&&` and `||`: one decisive side makes an error of the other irrelevant."""
    left, right = steps

    def decide(run: Run) -> Any:
        first = _caught(left, run)
        if first is decisive:
            return decisive
        second = _caught(right, run)
        if second is decisive:
            return decisive
        for each in (first, second):
            if not isinstance(_raised(each), bool):
                raise NoOverload
        return not decisive

    return decide


def _and(steps: list[Step]) -> Step:
    return _logic(steps, decisive=False)


def _or(steps: list[Step]) -> Step:
    return _logic(steps, decisive=True)


def _conditional(steps: list[Step]) -> Step:
    condition, yes, no = steps

    def choose(run: Run) -> Any:
        value = condition(run)
        if not isinstance(value, bool):
            raise NoOverload
        return yes(run) if value else no(run)

    return choose


def _not_false(steps: list[Step]) -> Step:
    def check(run: Run) -> bool:
        value = _caught(steps[0], run)
        run.charge(1)
        return value is not False

    return check


def _equality(steps: list[Step], wanted: bool) -> Step:
    left, right = steps

    def check(run: Run) -> bool:
        arguments = [left(run), right(run)]
        run.charge(call_cost("_==_", arguments))
        return equal(arguments[0], arguments[1], run.work) is wanted

    return check


def _index(steps: list[Step]) -> Step:
    def index(run: Run) -> Any:
        value, key = steps[0](run), steps[1](run)
        run.charge(1)
        return at(value, key)

    return index


def _collect(steps: list[Step]) -> Step:
    """Add to what a loop collects; nothing else sees that list or map, so it is added to in place."""

    def add(run: Run) -> Any:
        collected, *more = [step(run) for step in steps]
        run.charge(1)
        if isinstance(collected, list) and len(more) == 1 and isinstance(more[0], list):
            collected += more[0]
            return collected
        if isinstance(collected, dict) and len(more) == 2:
            if more[0] in collected:
                raise CelError(f"insert failed: key {more[0]} already exists")
            collected[more[0]] = more[1]
            return collected
        function = FUNCTIONS["_+_" if len(more) == 1 and not isinstance(more[0], dict) else "cel.@mapInsert"]
        return function(run.work, collected, *more)

    return add


def _optional_select(steps: list[Step]) -> Step:
    def select(run: Run) -> Optional:
        value, name = steps[0](run), steps[1](run)
        run.charge(1)
        return optional_field(value, name)

    return select


def _optional_index(steps: list[Step]) -> Step:
    def index(run: Run) -> Optional:
        value, key = steps[0](run), steps[1](run)
        run.charge(1)
        return optional_at(value, key)

    return index


def _or_else(steps: list[Step]) -> Step:
    """`optional.or(other)` and `optional.orValue(other)`, where `other` is evaluated only if it is needed."""

    def choose(run: Run) -> Any:
        value = steps[0](run)
        if not isinstance(value, Optional):
            raise NoOverload
        run.charge(1)
        return value if value.present else steps[1](run)

    return choose


def _or_value(steps: list[Step]) -> Step:
    choose = _or_else(steps)

    def unwrap(run: Run) -> Any:
        value = choose(run)
        return value.value if isinstance(value, Optional) and value.present else value

    return unwrap


_SPECIAL: dict[str, Callable[[list[Step]], Step]] = {
    "_&&_": _and,
    "_||_": _or,
    "_?_:_": _conditional,
    "@not_strictly_false": _not_false,
    "_==_": lambda steps: _equality(steps, wanted=True),
    "_!=_": lambda steps: _equality(steps, wanted=False),
    "_[_]": _index,
    "_?._": _optional_select,
    "_[?_]": _optional_index,
    "or": _or_else,
    "orValue": _or_value,
}
