"""Remembers since when a super cluster refuses Pods of a tenant, or finds no node for their copies."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

PODS_REMEMBERED: Final = 4096
"""Number of Pods of a tenant that are remembered. The oldest is forgotten first, and its time begins again."""


class PendingPods:
    """The time since which each Pod is pending. After a restart it begins again.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: OrderedDict[str, float] = OrderedDict()

    def seconds(self, uid: str) -> float:
        """Return the seconds since this was first asked about a Pod or a copy, by its UID."""
        now = self._clock()
        since = self._since.setdefault(uid, now)
        if len(self._since) > PODS_REMEMBERED:
            self._since.popitem(last=False)
        return now - since
