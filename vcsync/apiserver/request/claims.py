"""Claims: keys that a write reserves or frees in its own transaction, such as cluster IPs, and quotas that it charges."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Compare, Delete, Put


@dataclass(frozen=True, slots=True)
class Reservation:
    """Conditions and operations of a write's transaction. If a condition does not hold, the write is attempted again."""

    compares: tuple[Compare, ...] = ()
    operations: tuple[Put | Delete, ...] = ()


class Claims(Protocol):
    """Determines what a write reserves."""

    async def __call__(
        self, scope: Scope, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> Reservation:
        """Return the reservation of a write.

        Args:
            scope: Scope of the request.
            new: The new object in its working form, whose values may be filled in. None: it is deleted.
            old: The current object. None: it is created.
            dry_run: Whether nothing will be written.
        """
        ...

    def turn(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        """Serialize conflicting writes of this process, from the reservation to the commit."""
        ...


NOTHING = Reservation()


def joined(*found: Reservation) -> Reservation:
    """Return a reservation that combines several."""
    return Reservation(
        tuple(compare for each in found for compare in each.compares),
        tuple(operation for each in found for operation in each.operations),
    )


class AllClaims:
    """Combines several claims, in order.

    Args:
        claims: The claims. None: nothing is reserved.
    """

    def __init__(self, *claims: Claims) -> None:
        self._claims: tuple[Claims, ...] = ()
        for each in claims:
            self._claims += each._claims if isinstance(each, AllClaims) else (each,)

    async def __call__(
        self, scope: Scope, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> Reservation:
        """See `Claims`."""
        found = [await each(scope, new, old, dry_run=dry_run) for each in self._claims]
        found = [each for each in found if each is not NOTHING]
        return found[0] if len(found) == 1 else joined(*found)

    def turn(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        """See `Claims`. Every write passes here, and most wait for at most one of the claims."""
        turns = [turn for each in self._claims if not isinstance(turn := each.turn(scope), nullcontext)]
        if not turns:
            return nullcontext()
        return turns[0] if len(turns) == 1 else _each_in_order(turns)


@asynccontextmanager
async def _each_in_order(turns: Iterable[AbstractAsyncContextManager[None]]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for turn in turns:
            await stack.enter_async_context(turn)
        yield
