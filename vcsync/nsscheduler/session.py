"""The namespace scheduler's session with one tenant: its caches, Events and permissions."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from vcsync.api import names
from vcsync.kube.cache import Change
from vcsync.kube.events import EventRecorder, EventType, ObjectRef
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import NAMESPACES, RESOURCE_QUOTAS, STORAGE_CLASSES
from vcsync.nsscheduler.clients import TenantClient
from vcsync.nsscheduler.mirror import slim
from vcsync.nsscheduler.reconcile import counted_hard, default_quota
from vcsync.nsscheduler.storage_classes import HIDDEN, publish
from vcsync.nsscheduler.withdrawal import Withdrawal
from vcsync.nsscheduler.without_effect import WithoutEffect
from vcsync.objects.envelope import Envelope, untyped
from vcsync.scheduling.snapshot import SuperView
from vcsync.tenancy import TenantHandle
from vcsync.tenancy.brake import DeletionLimiter

_COMPONENT = "vcsync-nsscheduler"
_OPTIONAL_BACKOFF = (1.0, 60.0)
"""First and longest pause, in seconds, after reads that roles of an earlier version forbid."""
CLASSES = ".storageclasses"
"""The work item for a tenant's published StorageClasses."""


class TenantSession:
    """The caches of one connected tenant.

    Args:
        handle: the tenant.
        changed: called with (cluster key, namespace) when a Namespace or its quotas have changed.
        limiter: the limiter of all tenants.
        placed: returns the namespaces of a tenant that have entries in the ledger, with the number of their slices.
    """

    def __init__(
        self,
        handle: TenantHandle,
        changed: Callable[[str, str], None],
        *,
        limiter: DeletionLimiter,
        placed: Callable[[str], Mapping[str, int]],
    ) -> None:
        self._placed = placed
        self.withdrawal = Withdrawal(handle, limiter, self._count, self._lists)
        self.handle = handle
        self._changed = changed
        self.namespaces = Reflector(
            handle.client,
            NAMESPACES,
            project=slim,
            sink=self._namespace_changed,
        )
        self.quotas = Reflector(
            handle.client,
            RESOURCE_QUOTAS,
            project=lambda quota: replace(quota, labels={}, annotations={}, status=b"", rest=b""),
            sink=self._quota_changed,
        )
        self.storage_classes = Reflector(
            handle.client,
            STORAGE_CLASSES,
            label_selector=f"{names.SUPER_PUBLIC}={names.TRUE}",
            sink=lambda _: changed(handle.key, CLASSES),
            backoff=_OPTIONAL_BACKOFF,
        )
        self.events = EventRecorder(handle.client, _COMPONENT)
        self.without_effect = WithoutEffect(handle, self.events)
        self.control_plane = TenantClient(
            handle.client, self.namespaces.observe, self._emit, self.withdrawal.require
        )

    def _lists(self) -> int:
        return self.namespaces.lists_taken + self.quotas.lists_taken

    async def _count(self) -> tuple[int, int]:
        """Count the tenant's placements without namespace or quota, and all."""
        placed = self._placed(self.handle.key)
        owner = self.handle.virtual_cluster
        lost = 0
        for name, slices in placed.items():
            namespace = self.namespaces.cache.get("", name)
            lost += namespace is None or (
                slices > 0 and not (namespace.deleting or default_quota(owner, namespace) or self.hards(name))
            )
        return lost, len(placed)

    def _namespace_changed(self, change: Change) -> None:
        self.withdrawal.namespace_changed(change)
        self._changed(self.handle.key, subject_of(change).name)

    def hards(self, namespace: str) -> tuple[dict[str, str], ...]:
        """Return `spec.hard` of each of the namespace's ResourceQuotas that count."""
        hards = (counted_hard(untyped(quota.spec)) for quota in self.quotas.cache.items(namespace))
        return tuple(hard for hard in hards if hard is not None)

    def _quota_changed(self, change: Change) -> None:
        """Enqueue a namespace when the spec of a quota has changed. Its status changes with every Pod."""
        self.withdrawal.quota_changed(change)
        if change.old is None or change.new is None or change.old.spec != change.new.spec:
            self._changed(self.handle.key, subject_of(change).namespace)

    async def follow_storage_classes(self) -> None:
        """Keep the published StorageClasses current, and publish them once they have been read."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.storage_classes.run())
            await self.storage_classes.wait_synced()
            self._changed(self.handle.key, CLASSES)

    async def publish_storage_classes(self, views: Iterable[SuperView]) -> None:
        """Make the published StorageClasses those of the pool; see `storage_classes.publish`."""
        await publish(self.handle.client, self.storage_classes, views, self._report_hidden)

    def _report_hidden(self, own: Envelope) -> None:
        subject = ObjectRef(STORAGE_CLASSES.api_version, STORAGE_CLASSES.kind, own.name, uid=own.uid)
        message = (
            "this class of yours has the name of one that your operator publishes: claims that use it get volumes of the "
            "operator's class where your Pods run; delete yours to see the operator's, or give it another name"
        )
        self.events.emit(subject, "Warning", HIDDEN, message, now=time.time())

    def _emit(self, namespace: Envelope, kind: EventType, reason: str, message: str) -> None:
        # In the namespace itself, where users without permissions in other namespaces can read the Event.
        subject = ObjectRef("v1", "Namespace", namespace.name, namespace.name, namespace.uid)
        self.events.emit(subject, kind, reason, message, now=time.time())


def subject_of(change: Change) -> Envelope:
    """Return the object of a change, in its last known state."""
    subject = change.new or change.old
    assert subject is not None  # noqa: S101 - a change has at least one side
    return subject
