"""Remembers a bounded number of facts about tenants' objects, and lets no tenant crowd others out. Pure."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class FairMemory(Generic[K, V]):
    """A map for each tenant. Together they have a largest number of entries; the oldest of whoever has most is forgotten first.

    Args:
        most: largest number of entries of all tenants together.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._of: dict[str, OrderedDict[K, V]] = {}

    def put(self, tenant: str, key: K, value: V) -> None:
        """Remember a fact of a tenant."""
        own = self._of.setdefault(tenant, OrderedDict())
        self._total += key not in own
        own[key] = value
        if self._total > self._most:
            # Whoever has its share already gives of its own, which needs no look at the others.
            most = tenant if len(own) * len(self._of) >= self._total else max(self._of, key=self._size)
            self._of[most].popitem(last=False)
            self._total -= 1
            self._drop_if_empty(most)

    def get(self, tenant: str, key: K) -> V | None:
        """Return what is remembered; None if nothing is."""
        own = self._of.get(tenant)
        return None if own is None else own.get(key)

    def forget(self, tenant: str, key: K) -> None:
        """Forget a fact that does not hold any more."""
        own = self._of.get(tenant)
        if own is not None and own.pop(key, None) is not None:
            self._total -= 1
            self._drop_if_empty(tenant)

    def _size(self, tenant: str) -> int:
        return len(self._of[tenant])

    def _drop_if_empty(self, tenant: str) -> None:
        if not self._of[tenant]:
            del self._of[tenant]
