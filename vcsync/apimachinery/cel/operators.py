"""Operators that control the evaluation of their operands: logic, equality, selection, optionals."""

from collections.abc import Callable
from typing import Any

from vcsync.apimachinery.cel.access import at, optional_at, optional_field
from vcsync.apimachinery.cel.costs import call_cost
from vcsync.apimachinery.cel.functions import FUNCTIONS
from vcsync.apimachinery.cel.running import Run, Step, caught, raised
from vcsync.apimachinery.cel.values import CelError, NoOverload, Optional, equal


def _logic(steps: list[Step], decisive: bool) -> Step:
    """Return a step for `&&` or `||`: a decisive operand makes an error of the other one irrelevant."""
    left, right = steps

    def decide(run: Run) -> Any:
        first = caught(left, run)
        if first is decisive:
            return decisive
        second = caught(right, run)
        if second is decisive:
            return decisive
        for each in (first, second):
            if not isinstance(raised(each), bool):
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
        value = caught(steps[0], run)
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


def collected(steps: list[Step]) -> Step:
    """Append to the accumulator of a comprehension, in place, since nothing else refers to it."""

    def add(run: Run) -> Any:
        found, *more = [step(run) for step in steps]
        run.charge(1)
        if isinstance(found, list) and len(more) == 1 and isinstance(more[0], list):
            found += more[0]
            return found
        if isinstance(found, dict) and len(more) == 2:
            if more[0] in found:
                raise CelError(f"insert failed: key {more[0]} already exists")
            found[more[0]] = more[1]
            return found
        function = FUNCTIONS["_+_" if len(more) == 1 and not isinstance(more[0], dict) else "cel.@mapInsert"]
        return function(run.work, found, *more)

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
    """Return a step for `optional.or(other)` or `orValue(other)`, which evaluates `other` only if needed."""

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


OPERATORS: dict[str, Callable[[list[Step]], Step]] = {
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
"""Operators by name: each makes a step from the steps of its operands, and may skip operands."""
