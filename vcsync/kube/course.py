"""The reflector's decisions: which request comes next, from which version, after what pause. Pure."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from vcsync.kube.breaker import backoff
from vcsync.kube.errors import ApiError, BadRequest, CircuitOpen, Gone, Invalid, KubeError, ServerError

_PAGE_FACTORS = (1, 4, 0)
_SPREAD = 5  # times the first pause, over which lists after a 410 are spread
_LONGEST_WAIT = (
    300.0  # seconds of Retry-After that are heeded: a page of a proxy may ask for a day, and nothing is seen
)
_STEADY = 5.0  # seconds a stream must have stood for its end not to count as a failure


class Step(Enum):
    """What to ask next: a list as a stream that goes on as a watch; a list in pages; a watch."""

    STREAM = "streaming list"
    PAGES = "paged list"
    WATCH = "watch"


class InitialEventsLost(KubeError):
    """A streaming list did not come to its end.

    Attributes:
        ignored: the server has taken it for an ordinary watch, as those do that know no streaming lists.
    """

    def __init__(self, message: str, *, endpoint: str = "", ignored: bool = False) -> None:
        super().__init__(message, endpoint=endpoint)
        self.ignored = ignored


@dataclass(slots=True)
class Tally:
    """How often what happened."""

    lists: int = 0
    watches: int = 0
    resumes: int = 0
    relists: int = 0
    gone: int = 0
    last_error: str | None = None


class Course:
    """Steers one reflector. Tell it what happened, ask it for the next step.

    Args:
        streaming: begin with streaming lists; given up for good when the server does not offer them.
        base: seconds of the first pause after a failure.
        cap: seconds of the longest.
        jitter: returns a random number in [0, 1).
    """

    def __init__(
        self,
        *,
        streaming: bool = True,
        base: float = 0.2,
        cap: float = 30.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.tally = Tally()
        #: The version the stream stands at; empty before the first list.
        self.version = ""
        #: The next list must be believed in everything: the server's history is another one.
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
        """Return what to ask now."""
        if not self._list_needed:
            return Step.WATCH
        return Step.STREAM if self._streaming else Step.PAGES

    @property
    def list_version(self) -> str:
        """The version a list must not be older than; empty for the newest, `0` for any."""
        if self._consistent:
            return ""
        return self.version or "0"

    @property
    def page_factor(self) -> int:
        """What to multiply the page size by, 0 for no pages: a list that keeps expiring must get shorter."""
        return _PAGE_FACTORS[min(self._restarts, len(_PAGE_FACTORS) - 1)]

    def listing(self) -> None:
        """A list begins."""
        self.tally.lists += 1
        if self.version:
            self.tally.relists += 1

    def listed(self, version: str) -> None:
        """A list is complete, at this version."""
        self.version = version
        self._list_needed = False
        self._consistent = self.reset = False
        self._restarts = self._unfinished = 0
        self._resuming = False

    def watching(self) -> None:
        """A watch has been opened (streaming lists included)."""
        self.tally.watches += 1
        if self._resuming:
            self.tally.resumes += 1

    def advanced(self, version: str) -> None:
        """The stream has come to this version."""
        self.version = version

    def ended(self, lasted: float) -> float:
        """The stream has ended in good order after so many seconds; return the pause before the next step."""
        self._resuming = True
        if lasted >= _STEADY:
            self._failures = 0
            return self._jitter() * self._base
        return self._pause()

    def failed(self, error: Exception, lasted: float) -> float:
        """A step has failed, its stream having stood `lasted` seconds; return the pause before the next."""
        self.tally.last_error = str(error)
        if lasted >= _STEADY:
            self._failures = 0
        if self._list_needed and self._streaming and self._no_streaming(error):
            self._streaming = False
            return 0.0
        self._resuming = not self._list_needed
        pause = self._pause()
        if isinstance(error, Gone):
            self.tally.gone += 1
            self._relist()
            pause += self._jitter() * _SPREAD * self._base  # a compaction hits every stream at once
        elif _ahead(error):
            self.reset = True
            self._relist()
        if isinstance(error, ApiError | CircuitOpen) and error.retry_after is not None:
            return min(error.retry_after, _LONGEST_WAIT) + pause
        return pause

    def _no_streaming(self, error: Exception) -> bool:
        """Whether a failed streaming list means that the server does not offer them."""
        if isinstance(error, InitialEventsLost):
            self._unfinished += 1
            return error.ignored or self._unfinished > 1  # once may have been the network
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
    """Whether the server says that our version lies in its future (restored from a backup, or far behind)."""
    return isinstance(error, ServerError) and any(
        cause.reason == "ResourceVersionTooLarge" for cause in error.status.causes
    )
