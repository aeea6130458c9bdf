"""Clients of the namespace scheduler for the ledger in the meta cluster and for one tenant's control plane."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.kube.cache import Cache
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.events import EventType
from vcsync.kube.long_lists import take_pages
from vcsync.kube.resources import NAMESPACES, RESOURCE_QUOTAS
from vcsync.nsscheduler.fence import NotLeading
from vcsync.nsscheduler.reconcile import Inputs, counted_hard
from vcsync.objects.envelope import Envelope, untyped
from vcsync.scheduling.ledger import Key
from vcsync.tenancy.terms import UNCONTESTED, TermLease

MOST_PAGES = 20
"""Most pages of 500 ResourceQuotas that are read of a namespace."""

Body = dict[str, Any]


class LedgerClient:
    """Writes NamespacePlacements; see `commit.Ledger`.

    Args:
        meta: the meta cluster.
        observe: called with every object in an answer of the meta cluster.
        gone: called with namespace, name and UID of every object that it no longer has.
        lease: the leader's lease.
    """

    def __init__(
        self,
        meta: Client,
        observe: Callable[[Envelope], None],
        gone: Callable[[str, str, str], None],
        lease: TermLease = UNCONTESTED,
    ) -> None:
        self._meta = meta
        self._observe = observe
        self._gone = gone
        self._lease = lease

    def _require_lease(self) -> None:
        if not self._lease.still_held():
            raise NotLeading("another process may hold the lease: nothing was written")

    async def create(self, namespace: str, body: Body) -> Envelope:
        """Create an entry with the term of this leader as annotation."""
        self._require_lease()
        if self._lease.term:
            metadata = body["metadata"] | {"annotations": {names.LEDGER_TERM: self._lease.term}}
            body = body | {"metadata": metadata}
        answer = await self._meta.create(NAMESPACE_PLACEMENTS, body, namespace)
        self._observe(answer)
        return answer

    async def patch(self, namespace: str, name: str, change: Body, subresource: str) -> Envelope:
        """Patch an entry, or its status if `subresource` is `status`."""
        self._require_lease()
        answer = await self._meta.patch(
            NAMESPACE_PLACEMENTS, name, change, namespace, subresource=subresource
        )
        self._observe(answer)
        return answer

    async def delete(self, namespace: str, name: str, uid: str, version: str) -> None:
        """Delete the entry that has this UID and resourceVersion."""
        self._require_lease()
        try:
            left = await self._meta.delete(
                NAMESPACE_PLACEMENTS, name, namespace, uid=uid, resource_version=version
            )
        except NotFound:
            left = None
        if left is None:
            self._gone(namespace, name, uid)
        else:
            self._observe(left)


class StoredLedger:
    """The stored entries with requests to move slices; see `transfers.Placements`.

    Args:
        cache: the ledger.
        writes: writes entries.
    """

    def __init__(self, cache: Cache, writes: LedgerClient) -> None:
        self._cache = cache
        self._writes = writes

    def asked(self) -> list[NamespacePlacement]:
        """Return the entries with a request."""
        asked = (
            each for each in self._cache.items() if names.MOVES in each.annotations and not each.deleting
        )
        return _readable(asked)

    def of(self, keys: Iterable[Key]) -> dict[Key, NamespacePlacement]:
        """Return the entries of these namespaces that can be read."""
        found = (self._cache.get(*key) for key in keys)
        return {
            (each.namespace, each.name): each
            for each in _readable(each for each in found if each is not None)
        }

    async def annotate(self, placement: NamespacePlacement, annotations: Body) -> None:
        """Change annotations of an entry, which must still have the version that was read."""
        metadata = {"resourceVersion": placement.resource_version, "annotations": annotations}
        await self._writes.patch(placement.namespace, placement.name, {"metadata": metadata}, "")


class LedgerFence:
    """Reads and stamps NamespacePlacements; see `fence.FencedLedger`. Arguments are those of `LedgerClient`."""

    def __init__(
        self,
        meta: Client,
        observe: Callable[[Envelope], None],
        gone: Callable[[str, str, str], None],
        lease: TermLease,
    ) -> None:
        self._meta = meta
        self.seen = observe
        self.gone = gone
        self.still_held = lease.still_held

    async def read(self, namespace: str, name: str) -> Envelope:
        """Read an entry past all caches."""
        return await self._meta.get(NAMESPACE_PLACEMENTS, name, namespace)

    async def patch(self, namespace: str, name: str, change: Body) -> Envelope:
        """Patch an entry."""
        return await self._meta.patch(NAMESPACE_PLACEMENTS, name, change, namespace)


class TenantClient:
    """Works in one tenant's control plane; see `commit.TenantControlPlane`.

    Args:
        client: the control plane.
        observe: called with every patched Namespace.
        emit: records Events.
        withdraw: permits withdrawals.
    """

    def __init__(
        self,
        client: Client,
        observe: Callable[[Envelope], None],
        emit: Callable[[Envelope, EventType, str, str], None],
        withdraw: Callable[[Inputs, str], Awaitable[None]],
    ) -> None:
        self._client = client
        self._observe = observe
        self._emit = emit
        self._withdraw = withdraw

    async def withdraw(self, inputs: Inputs, lost: str) -> None:
        """Permit the removal of a placement, or raise."""
        await self._withdraw(inputs, lost)

    async def live_namespace(self, name: str) -> Envelope | None:
        """Read a Namespace past all caches; None if it does not exist."""
        try:
            return await self._client.get(NAMESPACES, name)
        except NotFound:
            return None

    async def live_hards(self, namespace: str) -> list[dict[str, str]]:
        """Read `spec.hard` of the ResourceQuotas that count, past all caches."""
        found: list[dict[str, str]] = []

        def take(quotas: Iterable[Envelope]) -> None:
            hards = (counted_hard(untyped(quota.spec)) for quota in quotas)
            found.extend(hard for hard in hards if hard is not None)

        await take_pages(self._client.pages(RESOURCE_QUOTAS, namespace), take, MOST_PAGES)
        return found

    async def patch_namespace(self, name: str, patch: Body) -> Envelope:
        """Patch a Namespace."""
        answer = await self._client.patch(NAMESPACES, name, patch)
        self._observe(answer)
        return answer

    def emit(self, namespace: Envelope, kind: EventType, reason: str, message: str) -> None:
        """Record an Event about a Namespace."""
        self._emit(namespace, kind, reason, message)


def _readable(entries: Iterable[Envelope]) -> list[NamespacePlacement]:
    """Return the entries that can be read. The leader's log names the others."""
    found = []
    for each in entries:
        with suppress(ValueError):
            found.append(NamespacePlacement.from_envelope(each))
    return found
