"""How property tests run: the same examples each time and without a time limit; HYPOTHESIS_PROFILE=thorough searches anew."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A loaded machine must not turn a right answer into a failure, nor chance a green run into a red one.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "thorough", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


class _VirtualTime(asyncio.SelectorEventLoop):
    """An event loop that never sleeps: when all wait, its clock goes on to whatever is due first."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        wait = self._selector.select  # type: ignore[attr-defined]

        def select(timeout: float | None = None) -> Any:
            found = wait(0)
            if not found:
                assert timeout is not None, "nothing will ever happen again"
                self._now += timeout
            return found

        self._selector.select = select  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._now


@pytest.fixture(scope="session")
def in_virtual_time() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a world whose time passes at once whenever all in it wait."""

    def run(world: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=_VirtualTime) as runner:
            runner.run(world)

    return run
