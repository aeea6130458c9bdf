"""How many calls go on at the same time, of each tenant and of all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from vcsync.controlplane.egress.failure import CallFailed


@dataclass(slots=True)
class _Turns:
    gate: asyncio.Semaphore
    users: int = field(default=0)


class InFlight:
    """Lets so many through; others wait, as long as their own deadline lets them."""

    def __init__(self, total: int, each: int, waiting: int) -> None:
        """Take how many calls of all tenants and of each there may be, and how many of each may wait."""
        self._all = asyncio.Semaphore(total)
        self._each = each
        self._most = each + waiting
        self._tenants: dict[str, _Turns] = {}

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Hold a place while the block runs.

        Raises:
            CallFailed: too many of this tenant wait already.
        """
        turns = self._tenants.get(tenant)
        if turns is None:
            turns = self._tenants[tenant] = _Turns(asyncio.Semaphore(self._each))
        if turns.users >= self._most:
            raise CallFailed("too many calls are in flight")
        turns.users += 1
        try:
            async with turns.gate, self._all:
                yield
        finally:
            turns.users -= 1
            if not turns.users:
                self._tenants.pop(tenant, None)
