"""What Services take in their own transaction: cluster IPs (as IPAddress objects) and node ports.

Source: Kubernetes' `pkg/registry/core/service/{ipallocator,portallocator}`.
"""

import secrets
import uuid
from contextlib import AbstractAsyncContextManager, nullcontext

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.kinds import service_claims
from vcsync.controlplane.kinds.service_claims import Allocation, Claim, Network
from vcsync.controlplane.resources import object_key
from vcsync.controlplane.rest import stored
from vcsync.controlplane.rest.claims import NOTHING, Reservation
from vcsync.controlplane.rest.scope import Scope
from vcsync.controlplane.store.interface import Compare, Delete, Put, Store

ATTEMPTS = 64
"""Free choices that are looked up before giving up: then the range is as good as full."""
NETWORKING = "networking.k8s.io"
LABELS = {
    "ipaddress.kubernetes.io/ip-family": "IPv4",
    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
}


class ServiceClaims:
    """Reserves what Services of every tenant take."""

    def __init__(self, store: Store, network: Network) -> None:
        """Take where claims are kept, and what there is to take."""
        self._store = store
        self._network = network

    def turn(self, scope: Scope) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - others ask
        """Addresses are many and chosen at random: writes hardly ever meet."""
        return nullcontext()

    async def __call__(
        self, scope: Scope, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> Reservation:
        """See `claims.Claims`.

        Raises:
            StatusError: 422 what is asked for is taken or cannot be had, 500 nothing is free.
        """
        resource = scope.kind.resource
        if resource.plural != "services" or resource.group or scope.subresource == "status":
            return NOTHING
        held = service_claims.held(old) if old is not None else frozenset()
        if new is None:
            return Reservation(operations=tuple(Delete(self._key(scope, each)) for each in sorted(held)))
        taken = await self._allocated(scope, new, old, dry_run)
        keys = {each.key for each in taken}
        freed = held - service_claims.held(new)
        return Reservation(
            compares=tuple(Compare(self._key(scope, each), 0) for each in sorted(keys)),
            operations=(
                *(Put(self._key(scope, each), self._value(scope, new, each)) for each in sorted(keys)),
                *(Delete(self._key(scope, each)) for each in sorted(freed)),
            ),
        )

    async def _allocated(
        self, scope: Scope, new: Object, old: Object | None, dry_run: bool
    ) -> tuple[Claim, ...]:
        name = new["metadata"].get("name") or scope.name
        spec = dict(new.get("spec") or {})
        avoid: frozenset[str] = frozenset()
        for _attempt in range(ATTEMPTS):
            new["spec"] = (
                {**spec, "ports": [dict(each) for each in spec["ports"]]} if spec.get("ports") else dict(spec)
            )
            found: Allocation = service_claims.allocate(
                new, old, self._network, secrets.randbelow, avoid=avoid, dry_run=dry_run
            )
            if found.findings:
                raise errors.invalid("Service", "", name, found.findings)
            lost = [each for each in found.claims if await self._is_taken(scope, each)]
            for each in lost:
                if each.taken is not None:
                    raise errors.invalid("Service", "", name, [each.taken])
            if not lost:
                return found.claims
            if any(each.key in avoid for each in lost):
                break  # nothing else was left to choose
            avoid = await self._ports_held(scope)
        raise errors.internal("failed to allocate a serviceIP or node port: range is full")

    async def _ports_held(self, scope: Scope) -> frozenset[str]:
        """Return the keys of all ports that Services hold: of many drawn at random, some would be taken each time."""
        prefix = self._key(scope, "port/")
        records = (await self._store.range(prefix)).records
        return frozenset(f"port/{each.key.removeprefix(prefix)}" for each in records)

    async def _is_taken(self, scope: Scope, claim: Claim) -> bool:
        record, _ = await self._store.get(self._key(scope, claim.key))
        return record is not None

    @staticmethod
    def _key(scope: Scope, claim: str) -> str:
        kind, _, what = claim.partition("/")
        if kind == "ip":
            return object_key(scope.tenant, NETWORKING, "ipaddresses", "", what)
        return f"{scope.tenant}/~claims/{kind}/{what}"

    @staticmethod
    def _value(scope: Scope, new: Object, claim: str) -> bytes:
        kind, _, what = claim.partition("/")
        metadata = new["metadata"]
        # Validation comes afterwards and refuses what has no name.
        name = metadata.get("name", "")
        about = {"resource": "services", "namespace": metadata["namespace"], "name": name}
        if kind != "ip":
            return stored.pack({"metadata": {"name": what}, "spec": {"parentRef": about}})
        own = {
            "name": what,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": scope.context.now,
            "labels": LABELS,
        }
        return stored.pack({"metadata": own, "spec": {"parentRef": about}})
