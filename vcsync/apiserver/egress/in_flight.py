"""Limits how many calls are in flight and how many bytes they hold, per tenant and in total."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from vcsync.apiserver.egress.failure import CallFailed

SMALL = 64 << 10
"""Bytes of a request and of a response that are not counted. The number of calls limits them."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of calls.

    Attributes:
        total: Most calls in flight of all tenants.
        tenant: Most calls in flight of one tenant.
        waiting: Most waiting calls of one tenant.
        total_bytes: Most bytes of requests and responses of all tenants in memory.
        tenant_bytes: Most bytes of requests and responses of one tenant in memory.
        request: Most bytes of one request.
    """

    total: int = 512
    tenant: int = 32
    waiting: int = 256
    total_bytes: int = 512 << 20
    tenant_bytes: int = 64 << 20
    request: int = 64 << 20


class ByteBudget:
    """A number of bytes that calls share. Waiting calls are served in the order of their arrival.

    Args:
        limit: Number of bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def acquire(self, wanted: int) -> int:
        """Wait for bytes. Returns how many were acquired: `wanted`, but the limit at most."""
        wanted = min(wanted, self._limit)
        if not self._waiting and wanted <= self._left:
            self._left -= wanted
            return wanted
        waiter = (wanted, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            await waiter[1]
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                # A smaller call behind this one may fit now.
                self.release(0)
            elif not waiter[1].cancelled():
                self.release(wanted)
            raise
        return wanted

    def take(self, wanted: int) -> bool:
        """Acquire bytes without waiting. Returns whether there were enough."""
        if wanted > self._left:
            return False
        self._left -= wanted
        return True

    def release(self, size: int) -> None:
        """Return bytes to the budget and wake the calls that fit now."""
        self._left += size
        while self._waiting and self._waiting[0][0] <= self._left:
            wanted, woken = self._waiting.popleft()
            if not woken.cancelled():
                self._left -= wanted
                woken.set_result(None)


class CallMemory:
    """The bytes that one call holds.

    Args:
        budgets: Budget of the tenant and budget of all tenants.
    """

    def __init__(self, budgets: tuple[ByteBudget, ByteBudget]) -> None:
        self._budgets = budgets
        self._held = [0, 0]
        self._response = 0

    async def acquire_request(self, size: int) -> None:
        """Wait for the bytes of the request."""
        if size > SMALL:
            for position, budget in enumerate(self._budgets):
                self._held[position] += await budget.acquire(size)

    def add_response(self, size: int) -> None:
        """Acquire more bytes of the response.

        Raises:
            CallFailed: There are not enough bytes left.
        """
        self._response += size
        if self._response <= SMALL:
            return
        for position, budget in enumerate(self._budgets):
            if not budget.take(size):
                raise CallFailed("too many large answers are in flight")
            self._held[position] += size

    def release(self) -> None:
        """Return all bytes to the budgets."""
        for held, budget in zip(self._held, self._budgets, strict=True):
            budget.release(held)


@dataclass(slots=True)
class _TenantCalls:
    """Calls of one tenant: those in flight, their bytes, and the number of calls in flight or waiting."""

    in_flight: asyncio.Semaphore
    memory: ByteBudget
    calls: int = 0


class InFlight:
    """Limits calls. Calls beyond a limit wait until their own timeout.

    Args:
        bounds: The limits.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._all = asyncio.Semaphore(bounds.total)
        self._memory = ByteBudget(bounds.total_bytes)
        self._tenants: dict[str, _TenantCalls] = {}

    @asynccontextmanager
    async def turn(self, tenant: str, size: int) -> AsyncIterator[CallMemory]:
        """Wait until a call may begin. The call is in flight while the block runs.

        Args:
            tenant: Tenant of the call.
            size: Bytes of the request.

        Raises:
            CallFailed: Too many calls of this tenant wait.
        """
        bounds, calls = self._bounds, self._tenants.get(tenant)
        if calls is None:
            calls = _TenantCalls(asyncio.Semaphore(bounds.tenant), ByteBudget(bounds.tenant_bytes))
            self._tenants[tenant] = calls
        if calls.calls >= bounds.tenant + bounds.waiting:
            raise CallFailed("too many calls are in flight")
        calls.calls += 1
        memory = CallMemory((calls.memory, self._memory))
        try:
            async with calls.in_flight:
                await memory.acquire_request(size)
                async with self._all:
                    yield memory
        finally:
            memory.release()
            calls.calls -= 1
            if not calls.calls:
                self._tenants.pop(tenant, None)
