"""The state of one evaluation: variables, and the cost so far."""

from collections.abc import Callable
from typing import Any

from vcsync.apimachinery.cel.values import CelError, CostExceeded, Work


class Run:
    """One evaluation."""

    __slots__ = ("cost", "limit", "variables", "work")

    def __init__(self, variables: dict[str, Any], limit: int, work: Work) -> None:
        """Take the variables by name, the cost limit and the remaining work."""
        self.variables = variables
        self.limit = limit
        self.work = work
        self.cost = 0

    def charge(self, cost: int) -> None:
        """Add to the cost.

        Raises:
            CostExceeded: the limit of cost or work is exceeded.
        """
        self.cost += cost
        self.work.spend()
        if self.cost > self.limit:
            raise CostExceeded


Step = Callable[[Run], Any]


def caught(step: Step, run: Run) -> Any:
    """Evaluate a step of a loop. An error is returned as a value, since a later element may make it irrelevant."""
    try:
        return step(run)
    except CelError as problem:
        return problem


def raised(value: Any) -> Any:
    """Return a value, or raise it if it is an error."""
    if isinstance(value, CelError):
        raise value
    return value
