"""EndpointSlices as controllers read and write them, and how endpoints are spread over them. Pure.

Behaviour: Kubernetes' library `endpointslice`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.controllers import owning
from vcsync.controllers.endpoint_subsets import normal_port
from vcsync.controllers.mirror import namespace_of
from vcsync.controllers.plan import Action, Create, Delete, Look, Patch
from vcsync.controllers.service_endpoints import change_of
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.resources import ENDPOINT_SLICES, Resource

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"

Endpoint = dict[str, Any]
Ports = list[dict[str, Any]]
Group = tuple[str, bytes]
"""What endpoints of one slice have in common: the type of their addresses, and their ports."""


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
        """What its endpoints have in common."""
        return self.address_type, ports_key(self.ports)


class Wanted(Struct, frozen=True):
    """What a slice is to hold. `slice`: the one that stands; None: one is to be made."""

    slice: Slice | None
    address_type: str
    ports: Ports
    endpoints: list[Endpoint]


class Marks(Struct, frozen=True):
    """The metadata of an owner's slices.

    Attributes:
        resource: the owner's.
        owner: it.
        labels: all that slices have.
        annotations: as they shall be; others stand unless `exactly`.
        exactly: whether slices have no other annotations.
    """

    resource: Resource
    owner: Envelope
    labels: Mapping[str, str]
    annotations: Mapping[str, str | None]
    exactly: bool = False


def of_manager(look: Look, tenant: str, namespace: str, service: str, manager: str) -> list[Slice]:
    """Return the slices of a Service that a controller made, without those that are going away."""
    return [
        read_slice(each)
        for each in look.of[ENDPOINT_SLICES].within(tenant, namespace)
        if not each.deleting
        and each.labels.get(SERVICE_NAME) == service
        and each.labels.get(MANAGED_BY) == manager
    ]


def read_slice(envelope: Envelope) -> Slice:
    """Read an EndpointSlice."""
    rest = decode(envelope.rest, _Rest)
    return Slice(envelope, rest.address_type, rest.endpoints or [], rest.ports or [])


def ports_key(ports: Iterable[Mapping[str, Any]]) -> bytes:
    """Return what is the same for the same ports."""
    encode = msgspec.json.Encoder(order="sorted").encode
    return b",".join(sorted(encode(normal_port(port)) for port in ports))


def identity(endpoint: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what makes an endpoint the one it is, whatever state it is in."""
    target = endpoint.get("targetRef") or {}
    return (
        tuple(sorted(endpoint.get("addresses") or ())),
        endpoint.get("hostname") or "",
        target.get("namespace") or "",
        target.get("name") or "",
    )


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two endpoints of one identity are in the same state."""
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
    """Return what the slices of one group shall hold: endpoints stay where they are, and few slices are written.

    New endpoints go first to slices that are written anyway, then to the one slice that they fill best, then to new ones.
    A slice that is left without endpoints is wanted with none.

    Args:
        address_type: of the group.
        ports: of the group.
        slices: those of the group that stand.
        desired: the endpoints.
        capacity: how many fit into a slice.
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
    standing = [each for each in wanted if each.endpoints and not any(each is one for one in changed)]
    while left:
        fitting = [each for each in standing if len(left) + len(each.endpoints) <= capacity]
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
    """Return what is to stand, and what is superfluous: slices that nothing is left in become those that are missing."""
    holding = [each for each in wanted if each.endpoints or each.slice is None]
    empty = [each.slice for each in wanted if each.slice is not None and not each.endpoints]
    for place, each in enumerate(holding):
        if each.slice is not None:
            continue
        again = next((one for one in empty if one.address_type == each.address_type), None)
        if again is not None:
            empty.remove(again)
            holding[place] = Wanted(again, each.address_type, each.ports, each.endpoints)
    return holding, empty


def actions(
    look: Look, marks: Marks, wanted: Iterable[Wanted], superfluous: Iterable[Slice]
) -> list[Sequence[Action]]:
    """Return the steps that make slices what they shall be: new ones, then changed ones, then those that go."""
    wanted = list(wanted)
    creations = [_creation(look, marks, each) for each in wanted if each.slice is None]
    patches = [_patch(marks, each.slice, each) for each in wanted if each.slice is not None]
    return [
        [] if marks.owner.deleting else creations,
        [each for each in patches if each is not None],
        deletions(superfluous),
    ]


def deletions(slices: Iterable[Slice]) -> list[Action]:
    """Return what takes slices away."""
    envelopes = (each.envelope for each in slices)
    return [Delete(ENDPOINT_SLICES, namespace_of(each), each.name, each.uid) for each in envelopes]


def _creation(look: Look, marks: Marks, wanted: Wanted) -> Create:
    owner = marks.owner
    prefix = f"{owner.name}-"
    body = {
        "metadata": {
            "generateName": prefix,
            "name": f"{prefix[:58]}{look.suffix()}",
            "labels": dict(marks.labels),
            "annotations": {name: text for name, text in marks.annotations.items() if text is not None},
            "ownerReferences": [owning.reference(marks.resource, owner)],
        },
        "addressType": wanted.address_type,
        "endpoints": wanted.endpoints,
        "ports": wanted.ports,
    }
    return Create(ENDPOINT_SLICES, namespace_of(owner), body)


def _patch(marks: Marks, there: Slice, wanted: Wanted) -> Patch | None:
    envelope = there.envelope
    texts = {name: text for name, text in marks.annotations.items() if text is not None}
    labels = change_of(envelope.labels, marks.labels)
    fields: dict[str, Any] = {}
    if not _holds(there, wanted.endpoints):
        fields["endpoints"] = wanted.endpoints
    if ports_key(there.ports) != ports_key(wanted.ports):
        fields["ports"] = wanted.ports
    metadata: dict[str, Any] = {"labels": labels} if labels else {}
    if marks.exactly:
        annotations = change_of(envelope.annotations, texts)
        if envelope.owners and not any(each.uid == marks.owner.uid for each in envelope.owners):
            metadata["ownerReferences"] = [owning.reference(marks.resource, marks.owner)]
        if annotations:
            metadata["annotations"] = annotations
    if not metadata and not fields:
        return None
    if not marks.exactly:
        now = {name: text for name, text in envelope.annotations.items() if name in marks.annotations}
        metadata["annotations"] = change_of(now, texts)
    patch = {"metadata": {"uid": envelope.uid, **metadata}, **fields}
    return Patch(ENDPOINT_SLICES, namespace_of(envelope), envelope.name, patch)
