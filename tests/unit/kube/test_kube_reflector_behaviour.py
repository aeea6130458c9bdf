"""The reflector with a server that fails in all ways that it must survive."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest
from aiohttp import web
from kube_standin import StandIn, hang_up, refuse
from msgspec.structs import replace
from structlog.testing import capture_logs

from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import CONFIG_MAPS
from vcsync.objects import envelope
from vcsync.objects.envelope import Envelope

BACKOFF = (0.002, 0.01)


class Watcher:
    """A running reflector with its reported changes."""

    def __init__(self, client: Client, **options: object) -> None:
        self.changes: list[Change] = []
        self.news = asyncio.Event()
        self.reflector = Reflector(client, CONFIG_MAPS, sink=self._note, backoff=BACKOFF, **options)  # type: ignore[arg-type]
        self.task = asyncio.create_task(self.reflector.run())

    def _note(self, change: Change) -> None:
        self.changes.append(change)
        self.news.set()

    @property
    def names(self) -> set[str]:
        return {item.name for item in self.reflector.cache.items()}

    @property
    def deleted(self) -> list[str]:
        return [change.old.name for change in self.changes if change.new is None and change.old is not None]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.001)

    async def equals(self, server: StandIn) -> None:
        """Wait until the cache equals the objects of the server."""

        def same() -> bool:
            mine = {item.key: item.resource_version for item in self.reflector.cache.items()}
            return mine == {key: item["metadata"]["resourceVersion"] for key, item in server.objects.items()}

        await self.until(same)

    async def streaming(self, server: StandIn) -> None:
        """Wait until the stream is open."""
        await self.until(lambda: self.reflector.stale_since is None and server.watches > 0)

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@pytest.fixture
async def watch(client: Client) -> AsyncIterator[Callable[..., Watcher]]:
    made: list[Watcher] = []

    def start(**options: object) -> Watcher:
        made.append(Watcher(client, **options))
        return made[-1]

    yield start
    for each in made:
        await each.stop()


Start = Callable[..., Watcher]


async def test_a_streaming_list_fills_the_cache_and_continues_as_a_watch(
    server: StandIn, watch: Start
) -> None:
    server.put("a", "one")
    w = watch()
    assert await w.reflector.wait_synced(5)
    server.put("a", "two")
    server.remove("a", "one")
    await w.equals(server)
    assert w.deleted == ["one"]
    assert server.seen == {"STREAM": 1}
    statistics = w.reflector.statistics()
    assert (statistics.lists, statistics.watches, statistics.relists, statistics.resumes) == (1, 1, 0, 0)
    assert (statistics.objects, statistics.synced, statistics.stale_since) == (1, True, None)


@pytest.mark.parametrize("setting", ["streaming_lists", "ignores_streaming"])
async def test_lists_stay_paged_after_a_streaming_list_was_refused(
    server: StandIn, watch: Start, setting: str
) -> None:
    server.streaming_lists = setting != "streaming_lists"
    server.ignores_streaming = setting == "ignores_streaming"
    for number in range(5):
        server.put("a", f"n{number}")
    w = watch(page_size=2)
    await w.streaming(server)
    assert len(w.names) == 5
    assert server.seen["LIST"] == 1
    assert server.seen["PAGE"] == 2
    server.compact()
    server.end_watches()
    await w.until(lambda: server.seen["LIST"] == 2)
    assert server.seen["STREAM"] == 1


async def test_the_first_list_accepts_any_version(server: StandIn, watch: Start) -> None:
    server.streaming_lists = False
    w = watch()
    assert await w.reflector.wait_synced(5)
    request = server.requests[1]
    assert request.query["resourceVersion"] == "0"
    assert request.query["resourceVersionMatch"] == "NotOlderThan"


async def test_a_lost_stream_is_resumed_from_its_version_without_a_list(
    server: StandIn, watch: Start
) -> None:
    server.put("a", "one")
    w = watch()
    await w.streaming(server)
    server.end_watches(
        last=b'{"type":"MODIFIED","object":{"metadata":{"name":"one","namespace":"a","resourceVer'
    )
    await w.until(lambda: server.watches == 0)
    server.put("a", "two")
    server.remove("a", "one")
    await w.equals(server)
    statistics = w.reflector.statistics()
    assert (statistics.lists, statistics.resumes) == (1, 1)
    assert w.deleted == ["one"]
    assert len(w.changes) == 3


async def test_a_resumed_stream_continues_after_the_last_bookmark(server: StandIn, watch: Start) -> None:
    w = watch()
    await w.streaming(server)
    server.version += 50
    server.bookmark()
    await w.until(lambda: w.reflector._state.version == str(server.version))
    server.end_watches()
    await w.until(lambda: server.seen["WATCH"] == 1)
    assert server.requests[-1].query["resourceVersion"] == str(server.version)


async def test_a_compaction_causes_a_new_list_that_reports_each_deletion_once(
    server: StandIn, watch: Start
) -> None:
    for name in ("one", "two", "three"):
        server.put("a", name)
    w = watch()
    await w.streaming(server)
    server.always("WATCH", refuse(410, "Expired"))
    server._publish = lambda *_: None  # type: ignore[method-assign]
    server.remove("a", "one")
    server.put("a", "two")
    server.compact()
    server.end_watches()
    await w.equals(server)
    assert w.deleted == ["one"]
    assert [change.new.name for change in w.changes[3:] if change.new] == ["two"]
    assert w.reflector.statistics().relists >= 1


async def test_a_410_in_the_stream_causes_a_new_list(server: StandIn, watch: Start) -> None:
    w = watch()
    await w.streaming(server)
    server.end_watches()
    server.compact()
    server.put("a", "late")
    await w.equals(server)
    assert w.reflector.statistics().gone == 1


async def test_an_expired_continue_token_restarts_the_list(server: StandIn, watch: Start) -> None:
    server.streaming_lists = False
    for number in range(6):
        server.put("a", f"n{number}")
    server.once("PAGE", refuse(410, "Expired"))
    w = watch(page_size=2)
    await w.equals(server)
    assert server.seen["LIST"] == 2
    assert "resourceVersion" not in server.requests[3].query


async def test_lists_that_keep_expiring_end_with_an_unpaged_list(server: StandIn, watch: Start) -> None:
    server.streaming_lists = False
    for number in range(30):
        server.put("a", f"n{number}")
    server.always("PAGE", refuse(410, "Expired"))
    w = watch(page_size=2)
    await w.equals(server)
    limits = [
        r.query.get("limit") for r in server.requests if "watch" not in r.query and "continue" not in r.query
    ]
    assert limits == ["2", "8", None]


async def test_watches_that_end_immediately_are_not_repeated_in_a_tight_loop(
    server: StandIn, client: Client
) -> None:
    reflector = Reflector(client, CONFIG_MAPS, backoff=(0.02, 0.2))
    server.streaming_lists = False

    async def end(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        return response

    server.always("WATCH", end)
    task = asyncio.create_task(reflector.run())
    await reflector.wait_synced(5)
    await asyncio.sleep(0.5)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert 2 <= server.seen["WATCH"] < 12
    assert server.seen["LIST"] == 1


async def test_the_pause_respects_retry_after(server: StandIn, watch: Start) -> None:
    server.streaming_lists = False
    w = watch()
    await w.streaming(server)
    server.always("WATCH", refuse(429, "TooManyRequests", headers={"Retry-After": "30"}))
    server.end_watches()
    await w.until(lambda: server.seen["WATCH"] == 2)
    await asyncio.sleep(0.1)
    assert server.seen["WATCH"] == 2
    assert w.reflector.stale_since is not None


async def test_a_silent_stream_is_closed_and_resumed(server: StandIn, watch: Start) -> None:
    w = watch(silence=0.1)
    await w.streaming(server)
    await w.until(lambda: w.reflector.statistics().resumes >= 2)
    assert w.reflector.statistics().lists == 1
    assert "no data arrived" in (w.reflector.statistics().last_error or "")


async def test_the_reflector_survives_an_unreachable_server(server: StandIn, watch: Start) -> None:
    for kind in ("STREAM", "WATCH"):
        server.once(kind, hang_up, times=3)
    server.put("a", "one")
    w = watch()
    assert await w.reflector.wait_synced(5)
    await w.equals(server)


async def test_the_reflector_survives_invalid_data_in_the_stream(server: StandIn, watch: Start) -> None:
    w = watch()
    await w.streaming(server)
    server.raw(b"<html>\n")
    await w.until(lambda: w.reflector.statistics().resumes == 1)
    server.put("a", "one")
    await w.equals(server)
    assert w.reflector.statistics().lists == 1


async def test_an_own_write_is_reported_once_and_older_events_do_not_undo_it(
    server: StandIn, watch: Start
) -> None:
    server.put("a", "one")
    w = watch()
    await w.streaming(server)
    mine = envelope.parse(envelope.encode(server.put("a", "one", x="1")))
    w.reflector.observe(mine)
    assert w.changes[-1].new == mine
    count = len(w.changes)
    server.put("a", "other")
    await w.equals(server)
    assert [change.new.name for change in w.changes[count:] if change.new] == ["other"]


async def test_late_events_do_not_bring_back_an_object_that_is_gone(server: StandIn, watch: Start) -> None:
    w = watch()
    await w.streaming(server)
    item = server.put("a", "one")
    mine = envelope.parse(envelope.encode(item))
    w.reflector.observe(mine)
    w.reflector.observe_gone("a", "one", mine.uid)
    server.put("a", "one", y="2")
    server.remove("a", "one")
    server.put("a", "mark")
    await w.until(lambda: "mark" in w.names)
    assert w.deleted == ["one"]
    assert [change.new.name for change in w.changes if change.new] == ["one", "mark"]


async def test_an_answer_that_arrives_after_the_stream_has_passed_it_changes_nothing(
    server: StandIn, watch: Start
) -> None:
    w = watch()
    await w.streaming(server)
    late = envelope.parse(envelope.encode(server.put("a", "one")))
    server.remove("a", "one")
    server.put("a", "mark")
    await w.until(lambda: "mark" in w.names)
    w.reflector.observe(late)
    assert w.names == {"mark"}


@pytest.mark.parametrize(("version", "kept"), [("5", False), ("9", False), ("10", True)])
async def test_an_answer_does_not_bring_back_an_object_missing_from_a_newer_list(
    client: Client, version: str, kept: bool
) -> None:
    reflector = Reflector(client, CONFIG_MAPS)
    reflector._replace_cache([], "9")
    reflector.observe(Envelope("one", "a", "u", version))
    assert len(reflector.cache) == kept


async def test_an_own_write_before_the_first_list_is_kept_if_it_is_newer(client: Client) -> None:
    reflector = Reflector(client, CONFIG_MAPS)
    for name, version in (("older", "5"), ("newer", "10")):
        reflector.observe(Envelope(name, "a", f"u-{name}", version))
    reflector._replace_cache([], "9")
    assert [item.name for item in reflector.cache.items()] == ["newer"]


async def test_an_answer_does_not_add_objects_with_a_field_selector(client: Client) -> None:
    reflector = Reflector(client, CONFIG_MAPS, field_selector="status.phase!=Failed")
    reflector._replace_cache([Envelope("known", "a", "k", "8")], "9")
    reflector.observe(Envelope("one", "a", "u", "10"))
    reflector.observe(Envelope("known", "a", "k", "11"))
    assert [(item.name, item.resource_version) for item in reflector.cache.items()] == [("known", "11")]


async def test_an_own_write_that_removes_the_selected_label_removes_the_object(
    server: StandIn, watch: Start
) -> None:
    server.put("a", "one", labels={"mine": "yes"})
    server.put("a", "other", labels={"mine": "no"})
    w = watch(label_selector="mine=yes")
    await w.streaming(server)
    assert w.names == {"one"}
    w.reflector.observe(envelope.parse(envelope.encode(server.put("a", "one", labels={"mine": "no"}))))
    assert w.names == set()
    assert w.deleted == ["one"]


async def test_an_own_write_does_not_keep_an_object_that_left_a_field_selection(
    server: StandIn, watch: Start
) -> None:
    server.put("a", "one")
    w = watch(field_selector="status.phase!=Failed")
    await w.equals(server)
    await w.streaming(server)
    left = server.objects["a", "one"]
    left["metadata"] = {**left["metadata"], "resourceVersion": str(server.version + 1)}
    mine = {**left, "metadata": {**left["metadata"], "resourceVersion": str(server.version + 2)}}
    w.reflector.observe(envelope.parse(envelope.encode(mine)))
    server.raw(envelope.encode({"type": "DELETED", "object": left}) + b"\n")  # as the server tells of leaving
    await w.until(lambda: not w.names)
    assert w.deleted == ["one"]
    again = {**left, "metadata": {**left["metadata"], "resourceVersion": str(server.version + 3)}}
    server.raw(envelope.encode({"type": "ADDED", "object": again}) + b"\n")
    await w.until(lambda: w.names == {"one"})


async def test_a_refill_drops_refused_objects_and_lists_accepted_ones(server: StandIn, watch: Start) -> None:
    wanted = {"a"}
    server.put("a", "one")
    server.put("b", "two")
    w = watch(accept=lambda item: item.namespace in wanted)
    await w.streaming(server)
    assert w.names == {"one"}
    wanted.remove("a")
    wanted.add("b")
    await w.reflector.refill("a")
    await w.reflector.refill("b")
    assert w.names == {"two"}
    assert w.deleted == ["one"]


async def test_a_refill_does_not_change_other_namespaces(server: StandIn, watch: Start) -> None:
    server.put("a", "one")
    server.put("b", "two")
    refused: set[str] = set()
    w = watch(accept=lambda item: item.namespace not in refused)
    await w.streaming(server)
    assert w.names == {"one", "two"}
    await w.reflector.refill("b")
    assert (w.names, w.deleted) == ({"one", "two"}, [])
    refused |= {"a", "b"}
    await w.reflector.refill("b")
    assert (w.names, w.deleted) == ({"one"}, ["two"]), "nobody has asked about the other one yet"


async def test_events_that_a_refill_has_overtaken_are_not_reported(server: StandIn, watch: Start) -> None:
    w = watch()
    await w.streaming(server)
    publish = server.raw
    held: list[bytes] = []
    server.raw = held.append  # type: ignore[method-assign]
    server.put("b", "gone")
    server.put("b", "stays")
    server.remove("b", "gone")
    await w.reflector.refill("b")
    assert w.names == {"stays"}
    for line in held:
        publish(line)
    server.raw = publish  # type: ignore[method-assign]
    server.put("c", "mark")
    await w.until(lambda: "mark" in w.names)
    assert [change.new.name for change in w.changes if change.new] == ["stays", "mark"]
    assert w.deleted == []


async def test_a_refused_object_that_becomes_acceptable_appears_and_disappears(
    server: StandIn, watch: Start
) -> None:
    w = watch(accept=lambda item: item.labels.get("keep") == "yes")
    await w.streaming(server)
    server.put("a", "one")
    server.put("a", "one", labels={"keep": "yes"})
    await w.until(lambda: w.names == {"one"})
    server.put("a", "one", labels={"keep": "no"})
    await w.until(lambda: w.names == set())
    assert w.deleted == ["one"]


async def test_the_projection_reduces_cached_objects(server: StandIn, watch: Start) -> None:
    server.put("a", "one", big="x" * 100)

    def slim(item: Envelope) -> Envelope:
        return envelope.strip(item).__class__(
            name=item.name, namespace=item.namespace, uid=item.uid, resource_version=item.resource_version
        )

    w = watch(project=slim)
    await w.streaming(server)
    assert next(w.reflector.cache.items()).rest == b""


async def test_a_failing_sink_affects_only_its_own_change(server: StandIn, client: Client) -> None:
    def broken(_: Change) -> None:
        raise RuntimeError("handler")

    server.put("a", "one")
    reflector = Reflector(client, CONFIG_MAPS, sink=broken, backoff=BACKOFF)
    task = asyncio.create_task(reflector.run())
    assert await reflector.wait_synced(5)
    assert len(reflector.cache) == 1
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert reflector.stale_since is not None


async def test_waiting_for_the_first_list_can_time_out(client: Client) -> None:
    assert not await Reflector(client, CONFIG_MAPS).wait_synced(0.01)


def poison(item: Envelope) -> bool:
    """An `accept` filter that raises for one object."""
    if item.name == "poison":
        raise TypeError("Expected `str`, got `null`")
    return True


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_object_that_cannot_be_processed_is_skipped_and_named(
    server: StandIn, watch: Start, streaming: bool
) -> None:
    server.streaming_lists = streaming
    server.put("a", "poison")
    server.put("a", "before")
    watcher = watch(accept=poison)
    await watcher.streaming(server)
    server.put("a", "poison")
    server.put("a", "after")

    await watcher.until(lambda: watcher.names == {"before", "after"})

    seen = watcher.reflector.statistics()
    assert seen.relists == 0
    assert dict(seen.skipped) == {("a", "poison"): "TypeError: Expected `str`, got `null`"}
    assert seen.skipped_total == 2


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_invalid_object_does_not_stop_others(server: StandIn, watch: Start, streaming: bool) -> None:
    server.streaming_lists = streaming
    server.put("a", "odd", {"a": 5})  # type: ignore[dict-item]
    server.put("a", "before")
    watcher = watch()
    await watcher.streaming(server)
    server.put("a", "odder", {"a": None})  # type: ignore[dict-item]
    server.put("a", "after")

    await watcher.until(lambda: {"before", "after"} <= watcher.names)

    assert watcher.names == {"before", "after"}
    assert set(watcher.reflector.statistics().skipped) == {("a", "odd"), ("a", "odder")}


async def test_the_cached_state_of_a_skipped_object_is_kept(server: StandIn, watch: Start) -> None:
    broken: set[str] = set()

    def door(item: Envelope) -> bool:
        if item.name in broken:
            raise ValueError("it is broken")
        return True

    server.put("a", "one")
    watcher = watch(accept=door)
    await watcher.equals(server)
    broken.add("one")
    server.put("a", "one")
    server.oldest = server.version + 1
    server.end_watches()

    await watcher.until(lambda: watcher.reflector.statistics().relists > 0)
    assert watcher.names == {"one"}

    broken.clear()
    server.put("a", "one")
    await watcher.equals(server)
    assert not watcher.reflector.statistics().skipped


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_list_keeps_the_cached_state_of_an_unreadable_placed_object(
    server: StandIn, watch: Start, streaming: bool
) -> None:
    server.streaming_lists = streaming
    server.put("a", "one")
    watcher = watch(place=lambda item: replace(item, namespace=f"acme/{item.namespace}"))
    await watcher.until(lambda: watcher.names == {"one"})
    server.end_watches()
    server.put("a", "one", {"a": 5})  # type: ignore[dict-item]
    server.put("a", "two")
    server.oldest = server.version + 1

    await watcher.until(lambda: "two" in watcher.names)

    assert set(watcher.reflector.cache.keys()) == {("acme/a", "one"), ("acme/a", "two")}
    assert not [change for change in watcher.changes if change.new is None]
    assert set(watcher.reflector.statistics().skipped) == {("acme/a", "one")}

    server.put("a", "one")
    await watcher.until(lambda: not watcher.reflector.statistics().skipped)


async def test_an_object_that_the_sink_refuses_is_counted_and_named_until_it_succeeds(
    server: StandIn, client: Client
) -> None:
    broken, heard = {"poison"}, []

    def handler(change: Change) -> None:
        subject = change.new or change.old
        assert subject is not None
        if subject.name in broken:
            raise KeyError("data")
        heard.append(subject.name)

    server.put("a", "poison")
    server.put("a", "before")
    reflector = Reflector(client, CONFIG_MAPS, sink=handler, backoff=BACKOFF)
    task = asyncio.create_task(reflector.run())
    assert await reflector.wait_synced(5)
    assert dict(reflector.statistics().skipped) == {("a", "poison"): "not processed: KeyError: 'data'"}
    assert (reflector.skipped, heard) == (1, ["before"])

    server.end_watches()
    server.oldest = server.version + 1
    server.put("a", "after")
    async with asyncio.timeout(10):
        while "after" not in heard:
            await asyncio.sleep(0.01)
    assert reflector.skipped == 1, "a list does not tell of it again"

    broken.clear()
    server.put("a", "poison")
    async with asyncio.timeout(10):
        while reflector.skipped:
            await asyncio.sleep(0.01)
    assert heard[-1] == "poison"
    assert reflector.statistics().skipped_total == 1
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_failing_sink_does_not_fail_the_writer(client: Client) -> None:
    def handler(_: Change) -> None:
        raise KeyError("data")

    reflector = Reflector(client, CONFIG_MAPS, sink=handler)
    reflector.observe(Envelope("one", "a", "u", "5"))
    reflector.observe_gone("a", "one", "u")
    assert (reflector.skipped, reflector.statistics().skipped_total) == (1, 2)


async def test_a_reflector_without_cache_reports_each_accepted_object(server: StandIn, watch: Start) -> None:
    server.put("a", "listed")
    server.put("a", "other")
    watcher = watch(keep=False, accept=lambda item: item.name != "other")
    await watcher.streaming(server)
    server.put("a", "other")
    server.put("a", "watched")
    await watcher.until(lambda: len(watcher.changes) == 2)
    assert [(each.old, each.new.name) for each in watcher.changes if each.new] == [
        (None, "listed"),
        (None, "watched"),
    ]
    assert len(watcher.reflector.cache) == 0


async def test_skipped_objects_are_logged(server: StandIn, watch: Start) -> None:
    server.put("a", "poison")
    with capture_logs() as logged:
        watcher = watch(accept=poison)
        await watcher.streaming(server)
    (event,) = [each for each in logged if each["event"] == "reflector.skipped"]
    assert (event["resource"], event["namespace"], event["name"], event["endpoint"]) == (
        "configmaps",
        "a",
        "poison",
        "standin",
    )
    assert event["error"] == "TypeError: Expected `str`, got `null`"


async def test_errors_of_the_reflector_are_logged(server: StandIn, watch: Start) -> None:
    server.always("STREAM", refuse(403, "Forbidden"))
    with capture_logs() as logged:
        watcher = watch()
        await watcher.until(lambda: bool(logged))
    assert (logged[0]["event"], logged[0]["resource"], logged[0]["endpoint"]) == (
        "reflector.failed",
        "configmaps",
        "standin",
    )
    assert 0 < logged[0]["pause"] <= BACKOFF[1] * 2


async def test_only_the_newest_skipped_objects_are_named(server: StandIn, client: Client) -> None:
    def handler(change: Change) -> None:
        raise KeyError("data")

    reflector = Reflector(client, CONFIG_MAPS, sink=handler)
    for number in range(30):
        reflector.observe(Envelope(f"m{number:02}", "a", f"u{number}", str(number + 1)))
    assert [name for _, name in reflector.statistics().skipped] == [f"m{number}" for number in range(10, 30)]
    assert reflector.statistics().skipped_total == 30
    reflector._begin_list()
    assert reflector.skipped == 20, "a list does not report again what the sink refused"
    assert len(reflector._refused_by_sink) == 20


async def test_an_older_answer_outside_the_selection_removes_nothing(client: Client) -> None:
    wanted = Envelope("one", "a", "u", "5", labels={"keep": "yes"})
    reflector = Reflector(client, CONFIG_MAPS, accept=lambda item: "keep" in item.labels)
    reflector.observe(Envelope("other", "a", "u2", "5"))
    reflector.observe(wanted)
    reflector.observe(Envelope("one", "a", "u", "4"))
    assert [item.name for item in reflector.cache.items()] == ["one"]
    reflector.observe(Envelope("one", "a", "u", "6"))
    assert list(reflector.cache.items()) == []


async def test_deleted_skipped_objects_are_forgotten(server: StandIn, watch: Start) -> None:
    server.put("a", "poison")
    server.put("a", "odd", {"a": 5})  # type: ignore[dict-item]
    server.put("a", "other")
    watcher = watch(accept=poison)
    await watcher.until(lambda: watcher.reflector.skipped == 2)
    server.remove("a", "poison")
    server.remove("a", "odd")
    await watcher.until(lambda: watcher.reflector.skipped == 0)
    assert watcher.names == {"other"}


async def test_skipped_objects_deleted_while_no_stream_was_open_are_forgotten(
    server: StandIn, watch: Start
) -> None:
    server.put("a", "poison")
    watcher = watch(accept=poison)
    await watcher.until(lambda: watcher.reflector.skipped == 1)
    server.end_watches()
    server.remove("a", "poison")
    server.put("a", "other")
    server.oldest = server.version + 1
    await watcher.until(lambda: watcher.names == {"other"})
    assert watcher.reflector.skipped == 0


async def test_lists_that_replace_the_cache_are_counted(server: StandIn, watch: Start) -> None:
    server.put("a", "one")
    watcher = watch()
    await watcher.streaming(server)
    assert watcher.reflector.lists_taken == 1
    await watcher.reflector.refill("a")
    assert watcher.reflector.lists_taken == 2
    server.put("a", "two")
    await watcher.until(lambda: watcher.names == {"one", "two"})
    assert watcher.reflector.lists_taken == 2, "an event is no list"
