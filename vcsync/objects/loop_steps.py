"""The steps that work may still take on the event loop before it moves to a thread. Pure but for a context variable."""

from contextvars import ContextVar


class TooLong(Exception):
    """The work takes too many steps for the event loop."""


class LoopSteps:
    """The remaining steps on the event loop. A step takes about a microsecond."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, steps: int) -> None:
        """Take steps.

        Raises:
            TooLong: No steps are left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooLong


current: ContextVar[LoopSteps | None] = ContextVar("loop_steps", default=None)
"""The steps of the work that runs now; None where it may take as long as it takes."""


def charge_steps(steps: int) -> None:
    """Count work that takes as long as this number of steps.

    Raises:
        TooLong: No steps are left on the event loop.
    """
    left = current.get()
    if left is not None:
        left.spend(steps)
