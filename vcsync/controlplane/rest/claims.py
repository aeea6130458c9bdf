"""Keys that a write reserves or frees in its own transaction: a kind's unique values, such as cluster IPs."""

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


NOTHING = Reservation()


async def no_claims(
    scope: Scope, new: Object | None, old: Object | None, *, dry_run: bool = False
) -> Reservation:
    """Reserve nothing."""
    del scope, new, old, dry_run
    return NOTHING
