"""Collects each use of Python's `re`, and each pattern of `vcsync.patterns`, by the syntax tree."""

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import vcsync

ROOT = Path(vcsync.__file__).parent
CALLS = frozenset(
    {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer", "template"}
)
METHODS = CALLS - {"compile", "template"}
COMPILING = frozenset({"compile", "template", "linear"})


@dataclass(frozen=True)
class Use:
    """One call of `re`, or of `linear`.

    Attributes:
        place: File below vcsync/, and the name that the pattern gets or the function that uses it.
        method: Name in `re`, or `linear`.
        pattern: The first argument, if the name is called.
        flags: The flags, if there are any.
        methods: Methods of the compiled pattern that its module calls.
    """

    place: str
    method: str
    pattern: ast.expr | None
    flags: ast.expr | None
    methods: frozenset[str] = field(default=frozenset())


def uses(source: str, file: str) -> Iterator[Use]:
    """Yield the uses of `re` in the text of a module, whatever its name there."""
    tree = ast.parse(source)
    modules, functions = set[str](), dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {each.asname or each.name for each in node.names if each.name in ("re", "sre_compile")}
        elif isinstance(node, ast.ImportFrom) and node.module in ("re", "vcsync.patterns.linear"):
            functions |= {each.asname or each.name: each.name for each in node.names}
    owners = dict(_owners(tree))
    for node in ast.walk(tree):
        name = _called(node, modules, functions)
        if isinstance(node, ast.Call) and name in CALLS | COMPILING:
            owner = owners.get(node, "")
            flags = node.args[{"sub": 4, "subn": 4, "split": 3, "compile": 1}.get(name, 2) :][:1]
            flags += [each.value for each in node.keywords if each.arg == "flags"]
            methods = frozenset(_methods(tree, owner)) if name in COMPILING else frozenset({name})
            yield Use(
                f"{file} {owner}",
                name,
                node.args[0] if node.args else None,
                flags[0] if flags else None,
                methods,
            )
        elif isinstance(node, ast.Attribute) and name in CALLS and not _is_called(tree, node):
            yield Use(f"{file} {owners.get(node, '')}", name, None, None)


@cache
def all_uses() -> tuple[Use, ...]:
    """Return the uses of `re` and `linear` in vcsync."""
    return tuple(
        use
        for path in sorted(ROOT.rglob("*.py"))
        for use in uses(path.read_text(), path.relative_to(ROOT).as_posix())
    )


def value(use: Use) -> tuple[Any, int]:
    """Return the pattern and the flags of a use, computed in its module.

    Raises:
        NameError: The pattern is made of local variables.
    """
    module = importlib.import_module(
        "vcsync." + use.place.split(" ")[0].removesuffix(".py").replace("/", ".")
    )
    found = [
        eval(compile(ast.Expression(each), use.place, "eval"), vars(module)) if each is not None else 0
        for each in (use.pattern, use.flags)
    ]
    return found[0], int(found[1])


def _called(node: ast.AST, modules: set[str], functions: dict[str, str]) -> str:
    function = node.func if isinstance(node, ast.Call) else node
    if (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id in modules
    ):
        return function.attr
    if isinstance(function, ast.Name):
        return functions.get(function.id, "")
    return ""


def _is_called(tree: ast.AST, node: ast.Attribute) -> bool:
    return any(isinstance(each, ast.Call) and each.func is node for each in ast.walk(tree))


def _owners(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield each node with the name of the module's constant or function that it belongs to."""

    def below(node: ast.AST, name: str) -> Iterator[tuple[ast.AST, str]]:
        yield node, name
        for child in ast.iter_child_nodes(node):
            yield from below(child, name)

    def top(body: list[ast.stmt], prefix: str) -> Iterator[tuple[ast.AST, str]]:
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from top(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from below(node, prefix + node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                yield from below(node, prefix + ast.unparse(target))
            else:
                yield from below(node, prefix.rstrip("."))

    yield from top(tree.body, "")


def _methods(tree: ast.Module, name: str) -> Iterator[str]:
    """Yield the methods that a module calls on a constant, all if none is seen."""
    found = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name.rpartition(".")[2]
        and node.attr in METHODS
    }
    yield from found or {"fullmatch", "match", "search"}


def field_patterns() -> Iterator[tuple[str, str, int | None]]:
    """Yield (place, pattern, most characters) of the fields whose pattern msgspec checks with `re.search`."""
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text()
        if "pattern=" not in source:
            continue
        file = path.relative_to(ROOT).as_posix()
        module = importlib.import_module("vcsync." + file.removesuffix(".py").replace("/", "."))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Meta":
                given = {
                    each.arg: eval(compile(ast.Expression(each.value), file, "eval"), vars(module))
                    for each in node.keywords
                    if each.arg in ("pattern", "max_length")
                }
                if "pattern" in given:
                    yield f"{file}:{node.lineno}", given["pattern"], given.get("max_length")
