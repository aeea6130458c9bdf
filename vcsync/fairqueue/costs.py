"""Measures how long a coroutine occupies the event loop. The time while it waits does not count."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class Measured(Generator[Any, Any, T]):
    """An awaitable that awaits another one, and measures each of its steps.

    Attributes:
        seconds: the time of the steps so far, without tasks that they start.

    Args:
        work: the awaitable.
        meter: seconds of a clock.
    """

    def __init__(self, work: Awaitable[T], meter: Callable[[], float]) -> None:
        self._steps = work.__await__()
        self._meter = meter
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        """Return the steps."""
        return self

    def send(self, value: Any, /) -> Any:
        """Run a step."""
        began = self._meter()
        try:
            return self._steps.send(value)
        finally:
            self.seconds += self._meter() - began

    def throw(self, error: Any, value: Any = None, _traceback: Any = None, /) -> Any:
        """Run a step with an exception, as at a cancellation."""
        began = self._meter()
        try:
            return self._steps.throw(error if value is None else value)
        finally:
            self.seconds += self._meter() - began
