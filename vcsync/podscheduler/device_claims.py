"""A tenant's ResourceClaims as the Pod scheduler sees them, and its decisions that are not written yet. Pure.

Unlike a claim to a volume, a ResourceClaim has no data: it moves whenever its super cluster cannot serve it, none of its
devices is allocated, and no other Pod that uses it may run there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.api.names import SUPER_CLUSTER
from vcsync.objects.envelope import Envelope, decode
from vcsync.podscheduler.assigned_claims import AssignedClaims
from vcsync.scheduling.claims import ClaimNeed
from vcsync.scheduling.pods import TO_BE_MADE
from vcsync.scheduling.snapshot import Health, SuperView


class _Request(Struct, gc=False, rename="camel"):
    device_class_name: str = ""


class _DeviceRequest(Struct, gc=False, rename="camel"):
    exactly: _Request | None = None
    first_available: tuple[_Request, ...] | None = None


class _Devices(Struct, frozen=True, gc=False):
    requests: tuple[_DeviceRequest, ...] | None = None


class _Spec(Struct, gc=False):
    devices: _Devices = _Devices()


class _Status(Struct, gc=False):
    allocation: dict[str, Any] | None = None


class _Record(Struct, frozen=True, gc=False, array_like=True):
    classes: tuple[str, ...]
    allocated: bool


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Record).decode


def slim_device_claim(claim: Envelope) -> Envelope:
    """Return a claim's envelope for the cache. It has only vcsync's label, and its classes and state as `spec`."""
    spec, status = decode(claim.spec, _Spec), decode(claim.status, _Status) if claim.status else _Status()
    label = claim.labels.get(SUPER_CLUSTER)
    return Envelope(
        claim.name,
        claim.namespace,
        claim.uid,
        claim.resource_version,
        labels={} if label is None else {SUPER_CLUSTER: label},
        deletion_timestamp=claim.deletion_timestamp,
        spec=_encode(_Record(tuple(dict.fromkeys(_classes(spec))), status.allocation is not None)),
    )


def _classes(spec: _Spec) -> Iterator[str]:
    for request in spec.devices.requests or ():
        for each in (request.exactly, *(request.first_available or ())):
            if each is not None:
                yield each.device_class_name


def device_claim_assignment(claim: Envelope, super_id: str) -> dict[str, Any]:
    """Return the merge patch that assigns a claim to a super cluster. It fails if the claim has changed."""
    return {
        "metadata": {
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
            "labels": {SUPER_CLUSTER: super_id},
        }
    }


class DeviceClaims(AssignedClaims):
    """The ResourceClaims of one tenant, in the form of `slim_device_claim`."""

    def needs(
        self,
        namespace: str,
        named: Iterable[str],
        views: Mapping[str, SuperView],
        kept: Callable[[str, str], bool] = lambda _name, _super_id: False,
    ) -> tuple[ClaimNeed, ...]:
        """Return what the claims of a Pod demand.

        Args:
            namespace: the Pod's namespace.
            named: names of its claims.
            views: the registered super clusters.
            kept: returns whether another Pod that uses a claim may run on a super cluster.
        """
        if unread := self._unread():
            return tuple(ClaimNeed(name, problem=unread, device_classes=(), unread=True) for name in named)
        return tuple(self._need(name, self._find(namespace, name), views, kept) for name in named)

    def _need(
        self,
        name: str,
        claim: Envelope | None,
        views: Mapping[str, SuperView],
        kept: Callable[[str, str], bool],
    ) -> ClaimNeed:
        if name == TO_BE_MADE:
            return ClaimNeed(
                name, problem="a resourceclaim is still to be made from its template", device_classes=()
            )
        if claim is None:
            return ClaimNeed(name, problem=f'resourceclaim "{name}" not found', device_classes=())
        if claim.deleting:
            return ClaimNeed(name, problem=f'resourceclaim "{name}" is being deleted', device_classes=())
        record = _decode(claim.spec)
        return ClaimNeed(name, self._home(claim, record, views, kept), device_classes=record.classes)

    def _home(
        self,
        claim: Envelope,
        record: _Record,
        views: Mapping[str, SuperView],
        kept: Callable[[str, str], bool],
    ) -> str:
        """Return the super cluster that has a claim or is to have it; empty if none does yet.

        A claim leaves one that is not registered, or that holds nothing of the namespace any more. While nothing is allocated it
        also leaves one that is lost or does not publish its classes, unless another Pod that uses it may run there: allocations
        are reported after that Pod has started.
        """
        if assumed := self._assumed_home(claim):
            return assumed
        home = claim.labels.get(SUPER_CLUSTER, "")
        view = views.get(home)
        if view is None or not self._holds(claim.namespace, home):
            return ""
        serves = view.health is not Health.LOST and all(map(view.publishes_devices, record.classes))
        return home if record.allocated or serves or kept(claim.name, home) else ""
