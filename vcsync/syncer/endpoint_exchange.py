"""Shares the endpoints of a super cluster with others of its network, and writes theirs into it.

Nothing here reads a tenant's control plane: a tenant can write any address there. The addresses that a super cluster shares are
those that its own endpointslice controller has found in Pods, and only syncers can write where they are shared.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final

import structlog
from msgspec import Struct

from vcsync.api import names
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import ENDPOINT_SLICES, SERVICES
from vcsync.objects.envelope import Envelope
from vcsync.scheduling.snapshot import neighbours_of
from vcsync.syncer import shared_slices as slices
from vcsync.syncer.caches import SuperCaches
from vcsync.syncer.kinds.endpointslice import MANAGED_BY
from vcsync.syncer.ledger import Holding, Ledger
from vcsync.syncer.shared_slices import Body, Name, Owner, Write
from vcsync.tenancy.pool import Pool
from vcsync.tenancy.rounds import Rounds

WRITE_SECONDS: Final = 1.0
"""Seconds between two rounds of writes for one namespace. Changes in between are written together."""
TENANT_ROUNDS: Final = 20
"""Rounds of writes that the namespaces of one tenant get at once..."""
TENANT_ROUNDS_PER_SECOND: Final = 10.0
"""...and in each second after that."""
_BACKOFF: Final = (1.0, 60.0)
"""First and longest pause, in seconds, after a failure of the connection to the network."""

log = structlog.get_logger(__name__)


class _Connected(Struct):
    """The caches while the super cluster belongs to a network."""

    network_id: str
    shared: Reflector
    """Shared slices of all super clusters of the network, in the meta cluster."""
    local: Reflector
    """Slices of tenants' Services in the super cluster."""


class EndpointExchange:
    """Exchanges endpoints with the other super clusters of the network, if it belongs to one.

    The unit of work is a super namespace: `step` compares what is shared of it, and what it gets from others, with what
    there should be. Without a network nothing is watched.

    Args:
        meta: Client of the meta cluster.
        super_client: Client of the super cluster.
        super_id: Its id.
        caches: Caches of the super cluster.
        ledger: The ledger's entries of the super cluster.
        pool: All super clusters.
        enqueue: Adds a super namespace to the work queue: (cluster key or "", super namespace).
        owns: Whether a tenant belongs to this shard.
        leads: Whether this shard clears up after namespaces that the ledger does not know any more.
        report: Called with (owner, Service, message) about a Service that is not shared as a whole.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        meta: Client,
        super_client: Client,
        super_id: str,
        caches: SuperCaches,
        ledger: Ledger,
        pool: Pool,
        enqueue: Callable[[str, str], None],
        owns: Callable[[str], bool],
        leads: bool,
        report: Callable[[Owner, str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._meta = meta
        self._super = super_client
        self._super_id = super_id
        self._caches = caches
        self._ledger = ledger
        self._pool = pool
        self._enqueue = enqueue
        self._owns = owns
        self._leads = leads
        self._report = report
        self._clock = clock
        self._owners: dict[str, Owner] = {}
        self._shared: dict[str, dict[str, Envelope]] = {}
        """Super namespace -> name -> shared slice of any super cluster."""
        self._written: dict[str, float] = {}
        self._rounds = Rounds(TENANT_ROUNDS, TENANT_ROUNDS_PER_SECOND)
        self._connected: _Connected | None = None
        self._neighbours: frozenset[str] = frozenset()
        self._serving = ""
        self._moved = asyncio.Event()

    # --- the network

    async def run(self) -> None:
        """Exchange until cancelled."""
        for entry in self._ledger.entries():
            self._note_owner(entry.tenant, entry.namespace)
        self.pool_changed()
        while True:
            self._moved.clear()
            self._serving = self._network_id()
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(self._serve(self._serving))
                await self._moved.wait()
                serving.cancel()

    def _network_id(self) -> str:
        """Return the network of the super cluster; the present one while its SuperCluster is missing without a reason."""
        own = self._pool.views.get(self._super_id)
        if own is not None:
            return own.network_id
        return "" if self._super_id in self._pool.taken_out else self._serving

    def pool_changed(self) -> None:
        """Follow a change of the views: another network, or other members of it."""
        if self._network_id() != self._serving:
            self._connected = None
            self._moved.set()
        found = neighbours_of(self._pool.views, self._super_id)
        if found != self._neighbours and (self._super_id in self._pool.views or not self._network_id()):
            self._neighbours = found
            self._enqueue_all()

    async def _serve(self, network_id: str) -> None:
        try:
            if network_id:
                await self._connect(network_id)
            else:
                await self._leave()
        finally:
            self._connected = None
            self._shared.clear()
            self._written.clear()

    async def _connect(self, network_id: str) -> None:
        connected = _Connected(
            network_id,
            Reflector(
                self._meta,
                ENDPOINT_SLICES,
                namespace=names.ENDPOINTS_NAMESPACE,
                label_selector=f"{names.NETWORK_ID}={network_id}",
                sink=self._shared_changed,
                backoff=_BACKOFF,
            ),
            Reflector(
                self._super,
                ENDPOINT_SLICES,
                label_selector=slices.SELECTOR,
                sink=self._local_changed,
                backoff=_BACKOFF,
            ),
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(connected.shared.run())
            tasks.create_task(connected.local.run())
            await connected.shared.wait_synced()
            await connected.local.wait_synced()
            self._connected = connected
            log.info("shares endpoints", super_cluster=self._super_id, network=network_id)
            self._enqueue_all()
            await self._retrying(lambda: self._withdraw(f",{names.NETWORK_ID}!={network_id}"))

    async def _leave(self) -> None:
        """Remove what is left of an earlier network: shared slices, and those of other super clusters."""
        await self._retrying(self._withdraw)
        await self._retrying(self._drop_remote)

    async def _retrying(self, act: Callable[[], Awaitable[None]]) -> None:
        pause, longest = _BACKOFF
        while True:
            try:
                await act()
            except Forbidden:
                return  # Roles of an earlier version have never shared anything.
            except KubeError as error:
                log.warning("endpoints are not withdrawn", super_cluster=self._super_id, error=str(error))
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
            else:
                return

    async def _withdraw(self, further: str = "") -> None:
        """Remove what this super cluster shares, as far as a selector tells."""
        if not self._leads:
            return
        selector = f"{names.SUPER_CLUSTER_ID}={self._super_id}{further}"
        for found in await self._meta.list(
            ENDPOINT_SLICES, names.ENDPOINTS_NAMESPACE, label_selector=selector
        ):
            await _delete(self._meta, None, found.name, names.ENDPOINTS_NAMESPACE, found.uid)

    async def _drop_remote(self) -> None:
        if not self._leads:
            return
        selector = f"{names.CONTROLLED}={names.TRUE},{MANAGED_BY}={names.REMOTE_ENDPOINTS}"
        for found in await self._super.list(ENDPOINT_SLICES, label_selector=selector):
            await _delete(self._super, None, found.name, found.namespace, found.uid)

    # --- what queues a super namespace

    def placement_changed(self, tenant: str, namespace: str) -> None:
        """Follow a change of a namespace's entry in the ledger."""
        self._note_owner(tenant, namespace)
        self.changed(names.super_namespace(tenant, namespace), tenant)

    def _note_owner(self, tenant: str, namespace: str) -> None:
        place = names.super_namespace(tenant, namespace)
        if self._ledger.entry(tenant, namespace) is not None:
            self._owners[place] = Owner(tenant, namespace)
        else:
            self._owners.pop(place, None)

    def changed(self, place: str, tenant: str = "") -> None:
        """Enqueue a super namespace, if there is a network."""
        if self._connected is None:
            return
        owner = self._owners.get(place)
        tenant = owner.tenant if owner is not None else tenant
        if self._owns(tenant) if owner is not None else self._leads:
            self._enqueue(tenant, place)

    def tenant_changed(self, tenant: str) -> None:
        """Enqueue all super namespaces of a tenant, since the queue may have forgotten its items."""
        for entry in self._ledger.entries(tenant):
            self.changed(names.super_namespace(tenant, entry.namespace))

    def _enqueue_all(self) -> None:
        if self._connected is not None:
            for place in {*self._shared, *self._connected.local.cache.namespaces()}:
                self.changed(place)

    def _shared_changed(self, change: Change) -> None:
        envelope = change.new if change.new is not None else change.old
        name = slices.read_name(envelope.name) if envelope is not None else None
        if envelope is None or name is None:
            return
        there = self._shared.setdefault(name.place, {})
        if change.new is not None:
            there[envelope.name] = envelope
        else:
            there.pop(envelope.name, None)
            if not there:
                del self._shared[name.place]
        self.changed(name.place)

    def _local_changed(self, change: Change) -> None:
        envelope = change.new if change.new is not None else change.old
        if envelope is not None:
            self.changed(envelope.namespace)

    # --- work

    async def step(self, place: str) -> float | None:
        """Bring the slices of one super namespace closer to what they should be.

        Returns:
            Seconds until the next step; None if nothing is left to do.

        Raises:
            KubeError: A request failed; call again.
        """
        connected = self._connected
        if connected is None:
            return None
        pause = self._written.get(place, float("-inf")) + WRITE_SECONDS - self._clock()
        if pause > 0:
            return pause
        owner = self._owners.get(place)
        known = self._shared.get(place, {})
        mine = [each for each in known.values() if _super_of(each) == self._super_id]
        here = list(connected.local.cache.items(place))
        remote = [each for each in here if each.labels.get(MANAGED_BY) == names.REMOTE_ENDPOINTS]
        there = list(slices.writes(self._to_share(owner, place, here, connected.network_id), mine))
        down = list(slices.writes(self._to_get(owner, place, known.values()), remote))
        if not there and not down:
            self._written.pop(place, None)
            return None
        # Each of a tenant's namespaces may cause a round in every second, and it may have many.
        if owner is not None and (pause := self._rounds.take(owner.tenant, self._clock())) > 0:
            return pause
        self._written[place] = self._clock()
        requests = [
            *((self._meta, connected.shared, names.ENDPOINTS_NAMESPACE, write) for write in there),
            *((self._super, connected.local, place, write) for write in down),
        ]
        for request in requests:
            if self._connected is not connected:
                return None  # It has left the network, and what it wrote there is being removed.
            await _execute(*request)
        return WRITE_SECONDS

    def _to_share(
        self, owner: Owner | None, place: str, here: Iterable[Envelope], network_id: str
    ) -> list[Body]:
        """Return the shared slices of a namespace that other super clusters of the network have slices of, too."""
        entry = self._ledger.entry(owner.tenant, owner.namespace) if owner is not None else None
        if owner is None or entry is None or not self._neighbours & entry.placement.placements.keys():
            return []
        found = [
            each
            for each in sorted(here, key=lambda each: each.name)
            if each.labels.get(MANAGED_BY) == slices.CONTROLLER
            and not each.deleting
            and slices.has_endpoints(each)
            and slices.selects_pods(self._caches.get(SERVICES, place, slices.service_of(each)), owner)
        ]
        for service in dict.fromkeys(map(slices.service_of, found[slices.MOST_SLICES :])):
            self._report(
                owner,
                service,
                f"not all of its Pods are reached from other super clusters: the namespace has more than {slices.MOST_SLICES} "
                "EndpointSlices where its Pods run; have fewer Services with selector in a namespace, or fewer Pods behind them",
            )
        return [
            slices.shared(each, owner, self._super_id, network_id) for each in found[: slices.MOST_SLICES]
        ]

    def _to_get(self, owner: Owner | None, place: str, known: Iterable[Envelope]) -> Iterator[Body]:
        """Yield the slices of other super clusters for the Services of a namespace that has slices here."""
        entry = self._ledger.entry(owner.tenant, owner.namespace) if owner is not None else None
        if owner is None or entry is None or entry.holding is not Holding.PLACED:
            return
        for each in sorted(known, key=lambda each: each.name):
            name = slices.read_name(each.name)
            if name is None or name.super_id not in self._neighbours:
                continue
            service = self._caches.get(SERVICES, place, slices.service_of(each))
            if service is not None and slices.selects_pods(service, owner):
                yield slices.remote(each, name, service, owner)

    def status(self) -> dict[str, Any]:
        """Return the state for operators, as plain JSON values."""
        connected = self._connected
        everywhere = itertools.chain.from_iterable(each.values() for each in self._shared.values())
        return {
            "network": self._network_id() or None,
            "connected": connected is not None,
            "neighbours": sorted(self._neighbours),
            "sharedSlices": sum(_super_of(each) == self._super_id for each in everywhere),
        }


def _super_of(shared: Envelope) -> str:
    name: Name | None = slices.read_name(shared.name)
    return name.super_id if name is not None else ""


async def _execute(client: Client, reflector: Reflector, namespace: str, write: Write) -> None:
    """Make one request. Where somebody else was faster, the next step decides again.

    Raises:
        KubeError: it failed. That includes a slice of the same name that somebody else has made.
    """
    try:
        if write.verb == "create":
            reflector.observe(await client.create(ENDPOINT_SLICES, write.body, namespace))
        elif write.verb == "patch":
            reflector.observe(await client.patch(ENDPOINT_SLICES, write.name, write.body, namespace))
        else:
            await _delete(client, reflector, write.name, namespace, write.uid)
    except AlreadyExists:
        raise
    except Conflict:
        return
    except NotFound:
        if write.verb == "create":
            raise
        reflector.observe_gone(namespace, write.name, write.uid)


async def _delete(client: Client, reflector: Reflector | None, name: str, namespace: str, uid: str) -> None:
    try:
        await client.delete(ENDPOINT_SLICES, name, namespace, uid=uid)
    except (NotFound, Conflict):
        return
    if reflector is not None:
        reflector.observe_gone(namespace, name, uid)
