"""Where a ValidatingAdmissionPolicy's expressions do not fit the types of what it matches. Pure.

As `plugin/policy/validating/typechecking.go` of k8s.io/apiserver. What is found hinders no request: it is told in the
policy's status.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from vcsync.controlplane.cel.compiler import NotCompiled, check, environment
from vcsync.controlplane.cel.declared import Declared
from vcsync.controlplane.cel.expression import Checked
from vcsync.controlplane.cel.programs import declared
from vcsync.controlplane.cel.published import Types
from vcsync.controlplane.cel.request import declarations

MOST = 300_000
"""Characters of expressions that are checked for a policy, each counted for every kind, in about a second; what goes beyond
is left out. The checker holds Python's lock while it works on one of them."""
_CHARACTERS_PER_ENVIRONMENT = 5_000
"""What takes as long as making an environment."""

Typed = tuple[str, Mapping[str, Any], str]
"""A kind: what messages call it, the schemas of its version by name, and the name of its own."""


def warnings(spec: Mapping[str, Any], kinds: Sequence[Typed], params: Typed | None) -> list[dict[str, str]]:
    """Check all validations against every kind; takes milliseconds for each.

    Args:
        spec: of the policy.
        kinds: what it matches, in order.
        params: the kind of its parameters, if it has any and the kind is known.

    Returns:
        `status.typeChecking.expressionWarnings`.
    """
    found: list[dict[str, str]] = []
    with suppress(_Enough):
        effort = _Effort()
        known = None if params is None else _whole(params)
        types = [(kind[0], type_) for kind in kinds if (type_ := _whole(kind)) is not None]
        checkers = [(told, _Checker(spec, type_, known, effort)) for told, type_ in types]
        for path, source in _expressions(spec):
            problems = [(told, checker.problem(source)) for told, checker in checkers]
            if any(problem for _, problem in problems):
                warning = "\n".join(f"{told}: {problem}\n" for told, problem in problems if problem)
                found.append({"fieldRef": path, "warning": warning})
    return found


class _Enough(Exception):
    """As much has been checked as is."""


class _Effort:
    """What may still be checked."""

    def __init__(self) -> None:
        self._left = MOST

    def spend(self, characters: int) -> None:
        """Count what is about to be done.

        Raises:
            _Enough: it is too much.
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
    """The variables that expressions see where one kind is matched."""

    def __init__(
        self, spec: Mapping[str, Any], object_: Declared, params: Declared | None, effort: _Effort
    ) -> None:
        seen = declarations(params=spec.get("paramKind") is not None)
        seen |= {"object": object_, "oldObject": object_}
        if params is not None:
            seen["params"] = params
        self._seen = seen
        self._effort = effort
        self._variables: dict[str, tuple[str, Declared]] = {}
        self._environments: dict[bool, Any] = {}
        for each in spec.get("variables") or ():
            self._add(each.get("name") or "", each.get("expression") or "")

    def problem(self, source: str) -> str:
        """Return what is wrong with an expression; empty: nothing.

        Raises:
            _Enough: it is not looked at.
        """
        try:
            self._check(source)
        except NotCompiled as why:
            return str(why)
        return ""

    def _add(self, name: str, source: str) -> None:
        """Let the expressions that follow see a variable; one that is not valid is told where it is used."""
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
        """Return what expressions see; those that name no variable of the policy share one."""
        if composed not in self._environments:
            self._effort.spend(_CHARACTERS_PER_ENVIRONMENT)
            variables = Declared("object", title="variables", fields=dict(self._variables))
            self._environments[composed] = environment({**self._seen, "variables": variables})
        return self._environments[composed]
