"""`python -m hack.attacks.costly.measured FILE COMMAND...`: runs a `vcsync` command, and keeps the longest step of its event loop in a file.

A step is the time between two ticks of a timer of a millisecond, in which the loop stood: the smaller one of the elapsed
time and of the processor time of the whole process. So neither other programs nor threads that leave the loop running count.
"""

import asyncio
import mmap
import os
import struct
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from vcsync.cli.command.main import main
from vcsync.process import loop

TICK_SECONDS = 0.001
_SECONDS = struct.Struct("<d")


class LongestStep:
    """The longest step since the last reset, in a file that two processes share.

    Args:
        path: Created if it is absent.
    """

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(descriptor, _SECONDS.size)
        self._shared = mmap.mmap(descriptor, _SECONDS.size)
        os.close(descriptor)

    def seconds(self) -> float:
        """Return it."""
        return float(_SECONDS.unpack_from(self._shared)[0])

    def reset(self) -> None:
        """Forget all steps so far."""
        _SECONDS.pack_into(self._shared, 0, 0.0)

    def add(self, seconds: float) -> None:
        """Count a step."""
        if seconds > self.seconds():
            _SECONDS.pack_into(self._shared, 0, seconds)


async def watched(run: Coroutine[Any, Any, Any], longest: LongestStep) -> Any:
    """Run a coroutine and measure the steps of its event loop."""
    running = asyncio.get_running_loop()

    def tick(clock: float, processor: float) -> None:
        now, spent = time.monotonic(), time.process_time()
        longest.add(min(now - clock, spent - processor))
        running.call_later(TICK_SECONDS, tick, now, spent)

    tick(time.monotonic(), time.process_time())
    return await run


def measure(path: Path) -> None:
    """Let the event loop of this process be measured from its start on."""
    plain, longest = loop.run, LongestStep(path)

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        return plain(watched(main, longest))

    loop.run = run


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
    sys.argv[1:] = sys.argv[2:]
    sys.exit(main())
