"""Settings of property tests, and virtual time.

Property tests run the same examples each time, without a time limit. HYPOTHESIS_PROFILE=thorough runs other ones,
and more of them; `brief` runs few, for a second hash seed.
"""

import asyncio
import os
import selectors
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

# Neither a busy machine nor chance may make a test fail.
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
settings.register_profile("brief", settings.get_profile("steady"), max_examples=5)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that does not wait: when only timers are left, its time advances to the first one."""

    def __init__(self) -> None:
        super().__init__(_Selector(self))
        self.virtual_now = 1000.0

    def time(self) -> float:
        return self.virtual_now


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("the test waits forever: no timer and no callback is left")
        self._loop.virtual_now += max(0.0, timeout)
        return super().select(0)


def run_in_virtual_time(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


@pytest.fixture(scope="session")
def in_virtual_time() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine to its end in virtual time."""
    return run_in_virtual_time


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Undo what a command of a test sets for logs: later tests would write to streams of this one, which are closed."""
    configure = structlog.configure
    structlog.configure = lambda *args, **options: configure(
        *args, **{**options, "cache_logger_on_first_use": False}
    )
    try:
        return (yield)
    finally:
        structlog.configure = configure
        if structlog.is_configured():
            structlog.reset_defaults()
