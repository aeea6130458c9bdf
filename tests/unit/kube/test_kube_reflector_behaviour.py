"""The reflector against a server that misbehaves in every way it must survive."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest
from aiohttp import web
from kube_standin import StandIn, hang_up, refuse
from msgspec.structs import replace

from vcsync.kube import envelope
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import CONFIG_MAPS

BACKOFF = (0.002, 0.01)


class Watcher:
    """A running reflector and what it reported."""

    def __init__(self, client: Client, **options: object) -> None:
        self.changes: list[Change] = []
        self.news = asyncio.Event()
        self.reflector = Reflector(client, CONFIG_MAPS, on_change=self._note, backoff=BACKOFF, **options)  # type: ignore[arg-type]
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
        """Wait until the cache holds what the server holds."""

        def same() -> bool:
            mine = {item.key: item.resource_version for item in self.reflector.cache.items()}
            return mine == {key: item["metadata"]["resourceVersion"] for key, item in server.objects.items()}

        await self.until(same)

    async def streaming(self, server: StandIn) -> None:
        """Wait until the stream is up."""
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


async def test_it_fills_its_cache_by_a_streaming_list_and_goes_on_with_the_same_request(
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
    assert w.reflector.statistics().lists == 1


@pytest.mark.parametrize("setting", ["streaming_lists", "ignores_streaming"])
async def test_it_falls_back_to_pages_for_good_where_streaming_lists_are_not_offered(
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


async def test_a_list_may_begin_with_what_the_server_has_at_hand(server: StandIn, watch: Start) -> None:
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


async def test_a_resumed_stream_goes_on_from_the_last_bookmark(server: StandIn, watch: Start) -> None:
    w = watch()
    await w.streaming(server)
    server.version += 50
    server.bookmark()
    await w.until(lambda: w.reflector._course.version == str(server.version))
    server.end_watches()
    await w.until(lambda: server.seen["WATCH"] == 1)
    assert server.requests[-1].query["resourceVersion"] == str(server.version)


async def test_a_compacted_history_leads_to_a_new_list_that_reports_each_deletion_once(
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


async def test_a_410_inside_the_stream_leads_to_a_new_list(server: StandIn, watch: Start) -> None:
    w = watch()
    await w.streaming(server)
    server.end_watches()
    server.compact()
    server.put("a", "late")
    await w.equals(server)
    assert w.reflector.statistics().gone == 1


async def test_a_continuation_that_has_expired_restarts_the_list(server: StandIn, watch: Start) -> None:
    server.streaming_lists = False
    for number in range(6):
        server.put("a", f"n{number}")
    server.once("PAGE", refuse(410, "Expired"))
    w = watch(page_size=2)
    await w.equals(server)
    assert server.seen["LIST"] == 2
    assert "resourceVersion" not in server.requests[3].query


async def test_lists_that_keep_expiring_end_with_one_without_pages(server: StandIn, watch: Start) -> None:
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


async def test_a_server_that_ends_each_watch_at_once_is_not_asked_in_a_tight_loop(
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


async def test_it_waits_as_long_as_the_server_asks_for(server: StandIn, watch: Start) -> None:
    server.streaming_lists = False
    w = watch()
    await w.streaming(server)
    server.always("WATCH", refuse(429, "TooManyRequests", headers={"Retry-After": "30"}))
    server.end_watches()
    await w.until(lambda: server.seen["WATCH"] == 2)
    await asyncio.sleep(0.1)
    assert server.seen["WATCH"] == 2
    assert w.reflector.stale_since is not None


async def test_a_silent_stream_is_given_up_and_resumed(server: StandIn, watch: Start) -> None:
    w = watch(silence=0.1)
    await w.streaming(server)
    await w.until(lambda: w.reflector.statistics().resumes >= 2)
    assert w.reflector.statistics().lists == 1
    assert "nothing came" in (w.reflector.statistics().last_error or "")


async def test_it_survives_a_server_that_is_away(server: StandIn, watch: Start) -> None:
    for kind in ("STREAM", "WATCH"):
        server.once(kind, hang_up, times=3)
    server.put("a", "one")
    w = watch()
    assert await w.reflector.wait_synced(5)
    await w.equals(server)


async def test_it_survives_nonsense_on_the_stream(server: StandIn, watch: Start) -> None:
    w = watch()
    await w.streaming(server)
    server.raw(b"<html>\n")
    await w.until(lambda: w.reflector.statistics().resumes == 1)
    server.put("a", "one")
    await w.equals(server)
    assert w.reflector.statistics().lists == 1


async def test_an_own_write_is_reported_once_and_older_news_do_not_undo_it(
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


async def test_an_object_known_to_be_gone_does_not_come_back_by_late_events(
    server: StandIn, watch: Start
) -> None:
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


async def test_an_own_write_that_takes_the_selected_label_away_removes_the_object(
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


async def test_an_own_write_to_what_has_just_left_a_field_selection_does_not_keep_it(
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


async def test_refill_drops_what_is_refused_now_and_fetches_what_is_accepted_now(
    server: StandIn, watch: Start
) -> None:
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


async def test_projection_slims_what_is_kept(server: StandIn, watch: Start) -> None:
    server.put("a", "one", big="x" * 100)

    def slim(item: Envelope) -> Envelope:
        return envelope.strip(item).__class__(
            name=item.name, namespace=item.namespace, uid=item.uid, resource_version=item.resource_version
        )

    w = watch(project=slim)
    await w.streaming(server)
    assert next(w.reflector.cache.items()).rest == b""


async def test_a_broken_handler_costs_only_its_own_change(server: StandIn, client: Client) -> None:
    def broken(_: Change) -> None:
        raise RuntimeError("handler")

    server.put("a", "one")
    reflector = Reflector(client, CONFIG_MAPS, on_change=broken, backoff=BACKOFF)
    task = asyncio.create_task(reflector.run())
    assert await reflector.wait_synced(5)
    assert len(reflector.cache) == 1
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert reflector.stale_since is not None


async def test_waiting_for_a_first_list_can_end_without_one(client: Client) -> None:
    assert not await Reflector(client, CONFIG_MAPS).wait_synced(0.01)


def poison(item: Envelope) -> bool:
    """A door that cannot make up its mind about one object."""
    if item.name == "poison":
        raise TypeError("Expected `str`, got `null`")
    return True


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_object_that_cannot_be_taken_is_skipped_and_named(
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
async def test_what_is_no_object_keeps_nothing_else_from_coming(
    server: StandIn, watch: Start, streaming: bool
) -> None:
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


async def test_what_is_known_of_a_skipped_object_stays(server: StandIn, watch: Start) -> None:
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
async def test_a_list_keeps_what_is_known_of_an_unreadable_object_that_is_placed(
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
