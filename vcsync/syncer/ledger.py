"""What the ledger says about one super cluster: the namespaces that hold slices there, and those it must let go."""

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
from vcsync.kube.envelope import Envelope
from vcsync.kube.quantity import canonical, milli
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import ENDPOINTS, NAMESPACES, SERVICES, Resource
from vcsync.scheduling.slices import DIMENSIONS, OBJECT_BYTES
from vcsync.syncer.kinds.plan import Placement
from vcsync.syncer.room import LEAST

log = structlog.get_logger(__name__)


class Holding(Enum):
    """What a super cluster does with a namespace."""

    PLACED = "Placed"
    """It holds slices: objects go down and up."""
    DRAINING = "Draining"
    """It lost its slices, or the namespace is going: what it holds is cleared, nothing is created."""
    NAME_SERVER = "NameServer"
    """It holds no slices, but others of the tenant's namespaces do, whose Pods use the tenant's name server: its Service and
    Endpoints are kept here, and nothing else."""


class Entry(Struct, frozen=True):
    """One namespace of one tenant, as the ledger deals with it on this super cluster."""

    tenant: str
    """Cluster key."""
    namespace: str
    namespace_uid: str
    holding: Holding
    slices: int
    """Slices here; 0 while draining."""
    placement: Placement
    """What the kinds are told of it."""
    uid: str
    """UID of the NamespacePlacement."""
    room: int | None = None
    """Bytes its objects may take here; None: any number."""
    clearing: bool = False
    """Whether it was to give slices up here and keeps others: the scheduler waits until no more is used than those."""


_NO_OBJECTS = ("pods", "requests.cpu", "requests.memory", "services.loadbalancers", "services.nodeports")
_NAME_SERVER_KINDS = (SERVICES, ENDPOINTS)


def name_server_entry(tenant: str) -> Entry:
    """The entry of the namespace of a tenant's name server where that namespace has no slices."""
    return Entry(
        tenant=tenant,
        namespace=names.TENANT_DNS_NAMESPACE,
        namespace_uid="",
        holding=Holding.NAME_SERVER,
        slices=0,
        placement=Placement({}, {}, dict.fromkeys(_NO_OBJECTS, "0"), name_server_only=True),
        uid="",
        room=LEAST,
    )


def holds(entry: Entry | None, resource: Resource, name: str) -> bool:
    """Whether an object of an entry's namespace (or the namespace itself) is to be in the super cluster.

    Args:
        entry: the ledger's entry of the namespace, if it has one.
        resource: of the object.
        name: the tenant's name of the object.
    """
    if entry is None or entry.holding is Holding.DRAINING:
        return False
    if entry.holding is Holding.PLACED or resource == NAMESPACES:
        return True
    return resource in _NAME_SERVER_KINDS and name == names.TENANT_DNS_SERVICE


def hard_of(slices: int, slice_size: Mapping[str, str]) -> dict[str, str]:
    """`hard` of the super namespace's ResourceQuota: exactly its slices: requests, and how many Pods and other objects.

    Args:
        slices: number of slices on this super cluster.
        slice_size: resource name -> quantity of one slice.
    """
    return {
        f"requests.{name}" if name in DIMENSIONS else name: canonical(milli(size) * slices, size)
        for name, size in sorted(slice_size.items())
        if name != OBJECT_BYTES
    }


def room_of(slices: int, slice_size: Mapping[str, str]) -> int | None:
    """Bytes that a namespace's objects may take with so many slices; None: any number.

    Args:
        slices: number of slices on this super cluster.
        slice_size: resource name -> quantity of one slice.
    """
    size = slice_size.get(OBJECT_BYTES)
    return max(LEAST, slices * milli(size) // 1000) if size is not None else None


def entry_of(envelope: Envelope, super_id: str) -> Entry | None:
    """Read a NamespacePlacement as super cluster `super_id` sees it.

    The object's place in the tenant's root namespace says whose it is (design section 5): the tenant's key is the
    placement's namespace and the tenant's namespace its name.

    Returns:
        None when the super cluster neither holds nor has to clear anything of it.
    """
    placement = NamespacePlacement.from_envelope(envelope)
    placements = {} if envelope.deleting else {k: n for k, n in placement.status.placements.items() if n > 0}
    slices = placements.get(super_id, 0)
    if slices:
        holding = Holding.PLACED
    elif names.drain_finalizer(super_id) in envelope.finalizers and (envelope.status or envelope.deleting):
        # Without a status the scheduler has only made the entry: that is no loss of slices yet.
        holding = Holding.DRAINING
    else:
        return None
    slice_size = placement.dealt_size
    return Entry(
        tenant=envelope.namespace,
        namespace=envelope.name,
        namespace_uid=placement.spec.namespace_uid,
        holding=holding,
        slices=slices,
        placement=Placement(
            placements=placements,
            slice_size=slice_size,
            hard=hard_of(slices, slice_size),
        ),
        uid=envelope.uid,
        room=room_of(slices, slice_size),
        clearing=super_id in placement.status.clearing
        and names.clear_finalizer(super_id) in envelope.finalizers
        and holding is Holding.PLACED,
    )


_NONE: dict[str, Entry] = {}


def _room(entry: Entry | None) -> int:
    """What an entry adds to the tenant's room; what is here for the name server alone is nobody's to use for more."""
    return entry.room or 0 if entry is not None and entry.holding is not Holding.NAME_SERVER else 0


class Ledger:
    """The NamespacePlacements that concern one super cluster, kept current by a watch on the meta cluster.

    Args:
        meta: client of the meta cluster.
        super_id: id of the super cluster.
        on_change: called with (tenant key, tenant namespace) after an entry came, changed or went.
    """

    def __init__(self, meta: Client, super_id: str, on_change: Callable[[str, str], None]) -> None:
        self._super_id = super_id
        self._on_change = on_change
        self._entries: dict[str, dict[str, Entry]] = {}
        self._rooms: Counter[str] = Counter()
        self.reflector = Reflector(
            meta,
            NAMESPACE_PLACEMENTS,
            on_change=self._changed,
        )

    def entry(self, tenant: str, namespace: str) -> Entry | None:
        """The entry of a tenant's namespace, or None when nothing of it belongs here."""
        return self._entries.get(tenant, _NONE).get(namespace)

    def open(self, tenant: str, namespace: str, resource: Resource, name: str) -> bool:
        """Whether an object of the namespace passes the door of this super cluster's caches."""
        entry = self.entry(tenant, namespace)
        if entry is not None and entry.holding is Holding.DRAINING:
            return True
        return holds(entry, resource, name)

    def needs_name_server(self, tenant: str) -> bool:
        """Whether namespaces other than the name server's own hold slices here."""
        return any(
            entry.slices and entry.namespace != names.TENANT_DNS_NAMESPACE for entry in self.entries(tenant)
        )

    def room(self, tenant: str) -> int:
        """Bytes that the objects of all a tenant's namespaces may take here, of those that are bounded."""
        return self._rooms[tenant]

    def entries(self, tenant: str | None = None) -> Iterator[Entry]:
        """All entries, or one tenant's."""
        held = [self._entries.get(tenant, _NONE)] if tenant is not None else list(self._entries.values())
        for entries in held:
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
        self._put(tenant, namespace, before, after)
        if namespace != names.TENANT_DNS_NAMESPACE:
            self._follow_with_name_server(tenant)

    def _follow_with_name_server(self, tenant: str) -> None:
        """Have the name server here as long as any namespace of the tenant has slices, whether its own has or not."""
        namespace = names.TENANT_DNS_NAMESPACE
        before = self.entry(tenant, namespace)
        if before is not None and before.holding is not Holding.NAME_SERVER:
            return
        after = name_server_entry(tenant) if self.needs_name_server(tenant) else None
        if after != before:
            self._put(tenant, namespace, before, after)

    def _put(self, tenant: str, namespace: str, before: Entry | None, after: Entry | None) -> None:
        entries = self._entries.setdefault(tenant, {})
        if after is not None:
            entries[namespace] = after
        else:
            entries.pop(namespace, None)
        self._rooms[tenant] += _room(after) - _room(before)
        if not entries:
            del self._entries[tenant]
            del self._rooms[tenant]
        self._on_change(tenant, namespace)

    def _read(self, envelope: Envelope) -> Entry | None:
        """The entry, or what was known before of a placement that cannot be read: nothing is cleared for that."""
        try:
            return entry_of(envelope, self._super_id)
        except ValueError as error:
            log.warning("placement cannot be read", placement="/".join(envelope.key), error=str(error))
            return self.entry(envelope.namespace, envelope.name)
