"""Documents with custom resources are built once and kept, in a limited memory for each tenant."""

from random import Random

import pytest

from vcsync.apimachinery.resources import Resource
from vcsync.apiserver.openapi import documents
from vcsync.apiserver.openapi.documents import Custom
from vcsync.apiserver.openapi.kept_documents import Document, KeptDocuments
from vcsync.apiserver.tenants.builtin_resources import BuiltinResources, every_resource

WIDGETS = Resource("example.com", "v1", "widgets", "widget", "Widget", True, ("get",), custom=True)


def widgets(description: str) -> Custom:
    return Custom(WIDGETS, lambda _version: {"com.example.v1.Widget": {"description": description}})


@pytest.mark.parametrize("size", [100, 4 * 2**20])
def test_a_document_is_built_once_however_large_it_is(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    make, asked = documents._swagger, []

    def counted(custom: list[Custom], builtin: BuiltinResources) -> Document:
        asked.append(custom)
        return make(custom, builtin)

    monkeypatch.setattr(documents, "_swagger", counted)
    custom = [widgets(Random(size).randbytes(size // 2).hex())]
    assert documents.known_swagger(custom, every_resource()) is None
    first, second = documents.swagger(custom), documents.swagger(custom)
    assert first == second == documents.known_swagger(custom, every_resource())
    assert len(asked) == 1


def document(size: int) -> Document:
    return Document(b"x" * size, '"x"')


def test_kept_documents_take_a_limited_memory_in_all_and_of_each_owner() -> None:
    kept = KeptDocuments(most=100, most_of_owner=40)
    for at in range(50):
        kept.put(f"greedy{at}", "greedy", document(9))
        kept.put("other", "other", document(1))
    assert [at for at in range(50) if kept.get(f"greedy{at}")] == [46, 47, 48, 49]
    for owner in "abc":
        kept.put(owner, owner, document(40))
    assert [key for key in ("greedy49", "other", "a", "b", "c") if kept.get(key)] == [
        "greedy49",
        "other",
        "c",
    ]
    kept.put("large", "other", document(41))
    assert kept.get("large") is None
    kept.put("c", "other", document(1))
    assert kept.get("c") == document(40)


def test_the_document_that_was_used_longest_ago_makes_room() -> None:
    kept = KeptDocuments(most=100, most_of_owner=30)
    for key in "abc":
        kept.put(key, "t", document(10))
    kept.get("a")
    kept.put("d", "t", document(10))
    assert [key for key in "abcd" if kept.get(key)] == ["a", "c", "d"]


@pytest.mark.parametrize("path", ["/openapi/v3", "apis/example.com/v1", ""])
def test_the_definitions_of_a_cached_document_are_read_once(path: str) -> None:
    """Reading a schema with thousands of fields for each request blocked the interpreter for 5 ms."""
    asked: list[int] = []
    fingerprints: dict[int, bytes] = {}

    def definitions(version: int) -> dict[str, object]:
        asked.append(version)
        return {"com.example.v1.Widget": {"description": f"for {path}"}}

    def request() -> object:
        custom = [Custom(WIDGETS, definitions, fingerprints)]
        if path == "/openapi/v3":
            return documents.index(custom)
        return documents.document(path, custom) if path else documents.swagger(custom)

    first = request()
    reads = len(asked)
    assert reads
    assert request() == first
    assert len(asked) == reads
