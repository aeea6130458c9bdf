"""Emits an Event about each object of a tenant that has no effect in the clusters where the tenant's Pods run.

Embedded control planes return a warning when such an object is created. An external kube-apiserver cannot do that.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from functools import partial

from vcsync.api.without_effect import BUILT_IN, REASON, WITHOUT_EFFECT
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.events import EventRecorder, ObjectRef
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import PRIORITY_CLASSES, Resource
from vcsync.objects.envelope import Envelope
from vcsync.published import priority_class
from vcsync.published.kind import is_ours
from vcsync.tenancy import TenantHandle

RESOURCES = (PRIORITY_CLASSES,)
NEW_SECONDS = 3600.0
"""Age of an object in seconds up to which an Event is emitted.

API servers keep Events for the same time, so a restart of the scheduler does not repeat any.
"""
MAX_EVENTS = 100
"""Largest number of objects of one resource for which Events are emitted within `NEW_SECONDS`."""
BACKOFF = (1.0, 600.0)
"""First and longest pause after failures, in seconds.

The tenant's roles may be of an earlier version and forbid the requests permanently.
"""


class WithoutEffect:
    """Follows the objects of one tenant that have no effect. It keeps only the UIDs of the last objects it reported.

    Args:
        handle: the tenant.
        events: records the Events.
        clock: seconds since 1970.
    """

    def __init__(
        self, handle: TenantHandle, events: EventRecorder, clock: Callable[[], float] = time.time
    ) -> None:
        self._handle = handle
        self._events = events
        self._clock = clock
        self._reported: dict[Resource, OrderedDict[str, float]] = {each: OrderedDict() for each in RESOURCES}

    async def run(self) -> None:
        """Emit Events until cancelled."""
        client: Client = self._handle.client.metadata_only()
        async with asyncio.TaskGroup() as tasks:
            for resource in RESOURCES:
                sink = partial(self.take, resource)
                tasks.create_task(Reflector(client, resource, sink=sink, keep=False, backoff=BACKOFF).run())

    def take(self, resource: Resource, change: Change) -> None:
        """Emit an Event about an object that is new, unless one has been emitted already."""
        found = change.new
        if found is None:
            return
        now = self._clock()
        reported = self._reported[resource]
        if (
            found.deleting
            or found.uid in reported
            or not self._is_new(found, now)
            or self._has_effect(resource, found)
        ):
            return
        while reported and now - next(iter(reported.values())) > NEW_SECONDS:
            reported.popitem(last=False)
        if len(reported) < MAX_EVENTS:
            reported[found.uid] = now
            about = ObjectRef(resource.api_version, resource.kind, found.name, found.namespace, found.uid)
            message = WITHOUT_EFFECT[resource.group, resource.plural]
            self._events.emit(about, "Warning", REASON, message, now=now, once=True)

    def _has_effect(self, resource: Resource, found: Envelope) -> bool:
        """Return whether an object is one that every cluster has, or a PriorityClass that the operator maps or publishes."""
        built_in = BUILT_IN.get((resource.group, resource.plural))
        if built_in is not None and found.name.startswith(built_in):
            return True
        if resource != PRIORITY_CLASSES:
            return False
        mapped = found.name in self._handle.virtual_cluster.spec.priority_classes
        return mapped or is_ours(priority_class.KIND, found)

    def _is_new(self, found: Envelope, now: float) -> bool:
        """Return whether an object or its tenant is new."""
        made = (found.creation_timestamp, self._handle.virtual_cluster.creation_timestamp)
        return any(now - _seconds(each) < NEW_SECONDS for each in made)


def _seconds(timestamp: str) -> float:
    """Return a time of the API as unix seconds; 0 if it is none."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0
