"""The endpoints of aggregated API servers, remembered for some seconds.

Finding them reads the Service, all EndpointSlices of its namespace and Pods. Their changes end what is remembered, so that its
age matters only where this process learns of a change late.
"""

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vcsync.apiserver.discovery.remote_api_services import Destination
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.policy import Policy
from vcsync.apiserver.egress.reachable import service_endpoints
from vcsync.apiserver.egress.services import DISCOVERY, Endpoint, Services
from vcsync.apiserver.egress.target import Target
from vcsync.apiserver.storage.interface import Change, tenant_of

KEPT_SECONDS = 5.0
"""Time for which endpoints are remembered."""
MAX_SERVICES = 4096
"""Services whose endpoints are remembered."""
READ = (("core", "services"), ("core", "pods"), (DISCOVERY, "endpointslices"))
"""Groups, as in keys, and plurals of the objects that are read."""
_Key = tuple[str, str, str, int]
"""Tenant, namespace, name and port of a Service."""


@dataclass(frozen=True, slots=True)
class _Found:
    endpoints: list[Endpoint]
    refusal: str
    until: float


class Endpoints:
    """Finds the endpoints of Services that may be called.

    Args:
        policy: What the operator allows.
        services: Finds the endpoints of Services.
        monotonic: Returns seconds that only grow.
    """

    def __init__(self, policy: Policy, services: Services, monotonic: Callable[[], float]) -> None:
        self._policy = policy
        self._services = services
        self._monotonic = monotonic
        self._known: OrderedDict[_Key, _Found] = OrderedDict()
        self._namespaces: set[tuple[str, str]] = set()

    async def of(self, destination: Destination, target: Target) -> list[Endpoint]:
        """Return the endpoints of a Service that may be called, in random order.

        Args:
            destination: The destination with the Service.
            target: The target that it names.

        Raises:
            CallFailed: There is none. The message says why.
            StoreError: The store cannot be read.
        """
        reference = destination.service
        key = (target.tenant, reference.namespace, reference.name, reference.port)
        found = self._known.get(key)
        if found is None or found.until < self._monotonic():
            # From now on, a change ends what is read below.
            self._namespaces.add(key[:2])
            found = await self._read(target)
            if key[:2] in self._namespaces:
                self._keep(key, found)
        if found.refusal:
            raise CallFailed(found.refusal)
        return random.sample(found.endpoints, len(found.endpoints))

    async def _read(self, target: Target) -> _Found:
        until = self._monotonic() + KEPT_SECONDS
        try:
            return _Found(await service_endpoints(self._policy, self._services, target), "", until)
        except CallFailed as error:
            return _Found([], str(error), until)

    def _keep(self, key: _Key, found: _Found) -> None:
        self._known[key] = found
        self._known.move_to_end(key)
        if len(self._known) > MAX_SERVICES:
            self._known.clear()
            self._namespaces.clear()

    def changed(self, changes: Iterable[Change]) -> None:
        """Forget the endpoints that changes of the store concern. Other changes cost little."""
        for change in changes:
            tenant, (group, plural, namespace) = tenant_of(change.key), _parts(change.key)
            if (tenant, namespace) in self._namespaces and (group, plural) in READ:
                self._namespaces.discard((tenant, namespace))
                for key in [key for key in self._known if key[:2] == (tenant, namespace)]:
                    del self._known[key]

    def forget(self) -> None:
        """Forget all endpoints, because changes may have been missed."""
        self._known.clear()
        self._namespaces.clear()


def _parts(key: str) -> tuple[str, str, str]:
    """Return group, plural and namespace in the key of an object that is in a namespace."""
    match key.split("/"):
        case [_, group, plural, namespace, _]:
            return group, plural, namespace
    return "", "", ""
