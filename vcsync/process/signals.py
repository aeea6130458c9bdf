"""Ends a process gracefully after a signal."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

import structlog

_log = structlog.get_logger(__name__)


async def until_signalled(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` until SIGTERM or SIGINT cancels it. A second signal ends the process immediately."""
    task = asyncio.ensure_future(main)
    signalled = False

    def stop(name: str) -> None:
        nonlocal signalled
        if signalled:
            _log.warning("stopping immediately", signal=name)
            raise SystemExit(1)
        signalled = True
        _log.info("stopping", signal=name)
        task.cancel()

    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, stop, number.name)
    try:
        await task
    except asyncio.CancelledError:
        if not signalled:
            raise
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            running.remove_signal_handler(number)
