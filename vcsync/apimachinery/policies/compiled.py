"""Compiles policies: conditions, variables, validations, messages, annotations and mutations.

Follows `compilePolicy` of apiserver's `plugin/policy/{validating,mutating}`. A variable sees the variables before it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vcsync.apimachinery.cel.declared import Declared
from vcsync.apimachinery.cel.making import compile_making
from vcsync.apimachinery.cel.programs import Environment, Outputs, Program, declared
from vcsync.apimachinery.cel.request import declarations
from vcsync.apimachinery.strategy import Object
from vcsync.objects.kept import Kept
from vcsync.patterns.linear import linear

_VARIABLE = linear(r"\bvariables\s*\.\s*(\w+)")
_KEPT = 500_000
"""Characters of source of the policies in the cache. Each character costs about 100 bytes."""
_MOST_ENVIRONMENTS = 32
"""Most cached environments. Each takes half a megabyte, and its construction takes some milliseconds."""
APPLY, JSON_PATCH = "ApplyConfiguration", "JSONPatch"
PATCHES: Mapping[str, tuple[str, Outputs]] = {
    APPLY: ("applyConfiguration", ("Object",)),
    JSON_PATCH: ("jsonPatch", ("list(JSONPatch)",)),
}


@dataclass(frozen=True, slots=True)
class Validation:
    """One validation. An empty `reason` means Invalid."""

    program: Program
    text: str
    message_program: Program | None
    message: str
    reason: str


@dataclass(frozen=True, slots=True)
class Annotation:
    """One audit annotation."""

    key: str
    program: Program


@dataclass(frozen=True, slots=True)
class Mutation:
    """One mutation."""

    form: str
    program: Program


@dataclass(frozen=True, slots=True)
class Compiled:
    """The compiled expressions of a policy."""

    names: tuple[str, ...]
    conditions: tuple[Program, ...]
    variables: Mapping[str, Program]
    validations: tuple[Validation, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    mutations: tuple[Mutation, ...] = ()


class Compiler:
    """Compiles the expressions of one policy."""

    def __init__(self, *, params: bool, composed: bool = True) -> None:
        """Prepare to compile a policy.

        Args:
            params: Whether the policy has parameters.
            composed: Whether expressions see `variables`.
        """
        self._params = params
        self._composed = composed
        self.variables: dict[str, Program] = {}
        self._types: dict[str, Declared] = {}

    def variable(self, name: str, source: str) -> Program:
        """Compile a variable. Later expressions see it."""
        found = self.variables[name] = self.expression(source, ())
        self._types[name] = declared(found.output)
        return found

    def expression(self, source: str, outputs: Outputs, *, authorizer: bool = True) -> Program:
        """Compile an expression. It sees the variables that have been compiled."""
        seen = self._seen(source)
        key = (self._composed, *sorted((name, repr(type_)) for name, type_ in seen.items()))
        environment = _environments.get((self._params, authorizer, key))
        if environment is None:
            environment = Environment(self._declarations(seen, authorizer=authorizer))
            _environments.put((self._params, authorizer, key), environment, 1)
        return environment.compile(source, outputs)

    def making(self, source: str, outputs: Outputs) -> Program:
        """Compile an expression that constructs objects."""
        return compile_making(self._declarations(self._seen(source), authorizer=True), source, outputs)

    def _seen(self, source: str) -> dict[str, Declared]:
        """Return the types of the variables that an expression names. Its environment declares only these."""
        return {
            name: self._types[name]
            for match in _VARIABLE.finditer(source)
            if (name := match[1]) in self._types
        }

    def _declarations(self, seen: Mapping[str, Declared], *, authorizer: bool) -> dict[str, Declared]:
        known = declarations(params=self._params, authorizer=authorizer)
        if not self._composed:
            return known
        fields = {name: (name, type_) for name, type_ in seen.items()}
        return {**known, "variables": Declared("object", title="variables", fields=fields)}


_environments: Kept[tuple[object, ...], Environment] = Kept(_MOST_ENVIRONMENTS)
_compiled: Kept[tuple[object, ...], Compiled] = Kept(_KEPT)


def compiled(tenant: str, key: tuple[str, int], spec: Object) -> Compiled:
    """Return a compiled policy, from the cache or by compiling it. Run it in `cooperative.evaluate_cooperatively`.

    Args:
        tenant: Tenant of the policy.
        key: Key of the policy within the tenant. It changes whenever the policy changes.
        spec: Spec of the policy.
    """
    found = _compiled.get((tenant, key))
    if found is None:
        found = compile_policy(spec)
        _compiled.put((tenant, key), found, 100 + sum(map(len, _sources(found))))
    return found


def _sources(found: Compiled) -> Iterable[str]:
    yield from (each.source for each in (*found.conditions, *found.variables.values()))
    yield from (each.text + each.message for each in found.validations)
    yield from (each.program.source for each in found.annotations)
    yield from (each.program.source for each in found.mutations)


def compile_policy(spec: Object) -> Compiled:
    """Compile the spec of a validating or mutating policy."""
    compiler = Compiler(params=spec.get("paramKind") is not None)
    for each in spec.get("variables") or ():
        compiler.variable(each.get("name") or "", each.get("expression") or "")
    conditions = spec.get("matchConditions") or ()
    return Compiled(
        tuple(each.get("name") or "" for each in conditions),
        tuple(compiler.expression(each.get("expression") or "", ("bool",)) for each in conditions),
        compiler.variables,
        tuple(_validation(compiler, each) for each in spec.get("validations") or ()),
        tuple(_annotation(compiler, each) for each in spec.get("auditAnnotations") or ()),
        tuple(_mutation(compiler, each) for each in spec.get("mutations") or ()),
    )


def _validation(compiler: Compiler, raw: Object) -> Validation:
    text, message = raw.get("expression") or "", raw.get("messageExpression") or ""
    message_program = compiler.expression(message, ("string",), authorizer=False) if message else None
    return Validation(
        compiler.expression(text, ("bool",)),
        text,
        message_program,
        raw.get("message") or "",
        raw.get("reason") or "",
    )


def _annotation(compiler: Compiler, raw: Object) -> Annotation:
    outputs = ("string", "null_type")
    return Annotation(raw.get("key") or "", compiler.expression(raw.get("valueExpression") or "", outputs))


def _mutation(compiler: Compiler, raw: Object) -> Mutation:
    form = raw.get("patchType") or ""
    part, outputs = PATCHES[form]
    return Mutation(form, compiler.making((raw.get(part) or {}).get("expression") or "", outputs))
