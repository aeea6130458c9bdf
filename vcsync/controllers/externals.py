"""Which tenants bring controllers of their own, as the control plane tells in the operator's space."""

from collections.abc import Callable

from vcsync.api.names import EXTERNAL_CONTROLLERS
from vcsync.controllers.waking import standing
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.reflector import Reflector
from vcsync.kube.resources import CONFIG_MAPS

NAMESPACE = "kube-system"


class Externals:
    """Follows which tenants are not ours to drive.

    Args:
        system: client of the operator's space.
        on_switch: told of a tenant whose controllers are external from now on, or are not any more.
    """

    def __init__(self, system: Client, on_switch: Callable[[str, bool], None]) -> None:
        self._on_switch = on_switch
        self._tenants: set[str] = set()
        self.reflector = Reflector(
            system,
            CONFIG_MAPS,
            namespace=NAMESPACE,
            label_selector=EXTERNAL_CONTROLLERS,
            on_change=self._changed,
        )

    def serves(self, tenant: str) -> bool:
        """Whether a tenant's controllers are ours to run."""
        return tenant not in self._tenants

    def names(self) -> list[str]:
        """Return the tenants that bring their own, in order."""
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
