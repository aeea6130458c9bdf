"""Endpoints of Services: addresses and ports of their Pods. Pure.

Behaviour: Kubernetes' `pkg/controller/endpoint`.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from msgspec import Struct

from vcsync.controllers.endpoints import pods_behind as service_endpoints
from vcsync.controllers.endpoints import subsets as endpoint_subsets
from vcsync.controllers.endpoints.pods_behind import (
    HEADLESS_LABEL,
    LEADER,
    TRIGGER_TIME,
    Backend,
    ServiceSpec,
    change_of,
    families,
    is_headless,
    read_service,
    trigger_time,
)
from vcsync.controllers.framework.event_handlers import own
from vcsync.controllers.framework.mirror import Key, key_of
from vcsync.controllers.framework.plan import (
    NOTHING,
    Action,
    Controller,
    Create,
    Delete,
    Emit,
    Outcome,
    Patch,
    Plan,
    View,
    Watch,
)
from vcsync.kube.cache import Change
from vcsync.kube.errors import Forbidden
from vcsync.kube.events import ObjectRef
from vcsync.kube.resources import ENDPOINTS, PODS, SERVICES
from vcsync.objects.envelope import Envelope, decode

NAME = "endpoints-controller"
MANAGED_BY = "endpoints.kubernetes.io/managed-by"
MANAGER = "endpoint-controller"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
TRUNCATED = "truncated"


class Rest(Struct):
    """Contents of Endpoints."""

    subsets: list[dict[str, Any]] | None = None


def plan(view: View, key: Key) -> Plan:
    """Update a Service's Endpoints from its Pods, and delete them with the Service."""
    service, there = view.of[SERVICES].get(*key), view.of[ENDPOINTS].get(*key)
    if service is None:
        if there is None or there.deleting or LEADER in there.annotations:
            return NOTHING
        return Plan([[Delete(ENDPOINTS, key.namespace, key.name, there.uid)]])
    spec = read_service(service)
    if not spec.selects:
        return NOTHING
    behind = service_endpoints.backends(view, service, spec, terminating=spec.publish_not_ready_addresses)
    subsets, cut = endpoint_subsets.truncate(endpoint_subsets.repack(_subsets(spec, behind)))
    action = _written(key, service, spec, there, behind, subsets, cut)
    return NOTHING if action is None else Plan([[action]], partial(_finish, key))


def _written(  # noqa: PLR0917 - all that Endpoints are made of
    key: Key,
    service: Envelope,
    spec: ServiceSpec,
    there: Envelope | None,
    behind: list[Backend],
    subsets: list[dict[str, Any]],
    cut: bool,
) -> Action | None:
    labels = {name: text for name, text in service.labels.items() if name != HEADLESS_LABEL}
    labels |= {MANAGED_BY: MANAGER} | ({HEADLESS_LABEL: ""} if is_headless(spec) else {})
    over = {OVER_CAPACITY: TRUNCATED} if cut else {}
    last = None if there is None else there.annotations.get(TRIGGER_TIME, "")
    when = trigger_time(service, behind, last)
    marks = over | ({TRIGGER_TIME: when} if when else {})
    if there is None:
        metadata = {"name": key.name, "labels": labels, "annotations": marks}
        return Create(ENDPOINTS, key.namespace, {"metadata": metadata, "subsets": subsets})
    now = {name: text for name, text in there.annotations.items() if name in (OVER_CAPACITY, TRIGGER_TIME)}
    before = endpoint_subsets.repack(decode(there.rest, Rest).subsets or ())
    same = before == endpoint_subsets.repack(subsets)
    relabelled = change_of(there.labels, labels)
    if same and not relabelled and now.get(OVER_CAPACITY) == over.get(OVER_CAPACITY):
        return None
    change = {"uid": there.uid, "labels": relabelled, "annotations": change_of(now, marks)}
    return Patch(ENDPOINTS, key.namespace, key.name, {"metadata": change, "subsets": subsets or None})


def _subsets(spec: ServiceSpec, behind: Iterable[Backend]) -> Iterable[dict[str, Any]]:
    family = families(spec)[0] if spec.ip_families or not is_headless(spec) else None
    for each in behind:
        of = each.addresses[family] if family else each.addresses["IPv4"] or each.addresses["IPv6"]
        ports = service_endpoints.ports(spec, each.pod)
        if not of or (not ports and (spec.ports or not is_headless(spec))):
            continue
        address: dict[str, Any] = {"ip": of[0], "targetRef": each.target}
        address |= {"nodeName": each.node} if each.node else {}
        address |= {"hostname": each.hostname} if each.hostname else {}
        place = "addresses" if each.ready or spec.publish_not_ready_addresses else "notReadyAddresses"
        yield {place: [address], "ports": ports}


def _finish(key: Key, _look: View, outcome: Outcome) -> Iterable[Action]:
    for failure in outcome.failures:
        about = ObjectRef(ENDPOINTS.api_version, ENDPOINTS.kind, key.name, key.namespace)
        where = f"{key.namespace}/{key.name}"
        if isinstance(failure.action, Patch):
            message = f"Failed to update endpoint {where}: {failure.said}"
            yield Emit(about, "Warning", "FailedToUpdateEndpoint", message)
        elif not isinstance(failure.error, Forbidden):  # For instance in a namespace that is being deleted.
            message = f"Failed to create endpoint for service {where}: {failure.said}"
            yield Emit(about, "Warning", "FailedToCreateEndpoint", message)


def _managed(change: Change, view: View) -> Iterable[Key]:
    """Return the Service of Endpoints that are gone or that this controller made; others may have no Service."""
    if change.new is None or change.new.labels.get(MANAGED_BY) == MANAGER:
        return own(change, view)
    former = change.old
    return [key_of(former)] if former and former.labels.get(MANAGED_BY) == MANAGER else ()


ENDPOINT = Controller(
    NAME,
    (
        Watch(SERVICES, own),
        Watch(PODS, service_endpoints.of_pod, service_endpoints.GATHERED),
        Watch(ENDPOINTS, _managed, service_endpoints.GATHERED),
    ),
    plan,
)
