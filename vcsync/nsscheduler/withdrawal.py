"""Lets a tenant's placements go when its namespaces or quotas are gone, unless that is not to be believed."""

from collections import OrderedDict

from vcsync.kube.cache import Change
from vcsync.nsscheduler.reconcile import Facts
from vcsync.tenancy.brake import Count, Gate
from vcsync.tenancy.registry import TenantHandle

SMALL = 3
"""So many placements at once may go without a word of the tenant: each takes all Pods of a namespace along."""
REMEMBERED = 10_000
PLACEMENTS = "placements of namespaces"
"""What the gate is asked about."""


class Withdrawal:
    """Remembers what a tenant was seen to delete, and asks the gate about everything else.

    Args:
        handle: the tenant.
        gate: of all tenants.
        count: how many of the tenant's placements have lost their reason, and how many there are.
    """

    def __init__(self, handle: TenantHandle, gate: Gate, count: Count) -> None:
        self._handle = handle
        self._gate = gate
        self._count = count
        # (`namespace`, UID) or (`quota`, namespace) of what a watch has told the end of.
        self._ended: OrderedDict[tuple[str, str], None] = OrderedDict()

    def namespace_changed(self, change: Change) -> None:
        """Take note of a Namespace that ended."""
        if change.new is None and change.old is not None and change.reported:
            self._remember(("namespace", change.old.uid))

    def quota_changed(self, change: Change) -> None:
        """Take note of a ResourceQuota that ended, or now bounds something else.

        One that a list lacks takes back what was noted of its namespace: the tenant's word was about other quotas.
        """
        if change.old is None:
            return
        if change.new is None and not change.reported:
            self._ended.pop(("quota", change.old.namespace), None)
        elif change.new is None or change.new.spec != change.old.spec:
            self._remember(("quota", change.old.namespace))

    async def require(self, facts: Facts, what: str) -> None:
        """Let a placement go.

        Args:
            facts: of its namespace.
            what: is gone: `namespace` or `quota`.

        Raises:
            WrongControlPlane: the control plane is not the tenant's.
            Braked: too many are to go that the tenant was not seen to give up.
            KubeError: the control plane cannot be asked.
        """
        await self._handle.prove()
        if self._seen(facts, what):
            return
        await self._gate.require(self._handle.key, PLACEMENTS, facts.key[1], self._count)

    def settled(self, namespace: str) -> None:
        """Note that a namespace keeps its placement."""
        if self._gate.braked:
            self._gate.unwanted(self._handle.key, PLACEMENTS, namespace)

    def _seen(self, facts: Facts, what: str) -> bool:
        if what == "namespace":
            placement = facts.placement
            return placement is not None and ("namespace", placement.spec.namespace_uid) in self._ended
        # A quota that stands and bounds everything to nothing is a word of the tenant's, too.
        return bool(facts.hards) or ("quota", facts.key[1]) in self._ended

    def _remember(self, ended: tuple[str, str]) -> None:
        self._ended[ended] = None
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
