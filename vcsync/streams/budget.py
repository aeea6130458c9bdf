"""Divides connections between tenants. Pure."""

from collections import Counter


class ConnectionBudget:
    """A number of connections that tenants share.

    No tenant has more connections than remain free: a single one gets at most half of all, and less the more others
    have. A tenant that opens all it can leaves room for every other one.

    Args:
        limit: Connections in total.
        most: Most connections of one tenant. None: only those that are free limit it.
    """

    def __init__(self, limit: int, most: int | None = None) -> None:
        self._free = limit
        self._most = most
        self._used: Counter[str] = Counter()

    def take(self, tenant: str) -> bool:
        """Count one more connection of a tenant. False: it has its share, and nothing is counted."""
        used = self._used[tenant]
        if used >= self._free or (self._most is not None and used >= self._most):
            return False
        self._used[tenant] += 1
        self._free -= 1
        return True

    def give_back(self, tenant: str) -> None:
        """Stop counting a connection of a tenant."""
        self._free += 1
        self._used[tenant] -= 1
        if not self._used[tenant]:
            del self._used[tenant]
