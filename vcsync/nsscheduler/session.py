"""The caches of one tenant that the namespace scheduler follows, and what it does there."""

import time
from collections.abc import Callable

from msgspec.structs import replace

from vcsync.kube.cache import Change
from vcsync.kube.envelope import Envelope, untyped
from vcsync.kube.events import EventRecorder, EventType, ObjectRef
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import NAMESPACES, RESOURCE_QUOTAS
from vcsync.nsscheduler.commit import TenantDoor, tenant_door
from vcsync.nsscheduler.mirror import slim
from vcsync.nsscheduler.reconcile import counted_hard
from vcsync.nsscheduler.withdrawal import Withdrawal
from vcsync.tenancy import TenantHandle
from vcsync.tenancy.brake import Gate

_COMPONENT = "vcsync-nsscheduler"


class TenantSession:
    """The caches of one connected tenant."""

    def __init__(
        self,
        handle: TenantHandle,
        changed: Callable[[str, str], None],
        *,
        gate: Gate,
        placed: Callable[[str], list[str]],
    ) -> None:
        self._placed = placed
        self.withdrawal = Withdrawal(handle, gate, self._count)
        self.handle = handle
        self._changed = changed
        self.namespaces = Reflector(
            handle.client,
            NAMESPACES,
            project=slim,
            on_change=self._namespace_changed,
        )
        self.quotas = Reflector(
            handle.client,
            RESOURCE_QUOTAS,
            project=lambda quota: replace(quota, labels={}, annotations={}, status=b"", rest=b""),
            on_change=self._quota_changed,
        )
        self.events = EventRecorder(handle.client, _COMPONENT)
        self.door: TenantDoor = tenant_door(
            handle.client, self.namespaces.observe, self._emit, self.withdrawal.require
        )

    async def _count(self) -> tuple[int, int]:
        """How many of the tenant's placements have lost their namespace or its quotas, and how many there are."""
        placed = self._placed(self.handle.key)
        bounded = bool(self.handle.virtual_cluster.spec.default_quota)
        lost = 0
        for name in placed:
            namespace = self.namespaces.cache.get("", name)
            lost += namespace is None or not (namespace.deleting or bounded or self.hards(name))
        return lost, len(placed)

    def _namespace_changed(self, change: Change) -> None:
        self.withdrawal.namespace_changed(change)
        self._changed(self.handle.key, subject_of(change).name)

    def hards(self, namespace: str) -> tuple[dict[str, str], ...]:
        """`spec.hard` of the namespace's ResourceQuotas that count."""
        found = (counted_hard(untyped(quota.spec)) for quota in self.quotas.cache.items(namespace))
        return tuple(hard for hard in found if hard is not None)

    def _quota_changed(self, change: Change) -> None:
        """Have a namespace looked at when what is limited changes; what is used of it changes with every Pod."""
        self.withdrawal.quota_changed(change)
        if change.old is None or change.new is None or change.old.spec != change.new.spec:
            self._changed(self.handle.key, subject_of(change).namespace)

    def _emit(self, namespace: Envelope, kind: EventType, reason: str, message: str) -> None:
        # Inside the namespace: whoever may see nothing else of the tenant reads it there.
        subject = ObjectRef("v1", "Namespace", namespace.name, namespace.name, namespace.uid)
        self.events.emit(subject, kind, reason, message, now=time.time())


def subject_of(change: Change) -> Envelope:
    """Return the object of a change, as it is or last was."""
    subject = change.new or change.old
    assert subject is not None  # noqa: S101 - a change has at least one side
    return subject
