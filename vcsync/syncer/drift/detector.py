"""The detector: decides which writes in the super cluster are repairs of drift, and reads who changed the objects."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError
from vcsync.kube.resources import RESOURCE_QUOTAS, ROLE_BINDINGS, SECRETS, Resource
from vcsync.syncer.drift.ledger import DriftLedger
from vcsync.syncer.drift.repairs import CHANGED, REMOVED, REPLACED, Repair, Shown, field_changes
from vcsync.syncer.kinds.plan import Action, Create, Delete, Kind, Patch

READS_PER_SECOND: Final = 10
"""Objects that are read per second in order to learn who changed them. Further repairs are recorded without that."""
SYNCER: Final = f"vcsync/{names.ROLE_SYNCER}"
"""Field manager of syncers."""

Place = tuple[str, str, str]
"""Plural name of the kind, namespace and name of a tenant's object."""
Read = Callable[[Resource, str, str], Awaitable[Mapping[str, Any] | None]]
"""Reads an object of the super cluster by namespace and name, with its managedFields; None if that fails."""


def reader(client: Client) -> Read:
    """Return the function that reads objects of an API server."""

    async def read(resource: Resource, namespace: str, name: str) -> Mapping[str, Any] | None:
        try:
            answer = await client.get_raw(resource, name, namespace)
            return msgspec.json.decode(answer, type=dict[str, Any])
        except (KubeError, msgspec.MsgspecError):
            # The repair is recorded without it.
            return None

    return read


class DriftDetector:
    """Finds the repairs among the actions of one syncer's plans.

    Attributes:
        record: Adds a repair to the ledger.

    Args:
        ledger: The ledger.
        read: Reads objects of the super cluster.
        clock: Monotonic seconds.
    """

    def __init__(self, ledger: DriftLedger, read: Read, clock: Callable[[], float]) -> None:
        self.record = ledger.record
        self._read = read
        self._clock = clock
        self._shown = Shown(os.urandom(16))
        self._second, self._reads = 0.0, 0

    async def repair(
        self, action: Action, kind: Kind, tenant: str, item: Place, *, agreed: bool | None
    ) -> Repair | None:
        """Return the repair that an action is, before it is executed; None if it is none.

        A write because of other slices or another policy is no repair. Neither is the removal of a deleted Pod's tokens.

        Args:
            action: The action.
            kind: Kind of the item.
            tenant: Cluster key.
            item: The tenant's object.
            agreed: Whether both objects agreed before and only the super cluster's has changed since. None: this process
                has not seen them agree. Then a change is a repair if somebody else has written the field.
        """
        if not isinstance(action, Create | Patch | Delete) or action.side != "super" or agreed is False:
            return None
        if isinstance(action, Delete) and action.resource_version:
            return None  # the state of exactly this version is the reason, not a difference
        if action.resource not in (kind.resource, RESOURCE_QUOTAS, ROLE_BINDINGS):
            return None
        if not isinstance(action, Patch):
            cause = REMOVED if isinstance(action, Create) else REPLACED
            return self._made(tenant, item, cause) if agreed else None
        live = await self._read(action.resource, action.namespace, action.name) if self._may_read() else None
        changes, more = field_changes(action.patch, live, self._shown, secret=action.resource == SECRETS)
        if agreed is None:
            changes = tuple(each for each in changes if each.manager and each.manager != SYNCER)
            if not changes:
                return None
        return self._made(tenant, item, CHANGED, changes=changes, more=more)

    def _made(self, tenant: str, item: Place, cause: str, **more: Any) -> Repair:
        return Repair(datetime.now(UTC), tenant, *item, cause, **more)

    def _may_read(self) -> bool:
        now = self._clock()
        if now - self._second >= 1:
            self._second, self._reads = now, 0
        self._reads += 1
        return self._reads <= READS_PER_SECOND
