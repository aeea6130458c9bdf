"""Keys that a write reserves or frees in its own transaction: a kind's unique values, such as cluster IPs."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.store.interface import Compare, Delete, Put


@dataclass(frozen=True, slots=True)
class Reservation:
    """What goes into the write's transaction. When a condition does not hold, the write is tried anew."""

    compares: tuple[Compare, ...] = ()
    operations: tuple[Put | Delete, ...] = ()


class Claims(Protocol):
    """Finds out what a write reserves."""

    async def __call__(
        self, scope: Scope, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> Reservation:
        """Reserve.

        Args:
            scope: of the request.
            new: working object, whose values may be filled in; None: it is deleted.
            old: as it stands; None: it is created.
            dry_run: nothing will be written.
        """
        ...

    def turn(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        """Hold what a write reserves against other writes of this process, from reserving to the commit."""
        ...


NOTHING = Reservation()


def joined(*found: Reservation) -> Reservation:
    """Return what reserves all that several reserve."""
    return Reservation(
        tuple(compare for each in found for compare in each.compares),
        tuple(operation for each in found for operation in each.operations),
    )


class AllClaims:
    """Reserves what each of several claims reserves, in order; none: nothing."""

    def __init__(self, *claims: Claims) -> None:
        """Take them."""
        self._claims = claims

    async def __call__(
        self, scope: Scope, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> Reservation:
        """See `Claims`."""
        found = [await each(scope, new, old, dry_run=dry_run) for each in self._claims]
        return joined(*found)

    @asynccontextmanager
    async def turn(self, scope: Scope) -> AsyncIterator[None]:
        """See `Claims`."""
        async with AsyncExitStack() as stack:
            for each in self._claims:
                await stack.enter_async_context(each.turn(scope))
            yield
