"""Changing what stands at a key: as it was last known, and anew as it stands now whenever that was not so.

As `GuaranteedUpdate` of apiserver's `storage/etcd3/store.go` does with what its cache suggests.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.store.interface import Record, Store

MOST = 30
"""How often a change starts anew because another write came between."""

T = TypeVar("T")
Attempt = Callable[[Record | None], Awaitable[tuple[T | None, Record | None]]]
"""(what stands there, None: nothing) -> what came of it, with what stands there if nothing was written; or None, because
another write came between, with what that left."""


async def attempts(store: Store, scope: Scope, attempt: Attempt[T]) -> T | None:
    """Change the object of a request; None: other writes came between again and again.

    What is known may be older than what somebody has just read, though never than a write that was answered. A
    commit finds that out by itself; a refusal, and that nothing is to be done, only count for what stands now.

    Raises:
        StatusError: as `attempt` refuses.
    """
    key, warned = scope.key(), len(scope.warnings)
    record, sure = await store.known(key), False
    if record is None:
        record, sure = await _now(store, key), True
    for _ in range(MOST):
        try:
            done, there = await attempt(record)
        except StatusError:
            if sure or (there := await _now(store, key)) == record:
                raise
        else:
            if done is not None:
                written = there is None
                if written or sure or (there := await _now(store, key)) == record:
                    return done
        del scope.warnings[warned:]
        record, sure = there, True
    return None


async def _now(store: Store, key: str) -> Record | None:
    return (await store.get(key))[0]
