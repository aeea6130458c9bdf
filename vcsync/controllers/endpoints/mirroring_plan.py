"""EndpointSlices for Endpoints that were written for a Service without selector. Pure.

Behaviour: Kubernetes' `pkg/controller/endpointslicemirroring`.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from msgspec import Struct

from vcsync.controllers.endpoints import endpoints_plan as endpoints
from vcsync.controllers.endpoints import objects as endpointslice_objects
from vcsync.controllers.endpoints import subsets as endpoint_subsets
from vcsync.controllers.endpoints.endpointslice_plan import managed
from vcsync.controllers.endpoints.objects import (
    MANAGED_BY,
    SERVICE_NAME,
    Endpoint,
    Group,
    Ports,
    SliceMetadata,
    Wanted,
)
from vcsync.controllers.endpoints.pods_behind import LEADER, TRIGGER_TIME, family_of, read_service
from vcsync.controllers.framework.event_handlers import own
from vcsync.controllers.framework.mirror import Key, namespace_of
from vcsync.controllers.framework.plan import NOTHING, Action, Controller, Emit, Outcome, Plan, View, Watch
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from vcsync.objects.envelope import Envelope, decode

NAME = "endpointslice-mirroring-controller"
MANAGER = "endpointslicemirroring-controller.k8s.io"
SKIP = "endpointslice.kubernetes.io/skip-mirror"
CAPACITY = 1000
"""Maximum number of mirrored addresses of a subset."""
_NOT_COPIED = frozenset({TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration"})


class _Skipped(Struct):
    invalid: int = 0
    beyond: int = 0


class _Mirrored(Struct):
    """The content of subsets, by address type and ports."""

    ports: dict[Group, Ports] = {}
    endpoints: dict[Group, dict[tuple[object, ...], Endpoint]] = {}


def plan(view: View, key: Key) -> Plan:
    """Mirror Endpoints into slices, or delete the slices of Endpoints that are not mirrored."""
    slices = endpointslice_objects.of_manager(view, *key, MANAGER)
    there = view.of[ENDPOINTS].get(*key)
    if there is None or not _is_mirrored(view, key, there):
        return Plan([endpointslice_objects.deletions(slices)]) if slices else NOTHING
    mirrored, skipped = _read(there)
    by_group = endpointslice_objects.by_group(slices)
    wanted = [
        Wanted(each, "", [], [])
        for group, others in by_group.items()
        if group not in mirrored.ports
        for each in others
    ]
    for group, ports in mirrored.ports.items():
        same = by_group.get(group, [])
        desired = list(mirrored.endpoints[group].values())[:CAPACITY]
        wanted += endpointslice_objects.spread(group[0], ports, same, desired, CAPACITY)
    holding, empty = endpointslice_objects.recycled(wanted)
    annotations = {name: text for name, text in there.annotations.items() if name not in _NOT_COPIED}
    labels = {**there.labels, SERVICE_NAME: key.name, MANAGED_BY: MANAGER}
    slice_metadata = SliceMetadata(ENDPOINTS, there, labels, annotations, exactly=True)
    steps = endpointslice_objects.actions(view, slice_metadata, holding, empty)
    return Plan(steps, partial(_finish, there, skipped)) if any(steps) else NOTHING


def _is_mirrored(view: View, key: Key, there: Envelope) -> bool:
    if there.labels.get(SKIP) == "true" or LEADER in there.annotations:
        return False
    service = view.of[SERVICES].get(*key)
    return service is not None and not read_service(service).selector


def _read(there: Envelope) -> tuple[_Mirrored, _Skipped]:
    mirrored, skipped = _Mirrored(), _Skipped()
    for subset in endpoint_subsets.repack(decode(there.rest, endpoints.Rest).subsets or ()):
        ports = [{"name": "", **port} for port in subset.get("ports", ())]
        known = endpointslice_objects.ports_key(ports)
        room = CAPACITY
        for place, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in subset.get(place, ()):
                found = family_of(address["ip"])
                if found is None:
                    skipped.invalid += 1
                elif not room:
                    skipped.beyond += 1
                else:
                    room -= 1
                    endpoint = _endpoint(address, found[1], ready)
                    group = found[0], known
                    mirrored.ports[group] = ports
                    its = mirrored.endpoints.setdefault(group, {})
                    its[endpointslice_objects.identity(endpoint)] = endpoint
    return mirrored, skipped


def _endpoint(address: dict[str, Any], ip: str, ready: bool) -> Endpoint:
    kept: dict[str, Any] = {
        name: address[name] for name in ("hostname", "nodeName", "targetRef") if name in address
    }
    return {"addresses": [ip], "conditions": {"ready": ready}, **kept}


def _finish(there: Envelope, skipped: _Skipped, _look: View, _outcome: Outcome) -> Iterable[Action]:
    about = ObjectRef(ENDPOINTS.api_version, ENDPOINTS.kind, there.name, namespace_of(there), there.uid)
    if skipped.invalid:
        message = f"Skipped {skipped.invalid} invalid IP addresses when mirroring to EndpointSlices"
        yield Emit(about, "Warning", "InvalidIPAddress", message)
    if skipped.beyond:
        message = (
            f"A max of {CAPACITY} addresses can be mirrored to EndpointSlices per Endpoints subset. "
            f"{skipped.beyond + skipped.invalid} addresses were skipped"
        )
        yield Emit(about, "Warning", "TooManyAddressesToMirror", message)


ENDPOINT_SLICE_MIRRORING = Controller(
    NAME,
    (Watch(ENDPOINTS, own), Watch(SERVICES, own), Watch(ENDPOINT_SLICES, partial(managed, MANAGER))),
    plan,
)
