"""Documents with custom resources are built once and cached, unless they are large."""

from random import Random

import pytest

from vcsync.apimachinery.resources import Resource
from vcsync.apiserver.openapi import documents
from vcsync.apiserver.openapi.documents import Custom, Document
from vcsync.apiserver.tenants.builtin_resources import BuiltinResources

WIDGETS = Resource("example.com", "v1", "widgets", "widget", "Widget", True, ("get",), custom=True)


def widgets(description: str) -> Custom:
    return Custom(WIDGETS, lambda _version: {"com.example.v1.Widget": {"description": description}})


@pytest.mark.parametrize(("size", "made"), [(100, 1), (3 * documents.MAX_CACHED_BYTES, 2)])
def test_a_document_is_built_once_unless_it_is_large(
    monkeypatch: pytest.MonkeyPatch, size: int, made: int
) -> None:
    make, asked = documents._swagger, []

    def counted(custom: list[Custom], builtin: BuiltinResources) -> Document:
        asked.append(custom)
        return make(custom, builtin)

    monkeypatch.setattr(documents, "_swagger", counted)
    custom = [widgets(Random(size).randbytes(size // 2).hex())]
    first, second = documents.swagger(custom), documents.swagger(custom)
    assert first == second
    assert len(asked) == made


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
