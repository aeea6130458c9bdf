"""Watches whose events arrive when the model says so."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from vcsync.kube.reflector import Reflector
from vcsync.objects.envelope import WatchEvent

from .api_server import ApiServer, Body, Event, envelope, has_ended


class Feed:
    """The watch of one reflector, which has read the server's changes up to a place in its log."""

    def __init__(self, server: ApiServer, reflector: Reflector) -> None:
        self.server = server
        self.reflector = reflector
        self._selects = _selection(reflector)
        self._place = 0
        self.relist()

    @property
    def behind(self) -> int:
        """Number of changes of the server that have not arrived."""
        return len(self.server.log) - self._place

    def relist(self) -> None:
        """Begin again with a list."""
        found = [envelope(body) for body in self.server.every(self.reflector.resource) if self._selects(body)]
        listed = list(itertools.chain.from_iterable(map(self.reflector._listed, found)))
        self.reflector._replace_cache(listed, str(self.server.version))
        self._place = len(self.server.log)

    def deliver(self, most: int) -> None:
        """Let events arrive: as many as given, of those that the watch selects."""
        plural = self.reflector.resource.plural
        while self._place < len(self.server.log) and most > 0:
            event = self.server.log[self._place]
            self._place += 1
            seen = self._seen(event) if event.plural == plural else None
            if seen is not None:
                most -= 1
                self.reflector._process(seen)

    def _seen(self, event: Event) -> WatchEvent | None:
        was = event.before is not None and self._selects(event.before)
        is_ = event.after is not None and self._selects(event.after)
        if is_:
            return WatchEvent("MODIFIED" if was else "ADDED", event.envelope)
        return WatchEvent("DELETED", event.envelope) if was else None


def _selection(reflector: Reflector) -> Callable[[Body], bool]:
    selector, running = reflector._selector, bool(reflector.field_selector)

    def selects(body: Body) -> bool:
        return selector.matches(body["metadata"].get("labels") or {}) and not (running and has_ended(body))

    return selects
