"""EndpointSlices of Endpoints that somebody wrote for a Service without selector. Pure.

Behaviour: Kubernetes' `pkg/controller/endpointslicemirroring`.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from msgspec import Struct

from vcsync.controllers import endpoint_subsets, endpoints, endpointslice_objects
from vcsync.controllers.endpointslice_objects import (
    MANAGED_BY,
    SERVICE_NAME,
    Endpoint,
    Group,
    Marks,
    Ports,
    Wanted,
)
from vcsync.controllers.endpointslices import managed
from vcsync.controllers.mirror import Key, namespace_of
from vcsync.controllers.plan import NOTHING, Action, Controller, Emit, Look, Outcome, Plan, Watch
from vcsync.controllers.service_endpoints import LEADER, TRIGGER_TIME, family_of, read_service
from vcsync.controllers.waking import own
from vcsync.kube.envelope import Envelope, decode
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES

NAME = "endpointslice-mirroring-controller"
MANAGER = "endpointslicemirroring-controller.k8s.io"
SKIP = "endpointslice.kubernetes.io/skip-mirror"
CAPACITY = 1000
"""Addresses of a subset that are mirrored."""
_NOT_COPIED = frozenset({TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration"})


class _Skipped(Struct):
    invalid: int = 0
    beyond: int = 0


class _Mirrored(Struct):
    """What subsets hold, by the type of address and the ports."""

    ports: dict[Group, Ports] = {}
    endpoints: dict[Group, dict[tuple[object, ...], Endpoint]] = {}


def plan(look: Look, key: Key) -> Plan:
    """Make slices tell what Endpoints tell, or take them away if those are not to be mirrored."""
    slices = endpointslice_objects.of_manager(look, *key, MANAGER)
    there = look.of[ENDPOINTS].get(*key)
    if there is None or not _is_mirrored(look, key, there):
        return Plan([endpointslice_objects.deletions(slices)]) if slices else NOTHING
    mirrored, skipped = _read(there)
    wanted = [Wanted(each, "", [], []) for each in slices if each.group not in mirrored.ports]
    for group, ports in mirrored.ports.items():
        same = [each for each in slices if each.group == group]
        desired = list(mirrored.endpoints[group].values())[:CAPACITY]
        wanted += endpointslice_objects.spread(group[0], ports, same, desired, CAPACITY)
    holding, empty = endpointslice_objects.recycled(wanted)
    annotations = {name: text for name, text in there.annotations.items() if name not in _NOT_COPIED}
    labels = {**there.labels, SERVICE_NAME: key.name, MANAGED_BY: MANAGER}
    marks = Marks(ENDPOINTS, there, labels, annotations, exactly=True)
    steps = endpointslice_objects.actions(look, marks, holding, empty)
    return Plan(steps, partial(_finish, there, skipped)) if any(steps) else NOTHING


def _is_mirrored(look: Look, key: Key, there: Envelope) -> bool:
    if there.labels.get(SKIP) == "true" or LEADER in there.annotations:
        return False
    service = look.of[SERVICES].get(*key)
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
    told: dict[str, Any] = {
        name: address[name] for name in ("hostname", "nodeName", "targetRef") if name in address
    }
    return {"addresses": [ip], "conditions": {"ready": ready}, **told}


def _finish(there: Envelope, skipped: _Skipped, _look: Look, _outcome: Outcome) -> Iterable[Action]:
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
