"""Lists take little memory even if their objects are large."""

import msgspec
import pytest

from vcsync.apiserver.registry import reading

BASE = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def large(api, monkeypatch):
    for number in range(60):
        made = {"metadata": {"name": f"c{number:02}"}, "data": {"k": "v" * 1000}}
        assert (await api("POST", BASE, made)).status == 201
    monkeypatch.setattr(reading, "FIRST_PAGE", 4)
    monkeypatch.setattr(reading, "PAGE_BYTES", 5000)
    monkeypatch.setattr(reading, "WHOLE_BYTES", 8000)
    monkeypatch.setattr(reading, "LIMITED_BYTES", 20_000)
    monkeypatch.setattr(reading, "ENCODED_BYTES", 30_000)
    return api


async def names(api, query):
    response = await api("GET", f"{BASE}?{query}")
    return [each["metadata"]["name"] for each in response.body["items"]], response.body["metadata"]


async def test_a_large_page_ends_early_with_a_continue_token(large):
    found, token = [], ""
    for _ in range(10):
        page, metadata = await names(large, f"limit=50&continue={token}")
        found += page
        token = metadata.get("continue", "")
        if not token:
            break
        assert len(page) < 50
        assert "remainingItemCount" not in metadata
    assert found == [f"c{number:02}" for number in range(60)]


async def test_a_small_page_has_the_requested_length_and_a_remaining_count(large):
    page, metadata = await names(large, "limit=10")
    assert len(page) == 10
    assert metadata["remainingItemCount"] == 50


async def test_lists_that_cannot_be_encoded_in_pieces_are_limited_in_size(large):
    response = await large("GET", BASE, Accept="application/yaml")
    assert response.status == 413


async def test_objects_are_read_a_few_at_a_time_once_they_are_known_to_be_large(large, plane, monkeypatch):
    store = plane.server.chain._dispatcher._verbs._backend.reader._store
    limits, real = [], store.range

    async def watched(prefix, **options):
        if "/configmaps/" in prefix:
            limits.append(options["limit"])
        return await real(prefix, **options)

    monkeypatch.setattr(store, "range", watched)
    answer, _ = await large._go("GET", BASE, None, {})
    pieces = [*answer.body, *[piece async for piece in answer.rest]]
    assert len(msgspec.json.decode(b"".join(pieces))["items"]) == 60
    assert max(limits) <= 4
