"""Tracks the tenants that bring their own controllers, as the control plane records in the operator's space."""

from collections.abc import Callable

from vcsync.api.names import EXTERNAL_CONTROLLERS
from vcsync.controllers.framework.event_handlers import standing
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import CONFIG_MAPS

NAMESPACE = "kube-system"


class Externals:
    """Tracks the tenants whose controllers are external.

    Args:
        system: client of the operator's space.
        on_switch: called with a tenant whose controllers become external, or stop being external.
    """

    def __init__(self, system: Client, on_switch: Callable[[str, bool], None]) -> None:
        self._on_switch = on_switch
        self._tenants: set[str] = set()
        self.reflector = Reflector(
            system,
            CONFIG_MAPS,
            namespace=NAMESPACE,
            label_selector=EXTERNAL_CONTROLLERS,
            sink=self._changed,
        )

    def serves(self, tenant: str) -> bool:
        """Return whether vcsync runs a tenant's controllers."""
        return tenant not in self._tenants

    def names(self) -> list[str]:
        """Return the tenants that bring their own controllers, sorted."""
        return sorted(self._tenants)

    def _changed(self, change: Change) -> None:
        tenant = standing(change).labels.get(EXTERNAL_CONTROLLERS, "")
        if (change.new is not None) == (tenant in self._tenants):
            return
        if change.new is not None:
            self._tenants.add(tenant)
        else:
            self._tenants.discard(tenant)
        self._on_switch(tenant, change.new is not None)
