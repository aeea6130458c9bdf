"""Every cache of vcsync is known, and has a limit in bytes if a tenant's text can be in it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import vcsync

ROOT = Path(vcsync.__file__).parent
MOST_TEXT = 8 * 2**20
"""Most characters of the texts of one cache of short texts."""

UNLIMITED = {"lru_cache", "cache"}
LIMITED = {"cache_short_texts", "Kept", "RecentlyUsed"}

NO_TEXT_OF_TENANTS = {
    "apimachinery/cel/compiler.py: _configuration": "the names of vcsync's own variables: object, oldObject, params, ...",
    "apimachinery/wire/negotiation.py: accepted": "576 Accept headers of 16 KiB at most: 9 MiB",
    "apimachinery/wire/negotiation.py: discovery": "see accepted",
    "apimachinery/wire/values.py: time_text": "numbers",
    "apiserver/assembly/server.py: _format": "a second",
    "apiserver/audit/events.py: _whole": "seconds",
    "apiserver/authentication/jwt_expressions.py: claims_rule": "the operator's file",
    "apiserver/authentication/jwt_expressions.py: user_rule": "the operator's file",
    "apiserver/registry/field_managers.py: _unstored_tracking": "built-in kinds",
    "apiserver/registry/field_managers.py: _builtin_tracking": "built-in kinds",
    "objects/envelope.py: _decoder": "types of vcsync",
    "objects/text_cache.py: lru_cache": "what limits the others",
    "podscheduler/pods.py: _labels": "ids of super clusters, of 512 characters at most: _LONGEST_SHARED",
    "podscheduler/pods.py: _shared_owners": "texts of 512 characters at most: _LONGEST_SHARED",
    "podscheduler/pods.py: _shared_prefix": "see _shared_owners",
    "process/marks.py: _awaiting": "kinds of work, and names of tenants that exist",
    "process/marks.py: _calling": "see _awaiting",
    "syncer/kinds/keys.py: _dotted": "domains of vcsync and of the operator's settings",
    "syncer/kinds/obeyed_labels.py: _rules": "plural names of kinds",
    "syncer/kinds/metadata.py: _own_labels": "names of VirtualClusters, which the operator's API server limits",
    "syncer/kinds/pod_convert.py: _api_alias": "the operator's addresses",
    "syncer/kinds/pod_convert.py: _api_environment": "the operator's addresses",
}
"""Caches without a limit in bytes, and why no text of a tenant makes them large. Functions without arguments need no reason."""


BUILT_IN = {
    f"{path}: {name}"
    for path, names in {
        "apimachinery/cel/compiler.py": ("_functions",),
        "apimachinery/cel/request.py": ("plain_environment",),
        "apimachinery/patch/managed.py": ("empty_object",),
        "apimachinery/schema/builtin.py": ("definition",),
        "apimachinery/schema/gotypes.py": ("fields", "go_type"),
        "apimachinery/schema/sent_empty.py": ("places",),
        "apimachinery/schema/walk.py": ("_plan",),
        "apimachinery/validation/names.py": ("_compiled",),
        "apimachinery/wire/protobuf_decode.py": ("_plan",),
        "apimachinery/wire/protobuf_encode.py": ("_plan", "_heads"),
        "apimachinery/wire/zeros.py": ("always",),
        "apiserver/discovery/documents.py": (
            "_common_group_list", "_common_aggregated", "_builtin_groups",
        ),
        "apiserver/openapi/documents.py": (
            "_builtin_hash", "_builtin_document", "_definitions", "_builtin_swagger", "_builtin_swagger_protobuf",
            "_builtin_paths2", "_builtin_definitions2",
        ),
        "apiserver/openapi/schemas.py": ("references",),
        "apiserver/openapi/sources.py": ("sources",),
    }.items()
    for name in names
}  # fmt: skip
"""Caches about built-in kinds, whose number is given."""


def _name(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    if isinstance(called, ast.Subscript):
        called = called.value
    return (
        called.id
        if isinstance(called, ast.Name)
        else called.attr
        if isinstance(called, ast.Attribute)
        else ""
    )


def caches() -> Iterator[tuple[str, str, ast.Call | None]]:
    """Yield each use of a cache: its place, the kind of cache, and the call that makes it."""
    for path in sorted(ROOT.rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        tree = ast.parse(path.read_text())
        decorating = set()
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                for each in node.decorator_list:
                    decorating.add(id(each))
                    kind = _name(each)
                    if kind in UNLIMITED | LIMITED and arguments:
                        yield f"{where}: {node.name}", kind, each if isinstance(each, ast.Call) else None
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and id(node) not in decorating
                and _name(node) in UNLIMITED | LIMITED
            ):
                yield f"{where}: {_name(node)}", _name(node), node


def test_caches_without_a_limit_in_bytes_have_no_text_of_tenants() -> None:
    found = {place for place, kind, _ in caches() if kind in UNLIMITED}
    unknown = found - NO_TEXT_OF_TENANTS.keys() - BUILT_IN
    assert not unknown, (
        "use cache_short_texts, Kept or RecentlyUsed, or say here why no tenant's text is kept"
    )


def test_the_table_names_caches_that_exist() -> None:
    found = {place for place, _, _ in caches()}
    assert (NO_TEXT_OF_TENANTS.keys() | BUILT_IN) <= found


def test_caches_of_short_texts_are_small() -> None:
    for place, kind, call in caches():
        if (
            kind == "cache_short_texts"
            and call is not None
            and all(isinstance(each, ast.Constant) for each in call.args)
        ):
            most, longest = (ast.literal_eval(each) for each in call.args)
            assert most * longest <= MOST_TEXT, place


@pytest.mark.parametrize("kind", ["cache_short_texts", "Kept", "RecentlyUsed"])
def test_each_kind_of_limited_cache_is_found(kind: str) -> None:
    assert any(found == kind for _, found, _ in caches())
