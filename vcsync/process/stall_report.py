"""Reads the stacks that a stalled process left: whose work ran. Pure.

`faulthandler` writes a block of lines for each thread, the main thread last. It calls the thread that the signal interrupted the
current one. A timer of processor time interrupts a thread that uses the processor. In a block the innermost function comes first.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from vcsync.process.marks import NOBODY, Mark, read

STANDS: Final = "runs: "
"""Begin of a line that names the mark of the event loop's thread. Its stack may be longer than what `faulthandler` writes."""
AGAIN: Final = "=== the event loop still stands\n"
"""Separates dumps of one stall. The last one counts."""

_IDLE: Final = ("asyncio/runners.py", "asyncio/base_events.py", "selectors.py", "threading.py", "queue.py")
"""Ends of the names of files in whose functions a thread waits for work."""
_THREAD, _CURRENT, _FILE, _IN = "Thread 0x", "Current thread 0x", '  File "', " in "
_POOL = f"{_IN}_worker"
"""End of the innermost line of a thread of a pool that waits for work."""


class Suspects(NamedTuple):
    """The tenants whose work may have stalled a process.

    Attributes:
        mark: The mark of the current thread, or else of the main thread, or else of any.
        tenants: The tenants whose work some thread ran. Empty text: the current or the main thread ran something without mark.
    """

    mark: Mark
    tenants: frozenset[str]

    @property
    def sure(self) -> bool:
        """Whether no other work can have been the cause."""
        return len(self.tenants) == 1 and "" not in self.tenants


def suspects(text: str) -> Suspects:
    """Return whose work may have stalled a process, by the dumps that it left."""
    told = [each for line in text.splitlines() if (each := read(line.removeprefix(STANDS)))]
    parts = [blocks for part in text.split(AGAIN) if (blocks := _blocks(part.splitlines()))]
    if not parts:
        return Suspects(NOBODY, frozenset())
    *others, main = [_Thread(block[0].startswith(_CURRENT), _mark(block)) for block in parts[-1]]
    if main.mark == NOBODY and told:
        main = main._replace(mark=told[-1])
    by_weight = sorted((main, *others), key=lambda each: not each.current)
    found = [
        each.mark
        for each in by_weight
        if each.mark is not None and (each.mark != NOBODY or each.current or each is main)
    ]
    named = [mark for mark in found if mark != NOBODY]
    return Suspects(named[0] if named else NOBODY, frozenset(mark.tenant for mark in found))


class _Thread(NamedTuple):
    current: bool
    mark: Mark | None


def _blocks(lines: Sequence[str]) -> list[list[str]]:
    blocks: list[list[str]] = []
    for line in lines:
        if line.startswith((_THREAD, _CURRENT)):
            blocks.append([line])
        elif blocks and line.startswith(_FILE):
            blocks[-1].append(line)
    return blocks


def _mark(block: Sequence[str]) -> Mark | None:
    """Return the mark of a thread; NOBODY if it works without one; None if it waits."""
    for line in block[1:]:
        found = read(line.rpartition(_IN)[2])
        if found is not None:
            return found
    innermost = block[1] if len(block) > 1 else ""
    waits = innermost.removeprefix(_FILE).partition('"')[0].endswith(_IDLE) or innermost.endswith(_POOL)
    return None if waits or not innermost else NOBODY
