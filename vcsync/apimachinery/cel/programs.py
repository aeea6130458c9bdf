"""Admission expressions: compiled in an environment, evaluated in order within one budget.

Source: `compile.go`, `activation.go` and `composition.go` of k8s.io/apiserver's `pkg/admission/plugin/cel`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vcsync.apimachinery.cel import cooperative
from vcsync.apimachinery.cel.compiler import NotCompiled, check, environment
from vcsync.apimachinery.cel.declared import Declared
from vcsync.apimachinery.cel.evaluate import Run, Step, constant_fault, prepare
from vcsync.apimachinery.cel.expression import Checked, Type
from vcsync.apimachinery.cel.go_words import shown
from vcsync.apimachinery.cel.values import CelError, CostExceeded, Struct, Work

PER_CALL = 1_000_000
"""Most cost of one expression."""
BUDGET, CONDITIONS_BUDGET = 10_000_000, 2_500_000
"""Most cost of all expressions of a policy on one request, and of all its match conditions."""
STEPS = 2_000_000
"""Most steps of the expressions of one policy on one request: a few seconds."""
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_OVER_LIMIT = "operation cancelled: actual cost limit exceeded"
_GO_NAMES = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}
_DYN = Declared("dyn")

Outputs = tuple[str, ...]
"""Types that an expression may have, as `told` writes them; none: any."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression. `error` says why it could not be compiled."""

    source: str
    step: Step | None = None
    output: Type | None = None
    error: str = ""


class Environment:
    """The variables that expressions see."""

    def __init__(self, variables: Mapping[str, Declared]) -> None:
        """Take the types of the variables."""
        self.variables = variables

    @cached_property
    def _checker(self) -> Any:
        return environment(self.variables)

    def extended(self, variables: Mapping[str, Declared]) -> "Environment":
        """Return an environment with additional variables."""
        return Environment({**self.variables, **variables})

    def compile(self, source: str, outputs: Outputs = ()) -> Program:
        """Compile an expression. Takes milliseconds."""
        return compiled(lambda: self._checker, source, outputs)


def compiled(checker: Callable[[], Any], source: str, outputs: Outputs) -> Program:
    """Compile an expression in a checker's environment."""
    try:
        checked = check(checker, source)
    except NotCompiled as why:
        return Program(source, error=f"compilation failed: {why}")
    return program(source, checked, outputs)


def program(source: str, checked: Checked, outputs: Outputs) -> Program:
    """Return a program for a checked expression, or an error if its type is wrong."""
    output = checked.output
    if outputs and told(output) not in outputs:
        wanted = f"one of [{' '.join(outputs)}]" if len(outputs) > 1 else outputs[0]
        return Program(source, error=f"must evaluate to {wanted} but got {told(output)}")
    if fault := constant_fault(checked):
        return Program(source, error=f"program instantiation failed: {fault}")
    return Program(source, prepare(checked), output)


def told(type_: Type) -> str:
    """Format a type as cel-go does."""
    if type_.kind in _GO_NAMES:
        return _GO_NAMES[type_.kind]
    name = shown(type_.name or type_.kind)
    return f"{name}({', '.join(told(each) for each in type_.parameters)})" if type_.parameters else name


def declared(type_: Type | None) -> Declared:
    """Return the declaration of a variable with the type of a compiled expression; dynamic if it has none."""
    if type_ is None:
        return _DYN
    if type_.kind in ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"):
        return Declared(type_.kind)
    if type_.kind == "list":
        return Declared("list", element=declared(type_.parameters[0]))
    if type_.kind == "map" and type_.parameters[0].kind == "string":
        return Declared("map", element=declared(type_.parameters[1]))
    return _DYN


class OutOfBudget(Exception):
    """The budget is used up, and no further expression is evaluated. The message says why."""


@dataclass(frozen=True, slots=True)
class Result:
    """The value of an expression. `error` says why there is none."""

    value: Any = None
    error: str = ""


class Composed(Struct):
    """The value of `variables`. Each variable is evaluated on first use."""

    __slots__ = ("_known", "_programs", "cost", "values", "work")

    def __init__(self, programs: Mapping[str, Program], values: dict[str, Any], work: Work) -> None:
        """Take the expressions by name, the variables that they see, and the remaining work."""
        super().__init__({}, _DYN)
        self._programs = programs
        self._known: dict[str, Any] = {}
        self.values = values
        self.work = work
        self.cost = 0

    def has(self, name: str) -> bool:
        """Return whether a variable exists."""
        return name in self._programs

    def get(self, name: str) -> Any:
        """Return a variable's value.

        Raises:
            CelError: the variable has no value.
        """
        if name not in self._known:
            self._known[name] = self._evaluated(name)
        found = self._known[name]
        if isinstance(found, CelError):
            raise found
        return found

    def _evaluated(self, name: str) -> Any:
        program = self._programs.get(name)
        if program is None:
            return CelError(f"no such key: {name}")
        if program.step is None:
            return CelError(f'composited variable "{name}" fails to compile: {program.error}')
        run = Run({**self.values, "variables": self}, PER_CALL, self.work)
        try:
            return program.step(run)
        except CelError as why:
            return CelError(f'composited variable "{name}" fails to evaluate: {why}')
        except (CostExceeded, RecursionError):
            self._in_steps()
            return CelError(f'composited variable "{name}" fails to evaluate: {_OVER_LIMIT}')
        finally:
            self.cost += run.cost

    def _in_steps(self) -> None:
        if self.work.left < 0:
            raise CostExceeded from None


@dataclass(slots=True)
class Evaluation:
    """One policy's evaluation on one request, with its budget and steps."""

    budget: int
    work: Work

    @classmethod
    def begin(cls, budget: int) -> "Evaluation":
        """Start with a budget, in a function for `cooperative.evaluate_cooperatively`."""
        return cls(budget, cooperative.work(STEPS))

    def all(
        self,
        programs: Sequence[Program | None],
        values: dict[str, Any],
        variables: Mapping[str, Program] | None = None,
    ) -> list[Result]:
        """Evaluate expressions in order.

        Args:
            programs: the expressions. The result for None is null.
            values: the variables that the expressions see.
            variables: the policy's own variables.

        Raises:
            OutOfBudget: the expressions cost too much.
        """
        seen = dict(values)
        composed = Composed(variables, values, self.work) if variables is not None else None
        if composed is not None:
            seen["variables"] = composed
        return [Result() if each is None else self._one(each, seen, composed) for each in programs]

    def _one(self, program: Program, seen: dict[str, Any], composed: Composed | None) -> Result:
        if program.step is None:
            return Result(error=f"compilation error: {program.error}")
        run = Run(dict(seen), PER_CALL, self.work)
        try:
            found = Result(program.step(run))
        except CelError as why:
            found = Result(error=f"expression '{program.source}' resulted in error: {why}")
        except (CostExceeded, RecursionError):
            if self.work.left < 0:
                raise OutOfBudget(OUT_OF_BUDGET) from None
            found = Result(error=f"expression '{program.source}' resulted in error: {_OVER_LIMIT}")
        cost = run.cost
        if composed is not None:
            cost, composed.cost = cost + composed.cost, 0
        self.budget -= cost
        if self.budget < 0:
            raise OutOfBudget(OUT_OF_BUDGET)
        return found
