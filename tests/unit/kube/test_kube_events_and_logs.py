"""Recording of Events, redaction of logs, and the event loop."""

import asyncio
import gc
import json
import math
import sys
import weakref
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog

from vcsync.kube import events
from vcsync.kube.errors import AlreadyExists, Forbidden, NotFound, Status
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.process import logs, loop

POD = ObjectRef("v1", "Pod", "p", "a", "u")
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMHc\nMHd\n-----END RSA PRIVATE KEY-----"


class Sink:
    """A stand-in for a client that accepts Events."""

    name = "sink"

    def __init__(self) -> None:
        self.created: dict[str, dict[str, Any]] = {}
        self.refuses = False

    async def create(self, _: object, body: dict[str, Any], namespace: str) -> None:
        if self.refuses:
            raise Forbidden(Status(code=403))
        assert body["metadata"]["namespace"] == namespace
        self.created[body["metadata"]["name"]] = body

    async def patch(self, _: object, name: str, patch: dict[str, Any], namespace: str) -> None:
        if name not in self.created:
            raise NotFound(Status(code=404))
        self.created[name].update(patch)

    @property
    def counts(self) -> list[int]:
        return [event["count"] for event in self.created.values()]


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def recorder(sink: Sink) -> EventRecorder:
    return EventRecorder(sink, "test")  # type: ignore[arg-type]


async def test_repeats_are_counted_on_one_event(sink: Sink, recorder: EventRecorder) -> None:
    for now in (0.0, 1.0):
        recorder.emit(POD, "Normal", "R", "m", now=now)
    await recorder.flush()
    recorder.emit(POD, "Normal", "R", "m", now=2.0)
    recorder.emit(POD, "Warning", "R", "m", now=2.0)
    await recorder.flush()
    assert sink.counts == [3, 1]
    first = next(iter(sink.created.values()))
    assert (first["firstTimestamp"], first["lastTimestamp"]) == (
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:00:02Z",
    )
    assert first["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "a",
        "name": "p",
        "uid": "u",
    }
    assert first["source"] == {"component": "test"}
    assert first["reportingComponent"] == "test"
    assert (first["type"], first["reason"], first["message"]) == ("Normal", "R", "m")


async def test_an_expired_event_is_created_again(sink: Sink, recorder: EventRecorder) -> None:
    recorder.emit(POD, "Normal", "R", "m", now=0.0)
    await recorder.flush()
    sink.created.clear()
    recorder.emit(POD, "Normal", "R", "m", now=60.0)
    await recorder.flush()
    assert sink.counts == [1]
    recorder.emit(POD, "Normal", "R", "m", now=9000.0)
    await recorder.flush()
    assert sink.counts == [1, 1]


async def test_a_once_event_is_written_once_by_several_recorders(sink: Sink, recorder: EventRecorder) -> None:
    creations = 0
    create = sink.create

    async def refusing(resource: object, body: dict[str, Any], namespace: str) -> None:
        nonlocal creations
        creations += 1
        if body["metadata"]["name"] in sink.created:
            raise AlreadyExists(Status(code=409))
        await create(resource, body, namespace)

    sink.create = refusing  # type: ignore[method-assign]
    for each in (recorder, recorder, EventRecorder(sink, "test")):  # type: ignore[arg-type]
        each.emit(POD, "Warning", "R", "m", now=float(creations), once=True)
        await each.flush()
    assert creations == 2
    assert sink.counts == [1]


async def test_events_of_cluster_wide_objects_go_to_the_default_namespace(
    sink: Sink, recorder: EventRecorder
) -> None:
    recorder.emit(ObjectRef("v1", "Node", "n"), "Normal", "R", "m" * 5000, now=0.0)
    await recorder.flush()
    event = next(iter(sink.created.values()))
    assert event["metadata"]["namespace"] == "default"
    assert len(event["message"]) == 1024


async def test_a_full_queue_drops_the_oldest_events(sink: Sink, recorder: EventRecorder) -> None:
    for number in range(events._LONGEST_QUEUE + 5):
        recorder.emit(POD, "Normal", "R", str(number), now=0.0)
    assert recorder.dropped == 5
    await recorder.flush()
    assert "0" not in {event["message"] for event in sink.created.values()}


async def test_events_that_the_server_refuses_are_counted(sink: Sink, recorder: EventRecorder) -> None:
    sink.refuses = True
    recorder.emit(POD, "Normal", "R", "m", now=0.0)
    await recorder.flush()
    assert recorder.failed == 1


async def test_queued_events_are_written_at_the_end(sink: Sink, recorder: EventRecorder) -> None:
    task = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    recorder.emit(POD, "Normal", "R", "m", now=0.0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert sink.counts == [1]


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("token", "abc", "[redacted]"),
        ("bearer_token", {"x": "abc"}, "[redacted]"),
        ("kubeconfig", b"abc", "[redacted]"),
        ("password", "abc", "[redacted]"),
        ("secret_name", "db", "db"),
        ("token_count", 3, 3),
        ("headers", {"Authorization": "Bearer abcdefgh1234"}, {"Authorization": "[redacted]"}),
        ("error", "sent Bearer abcdefgh1234 there", "sent Bearer [redacted] there"),
        ("error", "jwt eyJhbGciOiJSUzI1.eyJzdWIiOiJ4.c2ln", "jwt [redacted]"),
        ("error", "sent Bearer\u00a0\x1fabcdefgh1234", "sent Bearer\u00a0\x1f[redacted]"),
        ("items", ["-----BEGIN EC PRIVATE KEY-----MHc"], ["[redacted]"]),
        ("error", "-----BEGIN PRIVATE KEY-----\nMHc\nMHd\n", "[redacted]"),
        ("error", f"key {PEM}\nand {PEM} it", "key [redacted]\nand [redacted] it"),
        ("body", b"12345", "5 bytes"),
        ("name", "pod-1", "pod-1"),
    ],
)
def test_secrets_are_redacted(key: str, value: object, shown: object) -> None:
    assert logs.redact(None, "info", {key: value}) == {key: shown}


def test_json_logs_are_one_object_per_line_and_tracebacks_are_redacted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure("info", "json")
    log = structlog.get_logger("x")
    log.debug("hidden")
    error = ValueError("Bearer abcdefgh1234")
    log.error("failed", tenant="acme", exc_info=error)
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    event = json.loads(lines[0])
    assert (event["event"], event["level"], event["tenant"]) == ("failed", "error", "acme")
    assert "ValueError" in event["exception"]
    assert datetime.fromisoformat(event["timestamp"]).utcoffset() == timedelta(0)
    assert "abcdefgh1234" not in lines[0]


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(ValueError, match="loud"):
        logs.configure("loud")


def test_the_loop_runs_a_coroutine() -> None:
    async def main() -> int:
        return 7

    assert loop.run(main()) == 7


def test_garbage_collections_are_made_rare() -> None:
    before = gc.get_threshold()
    try:
        loop.tune_gc()
        assert math.prod(gc.get_threshold()) > 100 * math.prod(before)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


class Part:
    """An object with a reference to itself, which only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


def test_tuning_again_frees_the_objects_of_a_restarted_part() -> None:
    before = gc.get_threshold()
    try:
        part = Part()
        gone = weakref.ref(part)
        loop.tune_gc()
        del part
        loop.tune_gc()
        assert gone() is None
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("terminal", "no_color", "coloured"),
    [(True, "", True), (True, "1", False), (False, "", False), (False, "1", False)],
)
def test_colours_are_only_for_terminals_and_without_no_color(
    terminal: bool,
    no_color: str,
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    logs.configure("info", "console")
    structlog.get_logger("colour").warning("something happens", what="x")
    assert ("\x1b[" in capsys.readouterr().err) == coloured


def test_messages_of_servers_do_not_control_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    error = ValueError("a\x9b31m")
    for form in ("json", "console"):
        logs.configure("info", form)
        structlog.get_logger("x").warning("refused", error="\x1b[2J\x9b31m\nfake line", exc_info=error)
        said = capsys.readouterr().err
        assert said.replace("\n", "").isprintable()
        assert not any(line.startswith("fake line") for line in said.splitlines())
        if form == "json":
            assert json.loads(said)["error"] == "\x1b[2J\x9b31m\nfake line"
