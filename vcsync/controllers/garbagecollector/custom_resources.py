"""The custom resources of each tenant that are followed: as many as a limit allows, and others once these have gone."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from vcsync.controllers.framework.definitions import resource_of
from vcsync.controllers.framework.event_handlers import standing
from vcsync.controllers.framework.mirror import Mirror
from vcsync.kube.cache import Change
from vcsync.kube.resources import Resource
from vcsync.objects.envelope import Envelope

MOST_CUSTOM = 1000
"""Maximum number of followed custom resources of one tenant; each is a separate stream. A control plane lets a tenant have as
many definitions."""


class Custom(NamedTuple):
    """A custom resource that is followed."""

    resource: Resource
    mirror: Mirror
    task: asyncio.Task[None]


class CustomResources:
    """Follows definitions, and begins and ends their resources.

    Args:
        begin: begins to follow a custom resource of a tenant.
        end: called after one has ended.
        leave_out: called once for each definition that is left out.
    """

    def __init__(
        self,
        begin: Callable[[str, Resource], Custom],
        end: Callable[[str, Custom], None],
        leave_out: Callable[[Envelope], None],
    ) -> None:
        self._begin = begin
        self._end = end
        self._leave_out = leave_out
        self._followed: dict[str, dict[str, Custom]] = {}  # tenant -> name of a definition
        self._kinds: dict[tuple[str, str, str], Custom] = {}  # tenant, group and kind
        self._left_out: dict[str, dict[str, Envelope]] = {}  # tenant -> name of a definition -> definition

    def __len__(self) -> int:
        """Return the number of followed custom resources of all tenants."""
        return sum(map(len, self._followed.values()))

    def left_out(self) -> dict[str, int]:
        """Return how many definitions are left out, by tenant."""
        return {tenant: len(each) for tenant, each in self._left_out.items()}

    def of_kind(self, tenant: str, group: str, kind: str) -> Custom | None:
        """Return the followed custom resource of a kind."""
        return self._kinds.get((tenant, group, kind))

    def changed(self, change: Change, *, serves: bool) -> None:
        """Start or stop following a custom resource, according to its current definition.

        Args:
            change: the change of the definition.
            serves: whether its tenant's custom resources are to be followed.
        """
        definition = standing(change)
        tenant, name = definition.tenant, definition.name
        wanted = None if change.new is None else resource_of(change.new)
        known = self._followed.get(tenant, {}).get(name)
        if wanted is None:
            self._forget_left_out(tenant, name)
        if known is not None and known.resource != wanted:
            self._close(tenant, name)
        if wanted is not None and serves:
            self._open(definition, wanted)
        elif wanted is None and known is not None:
            self._open_left_out(tenant)

    def end_tenant(self, tenant: str) -> None:
        """Stop following all custom resources of a tenant."""
        self._left_out.pop(tenant, None)
        for name in list(self._followed.get(tenant, ())):
            self._close(tenant, name)

    def _open(self, definition: Envelope, resource: Resource) -> None:
        tenant, name = definition.tenant, definition.name
        followed = self._followed.setdefault(tenant, {})
        if name in followed:
            return
        if len(followed) >= MOST_CUSTOM:
            left_out = self._left_out.setdefault(tenant, {})
            if name not in left_out:
                self._leave_out(definition)
            left_out[name] = definition
            return
        followed[name] = custom = self._begin(tenant, resource)
        self._kinds[tenant, resource.group, resource.kind] = custom

    def _close(self, tenant: str, name: str) -> None:
        followed = self._followed[tenant]
        custom = followed.pop(name)
        if not followed:
            del self._followed[tenant]
        kind = tenant, custom.resource.group, custom.resource.kind
        if self._kinds.get(kind) is custom:
            del self._kinds[kind]
        custom.task.cancel()
        self._end(tenant, custom)

    def _open_left_out(self, tenant: str) -> None:
        """Follow a definition that was left out, since another one has gone."""
        for name, definition in self._left_out.get(tenant, {}).items():
            wanted = resource_of(definition)
            self._forget_left_out(tenant, name)
            if wanted is not None:
                self._open(definition, wanted)
            return

    def _forget_left_out(self, tenant: str, name: str) -> None:
        if (left_out := self._left_out.get(tenant)) is not None:
            left_out.pop(name, None)
            if not left_out:
                del self._left_out[tenant]
