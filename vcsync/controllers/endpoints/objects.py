"""EndpointSlices as controllers read and write them, and the distribution of endpoints over slices. Pure.

Behaviour: Kubernetes' library `endpointslice`.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.controllers.endpoints.pods_behind import change_of
from vcsync.controllers.endpoints.subsets import normal_port
from vcsync.controllers.framework import ownership
from vcsync.controllers.framework.mirror import namespace_of
from vcsync.controllers.framework.plan import Action, Create, Delete, Patch, View
from vcsync.kube.resources import ENDPOINT_SLICES, Resource
from vcsync.objects.envelope import Envelope, decode

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"

BURST = 500
"""Most slices that one reconcile creates."""

Endpoint = dict[str, Any]
Ports = list[dict[str, Any]]
Group = tuple[str, bytes]
"""Common properties of the endpoints of a slice: address type and ports."""


class _Rest(Struct, rename="camel"):
    address_type: str = ""
    endpoints: list[Endpoint] | None = None
    ports: list[dict[str, Any]] | None = None


class Slice(Struct, frozen=True):
    """One EndpointSlice."""

    envelope: Envelope
    address_type: str
    endpoints: list[Endpoint]
    ports: Ports

    @property
    def group(self) -> Group:
        """Return the common properties of its endpoints."""
        return self.address_type, ports_key(self.ports)


class Wanted(Struct, frozen=True):
    """The desired content of a slice. `slice`: the existing one; None: a new one is created."""

    slice: Slice | None
    address_type: str
    ports: Ports
    endpoints: list[Endpoint]


class SliceMetadata(Struct, frozen=True):
    """The metadata of an owner's slices.

    Attributes:
        resource: resource of the owner.
        owner: the owner.
        labels: all labels of the slices.
        annotations: desired annotations; others stay unless `exactly`.
        exactly: whether other annotations are removed.
    """

    resource: Resource
    owner: Envelope
    labels: Mapping[str, str]
    annotations: Mapping[str, str | None]
    exactly: bool = False


def of_manager(view: View, tenant: str, namespace: str, service: str, manager: str) -> list[Slice]:
    """Return the slices of a Service that a controller made, without those being deleted."""
    return [
        read_slice(each)
        for each in view.of[ENDPOINT_SLICES].within(tenant, namespace)
        if not each.deleting
        and each.labels.get(SERVICE_NAME) == service
        and each.labels.get(MANAGED_BY) == manager
    ]


def read_slice(envelope: Envelope) -> Slice:
    """Read an EndpointSlice."""
    rest = decode(envelope.rest, _Rest)
    return Slice(envelope, rest.address_type, rest.endpoints or [], rest.ports or [])


def ports_key(ports: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a key that is equal for equal ports."""
    encode = msgspec.json.Encoder(order="sorted").encode
    return b",".join(sorted(encode(normal_port(port)) for port in ports))


def identity(endpoint: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the identity of an endpoint, independent of its state."""
    target = endpoint.get("targetRef") or {}
    return (
        tuple(sorted(endpoint.get("addresses") or ())),
        endpoint.get("hostname") or "",
        target.get("namespace") or "",
        target.get("name") or "",
    )


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two endpoints of one identity are in the same state."""
    return _state(one) == _state(other)


def _state(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    state = {name: value for name, value in endpoint.items() if value}
    target = state.pop("targetRef", {})
    return state | {
        "addresses": sorted(state.get("addresses", ())),
        "targetRef": {name: value for name, value in target.items() if name != "resourceVersion"},
    }


def spread(
    address_type: str, ports: Ports, slices: Sequence[Slice], desired: Iterable[Endpoint], capacity: int
) -> list[Wanted]:
    """Return the desired content of the slices of one group; endpoints keep their slice, and few slices are written.

    New endpoints go first to slices that are written anyway, then to the slice that they fill best, then to new ones.
    A slice without remaining endpoints is returned with none.

    Args:
        address_type: address type of the group.
        ports: ports of the group.
        slices: existing slices of the group.
        desired: the desired endpoints.
        capacity: maximum number of endpoints in a slice.
    """
    missing = {identity(each): each for each in desired}
    wanted: list[Wanted] = []
    changed: list[Wanted] = []
    for each in slices:
        kept = [found for old in each.endpoints if (found := missing.pop(identity(old), None)) is not None]
        wanted.append(Wanted(each, address_type, ports, kept))
        if kept and not _holds(each, kept):
            changed.append(wanted[-1])
    left = list(missing.values())
    for target in sorted(changed, key=lambda each: -len(each.endpoints)):
        _fill(target, left, capacity)
    written = {id(each) for each in changed}
    standing = [each for each in wanted if each.endpoints and id(each) not in written]
    while left:
        room = capacity - len(left)
        fitting = [each for each in standing if len(each.endpoints) <= room] if room > 0 else []
        if fitting:
            target = max(fitting, key=lambda each: len(each.endpoints))
        else:
            target = Wanted(None, address_type, ports, [])
            wanted.append(target)
        _fill(target, left, capacity)
    return wanted


def _holds(slice_: Slice, endpoints: Sequence[Endpoint]) -> bool:
    return len(slice_.endpoints) == len(endpoints) and all(
        same(one, other) for one, other in zip(slice_.endpoints, endpoints, strict=True)
    )


def _fill(target: Wanted, left: list[Endpoint], capacity: int) -> None:
    room = capacity - len(target.endpoints)
    target.endpoints.extend(left[:room])
    del left[:room]


def recycled(wanted: Iterable[Wanted]) -> tuple[list[Wanted], list[Slice]]:
    """Return the desired and the superfluous slices; empty slices are reused for new ones."""
    wanted = list(wanted)
    holding = [each for each in wanted if each.endpoints or each.slice is None]
    empty: dict[str, deque[Slice]] = {}
    for each in wanted:
        if each.slice is not None and not each.endpoints:
            empty.setdefault(each.slice.address_type, deque()).append(each.slice)
    for place, each in enumerate(holding):
        if each.slice is None and (there := empty.get(each.address_type)):
            holding[place] = Wanted(there.popleft(), each.address_type, each.ports, each.endpoints)
    return holding, [each for there in empty.values() for each in there]


def by_group(slices: Iterable[Slice]) -> dict[Group, list[Slice]]:
    """Return slices by the common properties of their endpoints."""
    found: dict[Group, list[Slice]] = {}
    for each in slices:
        found.setdefault(each.group, []).append(each)
    return found


def actions(
    view: View, slice_metadata: SliceMetadata, wanted: Iterable[Wanted], superfluous: Iterable[Slice]
) -> list[Sequence[Action]]:
    """Return the steps that reach the desired slices: creations, then updates, then deletions.

    Each created slice is a change that lets its Service be reconciled again, if more are missing.
    """
    wanted = list(wanted)
    new = islice((each for each in wanted if each.slice is None), BURST)
    creations = [_creation(view, slice_metadata, each) for each in new]
    patches = [_patch(slice_metadata, each.slice, each) for each in wanted if each.slice is not None]
    return [
        [] if slice_metadata.owner.deleting else creations,
        [each for each in patches if each is not None],
        deletions(superfluous),
    ]


def deletions(slices: Iterable[Slice]) -> list[Action]:
    """Return the deletions of slices."""
    envelopes = (each.envelope for each in slices)
    return [Delete(ENDPOINT_SLICES, namespace_of(each), each.name, each.uid) for each in envelopes]


def _creation(view: View, slice_metadata: SliceMetadata, wanted: Wanted) -> Create:
    owner = slice_metadata.owner
    prefix = f"{owner.name}-"
    body = {
        "metadata": {
            "generateName": prefix,
            "name": f"{prefix[:58]}{view.suffix()}",
            "labels": dict(slice_metadata.labels),
            "annotations": {
                name: text for name, text in slice_metadata.annotations.items() if text is not None
            },
            "ownerReferences": [ownership.reference(slice_metadata.resource, owner)],
        },
        "addressType": wanted.address_type,
        "endpoints": wanted.endpoints,
        "ports": wanted.ports,
    }
    return Create(ENDPOINT_SLICES, namespace_of(owner), body)


def _patch(slice_metadata: SliceMetadata, there: Slice, wanted: Wanted) -> Patch | None:
    envelope = there.envelope
    texts = {name: text for name, text in slice_metadata.annotations.items() if text is not None}
    labels = change_of(envelope.labels, slice_metadata.labels)
    fields: dict[str, Any] = {}
    if not _holds(there, wanted.endpoints):
        fields["endpoints"] = wanted.endpoints
    if ports_key(there.ports) != ports_key(wanted.ports):
        fields["ports"] = wanted.ports
    metadata: dict[str, Any] = {"labels": labels} if labels else {}
    if slice_metadata.exactly:
        annotations = change_of(envelope.annotations, texts)
        if envelope.owners and not any(each.uid == slice_metadata.owner.uid for each in envelope.owners):
            metadata["ownerReferences"] = [ownership.reference(slice_metadata.resource, slice_metadata.owner)]
        if annotations:
            metadata["annotations"] = annotations
    if not metadata and not fields:
        return None
    if not slice_metadata.exactly:
        now = {
            name: text for name, text in envelope.annotations.items() if name in slice_metadata.annotations
        }
        metadata["annotations"] = change_of(now, texts)
    patch = {"metadata": {"uid": envelope.uid, **metadata}, **fields}
    return Patch(ENDPOINT_SLICES, namespace_of(envelope), envelope.name, patch)
