"""Counts the work of a call by what the interpreter does, so that two sizes are comparable on any machine."""

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple


class Work(NamedTuple):
    """The work of one call: instructions of vcsync's code, and the most bytes that it held at a time."""

    steps: int
    size: int


class TooMuch(Exception):
    """The call takes more steps than a test lets it take."""


def work_of(call: Callable[[], object], most: int = 20_000_000) -> Work:
    """Return the work of a call.

    Raises:
        TooMuch: It takes more than `most` steps.
    """
    steps = 0

    def instruction(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal steps
        if event == "opcode":
            steps += 1
            if steps > most:
                raise TooMuch(f"more than {most} steps, now in {frame.f_code.co_qualname}")
        return instruction

    def entered(frame: FrameType, _event: str, _argument: object) -> Any:
        if "/vcsync/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return instruction

    before = sys.gettrace()
    traced_memory = tracemalloc.is_tracing()
    if not traced_memory:
        tracemalloc.start()
    tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    sys.settrace(entered)
    try:
        call()
    finally:
        sys.settrace(before)
        peak = tracemalloc.get_traced_memory()[1]
        if not traced_memory:
            tracemalloc.stop()
    return Work(steps, max(peak - held, 0))
