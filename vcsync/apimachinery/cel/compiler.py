"""Compiles expressions with cel-expr-python, against the types of a schema.

The checker sees objects as protobuf messages, of which only descriptors exist.
"""

import importlib
import json
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any

from vcsync.apimachinery.cel.declared import Declared
from vcsync.apimachinery.cel.expression import Checked, read
from vcsync.apimachinery.cel.go_words import in_go_words, shown
from vcsync.apimachinery.cel.libraries import GLOBALS, MEMBERS, OPAQUE, PATCHES, STANDARD
from vcsync.apimachinery.cel.literals import findings, report
from vcsync.apimachinery.cel.messages import Messages, named
from vcsync.apimachinery.cel.spelling import KNOWN, NAME, quoted_names, respelled
from vcsync.objects import loop_steps

LONGEST = 16_384
"""Longest expression, in characters. kube-apiserver accepts 100,000. The checker holds Python's lock while it works,
3 ms per 1,000 characters, and nothing else runs meanwhile.
"""
_STEPS_PER_CHARACTER, _STEPS_PER_ENVIRONMENT = 12, 30_000
"""Duration of compiling, in steps of evaluation: per character, and per environment."""
_CODES = {
    "s": "string", "i": "int", "u": "uint", "d": "double", "b": "bool", "y": "bytes", "t": "timestamp",
    "r": "duration", "n": "dyn",
}  # fmt: skip
_TYPE_NAMES = [{"name": each, **named("type", named(each))} for each in ("net.IP", "net.CIDR")]
"""Types of Kubernetes that expressions can name: those that its libraries register."""
_CONTAINERS = {"[": "list", "{": "map", "?": "optional_type"}


class NotCompiled(Exception):
    """The expression is not valid. The message is the checker's."""


@cache
def _cel() -> Any:
    """Import the library with the first compiled expression: it is large, and most tenants have no expressions."""
    return importlib.import_module("cel_expr_python.cel")


def _coded(code: str) -> dict[str, Any]:
    if code[0] == "{":
        return named("map", named("string"), _coded(code[1:]))
    if code[0] in _CONTAINERS:
        return named(_CONTAINERS[code[0]], _coded(code[1:]))
    if code == "A":
        return {"type_name": "A", "is_type_param": True}
    return named(OPAQUE.get(code) or _CODES[code])


@cache
def _functions(*, patches: bool) -> list[Any]:
    found: dict[str, list[Any]] = {}
    for table, member in ((MEMBERS, True), ((*GLOBALS, *(PATCHES if patches else ())), False)):
        for name, overload, result, arguments in table:
            types = [_coded(each) for each in arguments.split()]
            declared = {"id": overload, "args": types[1:] if member else types, "return": _coded(result)}
            if member:
                declared["target"] = types[0]
            found.setdefault(name, []).append(declared)
    return [{"name": name, "overloads": overloads} for name, overloads in found.items()]


@lru_cache(maxsize=32)
def _configuration(variables: str, *, patches: bool = False, bindings: bool = False) -> Any:
    """Return the environment with these variables (a JSON list). Configuring all functions takes milliseconds."""
    # JSON is YAML.
    extensions = [*STANDARD["extensions"], *([{"name": "bindings"}] if bindings else ())]
    functions = {
        **STANDARD,
        "extensions": extensions,
        "functions": _functions(patches=patches),
        "variables": [*_TYPE_NAMES, *json.loads(variables)],
    }
    return _cel().NewEnvConfigFromYaml(json.dumps(functions))


class Compiler:
    """Compiles expressions about values of one type."""

    def __init__(self, declared: Declared) -> None:
        """Take the type of the variable `self`."""
        self._declared = declared
        self._environments: dict[bool, Any] = {}

    def _environment(self, *, optional_old: bool) -> Any:
        if optional_old not in self._environments:
            loop_steps.charge_steps(_STEPS_PER_ENVIRONMENT)
            cel = _cel()
            messages = Messages()
            own = messages.type(self._declared)
            old = named("optional_type", own) if optional_old else own
            variables = [{"name": "self", **own}, {"name": "oldSelf", **old}]
            self._environments[optional_old] = cel.NewEnv(
                messages.pool(), config=_configuration(json.dumps(variables))
            )
        return self._environments[optional_old]

    def compile(self, source: str, *, optional_old: bool = False) -> Checked:
        """Parse and check an expression.

        Raises:
            NotCompiled: the expression is not valid.
        """
        return check(lambda: self._environment(optional_old=optional_old), source)


def environment(
    variables: Mapping[str, Declared],
    structs: Mapping[str, Mapping[str, str]] | None = None,
    *,
    patches: bool = False,
    bindings: bool = False,
) -> Any:
    """Return an environment with variables of these types.

    Args:
        variables: the types, by name.
        structs: types that expressions may construct: name -> field -> kind.
        patches: whether the functions for JSON patches exist.
        bindings: whether `cel.bind` exists.
    """
    loop_steps.charge_steps(_STEPS_PER_ENVIRONMENT)
    messages = Messages()
    messages.make(structs or {})
    told = [{"name": name, **messages.type(each)} for name, each in variables.items()]
    return _cel().NewEnv(
        messages.pool(), config=_configuration(json.dumps(told), patches=patches, bindings=bindings)
    )


def check(environment_of: Callable[[], Any], source: str) -> Checked:
    """Parse and check an expression. The environment is built only if the expression is not too long.

    Raises:
        NotCompiled: the expression is not valid.
    """
    loop_steps.charge_steps(_STEPS_PER_CHARACTER * len(source))
    if len(source) > LONGEST:
        raise NotCompiled(
            f"ERROR: <input>:-1:-1: expression code point size exceeds limit: size: {len(source)}, limit {LONGEST}"
        )
    known = respelled(source)
    unsupported = [report(source, at, "unsupported syntax: '`'") for at in quoted_names(source)]
    try:
        expression = environment_of().compile(known)
    except (RuntimeError, ValueError) as problem:
        told = in_go_words(str(problem))
        if unsupported and "Syntax error" not in told:
            raise NotCompiled("\n".join(unsupported)) from None
        if known != source:
            told = told.replace(KNOWN, NAME)
        # cel-go counts columns of an empty expression from 0.
        raise NotCompiled(told if source else told.replace("<input>:1:1:", "<input>:1:0:")) from None
    if unsupported:
        raise NotCompiled("\n".join(unsupported))
    checked = read(expression.serialize())
    problems = sorted((checked.positions.get(node, 0), told) for node, told in findings(checked))
    if problems:
        raise NotCompiled("\n".join(report(source, at, shown(told)) for at, told in problems))
    return checked
