"""Finds the endpoints of a tenant's Service in its EndpointSlices. Only addresses of the tenant's own Pods count.

Tenants write all of these objects. Whether an address may be called is decided by the operator's policy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import msgspec

from vcsync.apimachinery.resources import collection_key, object_key
from vcsync.apiserver.egress.failure import CallFailed
from vcsync.apiserver.egress.networks import Address
from vcsync.apiserver.egress.target import Target
from vcsync.apiserver.storage.interface import Store

Object = dict[str, Any]

DISCOVERY = "discovery.k8s.io"
SERVICE_LABEL = "kubernetes.io/service-name"
MAX_SLICES = 1000
"""EndpointSlices of one namespace that are read."""
MAX_ENDPOINTS = 8
"""Endpoints of one Service whose Pods are read. A call needs one."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


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
        slices = await self.slices(tenant, namespace)
        endpoints: list[Endpoint] = []
        for address, pod, number in _ready(slices, name, port.get("name") or ""):
            if len(endpoints) < MAX_ENDPOINTS and await self._has_address(tenant, namespace, pod, address):
                endpoints.append(Endpoint(address, number))
        if not endpoints:
            raise CallFailed(f'no endpoints available for service "{name}"')
        return endpoints

    async def slices(self, tenant: str, namespace: str) -> list[Object]:
        """Return the EndpointSlices of a namespace, `MAX_SLICES` at most.

        Raises:
            StoreError: The store cannot be read.
        """
        prefix, after = collection_key(tenant, DISCOVERY, "endpointslices", namespace), ""
        slices: list[Object] = []
        while len(slices) < MAX_SLICES:
            page = await self._store.range(prefix, after=after, limit=MAX_SLICES - len(slices), counted=False)
            slices += [_decode(each.value) for each in page.records]
            if not page.more:
                break
            after = page.records[-1].key
        return slices

    async def _has_address(self, tenant: str, namespace: str, pod: str, address: Address) -> bool:
        """Return whether a Pod of the tenant exists and has an address."""
        record, _ = await self._store.get(object_key(tenant, "", "pods", namespace, pod))
        if record is None:
            return False
        status = _decode(record.value).get("status") or {}
        pod_ips = {status.get("podIP"), *(each.get("ip") for each in status.get("podIPs") or ())}
        return str(address) in pod_ips


def _port(service: Object, number: int) -> Object | None:
    ports: Sequence[Object] = (service.get("spec") or {}).get("ports") or ()
    return next((each for each in ports if each.get("port") == number), None)


def _ready(slices: Sequence[Object], name: str, port: str) -> list[tuple[Address, str, int]]:
    """Return address, name of the Pod and port number of every ready endpoint of a Service."""
    found = []
    for each in slices:
        if (each["metadata"].get("labels") or {}).get(SERVICE_LABEL) != name:
            continue
        number = next((p.get("port") for p in each.get("ports") or () if (p.get("name") or "") == port), None)
        if not number:
            continue
        for endpoint in each.get("endpoints") or ():
            reference = endpoint.get("targetRef") or {}
            if (endpoint.get("conditions") or {}).get("ready") is False or reference.get("kind") != "Pod":
                continue
            found += [
                (address, reference.get("name") or "", number)
                for address in map(_address, endpoint.get("addresses") or ())
                if address is not None
            ]
    return found


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
