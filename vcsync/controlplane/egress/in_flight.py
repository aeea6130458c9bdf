"""How many calls go on at the same time and how many bytes they hold, of each tenant and of all."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from vcsync.controlplane.egress.failure import CallFailed

SMALL = 64 << 10
"""Bytes of a call's request, and of its answer, that count for nothing: the number of calls bounds them."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What all calls together, and those of each tenant, may take.

    Attributes:
        total: calls of all tenants at the same time.
        tenant: calls of one.
        waiting: calls of one that wait for their turn.
        total_bytes: requests and answers of all that are held in memory.
        tenant_bytes: of one tenant's.
        request: bytes of one request.
    """

    total: int = 512
    tenant: int = 32
    waiting: int = 256
    total_bytes: int = 512 << 20
    tenant_bytes: int = 64 << 20
    request: int = 64 << 20


class Budget:
    """Bytes that are shared; who comes first is served first."""

    def __init__(self, limit: int) -> None:
        """Take how many there are."""
        self._limit = limit
        self._left = limit
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def acquire(self, wanted: int) -> int:
        """Wait for bytes; returns how many are held: all there are, if more are wanted."""
        wanted = min(wanted, self._limit)
        if not self._waiting and wanted <= self._left:
            self._left -= wanted
            return wanted
        turn = (wanted, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        try:
            await turn[1]
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
                self.release(0)
            elif not turn[1].cancelled():
                self.release(wanted)
            raise
        return wanted

    def take(self, wanted: int) -> bool:
        """Take bytes if they are there."""
        if wanted > self._left:
            return False
        self._left -= wanted
        return True

    def release(self, held: int) -> None:
        """Give bytes back."""
        self._left += held
        while self._waiting and self._waiting[0][0] <= self._left:
            wanted, turn = self._waiting.popleft()
            if not turn.cancelled():
                self._left -= wanted
                turn.set_result(None)


class Held:
    """What one call holds."""

    def __init__(self, budgets: tuple[Budget, Budget]) -> None:
        """Take the budgets: its tenant's and that of all."""
        self._budgets = budgets
        self._held = [0, 0]
        self._answer = 0

    async def request(self, size: int) -> None:
        """Wait until there is room for a request."""
        if size > SMALL:
            for position, budget in enumerate(self._budgets):
                self._held[position] += await budget.acquire(size)

    def answer(self, size: int) -> None:
        """Hold more bytes of the answer.

        Raises:
            CallFailed: there is no room.
        """
        self._answer += size
        if self._answer <= SMALL:
            return
        for position, budget in enumerate(self._budgets):
            if not budget.take(size):
                raise CallFailed("too many large answers are in flight")
            self._held[position] += size

    def release(self) -> None:
        """Give all back."""
        for held, budget in zip(self._held, self._budgets, strict=True):
            budget.release(held)


@dataclass(slots=True)
class _Turns:
    gate: asyncio.Semaphore
    memory: Budget
    users: int = 0


class InFlight:
    """Lets so many through; others wait, as long as their own deadline lets them."""

    def __init__(self, bounds: Bounds) -> None:
        """Take the bounds."""
        self._bounds = bounds
        self._all = asyncio.Semaphore(bounds.total)
        self._memory = Budget(bounds.total_bytes)
        self._tenants: dict[str, _Turns] = {}

    @asynccontextmanager
    async def turn(self, tenant: str, size: int) -> AsyncIterator[Held]:
        """Hold a place, and room for a request of so many bytes, while the block runs.

        Raises:
            CallFailed: too many of this tenant wait already.
        """
        bounds, turns = self._bounds, self._tenants.get(tenant)
        if turns is None:
            turns = _Turns(asyncio.Semaphore(bounds.tenant), Budget(bounds.tenant_bytes))
            self._tenants[tenant] = turns
        if turns.users >= bounds.tenant + bounds.waiting:
            raise CallFailed("too many calls are in flight")
        turns.users += 1
        held = Held((turns.memory, self._memory))
        try:
            async with turns.gate:
                await held.request(size)
                async with self._all:
                    yield held
        finally:
            held.release()
            turns.users -= 1
            if not turns.users:
                self._tenants.pop(tenant, None)
