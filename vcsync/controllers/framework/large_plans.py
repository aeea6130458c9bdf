"""Plans over many objects run in a thread, so that the event loop does not wait for them.

A plan is pure, so it can begin on the loop and begin again elsewhere. Nobody has to guess how much it will read: what it reads of
the mirrors is counted, and a plan that reads more than fits into one turn of the loop is given up there.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from vcsync.controllers.framework.plan import Objects, View
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope

OBJECTS_AT_ONCE = 2000
"""Most objects that a plan reads on the event loop; each takes some 10 microseconds."""
BYTES_AT_ONCE = 2 * 1024 * 1024
"""Most bytes of objects that a plan reads on the event loop."""
LARGE_OBJECT, TIMES = 8 * 1024, 64
"""Bytes of an object from which on each further one counts so many times: a list within one object may have any length."""
THREADS = 2
"""Most plans in threads at a time, and one of each tenant."""

T = TypeVar("T")


class TooLarge(Exception):
    """A plan reads too much for one turn of the event loop."""


class _Limit:
    """The objects and bytes that a plan may still read."""

    def __init__(self) -> None:
        self._objects, self._bytes = OBJECTS_AT_ONCE, BYTES_AT_ONCE

    def read(self, found: Iterable[Envelope]) -> list[Envelope]:
        """Count objects, and return them.

        Raises:
            TooLarge: they are too many, or too large.
        """
        listed = list(found)
        self._objects -= len(listed)
        if self._objects < 0:
            raise TooLarge
        for each in listed:
            size = len(each.spec) + len(each.status) + len(each.rest)
            self._bytes -= size + (TIMES - 1) * max(0, size - LARGE_OBJECT)
        if self._bytes < 0:
            raise TooLarge
        return listed


class _CountedObjects:
    """A mirror that counts what is read of it; see `plan.Objects`."""

    def __init__(self, of: Objects, limit: _Limit) -> None:
        self._of = of
        self._limit = limit

    def get(self, tenant: str, namespace: str, name: str) -> Envelope | None:
        found = self._of.get(tenant, namespace, name)
        return None if found is None else self._limit.read((found,))[0]

    def within(self, tenant: str, namespace: str = "") -> list[Envelope]:
        return self._limit.read(self._of.within(tenant, namespace))

    def count(self, tenant: str, namespace: str) -> int:
        return self._of.count(tenant, namespace)

    def total(self, tenant: str) -> int:
        return self._of.total(tenant)

    def owned(self, uid: str) -> list[Envelope]:
        return self._limit.read(self._of.owned(uid))

    def count_owned(self, uid: str) -> int:
        return self._of.count_owned(uid)

    def orphans(self, tenant: str, namespace: str) -> list[Envelope]:
        return self._limit.read(self._of.orphans(tenant, namespace))

    def selecting(self, tenant: str, namespace: str, *labels: Mapping[str, str]) -> list[Envelope]:
        return self._limit.read(self._of.selecting(tenant, namespace, *labels))


class _CountedMirrors(dict[Resource, Objects]):
    """The mirrors that a plan has asked for, with one limit for all."""

    def __init__(self, of: Mapping[Resource, Objects]) -> None:
        super().__init__()
        self._of = of
        self._limit = _Limit()

    def __missing__(self, resource: Resource) -> Objects:
        self[resource] = found = _CountedObjects(self._of[resource], self._limit)
        return found


def counted(view: View) -> View:
    """Return a view whose plans raise `TooLarge` when they have read too much for one turn of the event loop."""
    return replace(view, of=_CountedMirrors(view.of))


class Planner:
    """Runs plans, the large ones in threads."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(THREADS)
        self._tenants: dict[str, asyncio.Lock] = {}

    async def run(self, tenant: str, plan: Callable[[View], T], view: View) -> T:
        """Return the result of a plan over a view, and of its whole work: it must not return a generator."""
        try:
            return plan(counted(view))
        except TooLarge:
            async with self._tenants.setdefault(tenant, asyncio.Lock()), self._room:
                return await asyncio.to_thread(plan, view)

    def forget(self, tenant: str) -> None:
        """Forget a tenant that has ended."""
        self._tenants.pop(tenant, None)
