"""Documents of tenants with kinds of their own are made once, and only those of a usual size are kept."""

from random import Random

import pytest

from vcsync.controlplane.openapi import documents
from vcsync.controlplane.openapi.documents import Custom, Document
from vcsync.controlplane.resources import Resource

WIDGETS = Resource("example.com", "v1", "widgets", "widget", "Widget", True, ("get",), custom=True)


def widgets(description: str) -> Custom:
    return Custom(WIDGETS, lambda _version: {"com.example.v1.Widget": {"description": description}})


@pytest.mark.parametrize(("size", "made"), [(100, 1), (3 * documents.MOST_BYTES, 2)])
def test_a_document_is_made_once_unless_it_is_very_large(
    monkeypatch: pytest.MonkeyPatch, size: int, made: int
) -> None:
    make, asked = documents._swagger, []

    def counted(custom: list[Custom]) -> Document:
        asked.append(custom)
        return make(custom)

    monkeypatch.setattr(documents, "_swagger", counted)
    custom = [widgets(Random(size).randbytes(size // 2).hex())]
    first, second = documents.swagger(custom), documents.swagger(custom)
    assert first == second
    assert len(asked) == made


@pytest.mark.parametrize("path", ["/openapi/v3", "apis/example.com/v1", ""])
def test_the_definitions_of_a_kind_are_looked_at_once_for_documents_that_are_kept(path: str) -> None:
    """A schema of thousands, asked for again and again, held the interpreter for 5 ms at a time."""
    asked: list[int] = []
    fingerprints: dict[int, bytes] = {}

    def definitions(version: int) -> dict[str, object]:
        asked.append(version)
        return {"com.example.v1.Widget": {"description": f"for {path}"}}

    def ask() -> object:
        custom = [Custom(WIDGETS, definitions, fingerprints)]
        if path == "/openapi/v3":
            return documents.index(custom)
        return documents.document(path, custom) if path else documents.swagger(custom)

    first = ask()
    looked = len(asked)
    assert looked
    assert ask() == first
    assert len(asked) == looked
