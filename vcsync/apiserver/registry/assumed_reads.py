"""Lets a write read other objects as this process knows them, and repeats it with current ones if they were not current."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.assumptions import AssumingStore, AssumptionFailed, Assumptions, assuming

MAX_ATTEMPTS = 10
"""Attempts until a write gives up because other writes keep changing what it depends on."""

T = TypeVar("T")


async def with_assumed_reads(
    store: AssumingStore, scope: Scope, act: Callable[[], Awaitable[T]], own: str = ""
) -> T:
    """Execute a write. Its commit, or a check after it, shows whether everything that it read was current.

    Args:
        store: The store.
        scope: Scope of the request.
        act: Executes the write. It is called again if something was not current; then it reads what is.
        own: Key of the object, if `act` checks it itself.

    Raises:
        StatusError: The API refuses the write because of what is current, or with 429 because other writes came first in
            every attempt.
    """
    warned = len(scope.warnings)
    for attempt in range(MAX_ATTEMPTS):
        assumed = Assumptions(own, fresh=attempt > 0)
        try:
            with assuming(assumed):
                done = await act()
        except AssumptionFailed:
            pass
        except StatusError:
            if assumed.fresh or await store.holds(assumed):
                raise
        else:
            if assumed.committed or assumed.fresh or await store.holds(assumed):
                return done
        del scope.warnings[warned:]
    raise errors.too_many_requests("other writes kept changing what this one depends on; try again", 1)
