"""Finds the endpoints of a tenant's Service in its EndpointSlices. Only addresses of the tenant's own Pods count.

Tenants write all of these objects. Whether an address may be called is decided by the operator's policy.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.apimachinery.resources import collection_key, object_key
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.networks import Address
from vcsync.apiserver.egress.target import Target
from vcsync.apiserver.storage.interface import Record, Store
from vcsync.objects.budget import Budget, BudgetExceeded
from vcsync.process.loop_turns import rest

Object = dict[str, Any]

DISCOVERY = "discovery.k8s.io"
SERVICE_LABEL = "kubernetes.io/service-name"
MAX_SLICES = 1000
"""EndpointSlices of one namespace that are read..."""
MAX_BYTES = 4 * 1024 * 1024
"""...and their bytes. A slice of 100 Pods, as controllers make them, has 40 kB. Those whose names begin with that of the Service,
as controllers name them, are read first."""
PAGE = 8
"""EndpointSlices that are in memory at the same time. Each has 1.5 MiB at most."""
MAX_ENDPOINTS = 8
"""Endpoints of one Service that are found. A call needs one."""
MAX_PODS = 64
"""Pods of one Service that are read for them."""
BYTES_PER_STEP = 100
"""Bytes that are decoded in a microsecond."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class _Labelled(Struct):
    """The labels of an object, whose other fields are skipped."""

    labels: dict[str, str] | None = None


class _Slice(Struct):
    metadata: _Labelled


_labels = msgspec.json.Decoder(_Slice).decode


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address and port to connect to."""

    address: Address
    port: int


class Services:
    """Finds the endpoints of tenants' Services.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def endpoints(self, target: Target) -> list[Endpoint]:
        """Return the ready endpoints of a target's Service.

        Raises:
            CallFailed: There is no such Service, or it has no ready endpoints.
        """
        assert target.service is not None  # noqa: S101 - the caller has checked
        tenant, namespace, name = target.tenant, target.service.namespace, target.service.name
        record, _ = await self._store.get(object_key(tenant, "", "services", namespace, name))
        if record is None:
            raise CallFailed(f'service "{name}" not found')
        port = _port(_decode(record.value), target.port)
        if port is None:
            raise CallFailed(f'no service port {target.port} found for service "{name}"')
        endpoints: list[Endpoint] = []
        pods = 0
        async with aclosing(self.slices(tenant, namespace, name)) as slices:
            async for each in slices:
                for address, pod, number in _ready(each, port.get("name") or ""):
                    if len(endpoints) == MAX_ENDPOINTS or pods == MAX_PODS:
                        return _some(endpoints, name)
                    pods += 1
                    if await self._has_address(tenant, namespace, pod, address):
                        endpoints.append(Endpoint(address, number))
        return _some(endpoints, name)

    async def slices(self, tenant: str, namespace: str, service: str) -> AsyncGenerator[Object, None]:
        """Yield the EndpointSlices of a Service, those with its name first, until the limits are reached.

        Raises:
            StoreError: The store cannot be read.
        """
        budget = Budget(f'looking for endpoints of service "{service}"', size=MAX_BYTES)
        folder = collection_key(tenant, DISCOVERY, "endpointslices", namespace)
        named = f"{folder}{service}-"
        read = 0
        for prefix in (named, folder):
            async for record in self._records(prefix):
                if prefix == folder and record.key.startswith(named):
                    continue
                read += 1
                try:
                    budget.spend(1 + len(record.value) // BYTES_PER_STEP, len(record.value))
                except BudgetExceeded:
                    return
                if read > MAX_SLICES:
                    return
                if (_labels(record.value).metadata.labels or {}).get(SERVICE_LABEL) == service:
                    yield _decode(record.value)
                await rest(budget)

    async def _records(self, prefix: str) -> AsyncIterator[Record]:
        after, more = "", True
        while more:
            page = await self._store.range(prefix, after=after, limit=PAGE, counted=False)
            for each in page.records:
                yield each
            more = page.more
            after = page.records[-1].key if page.records else after

    async def _has_address(self, tenant: str, namespace: str, pod: str, address: Address) -> bool:
        """Return whether a Pod of the tenant exists and has an address."""
        record, _ = await self._store.get(object_key(tenant, "", "pods", namespace, pod))
        if record is None:
            return False
        status = _decode(record.value).get("status") or {}
        pod_ips = {status.get("podIP"), *(each.get("ip") for each in status.get("podIPs") or ())}
        return str(address) in pod_ips


def _some(endpoints: list[Endpoint], name: str) -> list[Endpoint]:
    if not endpoints:
        raise CallFailed(f'no endpoints available for service "{name}"')
    return endpoints


def _port(service: Object, number: int) -> Object | None:
    ports: Sequence[Object] = (service.get("spec") or {}).get("ports") or ()
    return next((each for each in ports if each.get("port") == number), None)


def _ready(endpoint_slice: Object, port: str) -> Iterator[tuple[Address, str, int]]:
    """Yield address, name of the Pod and port number of every ready endpoint."""
    ports = endpoint_slice.get("ports") or ()
    number = next((each.get("port") for each in ports if (each.get("name") or "") == port), None)
    if not number:
        return
    for endpoint in endpoint_slice.get("endpoints") or ():
        reference = endpoint.get("targetRef") or {}
        if (endpoint.get("conditions") or {}).get("ready") is False or reference.get("kind") != "Pod":
            continue
        for text in endpoint.get("addresses") or ():
            address = _address(text)
            if address is not None:
                yield address, reference.get("name") or "", number


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
