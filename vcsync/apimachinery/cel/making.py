"""Expressions that construct objects, as in mutating policies: `Object.spec{...}` and `JSONPatch{...}`.

kube-apiserver accepts any field of `Object` and of the types below it. The checker needs declared types, so an
expression is parsed first, and the types that it constructs are declared with the fields that it sets. The checker
takes dots in a type's name for packages, so they are replaced by underscores, which keeps positions in messages.

Source: `pkg/cel/mutation` of k8s.io/apiserver.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from vcsync.apimachinery.cel.compiler import LONGEST, NotCompiled, check, environment
from vcsync.apimachinery.cel.declared import Declared
from vcsync.apimachinery.cel.expression import Type, below, read_parsed
from vcsync.apimachinery.cel.go_words import in_go_words
from vcsync.apimachinery.cel.programs import Outputs, Program, program, told
from vcsync.apimachinery.cel.values import CelError, Made
from vcsync.patterns.linear import Match, linear

PATCH = {"op": "string", "path": "string", "from": "string", "value": "dyn"}
"""The fields of a JSONPatch."""
_UNDEFINED = linear(r"undefined field '(\w+)'")
_FLAT = linear(r"\bObject_\w+")
_TYPE = re.compile(r"Object(?:\s*\.\s*\w+)*")

Structs = dict[str, Mapping[str, str]]


def compile_making(variables: Mapping[str, Declared], source: str, outputs: Outputs) -> Program:
    """Compile an expression that may construct objects. See `programs.Environment.compile`."""
    written, dotted, structs = source, dict[str, str](), Structs()
    if len(source) <= LONGEST:
        try:
            written, dotted, structs = _renamed(source)
        except NotCompiled as why:
            return Program(source, error=f"compilation failed: {why}")
    try:
        checked = check(lambda: environment(variables, structs, patches=True), written)
    except NotCompiled as why:
        said = _untyped(str(why), variables, structs, written)
        return Program(source, error=f"compilation failed: {_restored(said, dotted)}")
    for each in below(checked.root):
        if each.kind == "struct":
            each.name = dotted.get(each.name, each.name)
    found = program(source, checked, outputs)
    return replace(found, error=_restored(found.error, dotted)) if found.error else found


@cache
def _parser() -> Any:
    return environment({})


def _renamed(source: str) -> tuple[str, dict[str, str], Structs]:
    """Replace the dots in the names of types.

    Returns:
        The rewritten expression, the original names by rewritten name, and the types with their fields.

    Raises:
        NotCompiled: the expression is not valid.
    """
    try:
        parsed = read_parsed(_parser().compile(source, disable_check=True).serialize())
    except (RuntimeError, ValueError) as problem:
        raise NotCompiled(in_go_words(str(problem))) from None
    dotted: dict[str, str] = {}
    structs: Structs = {"Object": {}, "JSONPatch": PATCH}
    for each in below(parsed.root):
        found = _TYPE.match(source, parsed.positions.get(each.id, 0)) if each.kind == "struct" else None
        if found is None or each.name.partition(".")[0] != "Object":
            continue
        flat = each.name.replace(".", "_")
        dotted[flat] = each.name
        structs[flat] = {**structs.get(flat, {}), **{str(field.value): "dyn" for field in each.args[0::2]}}
        source = source[: found.start()] + flat.ljust(len(found[0])) + source[found.end() :]
    return source, dotted, structs


def _untyped(
    said: str, variables: Mapping[str, Declared], structs: Mapping[str, Mapping[str, str]], written: str
) -> str:
    """Report fields that JSONPatch does not have as kube-apiserver does, where they have no type."""
    unknown = {match[1] for match in _UNDEFINED.finditer(said)}
    if not unknown:
        return said
    known = {**structs, "JSONPatch": {**PATCH, **dict.fromkeys(sorted(unknown), "dyn")}}
    try:
        checked = check(lambda: environment(variables, known, patches=True), written)
    except NotCompiled:
        return said
    types = {
        field.value: told(checked.types.get(value.id, Type("dyn")))
        for each in below(checked.root)
        if each.kind == "struct" and each.name == "JSONPatch"
        for field, value in zip(each.args[0::2], each.args[1::2], strict=True)
    }

    def shown(match: Match) -> str:
        if match[1] not in types:
            return match[0]
        return f"expected type of field '{match[1]}' is '' but provided type is '{types[match[1]]}'"

    return _UNDEFINED.sub(shown, said)


def _restored(said: str, dotted: Mapping[str, str]) -> str:
    return _FLAT.sub(lambda match: dotted.get(match[0], match[0]), said)


def misnamed(value: Any) -> list[str]:
    """Return messages about constructed objects whose type does not match their path."""
    return list(_misnamed(value, value.type_name)) if isinstance(value, Made) else []


def _misnamed(value: Any, path: str) -> list[str]:
    found = []
    if isinstance(value, Made):
        if value.type_name != path:
            told = f'unexpected type name "{value.type_name}", expected "{path}"'
            found.append(f"{told}, which matches field name path from root Object type")
        for name, each in value.fields.items():
            found += _misnamed(each, f"{path}.{name}")
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            found += _misnamed(each, path)
    return found


def as_json(value: Any) -> Any:
    """Return the JSON form of a constructed value.

    Raises:
        CelError: the value has no JSON form.
    """
    if isinstance(value, Made):
        return {name: as_json(each) for name, each in value.fields.items()}
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise CelError(f'map key "{name}" is not string')
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        return value.text() if hasattr(value, "text") else int(value)
    raise CelError("the value cannot be written as JSON")
