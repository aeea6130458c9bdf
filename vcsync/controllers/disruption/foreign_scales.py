"""Asks for the scales of owners of Pods that no mirror has: custom resources, and resources of aggregated API servers.

Behaviour: `getScaleController` of Kubernetes' `pkg/controller/disruption/disruption.go`. As upstream, a changed scale counts from
the next change of a Pod on.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from vcsync.controllers.disruption.disruption_plan import DISRUPTION, foreign_owners, plan
from vcsync.controllers.disruption.scales import Foreign
from vcsync.controllers.framework.mirror import Key
from vcsync.controllers.framework.plan import Controller, Plan, Preparation, View
from vcsync.kube.client import Client
from vcsync.kube.discovery import DiscoveredResource, discover
from vcsync.kube.errors import ApiError, KubeError, NotFound
from vcsync.objects.envelope import OwnerReference, decode
from vcsync.objects.recently_used import RecentlyUsed

MOST_OWNERS = 100
"""Most owners of one budget's Pods that are asked for, one request each. kube-controller-manager has no limit."""
MOST_BUDGETS = 4096
"""Budgets whose scales are remembered between their reading and the plan."""
DISCOVERY_SECONDS = 30.0
"""Seconds for which the resources of a tenant are remembered, as by kube-controller-manager."""
UNKNOWN_SECONDS = 2.0
"""Seconds after which they are read again because of a kind that is not among them."""
REMEMBERED = 8 * 1024 * 1024
"""Bytes of the remembered resources of all tenants."""
_KIND_BYTES = 500

_Kinds = Mapping[tuple[str, str], DiscoveredResource]


class _Metadata(Struct, frozen=True):
    uid: str = ""


class _Spec(Struct, frozen=True):
    replicas: int = 0


class _Scale(Struct):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()


class ForeignScales:
    """Reads the scales that the plan of a budget needs before it is made, and keeps them until the next one.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: RecentlyUsed[Key, Foreign] = RecentlyUsed(MOST_BUDGETS)
        self._kinds: RecentlyUsed[str, tuple[float, _Kinds]] = RecentlyUsed(REMEMBERED)

    async def read(self, client: Client, key: Key, owners: Sequence[OwnerReference]) -> None:
        """Ask a tenant for the scales of the owners of a budget's Pods."""
        if len(owners) > MOST_OWNERS:
            why = (
                f"the Pods have more than {MOST_OWNERS} controllers whose scale has to be asked for; "
                "set spec.minAvailable to an integer"
            )
            self._found.put(key, {each.uid: why for each in owners})
        elif owners:
            self._found.put(key, {each.uid: await self._replicas(client, key, each) for each in owners})

    def plan(self, view: View, key: Key) -> Plan:
        """Return the plan of a budget with the scales that were read for it."""
        return plan(view, key, self._found.get(key) or {})

    async def _replicas(self, client: Client, key: Key, owner: OwnerReference) -> int | str | None:
        """Return the replicas of an owner; None: it does not exist; a text: why they are unknown."""
        group, _, version = owner.apiVersion.rpartition("/")
        try:
            kind = group, owner.kind
            found = (await self._kinds_of(client, key.tenant, DISCOVERY_SECONDS)).get(kind)
            if found is None:
                found = (await self._kinds_of(client, key.tenant, UNKNOWN_SECONDS)).get(kind)
            if found is None:
                return f'no matches for kind "{owner.kind}" in version "{owner.apiVersion or version}"'
            if "scale" not in found.subresources:
                return (
                    f"{found.resource.plural}.{group}".rstrip(".")
                    + " does not implement the scale subresource"
                )
            place = key.namespace if found.resource.namespaced else ""
            path = found.resource.path(namespace=place, name=owner.name, subresource="scale")
            scale = decode(await client.request("GET", path), _Scale)
        except NotFound:
            return None
        except KubeError as error:
            return (
                error.status.message if isinstance(error, ApiError) and error.status.message else str(error)
            )
        return scale.spec.replicas if scale.metadata.uid == owner.uid else None

    async def _kinds_of(self, client: Client, tenant: str, seconds: float) -> _Kinds:
        """Return a tenant's resources by group and kind, as they were at most so many seconds ago."""
        known = self._kinds.get(tenant)
        if known is not None and self._clock() - known[0] < seconds:
            return known[1]
        found = (await discover(client)).resources
        kinds = {(each.resource.group, each.resource.kind): each for each in found}
        self._kinds.put(tenant, (self._clock(), kinds), _KIND_BYTES * len(kinds))
        return kinds


def disruption(scales: ForeignScales | None = None) -> Controller:
    """Return the controller of budgets, which also counts Pods of custom resources."""
    scales = scales or ForeignScales()
    return replace(DISRUPTION, plan=scales.plan, preparation=Preparation(foreign_owners, scales.read))
