"""Watches of custom resources whose definition changes: they end completely, and nothing is lost."""

import asyncio

import pytest
from served_definitions import DEFINITIONS, until

DEFINITION = f"{DEFINITIONS}/gadgets.example.org"
MERGE = {"Content_Type": "application/merge-patch+json"}
JSON_PATCH = {"Content_Type": "application/json-patch+json"}
STOP_V2 = [{"op": "replace", "path": "/spec/versions/1/served", "value": False}]


def gadget(name):
    return {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": name}}


async def opened(api, path):
    """Return a watch that waits for its first event."""
    start = (await api("GET", path))["metadata.resourceVersion"]
    stream = await api.stream(f"{path}?watch=1&resourceVersion={start}")
    waiting = asyncio.create_task(anext(stream, None))
    await asyncio.sleep(0)
    return stream, waiting


async def rest(stream, waiting):
    """Return the events until the end of the watch."""
    async with asyncio.timeout(20):
        events = [] if (first := await waiting) is None else [first]
        return events + [event async for event in stream]


async def published(plane, changed):
    """Wait until the watches have received a change."""

    async def reached():
        return plane._cacher.position >= int(changed["metadata.resourceVersion"])

    await until(reached)


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_watches_of_all_versions_end_when_the_spec_changes(api, gadgets, version):
    watch = await opened(api, gadgets[version])
    changed = await api("PATCH", DEFINITION, STOP_V2, **JSON_PATCH)
    assert changed.status == 200, changed.body
    assert await rest(*watch) == []


async def test_a_watch_of_a_version_that_is_no_longer_served_cannot_be_opened_again(api, gadgets):
    watch = await opened(api, gadgets["v2"])
    await api("PATCH", DEFINITION, STOP_V2, **JSON_PATCH)
    await rest(*watch)
    assert (await api("GET", f"{gadgets['v2']}?watch=1")).status == 404


async def test_a_deleted_definition_ends_its_watches_after_the_deletions_of_its_objects(api, gadgets):
    await api("POST", gadgets["v1"], gadget("a"))
    watch = await opened(api, gadgets["v1"])
    assert (await api("DELETE", DEFINITION)).status == 200
    events = await rest(*watch)
    assert [(each["type"], each["object"]["metadata"]["name"]) for each in events] == [("DELETED", "a")]


async def test_events_that_wait_are_sent_before_the_end(api, plane, gadgets):
    stream, waiting = await opened(api, gadgets["v1"])
    await api("POST", gadgets["v1"], gadget("a"))
    await waiting
    # The client reads nothing until the definition has changed.
    await api("POST", gadgets["v1"], gadget("b"))
    changed = await api("PATCH", DEFINITION, STOP_V2, **JSON_PATCH)
    await published(plane, changed)
    assert [each["object"]["metadata"]["name"] for each in await rest(stream, waiting)] == ["a", "b"]


async def test_a_watch_that_began_before_the_change_and_subscribes_after_it_ends(api, plane, gadgets):
    stream = await api.stream(f"{gadgets['v2']}?watch=1&resourceVersion=0")
    changed = await api("PATCH", DEFINITION, STOP_V2, **JSON_PATCH)
    await published(plane, changed)
    assert await rest(stream, asyncio.create_task(anext(stream, None))) == []


async def test_a_change_of_metadata_or_status_ends_no_watch(api, gadgets):
    stream, waiting = await opened(api, gadgets["v1"])
    await api("PATCH", DEFINITION, {"metadata": {"labels": {"a": "b"}}}, **MERGE)
    await api("PATCH", f"{DEFINITION}/status", {"status": {"storedVersions": ["v1", "v2"]}}, **MERGE)
    await api("POST", gadgets["v1"], gadget("a"))
    assert (await asyncio.wait_for(waiting, 20))["type"] == "ADDED"
    await stream.aclose()


async def test_a_change_of_one_definition_ends_no_watch_of_another(api, gadgets):
    watched = "/api/v1/namespaces/default/configmaps"
    stream, waiting = await opened(api, watched)
    await api("PATCH", DEFINITION, STOP_V2, **JSON_PATCH)
    await api("POST", watched, {"metadata": {"name": "a"}})
    assert (await asyncio.wait_for(waiting, 20))["type"] == "ADDED"
    await stream.aclose()


async def test_a_failing_conversion_ends_a_watch_with_an_error(api, gadgets):
    stream, waiting = await opened(api, gadgets["v2"])
    conversion = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:9/"}},
    }
    changed = await api("PATCH", DEFINITION, {"spec": {"conversion": conversion}}, **MERGE)
    assert changed.status == 200, changed.body
    assert await rest(stream, waiting) == []
    stream, waiting = await opened(api, gadgets["v2"])
    await api("POST", gadgets["v1"], gadget("a"))
    (event,) = await rest(stream, waiting)
    assert (event["type"], event["object"]["kind"], event["object"]["code"]) == ("ERROR", "Status", 500)
    assert "conversion webhook" in event["object"]["message"]
