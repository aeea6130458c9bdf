"""Keys that a write reserves or frees in its own transaction: a kind's unique values, such as cluster IPs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import StatusError, internal
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.store.interface import Compare, Delete, Outcome, Put


def _taken(_: Outcome) -> StatusError:
    return internal("what the object reserves has just been taken")


@dataclass(frozen=True, slots=True)
class Reservation:
    """What goes into the write's transaction.

    `changed`: the object got values filled in. `lost`: what to say when a condition did not hold.
    """

    compares: tuple[Compare, ...] = ()
    operations: tuple[Put | Delete, ...] = ()
    changed: bool = False
    lost: Callable[[Outcome], StatusError] = _taken


Claims = Callable[[Scope, Object | None, Object | None], Awaitable[Reservation]]
"""(scope, new working object or None: deleted, old or None: created); may fill in the new one."""

NOTHING = Reservation()


async def no_claims(_scope: Scope, _new: Object | None, _old: Object | None) -> Reservation:
    """Reserve nothing."""
    return NOTHING
