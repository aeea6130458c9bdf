"""Watches the collections that a scenario writes to, on one server."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

from hack.parity import watched
from hack.parity.ask import Answer, Side, filled, once, opened
from hack.parity.corpus import EVENTS, Step
from hack.parity.watched import Event, Written

SETTLE_SECONDS = 60.0
"""Time limit until a watcher has received what a list shows."""
LIST_AGAIN_SECONDS = 0.5
"""Time after which a watcher that still waits compares with a new list."""


class UnwatchableError(Exception):
    """A collection does not exist, or cannot be watched.

    Attributes:
        code: Status code of the refusal.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"refused with {code}")
        self.code = code


class Watcher:
    """Watches one collection from now on; a thread reads the events.

    Args:
        side: the server.
        collection: path of the collection, which may have selectors.

    Raises:
        UnwatchableError: the collection does not exist, or cannot be watched.
    """

    def __init__(self, side: Side, collection: str) -> None:
        self._side = side
        self._collection = collection
        listed = once(side, Step("start", "GET", _with(collection, "limit=1")), {})
        if listed.code != http.HTTPStatus.OK:
            raise UnwatchableError(listed.code)
        version = listed.body["metadata"].get("resourceVersion")
        if version is None:  # its objects are not stored
            raise UnwatchableError(http.HTTPStatus.METHOD_NOT_ALLOWED)
        self.start = int(version)
        self._lines: list[bytes] = []
        self._arrived = threading.Condition()
        self._ended = False
        self._connection, self._response = opened(
            side, _with(collection, f"watch=1&timeoutSeconds=3600&resourceVersion={self.start}")
        )
        if self._response.status != http.HTTPStatus.OK:
            self._connection.close()
            raise UnwatchableError(self._response.status)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError, http.client.HTTPException):
            for line in self._response:
                with self._arrived:
                    self._lines.append(line)
                    self._arrived.notify_all()
        with self._arrived:
            self._ended = True
            self._arrived.notify_all()

    def finish(self, written: Written) -> tuple[list[Event], str]:
        """Wait for all events of the scenario's objects and end the watch; returns them, and what is missing."""
        try:
            return self._settle(written)
        finally:
            with suppress(OSError):
                if self._connection.sock is not None:
                    self._connection.sock.shutdown(socket.SHUT_RDWR)
            self._thread.join()
            self._connection.close()

    def _settle(self, written: Written) -> tuple[list[Event], str]:
        events: list[Event] = []
        deadline = time.monotonic() + SETTLE_SECONDS
        read = 0
        while True:
            listed = once(self._side, Step("end", "GET", self._collection), {})
            items = listed.body.get("items") or () if listed.code == http.HTTPStatus.OK else ()
            again = time.monotonic() + LIST_AGAIN_SECONDS
            while True:
                with self._arrived:
                    lines, ended = self._lines[read:], self._ended
                read += len(lines)
                events += (each for each in map(json.loads, lines) if _concerns(written, each))
                missing = watched.pending(written, self.start, events, items)
                if not missing or ended or time.monotonic() > deadline:
                    return events, missing and (f"{missing}, before the watch ended" if ended else missing)
                if time.monotonic() > again:
                    break
                with self._arrived:
                    if len(self._lines) == read and not self._ended:
                        self._arrived.wait(LIST_AGAIN_SECONDS)


def _with(path: str, query: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}{query}"


def _concerns(written: Written, event: Event) -> bool:
    return event["type"] == "ERROR" or (event["type"] != "BOOKMARK" and written.concerns(event["object"]))


class Watchers:
    """The watchers of one scenario at one server. Every collection is watched from its first write on."""

    def __init__(self, side: Side, scenario: str) -> None:
        self._side = side
        self._scenario = scenario
        self._watchers: dict[str, Watcher] = {}
        self._written: dict[str, Written] = {}
        self._codes: dict[str, int] = {}
        self._events: dict[str, list[Event]] = {}
        self._missing: dict[str, list[str]] = {}

    def before(self, step: Step, known: Mapping[str, str]) -> None:
        """Watch the collection to which a step writes, unless it is watched already or cannot be."""
        found = watched.target(step)
        if found is None or step.may_fail:
            return
        if found.collection == watched.DEFINITIONS:
            self._finish_custom(filled(found.name, known).partition(".")[2])
        refused = self._codes.get(found.collection) == http.HTTPStatus.METHOD_NOT_ALLOWED
        if found.collection not in self._watchers and not refused:
            self.watch(found.collection, known)

    def watch(self, collection: str, known: Mapping[str, str]) -> None:
        """Watch a collection, whose path may have selectors, from now on."""
        try:
            self._watchers[collection] = Watcher(self._side, filled(collection, known))
            self._codes[collection] = int(http.HTTPStatus.OK)
        except UnwatchableError as error:
            self._codes.setdefault(collection, int(error.code))

    def after(self, step: Step, known: Mapping[str, str], answer: Answer) -> None:
        """Record what a step has written."""
        found = watched.target(step)
        if found is not None and found.collection in self._watchers:
            self._written.setdefault(found.collection, self._new(found.collection)).note(
                step, filled(found.name, known), answer.code, answer.body
            )

    def finish(self) -> Iterator[tuple[Step, Answer]]:
        """End the watches; yields their events as if a step had asked for them."""
        for collection in self._codes:
            self._finish(collection)
            events = self._events.get(collection, [])
            written = self._written.get(collection)
            body = {
                "events": events,
                "missing": self._missing.get(collection, []),
                "grouped": written is not None and written.collected,
            }
            step = Step(f"{self._scenario} events of {collection}", EVENTS, collection)
            yield step, Answer(self._codes[collection], "", (), body)

    def _new(self, collection: str) -> Written:
        return Written(every=watched.OWN in collection)

    def _finish_custom(self, group: str) -> None:
        for each in [each for each in self._watchers if group and watched.group(each) == group]:
            self._finish(each)

    def _finish(self, collection: str) -> None:
        watcher = self._watchers.pop(collection, None)
        if watcher is None:
            return
        events, missing = watcher.finish(self._written.get(collection, self._new(collection)))
        self._events.setdefault(collection, []).extend(events)
        if missing:
            self._missing.setdefault(collection, []).append(missing)
