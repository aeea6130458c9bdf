"""Work on large bodies, kept off the event loop: others are served while a megabyte is looked through."""

from collections.abc import Callable
from typing import TypeVar

from vcsync.controlplane.cel.patience import aside, patiently
from vcsync.controlplane.rest.scope import Scope

LARGE = 64 * 1024
"""Bytes of a body from which on the work on it, about a millisecond for each kilobyte, is too long for the loop."""

T = TypeVar("T")


async def heavily(scope: Scope, work: Callable[[], T]) -> T:
    """Do what only this request is concerned with: on a thread if its body is large, one at a time of each tenant."""
    return await aside(scope.tenant, work) if scope.size > LARGE else work()


async def checked(scope: Scope, evaluate: Callable[[], T]) -> T:
    """Apply rules that may have expressions: on a thread at once if the body is large; see `patience.patiently`."""
    ask = aside if scope.size > LARGE else patiently
    return await ask(scope.tenant, evaluate)
