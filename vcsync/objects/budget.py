"""Budgets: how many steps and bytes one piece of work over a tenant's data may take. Pure."""

PIECE_STEPS = 2_000
"""Steps after which long work lets other tasks run. A step takes about a microsecond."""
NO_LIMIT = 2**63


class BudgetExceeded(Exception):
    """The work needs more steps or bytes than its budget has. The text names the work and the limit."""


class Budget:
    """The steps and bytes that are left for one piece of work.

    A loop over data that a tenant writes spends one step for each value that it looks at. Pure functions call `spend`, which
    refuses. Coroutines also call `loop_turns.rest`, which lets other tasks run after each `PIECE_STEPS` steps.

    Args:
        work: The work, as messages name it, for example `the column "Age"`.
        steps: Most steps, each of about a microsecond.
        size: Most bytes, for work that keeps or copies what it looks at.
    """

    __slots__ = ("_piece", "_size", "_size_left", "_steps", "_steps_left", "_work")

    def __init__(self, work: str, steps: int = NO_LIMIT, size: int = NO_LIMIT) -> None:
        self._work = work
        self._steps = self._steps_left = steps
        self._size = self._size_left = size
        self._piece = PIECE_STEPS

    @property
    def taken(self) -> int:
        """The steps that have been taken or refused."""
        return self._steps - self._steps_left

    def spend(self, steps: int = 1, size: int = 0) -> None:
        """Take steps and bytes.

        Raises:
            BudgetExceeded: Not enough are left.
        """
        self._steps_left -= steps
        self._size_left -= size
        self._piece -= steps
        if self._steps_left < 0:
            raise BudgetExceeded(f"{self._work} takes more than {self._steps} steps")
        if self._size_left < 0:
            raise BudgetExceeded(f"{self._work} takes more than {self._size} bytes")

    def piece_ended(self) -> bool:
        """Return whether other tasks should run now, and begin the next piece if so."""
        if self._piece > 0:
            return False
        self._piece = PIECE_STEPS
        return True
