"""Waits for a condition."""

import time
from collections.abc import Callable
from typing import Any

SECONDS = 100.0


def eventually(condition: Callable[[], Any]) -> Any:
    """Wait until a condition is true, and return its value."""
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
    return found
