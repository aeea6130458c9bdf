"""CEL expressions over the claims of a token and over its user. Pure.

Behaviour: apiserver's `pkg/authentication/cel`, where numbers in claims are doubles.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from vcsync.apimachinery.cel.compiler import NotCompiled, check, environment
from vcsync.apimachinery.cel.declared import Declared
from vcsync.apimachinery.cel.evaluate import Run, prepare
from vcsync.apimachinery.cel.expression import Checked, Expr, below
from vcsync.apimachinery.cel.values import CelError, CostExceeded, Work
from vcsync.apimachinery.strategy import User

COST_LIMIT = WORK_LIMIT = 20_000
"""Cost limit of one evaluation, which blocks the event loop. kube-apiserver's limit means a tenth of a second."""
MAX_DEPTH = 32
"""Most levels of nested claims."""

_TEXT, _DYN = Declared("string"), Declared("dyn")
_TEXTS = Declared("list", element=_TEXT)


class ExpressionError(ValueError):
    """An expression is invalid or has no value. The message says why."""


class Expression:
    """A compiled expression."""

    def __init__(self, source: str, checked: Checked) -> None:
        """Create an expression from its source and the result of type checking."""
        self.source = source
        self._checked = checked
        self._step = prepare(checked)

    @property
    def output(self) -> str:
        """Kind of the result: `string`, `bool`, `list`, `dyn`, ..."""
        return self._checked.output.kind

    def selects(self, operand: str, field: str) -> bool:
        """Tell whether the expression selects a field of a variable."""
        return any(_is_selection(each, operand, field) for each in below(self._checked.root))

    def value(self, variables: dict[str, Any]) -> Any:
        """Evaluate the expression.

        Raises:
            ExpressionError: The evaluation failed.
        """
        try:
            return self._step(Run(variables, COST_LIMIT, Work(WORK_LIMIT)))
        except CelError as error:
            raise ExpressionError(f"expression {self.source!r}: {error}") from error
        except (CostExceeded, RecursionError) as error:
            raise ExpressionError(f"expression {self.source!r} costs too much") from error

    def texts(self, variables: dict[str, Any]) -> tuple[str, ...]:
        """Evaluate the expression to a string or a list of strings. Empty strings are dropped.

        Raises:
            ExpressionError: The evaluation failed or has another type.
        """
        value = self.value(variables)
        listed = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise ExpressionError(f"expression {self.source!r} must return a string or a list of strings")
        return tuple(each for each in listed if each)

    def text(self, variables: dict[str, Any]) -> str:
        """Evaluate the expression to a string.

        Raises:
            ExpressionError: The evaluation failed or has another type.
        """
        value = self.value(variables)
        if not isinstance(value, str):
            raise ExpressionError(f"expression {self.source!r} must return a string")
        return value


def _is_selection(expr: Expr, operand: str, field: str) -> bool:
    if expr.kind == "call" and expr.name == "_?._" and len(expr.args) == 2:
        return _is_ident(expr.args[0], operand) and expr.args[1].value == field
    return expr.kind == "select" and _is_ident(expr.target, operand) and expr.name == field


def _is_ident(expr: Expr | None, name: str) -> bool:
    return expr is not None and expr.kind == "ident" and expr.name == name


@cache
def _claims() -> Any:
    return environment({"claims": Declared("map", element=_DYN)})


@cache
def _user() -> Any:
    fields = {"username": _TEXT, "uid": _TEXT, "groups": _TEXTS, "extra": Declared("map", element=_TEXTS)}
    declared = Declared("object", fields={name: (name, type_) for name, type_ in fields.items()})
    return environment({"user": declared})


@lru_cache(maxsize=512)
def claims_rule(source: str) -> Expression:
    """Compile an expression over `claims`.

    Raises:
        ExpressionError: The expression is invalid.
    """
    return _compiled(_claims, source)


@lru_cache(maxsize=512)
def user_rule(source: str) -> Expression:
    """Compile an expression over `user`.

    Raises:
        ExpressionError: The expression is invalid.
    """
    return _compiled(_user, source)


def _compiled(environment_of: Any, source: str) -> Expression:
    try:
        return Expression(source, check(environment_of, source))
    except NotCompiled as error:
        raise ExpressionError(f"compilation failed: {error}") from error


def claims_value(claims: Mapping[str, Any], depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Return claims as values of expressions.

    Raises:
        ExpressionError: The claims are nested too deeply.
    """
    found: dict[str, Any] = _value(dict(claims), depth)
    return found


def _value(value: Any, depth: int) -> Any:
    if depth == 0:
        raise ExpressionError("the claims are too deep")
    if isinstance(value, dict):
        return {key: _value(each, depth - 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_value(each, depth - 1) for each in value]
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    try:
        return float(value)
    except OverflowError:
        raise ExpressionError("a number of the claims is too large") from None


def user_value(user: User) -> dict[str, Any]:
    """Return a user as a value of expressions."""
    extra = {key: list(values) for key, values in user.extra.items()}
    return {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
