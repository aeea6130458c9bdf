"""A process with a queue: items run as tasks whose requests may wait, and that end with the process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable
from typing import Any

from .feeds import Feed
from .setting import Setting
from .wire import AT_ONCE

LONGEST_BACKOFF = 64.0
"""Longest pause in seconds before an item is tried again that has failed."""


class Process:
    """One process of a role.

    Attributes:
        name: its role.
        feeds: its watches by name.
        queue: items that are due, in the order of their arrival.
        later: item -> when it is due.
    """

    feeds: dict[str, Feed]

    def __init__(self, setting: Setting, name: str, retried: tuple[type[Exception], ...]) -> None:
        self.setting = setting
        self.name = name
        self.queue: dict[Hashable, None] = {}
        self.later: dict[Hashable, float] = {}
        self.active: dict[Hashable, asyncio.Task[None]] = {}
        self._failures: dict[Hashable, int] = {}
        self._retried = retried
        self._skew = setting.skew(name)

    def clock(self) -> float:
        return self.setting.now + self._skew

    def add(self, item: Any) -> None:
        self.queue[item] = None
        self.later.pop(item, None)

    def add_after(self, item: Any, seconds: float) -> None:
        if item not in self.queue:
            due = self.setting.now + seconds
            self.later[item] = min(due, self.later.get(item, due))

    def due(self) -> list[Any]:
        """Return the items that can be worked on now."""
        for item, when in list(self.later.items()):
            if when <= self.setting.now:
                self.add(item)
        return [item for item in self.queue if item not in self.active]

    async def handle(self, item: Any) -> float | None:
        """Work on an item. Return the seconds until it is due again; None for not before something changes."""
        raise NotImplementedError

    def begin(self, item: Any, passes: int = AT_ONCE) -> None:
        """Work on an item until it ends, or until a request after the first ones waits."""
        self.queue.pop(item, None)
        self.active[item] = self.setting.loop.create_task(self._work(item))
        self.setting.settle(passes)

    def work(self) -> None:
        """Take all events, and work everything off that is due, without waiting."""
        for _ in range(200):
            self.catch_up()
            items = self.due()
            if not items:
                return
            for item in items:
                if item in self.queue and item not in self.active:
                    self.begin(item)
        raise AssertionError(f"{self.name} does not settle: {list(self.queue)}")

    def catch_up(self) -> None:
        for feed in self.feeds.values():
            feed.deliver(AT_ONCE)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run something to its end that waits for no request."""
        task = self.setting.loop.create_task(coroutine)
        self.setting.settle(AT_ONCE)
        task.result()

    def end(self) -> None:
        """End the process. Its requests may still be executed."""
        for task in self.active.values():
            task.cancel()
        self.setting.settle(AT_ONCE)

    async def _work(self, item: Any) -> None:
        again: float | None = None
        try:
            again = await self.handle(item)
            self._failures.pop(item, None)
        except self._retried:
            again = min(LONGEST_BACKOFF, 2.0 ** self._failures.get(item, 0))
            self._failures[item] = self._failures.get(item, 0) + 1
        except Exception as error:  # noqa: BLE001 - the watchdog raises it
            self.setting.crashes.append(error)
        finally:
            self.active.pop(item, None)
        if again is not None:
            self.add_after(item, again)
