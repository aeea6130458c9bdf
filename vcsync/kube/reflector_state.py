"""Decides which request a reflector sends next, from which version, and after which pause. Pure."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from vcsync.kube.breaker import backoff
from vcsync.kube.errors import ApiError, BadRequest, CircuitOpen, Gone, Invalid, KubeError, ServerError

_PAGE_FACTORS = (1, 4, 0)
_SPREAD = 5
"""Multiple of the first pause over which lists after a 410 are spread."""
_LONGEST_WAIT = 300.0
"""Longest Retry-After in seconds that is respected. That of a proxy's error page may be a day."""
_STEADY = 5.0
"""Seconds after which the end of a stream does not count as a failure."""


class Step(Enum):
    """The next request: a list as a stream that continues as a watch, a list in pages, or a watch."""

    STREAM = "streaming list"
    PAGES = "paged list"
    WATCH = "watch"


class InitialEventsLost(KubeError):
    """A streaming list did not complete.

    Attributes:
        ignored: Whether the server treated it as an ordinary watch, since it does not support streaming lists.
    """

    def __init__(self, message: str, *, endpoint: str = "", ignored: bool = False) -> None:
        super().__init__(message, endpoint=endpoint)
        self.ignored = ignored


@dataclass(slots=True)
class Counters:
    """Counters of a reflector."""

    lists: int = 0
    watches: int = 0
    resumes: int = 0
    relists: int = 0
    gone: int = 0
    last_error: str | None = None


class ReflectorState:
    """The state of a reflector. It records the outcomes of requests, and decides the next request.

    Args:
        streaming: Whether to begin with streaming lists, until the server turns out not to support them.
        base: Seconds of the first pause after a failure.
        cap: Seconds of the longest pause.
        jitter: Returns a random number in [0, 1).
    """

    def __init__(
        self,
        *,
        streaming: bool = True,
        base: float = 0.2,
        cap: float = 30.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.counters = Counters()
        #: The version of the last event; empty before the first list.
        self.version = ""
        #: Whether the next list replaces everything, since the server has another history.
        self.reset = False
        self._streaming = streaming
        self._base = base
        self._cap = cap
        self._jitter = jitter
        self._list_needed = True
        self._consistent = False
        self._restarts = 0
        self._unfinished = 0
        self._failures = 0
        self._resuming = False

    def next(self) -> Step:
        """Return the next request."""
        if not self._list_needed:
            return Step.WATCH
        return Step.STREAM if self._streaming else Step.PAGES

    @property
    def list_version(self) -> str:
        """The oldest acceptable version of a list; empty for the newest, `0` for any."""
        if self._consistent:
            return ""
        return self.version or "0"

    @property
    def page_factor(self) -> int:
        """Factor of the page size; 0 for one page. A list that keeps expiring must need fewer pages."""
        return _PAGE_FACTORS[min(self._restarts, len(_PAGE_FACTORS) - 1)]

    def listing(self) -> None:
        """Record that a list begins."""
        self.counters.lists += 1
        if self.version:
            self.counters.relists += 1

    def listed(self, version: str) -> None:
        """Record that a list is complete, at this version."""
        self.version = version
        self._list_needed = False
        self._consistent = self.reset = False
        self._restarts = self._unfinished = 0
        self._resuming = False

    def watching(self) -> None:
        """Record that a watch or a streaming list has been opened."""
        self.counters.watches += 1
        if self._resuming:
            self.counters.resumes += 1

    def advanced(self, version: str) -> None:
        """Record the version of the last event."""
        self.version = version

    def ended(self, lasted: float) -> float:
        """Record that the server ended the stream after `lasted` seconds. Return the pause before the next step."""
        self._resuming = True
        if lasted >= _STEADY:
            self._failures = 0
            return self._jitter() * self._base
        return self._pause()

    def failed(self, error: Exception, lasted: float) -> float:
        """Record that a step failed, after its stream was open for `lasted` seconds. Return the pause before the next step."""
        self.counters.last_error = str(error)
        if lasted >= _STEADY:
            self._failures = 0
        if self._list_needed and self._streaming and self._no_streaming(error):
            self._streaming = False
            return 0.0
        self._resuming = not self._list_needed
        pause = self._pause()
        if isinstance(error, Gone):
            self.counters.gone += 1
            self._relist()
            # A compaction ends all streams at the same time.
            pause += self._jitter() * _SPREAD * self._base
        elif _ahead(error):
            self.reset = True
            self._relist()
        if isinstance(error, ApiError | CircuitOpen) and error.retry_after is not None:
            return min(error.retry_after, _LONGEST_WAIT) + pause
        return pause

    def _no_streaming(self, error: Exception) -> bool:
        """Return whether a failed streaming list means that the server does not support them."""
        if isinstance(error, InitialEventsLost):
            self._unfinished += 1
            # A single failure may be one of the network.
            return error.ignored or self._unfinished > 1
        return isinstance(error, BadRequest | Invalid)

    def _relist(self) -> None:
        if self._list_needed:
            self._restarts += 1
        self._list_needed = True
        self._consistent = True

    def _pause(self) -> float:
        pause = backoff(self._failures, base=self._base, cap=self._cap, jitter=self._jitter())
        self._failures += 1
        return pause


def _ahead(error: Exception) -> bool:
    """Return whether the server reports that the version is in its future (it was restored, or is far behind)."""
    return isinstance(error, ServerError) and any(
        cause.reason == "ResourceVersionTooLarge" for cause in error.status.causes
    )
