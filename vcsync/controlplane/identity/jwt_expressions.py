"""CEL expressions over a token's claims and over the user that it makes. Pure.

As apiserver's `pkg/authentication/cel`; numbers of claims are doubles there.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.cel.compiler import NotCompiled, check, environment
from vcsync.controlplane.cel.declared import Declared
from vcsync.controlplane.cel.evaluate import Run, prepare
from vcsync.controlplane.cel.expression import Checked, Expr, below
from vcsync.controlplane.cel.values import CelError, CostExceeded, Work

COST_LIMIT = WORK_LIMIT = 20_000
"""Of one evaluation: it holds up everybody, and a tenth of a second is what kube-apiserver means by its limit."""
MAX_DEPTH = 32
"""How deep claims may be."""

_TEXT, _DYN = Declared("string"), Declared("dyn")
_TEXTS = Declared("list", element=_TEXT)


class ExpressionError(ValueError):
    """An expression cannot be used, or has no value; the text says why."""


class Expression:
    """An expression, compiled."""

    def __init__(self, source: str, checked: Checked) -> None:
        """Take an expression and what checking found."""
        self.source = source
        self._checked = checked
        self._step = prepare(checked)

    @property
    def output(self) -> str:
        """Kind of the result: `string`, `bool`, `list`, `dyn`, ..."""
        return self._checked.output.kind

    def selects(self, operand: str, field: str) -> bool:
        """Whether it asks for a field of a variable."""
        return any(_is_selection(each, operand, field) for each in below(self._checked.root))

    def value(self, variables: dict[str, Any]) -> Any:
        """Return what it makes of variables.

        Raises:
            ExpressionError: nothing.
        """
        try:
            return self._step(Run(variables, COST_LIMIT, Work(WORK_LIMIT)))
        except CelError as error:
            raise ExpressionError(f"expression {self.source!r}: {error}") from error
        except (CostExceeded, RecursionError) as error:
            raise ExpressionError(f"expression {self.source!r} costs too much") from error

    def texts(self, variables: dict[str, Any]) -> tuple[str, ...]:
        """Return what it makes of variables: a text or a list of texts, without empty ones.

        Raises:
            ExpressionError: something else.
        """
        value = self.value(variables)
        listed = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise ExpressionError(f"expression {self.source!r} must return a string or a list of strings")
        return tuple(each for each in listed if each)

    def text(self, variables: dict[str, Any]) -> str:
        """Return what it makes of variables: a text.

        Raises:
            ExpressionError: something else.
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
        ExpressionError: it is not valid.
    """
    return _compiled(_claims, source)


@lru_cache(maxsize=512)
def user_rule(source: str) -> Expression:
    """Compile an expression over `user`.

    Raises:
        ExpressionError: it is not valid.
    """
    return _compiled(_user, source)


def _compiled(environment_of: Any, source: str) -> Expression:
    try:
        return Expression(source, check(environment_of, source))
    except NotCompiled as error:
        raise ExpressionError(f"compilation failed: {error}") from error


def claims_value(claims: Mapping[str, Any], depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Return claims as expressions see them.

    Raises:
        ExpressionError: they are too deep.
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
    """Return a user as expressions see it."""
    extra = {key: list(values) for key, values in user.extra.items()}
    return {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
