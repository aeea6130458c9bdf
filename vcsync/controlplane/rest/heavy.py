"""Work that takes long, kept off the event loop: which it is, and threads for it.

Where there is another process for it (`lane`), whole writes go there.
"""

import time
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from vcsync.controlplane.cel.patience import aside, patiently
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.rest.turns import turn
from vcsync.controlplane.wire.negotiation import Representation

LARGE = 64 * 1024
"""Bytes of a body from which on the work on it, about a millisecond for each kilobyte, is too long for the loop."""
MIDDLE = 8 * 1024
"""Bytes of a body, or of what stands, from which on others have their turn between the steps of a write."""
SMALL = 4 * 1024
"""Bytes of which it is not asked what is in them."""
LONG = 256 * 1024
"""Bytes that are too many even of a single text."""
MANY = 1500
"""Fields and elements that are too many: each takes about ten microseconds on its way to the store."""
MANY_IN_YAML = 120
"""Fields and elements that are too many to be written in YAML: each takes five microseconds."""
COPIES = b'"copy"'
"""An operation of JSON patches by which little becomes much."""

TRIED_SECONDS = 60.0
"""How long it is not tried again what took too long."""
MOST_TRIED = 4096

T = TypeVar("T")


class Tried:
    """What took too long on the event loop lately: of a kind of writes the size of the smallest body."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Take a clock."""
        self._now = now
        self._known: dict[Hashable, tuple[int, float]] = {}

    def told(self, writes: Hashable, size: int) -> None:
        """Remember that a write took too long."""
        if len(self._known) >= MOST_TRIED:
            self._known.clear()
        self._known[writes] = (size, self._now() + TRIED_SECONDS)

    def in_vain(self, writes: Hashable, size: int) -> bool:
        """Tell whether a write will most likely take too long."""
        smallest, until = self._known.get(writes, (0, 0.0))
        return until > self._now() and size >= smallest


def costly(data: bytes, content_type: str = "") -> bool:
    """Tell whether a write of JSON, YAML or protobuf takes too long for the loop, by its looks."""
    size = len(data)
    if "yaml" in content_type and not data.startswith(b"{"):
        return True  # ten times the work, and anchors multiply it
    if "json-patch" in content_type and COPIES in data:
        return True
    if size <= SMALL:
        return False
    if size > LONG or "protobuf" in content_type:
        return size > LARGE
    return data.count(b",") + data.count(b":") > MANY


def costly_to_write(data: Sequence[bytes], how: Representation) -> bool:
    """Tell whether it takes too long for the loop to write pieces of JSON in another form."""
    size = sum(map(len, data))
    if how.format == "yaml":
        return size > SMALL or sum(each.count(b",") + each.count(b":") for each in data) > MANY_IN_YAML
    return how.pretty and size > LARGE


async def heavily(scope: Scope, work: Callable[[], T]) -> T:
    """Do what only this request is concerned with: on a thread if its body is large, one at a time of each tenant."""
    if scope.size > LARGE:
        return await aside(scope.tenant, work)
    await _between(scope)
    return work()


async def checked(scope: Scope, evaluate: Callable[[], T]) -> T:
    """Apply rules that may have expressions: on a thread at once if the body is large; see `patience.patiently`."""
    if scope.size > LARGE:
        return await aside(scope.tenant, evaluate)
    await _between(scope)
    return await patiently(scope.tenant, evaluate)


async def _between(scope: Scope) -> None:
    """Let others have their turn before a step of a write that takes several of half a millisecond."""
    if scope.size > MIDDLE or scope.there > MIDDLE:
        await turn()
