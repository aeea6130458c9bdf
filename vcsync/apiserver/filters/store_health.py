"""Health of the store, learned from failed requests and from the readiness probe."""

from collections.abc import Callable

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.storage.interface import Delete, Put, Store, StoreError, StoreFull
from vcsync.apiserver.tenants.records import PREFIX

PROBE_KEY = f"{PREFIX}probe"
"""Key that a probe writes and deletes."""
PROBE_BYTES = 2**20
"""Size of the probe: that of a large object, so that a nearly full disk does not look writable."""
PROBE_SECONDS = 1.0
"""Minimum time between probes."""
RETRY_SECONDS = 1
"""Retry-After of a request that met a failing store."""


class StoreHealth:
    """Remembers that a write failed, and probes the store until it accepts writes again.

    Args:
        store: The store to probe.
        clock: Returns monotonic seconds.
    """

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._suspect = False
        self._probed_at = float("-inf")

    def refusal(self, error: StoreError) -> StatusError:
        """Record that the store failed a request, and return the answer. It reveals nothing of other tenants."""
        self._suspect = True
        if isinstance(error, StoreFull):
            return errors.insufficient_storage(
                "the control plane has no room left on its disk: nothing is written until there is; ask its operator to free "
                "some, or to give it a larger disk; reads and watches go on",
                RETRY_SECONDS,
            )
        return errors.unavailable("the store of the control plane does not answer; try again", RETRY_SECONDS)

    async def ready(self) -> bool:
        """Tell whether the store can be read and, if a request failed, whether it can be written again."""
        try:
            await self._store.revision()
            now = self._clock()
            if self._suspect and now - self._probed_at >= PROBE_SECONDS:
                self._probed_at = now
                await self._store.txn([], [Put(PROBE_KEY, bytes(PROBE_BYTES))])
                await self._store.txn([], [Delete(PROBE_KEY)])
                self._suspect = False
        except StoreError:
            return False
        return not self._suspect
