"""Reads the answers of programs that tenants choose: long ones on a thread, as the bodies of requests."""

from collections.abc import Callable
from typing import TypeVar

from vcsync.apimachinery.cel.cooperative import evaluate_in_thread

LONG_ANSWER = 64 * 1024
"""Bytes of an answer from which on it is read on a thread."""
T = TypeVar("T")


async def read_answer(tenant: str, body: bytes, read: Callable[[], T]) -> T:
    """Return what `read` makes of an answer.

    Args:
        tenant: The tenant that chose the program. It has one long answer read at a time.
        body: The answer.
        read: Decodes and checks the answer. It touches only what belongs to this call.
    """
    return await evaluate_in_thread(tenant, read) if len(body) > LONG_ANSWER else read()
