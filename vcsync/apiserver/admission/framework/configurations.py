"""Caches the admission configuration of tenants: their policies and webhooks.

The configuration of a tenant is read at its first write and follows the changes of the store. A write of a tenant without
configuration costs one look-up in a dict. A change takes effect when watches receive it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.storage.interface import Change, Store

GROUP = "admissionregistration.k8s.io"
MAX_TENANTS = 20_000
"""Tenants whose configuration is cached."""
_MARK = f"/{GROUP}/"
_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True)
class Configuration:
    """The configuration of one tenant.

    Attributes:
        objects: Objects by plural and name, each (revision, stored object).
        made: Values derived from the objects, by name. A change replaces the dict.
    """

    objects: dict[str, dict[str, tuple[int, bytes]]] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)
    gone: dict[tuple[str, str], int] = field(default_factory=dict)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    def stored(self, plural: str) -> list[tuple[int, bytes]]:
        """Return all objects of a resource with their revisions, by name."""
        return [each for _, each in sorted(self.objects.get(plural, {}).items())]

    def of(self, plural: str) -> list[tuple[int, Object]]:
        """Return all objects of a resource, decoded, with their revisions, by name."""
        return [(revision, _decode(value)) for revision, value in self.stored(plural)]

    def make(self, name: str, maker: "Callable[[Configuration], Any]") -> Any:
        """Return a value derived from the objects. It is computed once until they change."""
        found = self.made.get(name)
        if found is None:
            found = self.made[name] = maker(self)
        return found

    async def make_async(self, name: str, maker: "Callable[[Configuration], Awaitable[Any]]") -> Any:
        """Return a value that is derived from the objects asynchronously, by one task at a time."""
        async with self._making:
            made = self.made  # a change meanwhile replaces the dict
            found = made.get(name)
            if found is None:
                found = made[name] = await maker(self)
            return found

    def take(self, plural: str, name: str, revision: int, value: bytes | None) -> None:
        """Apply a change of an object; None: it was deleted. Changes older than the known revision are ignored."""
        known = self.objects.get(plural, {}).get(name, (0, b""))[0]
        if revision <= max(known, self.gone.get((plural, name), 0)):
            return
        self.made = {}
        if value is not None:
            self.objects.setdefault(plural, {})[name] = (revision, value)
            return
        self.objects.get(plural, {}).pop(name, None)
        if not self.objects.get(plural):
            self.objects.pop(plural, None)


class Configurations:
    """The configurations of all tenants.

    Args:
        store: The store.
        capacity: Tenants that are cached.
    """

    def __init__(self, store: Store, *, capacity: int = MAX_TENANTS) -> None:
        self._store = store
        self._capacity = capacity
        self._tenants: OrderedDict[str, Configuration] = OrderedDict()
        self._loading: dict[str, list[Configuration]] = {}
        self._missed = 0

    def known(self, tenant: str) -> Configuration | None:
        """Return the cached configuration of a tenant, or None if it must be read first."""
        return self._tenants.get(tenant)

    async def load(self, tenant: str) -> Configuration:
        """Read the configuration of a tenant.

        Raises:
            StoreError: The store cannot be read.
        """
        found = Configuration()
        waiting = self._loading.setdefault(tenant, [])
        waiting.append(found)
        missed = self._missed
        try:
            page = await self._store.range(f"{tenant}{_MARK}")
            for record in page.records:
                _, plural, name = _named(record.key)
                found.take(plural, name, record.revision, record.value)
        finally:
            waiting.remove(found)
            if not waiting:
                self._loading.pop(tenant, None)
        found.gone.clear()
        if missed != self._missed:
            return found
        self._tenants[tenant] = found
        while len(self._tenants) > self._capacity:
            self._tenants.popitem(last=False)
        return found

    def changed(self, changes: Iterable[Change]) -> None:
        """Apply changes of the store. Changes of other objects cost little."""
        for change in changes:
            if _MARK in change.key:
                self._take(change)

    def _take(self, change: Change) -> None:
        tenant, plural, name = _named(change.key)
        known = self._tenants.get(tenant)
        for each in self._loading.get(tenant, ()):
            each.take(plural, name, change.revision, change.value)
            if change.value is None:
                each.gone[plural, name] = change.revision
        if known is not None:
            known.take(plural, name, change.revision, change.value)

    def forget(self, tenant: str | None = None) -> None:
        """Drop the configuration of a tenant, or of all tenants, because changes were missed."""
        if tenant is None:
            self._tenants.clear()
        else:
            self._tenants.pop(tenant, None)
        self._missed += 1


def _named(key: str) -> tuple[str, str, str]:
    """Return tenant, plural and name of a key, or empty texts if it does not belong to admission."""
    parts = key.split("/")
    return (parts[0], parts[2], parts[-1]) if len(parts) == 4 and parts[1] == GROUP else ("", "", "")
