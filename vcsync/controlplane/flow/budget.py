"""Memory that requests of all tenants may take at once, so that no tenant can have the process take all there is.

What a request weighs is told in bytes of JSON; decoded, copied and encoded it takes up to about sixty times as much.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field

from vcsync.controlplane import errors

MAX_BYTES = 32 * 2**20
LIGHT = 16 * 1024
"""What weighs less is not counted: the number of requests bounds it."""
WAIT_SECONDS = 30.0
MAX_WAITING = 600
RETRY_AFTER = 1


@dataclass(slots=True, eq=False)
class _Waiter:
    size: int
    ready: asyncio.Future[None]
    taken: bool = False


@dataclass(slots=True)
class Budget:
    """Bytes, shared between tenants: one never has more than what it leaves to others.

    Attributes:
        total: how many there are.
        used: how many are taken.
    """

    total: int = MAX_BYTES
    wait_seconds: float = WAIT_SECONDS
    used: int = 0
    _tenants: Counter[str] = field(default_factory=Counter)
    _waiting: OrderedDict[str, deque[_Waiter]] = field(default_factory=OrderedDict)

    def room(self, tenant: str, size: int) -> bool:
        """Tell whether a tenant may take so many now; who has none may take any number that is free."""
        free, has = self.total - self.used, self._tenants[tenant]
        return size <= free and (not has or has + size <= free)

    def take(self, tenant: str, size: int) -> None:
        """Take bytes, whether there is room or not."""
        self.used += size
        self._tenants[tenant] += size

    async def wait(self, tenant: str, size: int) -> int:
        """Take bytes once there is room; returns how many, as nobody can take more than half of all.

        Raises:
            StatusError: 429, it took too long, or too many wait.
        """
        size = min(size, self.total // 2)
        queue = self._waiting.get(tenant)
        if not queue and self.room(tenant, size):
            self.take(tenant, size)
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
                self.give(tenant, size)
            else:
                self._forget(tenant, waiter)
            if isinstance(error, TimeoutError):
                raise _refusal() from None
            raise
        return size

    def give(self, tenant: str, size: int) -> None:
        """Give bytes back."""
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
        """Let tenants that wait take turns."""
        passed = 0
        while passed < len(self._waiting):
            tenant, queue = next(iter(self._waiting.items()))
            self._waiting.move_to_end(tenant)
            waiter = queue[0]
            if not self.room(tenant, waiter.size):
                passed += 1
                continue
            passed = 0
            queue.popleft()
            if not queue:
                del self._waiting[tenant]
            self.take(tenant, waiter.size)
            waiter.taken = True
            if (
                not waiter.ready.done()
            ):  # else it was cancelled just now, and gives back when it hears of that
                waiter.ready.set_result(None)


def _refusal() -> errors.StatusError:
    return errors.too_many_requests("Too many requests, please try again later.", RETRY_AFTER)
