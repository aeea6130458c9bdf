"""Limits the memory of concurrent requests, and shares it between tenants.

Sizes are bytes of JSON. Decoded, copied and encoded, a request takes up to about sixty times as much memory.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

from vcsync.apimachinery import errors

MAX_BYTES = 32 * 2**20
"""Bytes of JSON that all concurrent requests may take."""
LIGHT = 16 * 1024
"""Size up to which a request is not counted: the number of requests limits the memory of small ones."""
WAIT_SECONDS = 30.0
"""Time that a request waits for memory."""
MAX_WAITING = 600
"""Requests of one tenant that wait for memory."""
RETRY_AFTER = 1
"""Seconds in the Retry-After header of refused requests."""


@dataclass(slots=True, eq=False)
class _Waiter:
    size: int
    ready: asyncio.Future[None]
    taken: bool = False


@dataclass(slots=True)
class Budget:
    """Bytes that tenants share. A tenant with more than one request never takes more than it leaves free for others.

    Attributes:
        total: Bytes that all requests may take.
        wait_seconds: Time that a request waits.
        used: Bytes that are taken.
    """

    total: int = MAX_BYTES
    wait_seconds: float = WAIT_SECONDS
    used: int = 0
    _tenants: Counter[str] = field(default_factory=Counter)
    _waiting: OrderedDict[str, deque[_Waiter]] = field(default_factory=OrderedDict)

    def has_room(self, tenant: str, size: int) -> bool:
        """Return whether a tenant may take `size` bytes now. A tenant that has taken none may take all that are free."""
        free, has = self.total - self.used, self._tenants[tenant]
        return size <= free and (not has or has + size <= free)

    def charge(self, tenant: str, size: int) -> None:
        """Take bytes without waiting, even if there is no room."""
        self.used += size
        self._tenants[tenant] += size

    async def acquire(self, tenant: str, size: int) -> int:
        """Wait until there is room, and take bytes.

        Returns:
            The number of bytes taken: `size`, or half of all bytes if that is less.

        Raises:
            StatusError: 429, the wait took too long, or too many requests wait.
        """
        size = min(size, self.total // 2)
        queue = self._waiting.get(tenant)
        if not queue and self.has_room(tenant, size):
            self.charge(tenant, size)
            return size
        if queue is None:
            queue = self._waiting[tenant] = deque()
        if len(queue) >= MAX_WAITING:
            raise _refusal()
        waiter = _Waiter(size, asyncio.get_running_loop().create_future())
        queue.append(waiter)
        try:
            async with asyncio.timeout(self.wait_seconds):
                await waiter.ready
        except BaseException as error:
            if waiter.taken:
                self.release(tenant, size)
            else:
                self._forget(tenant, waiter)
            if isinstance(error, TimeoutError):
                raise _refusal() from None
            raise
        return size

    def release(self, tenant: str, size: int) -> None:
        """Give bytes back, and let waiting requests take them."""
        self.used -= size
        self._tenants[tenant] -= size
        if not self._tenants[tenant]:
            del self._tenants[tenant]
        if self._waiting:
            self._serve()

    def _forget(self, tenant: str, waiter: _Waiter) -> None:
        queue = self._waiting[tenant]
        queue.remove(waiter)
        if not queue:
            del self._waiting[tenant]

    def _serve(self) -> None:
        """Give free bytes to waiting requests; tenants take turns."""
        passed = 0
        while passed < len(self._waiting):
            tenant, queue = next(iter(self._waiting.items()))
            self._waiting.move_to_end(tenant)
            waiter = queue[0]
            if not self.has_room(tenant, waiter.size):
                passed += 1
                continue
            passed = 0
            queue.popleft()
            if not queue:
                del self._waiting[tenant]
            self.charge(tenant, waiter.size)
            waiter.taken = True
            # A waiter that was cancelled just now gives the bytes back itself.
            if not waiter.ready.done():
                waiter.ready.set_result(None)


def _refusal() -> errors.StatusError:
    return errors.too_many_requests("Too many requests, please try again later.", RETRY_AFTER)
