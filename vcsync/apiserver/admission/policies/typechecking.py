"""Type-checks the expressions of ValidatingAdmissionPolicies against the kinds that they match. Pure.

The findings become warnings in the policy's status and do not affect requests.

Behaviour: `plugin/policy/validating/typechecking.go` of k8s.io/apiserver.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from vcsync.apimachinery.cel.compiler import NotCompiled, check, environment
from vcsync.apimachinery.cel.declared import Declared
from vcsync.apimachinery.cel.expression import Checked
from vcsync.apimachinery.cel.programs import declared
from vcsync.apimachinery.cel.published import Types
from vcsync.apimachinery.cel.request import declarations

MOST = 300_000
"""Characters of expressions that are checked for a policy, in about a second. Each kind counts separately. Expressions
beyond the limit are not checked. The checker holds Python's global lock while it checks an expression."""
_CHARACTERS_PER_ENVIRONMENT = 5_000
"""Characters whose check takes as long as creating an environment."""

Typed = tuple[str, Mapping[str, Any], str]
"""A kind: its name in messages, the schemas of its version by name, and the name of its own schema."""


def warnings(spec: Mapping[str, Any], kinds: Sequence[Typed], params: Typed | None) -> list[dict[str, str]]:
    """Check all validations against every kind; takes milliseconds for each.

    Args:
        spec: `spec` of the policy.
        kinds: The kinds that it matches, in order.
        params: The kind of its parameters, if it has any and the kind is known.

    Returns:
        `status.typeChecking.expressionWarnings`.
    """
    found: list[dict[str, str]] = []
    with suppress(_Enough):
        effort = _Effort()
        known = None if params is None else _whole(params)
        types = [(kind[0], type_) for kind in kinds if (type_ := _whole(kind)) is not None]
        checkers = [(kind, _Checker(spec, type_, known, effort)) for kind, type_ in types]
        for path, source in _expressions(spec):
            problems = [(kind, checker.problem(source)) for kind, checker in checkers]
            if any(problem for _, problem in problems):
                warning = "\n".join(f"{kind}: {problem}\n" for kind, problem in problems if problem)
                found.append({"fieldRef": path, "warning": warning})
    return found


class _Enough(Exception):
    """The limit of the check is reached."""


class _Effort:
    """The remaining characters that may be checked."""

    def __init__(self) -> None:
        self._left = MOST

    def spend(self, characters: int) -> None:
        """Count characters that will be checked.

        Raises:
            _Enough: They exceed the limit.
        """
        self._left -= characters
        if self._left < 0:
            raise _Enough


def _whole(kind: Typed) -> Declared | None:
    _, schemas, name = kind
    return Types(schemas).whole(name)


def _expressions(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for index, each in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            if field == "expression" or each.get(field):
                yield f"spec.validations[{index}].{field}", each.get(field) or ""


class _Checker:
    """Checks expressions against one matched kind."""

    def __init__(
        self, spec: Mapping[str, Any], object_: Declared, params: Declared | None, effort: _Effort
    ) -> None:
        known = declarations(params=spec.get("paramKind") is not None)
        known |= {"object": object_, "oldObject": object_}
        if params is not None:
            known["params"] = params
        self._declarations = known
        self._effort = effort
        self._variables: dict[str, tuple[str, Declared]] = {}
        self._environments: dict[bool, Any] = {}
        for each in spec.get("variables") or ():
            self._add(each.get("name") or "", each.get("expression") or "")

    def problem(self, source: str) -> str:
        """Return the error of an expression, or an empty text.

        Raises:
            _Enough: The limit is reached.
        """
        try:
            self._check(source)
        except NotCompiled as why:
            return str(why)
        return ""

    def _add(self, name: str, source: str) -> None:
        """Declare a variable for later expressions. An invalid one is reported where it is used."""
        try:
            type_ = declared(self._check(source).output)
        except NotCompiled:
            type_ = Declared("dyn")
        self._variables[name] = (name, type_)
        self._environments.pop(True, None)

    def _check(self, source: str) -> Checked:
        self._effort.spend(len(source))
        composed = "variables" in source
        return check(lambda: self._environment(composed=composed), source)

    def _environment(self, *, composed: bool) -> Any:
        """Return the environment of expressions. All expressions without variables of the policy share one."""
        if composed not in self._environments:
            self._effort.spend(_CHARACTERS_PER_ENVIRONMENT)
            variables = Declared("object", title="variables", fields=dict(self._variables))
            self._environments[composed] = environment({**self._declarations, "variables": variables})
        return self._environments[composed]
