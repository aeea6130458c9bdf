"""Retries a change of an object, first on its cached and then on its current state, until it is written.

Behaviour: `GuaranteedUpdate` of apiserver's `storage/etcd3/store.go` with a cached object.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Record, Store

MAX_ATTEMPTS = 30
"""Attempts until a change gives up because other writes came first."""

T = TypeVar("T")
Attempt = Callable[[Record | None], Awaitable[tuple[T | None, Record | None]]]
"""Attempts a change: (current record, None if there is none) -> (result, record).

If the change was written, the record is None. If nothing had to be written, it is the record that the attempt read. If
another write came first, the result is None and the record is the result of that write.
"""


async def guaranteed_update(store: Store, scope: Scope, attempt: Attempt[T]) -> T | None:
    """Change the object of a request.

    The first attempt uses the cached record. It may be older than what a client has just read, but never older than an
    answered write. A commit detects that; a refusal, or a result without a write, is repeated with the current record.

    Args:
        store: The store.
        scope: Scope of the request.
        attempt: Attempts the change; see `Attempt`.

    Returns:
        The result, or None if other writes came first in every attempt.

    Raises:
        StatusError: Whatever `attempt` raises for the current record.
    """
    key, warned = scope.key(), len(scope.warnings)
    record, is_current = await store.get_cached(key), False
    if record is None:
        record, is_current = await _read(store, key), True
    for _ in range(MAX_ATTEMPTS):
        try:
            done, current = await attempt(record)
        except StatusError:
            if is_current or (current := await _read(store, key)) == record:
                raise
        else:
            if done is not None:
                written = current is None
                if written or is_current or (current := await _read(store, key)) == record:
                    return done
        del scope.warnings[warned:]
        record, is_current = current, True
    return None


async def _read(store: Store, key: str) -> Record | None:
    return (await store.get(key))[0]
