"""One evaluation of an expression: what it sees, and what it has cost so far."""

from collections.abc import Callable
from typing import Any

from vcsync.controlplane.cel.values import CelError, CostExceeded, Work


class Run:
    """One evaluation."""

    __slots__ = ("cost", "limit", "variables", "work")

    def __init__(self, variables: dict[str, Any], limit: int, work: Work) -> None:
        """Take the values of `self` and `oldSelf`, and how much this evaluation may cost."""
        self.variables = variables
        self.limit = limit
        self.work = work
        self.cost = 0

    def charge(self, cost: int) -> None:
        """Count cost.

        Raises:
            CostExceeded: it is more than this evaluation may cost, or too much work.
        """
        self.cost += cost
        self.work.spend()
        if self.cost > self.limit:
            raise CostExceeded


Step = Callable[[Run], Any]


def caught(step: Step, run: Run) -> Any:
    """Evaluate a step of a loop: an error is a value that a later element may make irrelevant."""
    try:
        return step(run)
    except CelError as problem:
        return problem


def raised(value: Any) -> Any:
    """Return a value, or raise the error that it is."""
    if isinstance(value, CelError):
        raise value
    return value
