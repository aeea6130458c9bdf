"""For what the Pods of a namespace wait in one step of its drain, and when their tenant is asked about them again. Pure."""

from __future__ import annotations

from msgspec import Struct

MOST_REFUSALS = 20
"""Number of refusals, by budgets or controllers, after which one step requests no more. The next step begins with other Pods."""

ASK_AGAIN_SECONDS = 1.0
"""Shortest time in seconds until a tenant is asked about the Pods of a namespace again..."""
REST_AFTER_ANSWERS = 4.0
"""...and at least this many times as long as its answers took..."""
LONGEST_REST_SECONDS = 60.0
"""...but no longer. A tenant that changes its Pods all the time, or answers slowly, would keep a worker busy otherwise."""


class Waits:
    """The reasons why Pods have to wait in one step of a drain.

    Attributes:
        budgets: what PodDisruptionBudgets say.
        replacements: what controllers lack.
        unbound: number of Pods that are still to be bound in the tenant or given back.
        answered: seconds for which the step has waited for the tenant to say which Pods are ready.
    """

    def __init__(self) -> None:
        self.budgets: list[str] = []
        self.replacements: dict[str, None] = {}
        self.unbound = 0
        self.answered = 0.0

    @property
    def many(self) -> bool:
        """True if the step has had so many refusals that it requests no more."""
        return len(self.budgets) + len(self.replacements) >= MOST_REFUSALS

    @property
    def rest(self) -> float:
        """Seconds until the tenant is asked again."""
        return max(ASK_AGAIN_SECONDS, min(LONGEST_REST_SECONDS, REST_AFTER_ANSWERS * self.answered))

    def text(self) -> str:
        """Return the reasons, for the reason of a drain; "" if there are none."""
        budgets, replacements = ", ".join(dict.fromkeys(self.budgets)), ", ".join(self.replacements)
        return (
            (f"; waits for PodDisruptionBudgets: {budgets}" if budgets else "")
            + (f"; waits for replacements elsewhere: {replacements}" if replacements else "")
            + (f"; {self.unbound} have no node in the tenant yet" if self.unbound else "")
        )


class Asked(Struct, frozen=True):
    """The last questions to a tenant about the Pods of a namespace.

    Attributes:
        again: clock seconds from which it may be asked again.
        waits: for what its Pods wait.
    """

    again: float
    waits: Waits
