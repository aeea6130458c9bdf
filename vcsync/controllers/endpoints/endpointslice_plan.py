"""EndpointSlices of Services: the Pods of a Service, a hundred to a slice. Pure.

Behaviour: Kubernetes' `pkg/controller/endpointslice` and its library `endpointslice`. Unlike upstream, a Pod whose Node
a tenant cannot see is an endpoint too, and hints come from `trafficDistribution` only: the super clusters route the
tenant's traffic, and create their own slices for that.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from vcsync.controllers.endpoints import objects as endpointslice_objects
from vcsync.controllers.endpoints import pods_behind as service_endpoints
from vcsync.controllers.endpoints.objects import (
    MANAGED_BY,
    SERVICE_NAME,
    Endpoint,
    Ports,
    Slice,
    SliceMetadata,
    Wanted,
    ports_key,
)
from vcsync.controllers.endpoints.pods_behind import (
    HEADLESS_LABEL,
    TRIGGER_TIME,
    Backend,
    Family,
    ServiceSpec,
    families,
    is_headless,
    read_service,
    trigger_time,
)
from vcsync.controllers.framework.event_handlers import own, standing
from vcsync.controllers.framework.mirror import Key, key_of
from vcsync.controllers.framework.plan import NOTHING, Action, Controller, Emit, Outcome, Plan, View, Watch
from vcsync.kube.cache import Change
from vcsync.kube.errors import Forbidden
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
from vcsync.objects.envelope import Envelope

NAME = "endpointslice-controller"
MANAGER = "endpointslice-controller.k8s.io"
CAPACITY = 100
"""Maximum number of endpoints in a slice."""
ZONE = "topology.kubernetes.io/zone"
SAME_NODE = "PreferSameNode"
CLOSE = frozenset({"PreferClose", "PreferSameZone", SAME_NODE})
_RESERVED = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS_LABEL})


class _Desired(Struct, frozen=True):
    ports: Ports
    endpoints: list[Endpoint]


def plan(view: View, key: Key) -> Plan:
    """Update the slices of a Service from its Pods; those of a deleted Service end with their owner."""
    service = view.of[SERVICES].get(*key)
    if service is None:
        return NOTHING
    spec = read_service(service)
    if not spec.selects:
        return NOTHING
    behind = service_endpoints.backends(view, service, spec, terminating=True)
    slices = endpointslice_objects.of_manager(view, *key, MANAGER)
    mine = [each for each in slices if _fits(each, service, spec)]
    strange = [each for each in slices if not _fits(each, service, spec)]
    holding, empty = endpointslice_objects.recycled(_wanted(view, spec, behind, mine))
    last = max((each.envelope.annotations.get(TRIGGER_TIME, "") for each in slices), default=None)
    annotations = {TRIGGER_TIME: trigger_time(service, behind, last)}
    slice_metadata = SliceMetadata(SERVICES, service, _labels(service, spec), annotations)
    steps = endpointslice_objects.actions(view, slice_metadata, holding, [*empty, *strange])
    return Plan(steps, partial(_finish, key)) if any(steps) else NOTHING


def _fits(slice_: Slice, service: Envelope, spec: ServiceSpec) -> bool:
    """Return whether a slice may hold endpoints of this very Service and family."""
    owned = any(each.uid == service.uid for each in slice_.envelope.owners)
    return owned and slice_.address_type in families(spec)


def _wanted(
    view: View, spec: ServiceSpec, behind: Sequence[Backend], slices: Sequence[Slice]
) -> list[Wanted]:
    wanted: list[Wanted] = []
    for family in families(spec):
        groups = _groups(view, spec, behind, family)
        there = endpointslice_objects.by_group(each for each in slices if each.address_type == family)
        found = [
            Wanted(each, family, [], [])
            for (_, name), others in there.items()
            if name not in groups
            for each in others
        ]
        for name, desired in groups.items():
            same = there.get((family, name), [])
            found += endpointslice_objects.spread(family, desired.ports, same, desired.endpoints, CAPACITY)
        if not any(each.endpoints for each in found):
            found.append(Wanted(None, family, [], []))  # An empty slice states that there are no endpoints.
        wanted += found
    return wanted


def _groups(
    view: View, spec: ServiceSpec, behind: Iterable[Backend], family: Family
) -> dict[bytes, _Desired]:
    """Return the endpoints of a family, grouped by the ports that they serve."""
    groups: dict[bytes, _Desired] = {}
    for each in behind:
        ports = service_endpoints.ports(spec, each.pod)
        group = groups.setdefault(ports_key(ports), _Desired(ports, []))
        if each.addresses[family]:
            group.endpoints.append(_endpoint(view, spec, each, each.addresses[family]))
    return groups


def _endpoint(view: View, spec: ServiceSpec, backend: Backend, addresses: list[str]) -> Endpoint:
    node = view.of[NODES].get(backend.pod.tenant, "", backend.node) if backend.node else None
    zone = "" if node is None else node.labels.get(ZONE, "")
    ready = spec.publish_not_ready_addresses or (backend.ready and not backend.pod.deleting)
    conditions = {"ready": ready, "serving": backend.ready, "terminating": backend.pod.deleting}
    hints = _hints(spec, zone, backend.node) if ready else {}
    endpoint: dict[str, Any] = {
        "addresses": addresses,
        "conditions": conditions,
        "hostname": backend.hostname,
        "targetRef": backend.target,
        "nodeName": backend.node,
        "zone": zone,
        "hints": hints,
    }
    return {name: value for name, value in endpoint.items() if value}


def _hints(spec: ServiceSpec, zone: str, node: str) -> dict[str, Any]:
    if spec.traffic_distribution not in CLOSE:
        return {}
    zones = {"forZones": [{"name": zone}]} if zone else {}
    nodes = {"forNodes": [{"name": node}]} if node and spec.traffic_distribution == SAME_NODE else {}
    return {**zones, **nodes}


def _labels(service: Envelope, spec: ServiceSpec) -> dict[str, str]:
    labels = {name: text for name, text in service.labels.items() if name not in _RESERVED}
    headless = {HEADLESS_LABEL: ""} if is_headless(spec) else {}
    return {**labels, **headless, SERVICE_NAME: service.name, MANAGED_BY: MANAGER}


def _finish(key: Key, view: View, outcome: Outcome) -> Iterable[Action]:
    service = view.of[SERVICES].get(*key)
    for failure in outcome.failures:
        # Creations are forbidden, for instance, in a namespace that is being deleted.
        if service is None or isinstance(failure.error, Forbidden):
            continue
        about = ObjectRef(SERVICES.api_version, SERVICES.kind, key.name, key.namespace, service.uid)
        message = (
            f"Error updating Endpoint Slices for Service {key.namespace}/{key.name}: "
            f"failed to write EndpointSlice: {failure.said}"
        )
        yield Emit(about, "Warning", "FailedToUpdateEndpointSlices", message)


def managed(manager: str, change: Change, _look: View) -> Iterable[Key]:
    """Return the owner of a slice that a controller has or had."""
    place = key_of(standing(change))
    sides = [each.labels for each in (change.old, change.new) if each is not None]
    names = {each.get(SERVICE_NAME, "") for each in sides if each.get(MANAGED_BY) == manager}
    return [place._replace(name=name) for name in sorted(names) if name]


ENDPOINT_SLICE = Controller(
    NAME,
    (
        Watch(SERVICES, own),
        Watch(PODS, service_endpoints.of_pod, service_endpoints.GATHERED),
        Watch(ENDPOINT_SLICES, partial(managed, MANAGER), service_endpoints.GATHERED),
    ),
    plan,
    (NODES,),
)
