"""The namespace scheduler's session with one tenant: its caches, Events and permissions."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from vcsync.kube.cache import Change
from vcsync.kube.events import EventRecorder, EventType, ObjectRef
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, RESOURCE_QUOTAS
from vcsync.nsscheduler.class_publisher import ClassPublisher
from vcsync.nsscheduler.clients import TenantClient
from vcsync.nsscheduler.definition_publisher import DefinitionPublisher
from vcsync.nsscheduler.definition_texts import DefinitionTexts
from vcsync.nsscheduler.mirror import slim
from vcsync.nsscheduler.reconcile import counted_hard, default_quota
from vcsync.nsscheduler.withdrawal import Withdrawal
from vcsync.nsscheduler.without_effect import WithoutEffect
from vcsync.objects.envelope import Envelope, untyped
from vcsync.published.kind import PublishedKind
from vcsync.published.kinds import KINDS
from vcsync.tenancy import TenantHandle
from vcsync.tenancy.brake import DeletionLimiter
from vcsync.tenancy.memory import TenantMemory

_COMPONENT = "vcsync-nsscheduler"
CLASSES: Final[dict[str, PublishedKind]] = {f".{kind.resource.plural}": kind for kind in KINDS}
"""The work item for a tenant's published classes of each kind."""
DEFINITIONS: Final = f".{CUSTOM_RESOURCE_DEFINITIONS.plural}"
"""The work item for a tenant's published CustomResourceDefinitions."""
PUBLISHED: Final[dict[str, str]] = {
    **{item: kind.field for item, kind in CLASSES.items()},
    DEFINITIONS: "custom_resource_definitions",
}
"""Work item -> the field of `SuperView` with what is published."""


class TenantSession:
    """The caches of one connected tenant.

    Args:
        handle: the tenant.
        changed: called with (cluster key, namespace) when a Namespace or its quotas have changed.
        limiter: the limiter of all tenants.
        definitions: the definitions that operators publish.
        placed: returns the namespaces of a tenant that have entries in the ledger, with the number of their slices.
        memory: bytes that the tenant's objects may take in the caches.
    """

    def __init__(
        self,
        handle: TenantHandle,
        changed: Callable[[str, str], None],
        *,
        limiter: DeletionLimiter,
        definitions: DefinitionTexts,
        placed: Callable[[str], Mapping[str, int]],
        memory: int,
    ) -> None:
        self._placed = placed
        self.memory = limit = TenantMemory(
            memory, "namespace scheduler", "its namespaces get no slices, placed ones keep theirs"
        )
        self.withdrawal = Withdrawal(handle, limiter, self._count, self._lists)
        self.handle = handle
        self._changed = changed
        self.namespaces = Reflector(
            handle.client,
            NAMESPACES,
            project=limit.projection(NAMESPACES, slim),
            sink=limit.counted(NAMESPACES, self._namespace_changed),
        )
        self.quotas = Reflector(
            handle.client,
            RESOURCE_QUOTAS,
            project=limit.projection(
                RESOURCE_QUOTAS, lambda quota: replace(quota, labels={}, annotations={}, status=b"", rest=b"")
            ),
            sink=limit.counted(RESOURCE_QUOTAS, self._quota_changed),
        )
        self.events = EventRecorder(handle.client, _COMPONENT)
        self.definitions = DefinitionPublisher(
            handle.key,
            handle.client,
            definitions,
            events=self.events,
            changed=partial(changed, handle.key, DEFINITIONS),
            memory=limit,
        )
        self.publishers: dict[str, ClassPublisher | DefinitionPublisher] = {
            item: ClassPublisher(
                handle.key,
                handle.client,
                kind,
                events=self.events,
                changed=partial(changed, handle.key, item),
                memory=limit,
            )
            for item, kind in CLASSES.items()
        }
        """Publishers of classes and definitions to the tenant, by work item."""
        self.publishers[DEFINITIONS] = self.definitions
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

    def _emit(self, namespace: Envelope, kind: EventType, reason: str, message: str) -> None:
        # In the namespace itself, where users without permissions in other namespaces can read the Event.
        subject = ObjectRef("v1", "Namespace", namespace.name, namespace.name, namespace.uid)
        self.events.emit(subject, kind, reason, message, now=time.time())


def subject_of(change: Change) -> Envelope:
    """Return the object of a change, in its last known state."""
    subject = change.new or change.old
    assert subject is not None  # noqa: S101 - a change has at least one side
    return subject
