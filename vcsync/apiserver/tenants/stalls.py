"""Stalls of a tenant: when its work made a process end, and when that sets the tenant aside. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

LIMIT: Final = 2
"""Stalls within `WINDOW` from which on a tenant is set aside."""
WINDOW: Final = timedelta(days=1)
MOST_CHARACTERS: Final = 200
"""Longest text of a stall's work."""


class Stall(msgspec.Struct, frozen=True, omit_defaults=True):
    """One process that ended because its event loop stood.

    Attributes:
        time: Time at which the process that came after it found its report, in RFC 3339.
        work: Kind of the work that ran, such as `request`.
        sure: Whether no other work can have been the cause.
    """

    time: str
    work: str
    sure: bool = True


def recent(stalls: Sequence[Stall], now: str) -> tuple[Stall, ...]:
    """Return the stalls of the last day. The number of the result is bounded, for a tenant is set aside before."""
    begin = datetime.fromisoformat(now) - WINDOW
    return tuple(each for each in stalls if datetime.fromisoformat(each.time) >= begin)[-LIMIT * 4 :]


def why_aside(stalls: Sequence[Stall]) -> str:
    """Return why a tenant with these recent stalls is set aside, or an empty text if it is not.

    Once at least, no other work may have been the cause: a bystander can be under suspicion as often as others stall.
    """
    if len(stalls) < LIMIT or not any(each.sure for each in stalls):
        return ""
    last = stalls[-1]
    return (
        f"its work stalled the server {len(stalls)} times within a day, so that the server had to be started again; "
        f"last at {last.time} during work of kind {last.work!r}"
    )
