"""The ledger's entries for one super cluster: namespaces that have slices there, and those that must be drained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import Enum

import structlog
from msgspec import Struct

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement
from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import ENDPOINTS, NAMESPACES, SERVICES, Resource
from vcsync.objects.envelope import Envelope
from vcsync.objects.quantity import canonical, milli
from vcsync.scheduling.objects import dealt, whole_of
from vcsync.scheduling.resources import Resources
from vcsync.scheduling.slices import DEVICES, DIMENSIONS, OBJECT_BYTES, OBJECTS
from vcsync.syncer.fair_memory import FairMemory
from vcsync.syncer.kinds.plan import Placement
from vcsync.syncer.store_budget import LEAST_BYTES
from vcsync.tenancy import distribution

RELEASED_REMEMBERED = 20_000
"""Namespaces whose end is remembered, of all tenants."""

log = structlog.get_logger(__name__)


class Holding(Enum):
    """The reason why a super cluster has objects of a namespace."""

    PLACED = "Placed"
    """The namespace has slices: its objects are synchronized."""
    DRAINING = "Draining"
    """The namespace has lost its slices or is being deleted: its objects are removed, and none is created."""
    NAME_SERVER = "NameServer"
    """The namespace has no slices, but other namespaces of the tenant do.

    Their Pods use the tenant's name server, so its Service and Endpoints are kept, and nothing else.
    """


class Entry(Struct, frozen=True):
    """The ledger's entry of one tenant namespace on this super cluster."""

    tenant: str
    """Cluster key."""
    namespace: str
    namespace_uid: str
    holding: Holding
    slices: int
    """Number of slices on this super cluster; 0 while draining."""
    placement: Placement
    """The namespace's placement, as the kinds use it."""
    uid: str
    """UID of the NamespacePlacement."""
    byte_limit: int | None = None
    """Bytes that its objects may take on this super cluster; None for no limit."""
    clearing: bool = False
    """Whether the namespace must free some of its slices here. The scheduler waits until it uses no more than the rest."""
    allocated: Resources = {}
    """Amounts distributed to it here, including slices that are not cleared yet, in thousandths."""


_NO_OBJECTS = (
    "count/resourceclaims.resource.k8s.io",
    "count/volumesnapshots.snapshot.storage.k8s.io",
    "persistentvolumeclaims",
    "pods",
    "requests.cpu",
    "requests.memory",
    "services.loadbalancers",
    "services.nodeports",
)
_NAME_SERVER_KINDS = (SERVICES, ENDPOINTS)


def name_server_entry(tenant: str) -> Entry:
    """Return the entry of a tenant's name server namespace on a super cluster where it has no slices."""
    return Entry(
        tenant=tenant,
        namespace=names.TENANT_DNS_NAMESPACE,
        namespace_uid="",
        holding=Holding.NAME_SERVER,
        slices=0,
        placement=Placement({}, {}, dict.fromkeys(_NO_OBJECTS, "0"), name_server_only=True),
        uid="",
        byte_limit=LEAST_BYTES,
    )


def holds(entry: Entry | None, resource: Resource, name: str) -> bool:
    """Return whether an object of an entry's namespace, or the namespace itself, is synced to the super cluster.

    Args:
        entry: the ledger's entry of the namespace; None if it has none.
        resource: the object's resource.
        name: the object's name in the tenant.
    """
    if entry is None or entry.holding is Holding.DRAINING:
        return False
    if entry.holding is Holding.PLACED or resource == NAMESPACES:
        return True
    return resource in _NAME_SERVER_KINDS and name == names.TENANT_DNS_SERVICE


def hard_of(allowed: Mapping[str, str]) -> dict[str, str]:
    """Return `hard` of the super namespace's ResourceQuota: its requests, Pods and other objects.

    Args:
        allowed: resource name -> what the namespace may have on this super cluster, as a quantity.
    """
    return {
        f"requests.{name}" if name in DIMENSIONS else name: amount
        for name, amount in sorted(allowed.items())
        if name not in (OBJECT_BYTES, DEVICES)
    }


def allowed_on(
    super_id: str, placements: Mapping[str, int], waiting: int, slice_size: Mapping[str, str]
) -> dict[str, str]:
    """Return what a namespace may have on a super cluster, as quantities by resource name.

    CPU, memory and Pods are those of the slices there. Other objects are distributed over the super clusters.

    Args:
        super_id: the super cluster.
        placements: super cluster -> number of slices, of all super clusters of the namespace.
        waiting: number of slices that are not placed.
        slice_size: resource name -> quantity of one slice.
    """
    slices = sum(placements.values()) + waiting
    return {
        name: canonical(
            dealt(whole_of(milli(size), slices), placements, waiting).get(super_id, 0) * 1000
            if name in OBJECTS
            else milli(size) * placements.get(super_id, 0),
            size,
        )
        for name, size in slice_size.items()
    }


def byte_limit_of(allowed: Mapping[str, str]) -> int | None:
    """Return the bytes that a namespace's objects may take; None for no limit.

    Args:
        allowed: resource name -> what the namespace may have on this super cluster, as a quantity.
    """
    amount = allowed.get(OBJECT_BYTES)
    return max(LEAST_BYTES, milli(amount) // 1000) if amount is not None else None


def entry_of(envelope: Envelope, super_id: str) -> Entry | None:
    """Return the entry of a NamespacePlacement for super cluster `super_id`.

    The placement's own namespace is the tenant's cluster key, and its name is the tenant's namespace (design section 5).

    Returns:
        None if the super cluster has no slices of the namespace and no objects to remove.
    """
    placement = NamespacePlacement.from_envelope(envelope)
    placements = {} if envelope.deleting else {k: n for k, n in placement.status.placements.items() if n > 0}
    slices = placements.get(super_id, 0)
    if slices:
        holding = Holding.PLACED
    elif names.drain_finalizer(super_id) in envelope.finalizers and (envelope.status or envelope.deleting):
        # An entry without a status was only just created, so the namespace has not lost its slices.
        holding = Holding.DRAINING
    else:
        return None
    slice_size = placement.placed_slice_size
    allowed = allowed_on(super_id, placements, placement.status.waiting, slice_size) if slices else {}
    return Entry(
        tenant=envelope.namespace,
        namespace=envelope.name,
        namespace_uid=placement.spec.namespace_uid,
        holding=holding,
        slices=slices,
        placement=Placement(
            placements=placements,
            slice_size=slice_size,
            hard=hard_of(allowed),
            devices=allowed.get(DEVICES, ""),
        ),
        uid=envelope.uid,
        byte_limit=byte_limit_of(allowed),
        clearing=super_id in placement.status.clearing
        and names.clear_finalizer(super_id) in envelope.finalizers
        and holding is Holding.PLACED,
        allocated=distribution.entry_of(placement).holds(super_id),
    )


_NONE: dict[str, Entry] = {}


def _byte_limit(entry: Entry | None) -> int:
    """Return the bytes that an entry adds to the tenant's limit. An entry for the name server alone adds none."""
    return entry.byte_limit or 0 if entry is not None and entry.holding is not Holding.NAME_SERVER else 0


class Ledger:
    """The entries of one super cluster, kept current by a watch of NamespacePlacements in the meta cluster.

    Args:
        meta: client of the meta cluster.
        super_id: id of the super cluster.
        on_change: called with (cluster key, tenant's namespace) after an entry was added, changed or removed.
    """

    def __init__(self, meta: Client, super_id: str, on_change: Callable[[str, str], None]) -> None:
        self._super_id = super_id
        self._on_change = on_change
        self._entries: dict[str, dict[str, Entry]] = {}
        self._byte_limits: Counter[str] = Counter()
        self._released: FairMemory[str, str] = FairMemory(RELEASED_REMEMBERED)
        self.reflector = Reflector(
            meta,
            NAMESPACE_PLACEMENTS,
            sink=self._changed,
        )

    def entry(self, tenant: str, namespace: str) -> Entry | None:
        """Return the entry of a tenant's namespace; None if it has none on this super cluster."""
        return self._entries.get(tenant, _NONE).get(namespace)

    def released(self, tenant: str, namespace: str, uid: str) -> bool:
        """Return whether the end of a namespace's last entry was seen, so that what is left of it may go.

        Either the entry was to be removed already, or the watch reported that it was deleted or lost its slices here. A list
        that lacks it is not enough: the meta cluster may have been emptied.

        Args:
            tenant: cluster key.
            namespace: the tenant's namespace.
            uid: UID of the tenant's namespace; a namesake may have had the entry.
        """
        known = self._released.get(tenant, namespace)
        # The name server's namespace may have had no placement of its own, and then no UID.
        return known is not None and known in ("", uid)

    def open(self, tenant: str, namespace: str, resource: Resource, name: str) -> bool:
        """Return whether the caches of this super cluster take an object of the namespace."""
        entry = self.entry(tenant, namespace)
        if entry is not None and entry.holding is Holding.DRAINING:
            return True
        return holds(entry, resource, name)

    def needs_name_server(self, tenant: str) -> bool:
        """Return whether namespaces of the tenant other than the name server's have slices here."""
        return any(
            entry.slices and entry.namespace != names.TENANT_DNS_NAMESPACE for entry in self.entries(tenant)
        )

    def byte_limit(self, tenant: str) -> int:
        """Return the bytes that the objects of all of a tenant's namespaces may take, over namespaces with a limit."""
        return self._byte_limits[tenant]

    def entries(self, tenant: str | None = None) -> Iterator[Entry]:
        """Iterate over all entries, or over those of one tenant."""
        selected = [self._entries.get(tenant, _NONE)] if tenant is not None else list(self._entries.values())
        for entries in selected:
            yield from list(entries.values())

    def _changed(self, change: Change) -> None:
        envelope = change.new if change.new is not None else change.old
        if envelope is None:
            return
        tenant, namespace = envelope.namespace, envelope.name
        before = self.entry(tenant, namespace)
        after = self._read(change.new) if change.new is not None else None
        if namespace == names.TENANT_DNS_NAMESPACE and after is None and self.needs_name_server(tenant):
            after = name_server_entry(tenant)
        if after == before:
            return
        seen = change.new is not None or change.reported
        self._put(tenant, namespace, before, after, seen=seen)
        if namespace != names.TENANT_DNS_NAMESPACE:
            self._follow_with_name_server(tenant, seen=seen)

    def _follow_with_name_server(self, tenant: str, *, seen: bool) -> None:
        """Keep the name server here as long as any other namespace of the tenant has slices here."""
        namespace = names.TENANT_DNS_NAMESPACE
        before = self.entry(tenant, namespace)
        if before is not None and before.holding is not Holding.NAME_SERVER:
            return
        after = name_server_entry(tenant) if self.needs_name_server(tenant) else None
        if after != before:
            self._put(tenant, namespace, before, after, seen=seen)

    def _put(
        self, tenant: str, namespace: str, before: Entry | None, after: Entry | None, *, seen: bool
    ) -> None:
        entries = self._entries.setdefault(tenant, {})
        if after is not None:
            entries[namespace] = after
            self._released.forget(tenant, namespace)
        else:
            entries.pop(namespace, None)
            if before is not None and (seen or before.holding is Holding.DRAINING):
                self._released.put(tenant, namespace, before.namespace_uid)
        self._byte_limits[tenant] += _byte_limit(after) - _byte_limit(before)
        if not entries:
            del self._entries[tenant]
            del self._byte_limits[tenant]
        self._on_change(tenant, namespace)

    def _read(self, envelope: Envelope) -> Entry | None:
        """Return the entry of a placement. An invalid placement keeps its present entry, so that nothing is removed."""
        try:
            return entry_of(envelope, self._super_id)
        except ValueError as error:
            log.warning("placement cannot be read", placement="/".join(envelope.key), error=str(error))
            return self.entry(envelope.namespace, envelope.name)
