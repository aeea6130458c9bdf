"""Allocates cluster IPs (as IPAddress objects) and node ports in the transaction that writes a Service.

Source: Kubernetes' `pkg/registry/core/service/{ipallocator,portallocator}`.
"""

import ipaddress
import secrets
import uuid
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace

import msgspec

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.core import service_claims
from vcsync.apimachinery.kinds.core.service_claims import Allocation, Claim, Network
from vcsync.apimachinery.resources import object_key
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.request import stored
from vcsync.apiserver.request.claims import NOTHING, Reservation
from vcsync.apiserver.request.scope import Scope
from vcsync.apiserver.storage.interface import Compare, Delete, Put, Store

MOST_RANGES = 16
"""ServiceCIDRs of a tenant from which its addresses are allocated, by name."""
SMALLEST_RANGE = 4
"""Addresses of the smallest range that has some for Services."""
ATTEMPTS = 64
"""Random allocations that are tried before the range counts as full."""
NETWORKING = "networking.k8s.io"
LABELS = {
    "ipaddress.kubernetes.io/ip-family": "IPv4",
    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
}


class _Metadata(msgspec.Struct):
    deletionTimestamp: str | None = None  # noqa: N815 - as JSON spells it


class _Cidrs(msgspec.Struct, frozen=True):
    cidrs: tuple[str, ...] = ()


class _ServiceCidr(msgspec.Struct):
    metadata: _Metadata
    spec: _Cidrs = _Cidrs()


_service_cidr = msgspec.json.Decoder(_ServiceCidr).decode


class ServiceClaims:
    """Reserves the addresses and ports of the Services of every tenant.

    Args:
        store: Holds the allocations.
        network: The ranges of addresses and ports that every tenant has.
    """

    def __init__(self, store: Store, network: Network) -> None:
        self._store = store
        self._network = network

    def turn(self, scope: Scope) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - of the protocol
        """Do not serialize writes: addresses are chosen at random from a large range, so conflicts are rare."""
        return nullcontext()

    async def __call__(
        self, scope: Scope, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> Reservation:
        """Return the allocations of a Service; see `claims.Claims`.

        Raises:
            StatusError: 422 if a requested address or port is allocated or invalid, 500 if none is free.
        """
        resource = scope.kind.resource
        if resource.plural != "services" or resource.group or scope.subresource == "status":
            return NOTHING
        held = service_claims.held(old) if old is not None else frozenset()
        if new is None:
            return Reservation(operations=tuple(Delete(self._key(scope, each)) for each in sorted(held)))
        allocated = await self._allocate(scope, new, old, dry_run)
        keys = {each.key for each in allocated}
        freed = held - service_claims.held(new)
        return Reservation(
            compares=tuple(Compare(self._key(scope, each), 0) for each in sorted(keys)),
            operations=(
                *(Put(self._key(scope, each), self._value(scope, new, each)) for each in sorted(keys)),
                *(Delete(self._key(scope, each)) for each in sorted(freed)),
            ),
        )

    async def _allocate(
        self, scope: Scope, new: Object, old: Object | None, dry_run: bool
    ) -> tuple[Claim, ...]:
        name = new["metadata"].get("name") or scope.name
        spec = dict(new.get("spec") or {})
        avoid: frozenset[str] = frozenset()
        network = await self._network_of(scope, new, old)
        for _attempt in range(ATTEMPTS):
            new["spec"] = (
                {**spec, "ports": [dict(each) for each in spec["ports"]]} if spec.get("ports") else dict(spec)
            )
            allocation: Allocation = service_claims.allocate(
                new, old, network, secrets.randbelow, avoid=avoid, dry_run=dry_run
            )
            if allocation.findings:
                raise errors.invalid("Service", "", name, allocation.findings)
            taken = [each for each in allocation.claims if await self._is_taken(scope, each)]
            for each in taken:
                if each.taken is not None:
                    raise errors.invalid("Service", "", name, [each.taken])
            if not taken:
                return allocation.claims
            if any(each.key in avoid for each in taken):
                # Only addresses or ports that are known to be taken were left to choose from.
                break
            for what in {each.key.partition("/")[0] for each in taken}:
                avoid |= await self._held(scope, what)
        told = f" (addresses: {', '.join(network.further)})" if network.further else ""
        raise errors.internal(f"failed to allocate a serviceIP or node port: range is full{told}")

    async def _network_of(self, scope: Scope, new: Object, old: Object | None) -> Network:
        """Return the ranges of a tenant. Its ServiceCIDRs are read only for a Service that needs an address."""
        kept = service_claims.held(old) if old is not None else frozenset()
        if any(each.startswith("ip/") for each in kept & service_claims.held(new)):
            return self._network
        records = await self._store.range_cached(object_key(scope.tenant, NETWORKING, "servicecidrs", "", ""))
        found = (_service_cidr(each.value) for each in records[: MOST_RANGES + 1])
        further = tuple(
            cidr
            for each in found
            if each.metadata.deletionTimestamp is None
            for cidr in each.spec.cidrs
            if cidr != self._network.addresses and _has_addresses(cidr)
        )
        return replace(self._network, further=further)

    async def _held(self, scope: Scope, what: str) -> frozenset[str]:
        """Return the keys of all allocated addresses (`ip`) or ports (`port`).

        With many of them, or in a small range, random choices would find no free one.
        """
        prefix = self._key(scope, f"{what}/")
        records = (await self._store.range(prefix)).records
        return frozenset(f"{what}/{each.key.removeprefix(prefix)}" for each in records)

    async def _is_taken(self, scope: Scope, claim: Claim) -> bool:
        record, _ = await self._store.get(self._key(scope, claim.key))
        return record is not None

    @staticmethod
    def _key(scope: Scope, claim: str) -> str:
        kind, _, value = claim.partition("/")
        if kind == "ip":
            return object_key(scope.tenant, NETWORKING, "ipaddresses", "", value)
        return f"{scope.tenant}/~claims/{kind}/{value}"

    @staticmethod
    def _value(scope: Scope, new: Object, claim: str) -> bytes:
        kind, _, value = claim.partition("/")
        metadata = new["metadata"]
        # Validation comes later and refuses a Service without a name.
        name = metadata.get("name", "")
        parent = {"resource": "services", "namespace": metadata["namespace"], "name": name}
        if kind != "ip":
            return stored.pack({"metadata": {"name": value}, "spec": {"parentRef": parent}})
        address_metadata = {
            "name": value,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": scope.context.now,
            "labels": LABELS,
        }
        return stored.pack({"metadata": address_metadata, "spec": {"parentRef": parent}})


def _has_addresses(cidr: str) -> bool:
    """Return whether a range has IPv4 addresses for Services."""
    found = ipaddress.ip_network(cidr)
    return found.version == 4 and found.num_addresses >= SMALLEST_RANGE
