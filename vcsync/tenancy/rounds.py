"""A limit on how often a tenant's work may begin: so many times at once, and then at a rate. Pure."""

from __future__ import annotations

_MOMENT = 1e-6
_MOST_KEPT = 256


class Rounds:
    """Gives rounds to tenants.

    Args:
        at_once: Number of rounds that a tenant gets without a pause.
        per_second: Number of rounds that it gets in each second after that.
    """

    def __init__(self, at_once: int, per_second: float) -> None:
        self._lead = (at_once - 1) / per_second
        self._step = 1 / per_second
        # Cluster key -> when all of the tenant's rounds would have ended at its rate.
        self._due: dict[str, float] = {}

    def take(self, tenant: str, now: float) -> float:
        """Take a round of a tenant. Return 0, or the seconds until it may take one."""
        if len(self._due) > _MOST_KEPT:
            self._due = {key: due for key, due in self._due.items() if due > now}
        due = max(now, self._due.get(tenant, now))
        pause = due - now - self._lead
        if pause > _MOMENT:
            return pause
        self._due[tenant] = due + self._step
        return 0.0
