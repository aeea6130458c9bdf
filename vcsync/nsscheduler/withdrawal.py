"""Permits the removal of a tenant's placements when its namespaces or quotas are gone, unless there are too many."""

from collections import OrderedDict
from collections.abc import Callable

from vcsync.kube.cache import Change
from vcsync.nsscheduler.reconcile import Inputs, opts_out
from vcsync.tenancy.brake import Count, DeletionLimiter
from vcsync.tenancy.registry import TenantHandle

SMALL = 3
"""Number of placements that are removed without an observed request. Each removal deletes all Pods of a namespace."""
REMEMBERED = 10_000
"""Deletions that are remembered. The oldest is forgotten first."""
PLACEMENTS = "placements of namespaces"
"""The objects in the limiter's messages."""


class Withdrawal:
    """Remembers the namespaces and quotas whose end was observed. The limiter decides on all others.

    A namespace's default quota ends when the namespace opts out of it.

    Args:
        handle: the tenant.
        limiter: the limiter of all tenants.
        count: counts the tenant's placements without namespace or quota, and all.
        lists: returns the number of lists taken from the tenant; see `TenantHandle.prove`.
    """

    def __init__(
        self, handle: TenantHandle, limiter: DeletionLimiter, count: Count, lists: Callable[[], int]
    ) -> None:
        self._lists = lists
        self._handle = handle
        self._limiter = limiter
        self._count = count
        # (`namespace`, UID) or (`quota`, namespace) of changes that a watch reported.
        self._ended: OrderedDict[tuple[str, str], None] = OrderedDict()

    def namespace_changed(self, change: Change) -> None:
        """Remember a Namespace that was deleted, or that opted out of the default quota."""
        if change.old is None:
            return
        if change.new is None:
            if change.reported:
                self._remember(("namespace", change.old.uid))
        elif opts_out(change.new) and not opts_out(change.old):
            self._remember(("quota", change.new.name))

    def quota_changed(self, change: Change) -> None:
        """Remember a ResourceQuota that was deleted or changed.

        A quota that is missing from a list cancels that: the deletion that was observed concerned another quota.
        """
        if change.old is None:
            return
        if change.new is None and not change.reported:
            self._ended.pop(("quota", change.old.namespace), None)
        elif change.new is None or change.new.spec != change.old.spec:
            self._remember(("quota", change.old.namespace))

    async def require(self, inputs: Inputs, what: str) -> None:
        """Permit the removal of a placement.

        Args:
            inputs: the inputs of its namespace.
            what: the object that is gone: `namespace` or `quota`.

        Raises:
            WrongControlPlane: the control plane is not the tenant's.
            Braked: too many placements would be removed without an observed request.
            KubeError: the control plane cannot be asked.
        """
        await self._handle.prove(self._lists())
        if self._seen(inputs, what):
            return
        await self._limiter.require(self._handle.key, PLACEMENTS, inputs.key[1], self._count)

    def settled(self, namespace: str) -> None:
        """Record that a namespace keeps its placement."""
        if self._limiter.braked:
            self._limiter.unwanted(self._handle.key, PLACEMENTS, namespace)

    def _seen(self, inputs: Inputs, what: str) -> bool:
        if what == "namespace":
            placement = inputs.placement
            return placement is not None and ("namespace", placement.spec.namespace_uid) in self._ended
        # An existing quota that allows nothing is a decision of the tenant, too.
        return bool(inputs.hards) or ("quota", inputs.key[1]) in self._ended

    def _remember(self, ended: tuple[str, str]) -> None:
        self._ended[ended] = None
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
