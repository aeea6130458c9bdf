"""Whether the store can be read and written now, found out by doing so."""

from collections.abc import Callable

from vcsync.controlplane import errors
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.store.interface import Delete, Put, Store, StoreError, StoreFull
from vcsync.controlplane.tenants.records import PREFIX

PROBE = f"{PREFIX}probe"
"""Key of what is written to find out whether anything can be."""
PROBE_BYTES = 2**20
"""As much as a large object has: what little room is left must not look like enough."""
PROBE_SECONDS = 1.0
RETRY_SECONDS = 1


class Soundness:
    """Remembers that a request met a store that fails, and asks the store itself until it works again.

    Args:
        store: is asked.
        clock: monotonic seconds.
    """

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._suspect = False
        self._probed_at = float("-inf")

    def refusal(self, error: StoreError) -> StatusError:
        """Note that a request could not be done, and return what its sender is told: nothing of other tenants."""
        self._suspect = True
        if isinstance(error, StoreFull):
            return errors.insufficient_storage(
                "the control plane has no room left on its disk: nothing is written until there is; ask its operator to free "
                "some, or to give it a larger disk; reads and watches go on",
                RETRY_SECONDS,
            )
        return errors.unavailable("the store of the control plane does not answer; try again", RETRY_SECONDS)

    async def ready(self) -> bool:
        """Tell whether the store can be read, and, if a write has failed, whether it can be written again."""
        try:
            await self._store.revision()
            now = self._clock()
            if self._suspect and now - self._probed_at >= PROBE_SECONDS:
                self._probed_at = now
                await self._store.txn([], [Put(PROBE, bytes(PROBE_BYTES))])
                await self._store.txn([], [Delete(PROBE)])
                self._suspect = False
        except StoreError:
            return False
        return not self._suspect
