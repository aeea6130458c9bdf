"""Decides from the objects of a tenant whether an APIService can be available, and writes the condition. Pure.

Order, reasons and messages are those of kube-aggregator's `pkg/controllers/status/remote`.
"""

from collections.abc import Sequence
from typing import Any

from vcsync.apimachinery.kinds.apiregistration import api_service
from vcsync.apiserver.discovery.remote_api_services import Condition, RemoteApiService
from vcsync.apiserver.egress.services import SERVICE_LABEL

Object = dict[str, Any]

FAILED = "FailedDiscoveryCheck"
PASSED = Condition(api_service.AVAILABLE, "True", "Passed", "all checks passed")


def failed(message: str) -> Condition:
    """Return the condition of an APIService whose server does not answer as it must."""
    return _not_available(FAILED, message)


def not_forwarded(message: str) -> Condition:
    """Return the condition of an APIService to whose Service nothing is forwarded."""
    return _not_available(api_service.NOT_FORWARDED_REASON, message)


def problem(service: RemoteApiService, found: Object | None, slices: Sequence[Object]) -> Condition | None:
    """Return the condition of an APIService if its server need not be asked, or None.

    Args:
        service: The APIService.
        found: Its Service, or None.
        slices: The outlines of the EndpointSlices of the Service, at least.
    """
    reference = service.destination.service
    where = f'service/{reference.name} in "{reference.namespace}"'
    if found is None:
        return _not_available("ServiceNotFound", f"{where} is not present")
    spec = found.get("spec") or {}
    if (spec.get("type") or "ClusterIP") != "ClusterIP":
        return None
    port = next((each for each in spec.get("ports") or () if each.get("port") == reference.port), None)
    if port is None:
        return _not_available("ServicePortError", f"{where} is not listening on port {reference.port}")
    own = [
        each for each in slices if (each["metadata"].get("labels") or {}).get(SERVICE_LABEL) == reference.name
    ]
    if not own:
        return _not_available("EndpointsNotFound", f"cannot find endpointslices for {where}")
    name = port.get("name") or ""
    if not any(_has_endpoint(each, name) for each in own):
        message = f'endpointslices for {where} have no addresses with port name "{name}"'
        return _not_available("MissingEndpoints", message)
    return None


def outline(endpoint_slice: Object) -> Object:
    """Return what `problem` needs of an EndpointSlice: labels, ports, and one of its ready endpoints, without addresses."""
    ready = any(map(_is_ready, endpoint_slice.get("endpoints") or ()))
    return {
        "metadata": {
            "labels": {SERVICE_LABEL: (endpoint_slice["metadata"].get("labels") or {}).get(SERVICE_LABEL)}
        },
        "ports": endpoint_slice.get("ports"),
        "endpoints": [{}] if ready else [],
    }


def _is_ready(endpoint: Object) -> bool:
    return (endpoint.get("conditions") or {}).get("ready") is not False


def _has_endpoint(endpoint_slice: Object, port: str) -> bool:
    ready = any(map(_is_ready, endpoint_slice.get("endpoints") or ()))
    ports = endpoint_slice.get("ports") or ()
    return ready and any((each.get("name") or "") == port and each.get("port") for each in ports)


def differs(before: Condition | None, now: Condition, last: str | None = None) -> bool:
    """Tell whether a condition must be written.

    Messages of failed discovery checks may differ between processes. One that only differs in its message is written only by a
    process that got another one before, so that processes do not overwrite each other's messages again and again.

    Args:
        before: The stored condition, or None.
        now: The condition that this process has found.
        last: Message of the last failed check of this process. None: there was none.
    """
    if before is None or (before.status, before.reason) != (now.status, now.reason):
        return True
    if before.message == now.message:
        return False
    return now.reason != FAILED or last not in (None, now.message)


def with_condition(found: Object, condition: Condition, now: str) -> Object:
    """Return an APIService with a condition; its time changes with its status only.

    Args:
        found: The APIService.
        condition: The condition.
        now: The time, in RFC 3339.
    """
    status = found.get("status") or {}
    conditions: list[Object] = list(status.get("conditions") or ())
    at = next((at for at, each in enumerate(conditions) if each.get("type") == condition.type), None)
    before = {} if at is None else conditions[at]
    since = before.get("lastTransitionTime") if before.get("status") == condition.status else None
    made = {
        "type": condition.type,
        "status": condition.status,
        "lastTransitionTime": since or now,
        "reason": condition.reason,
        "message": condition.message,
    }
    if at is None:
        conditions.append(made)
    else:
        conditions[at] = made
    return {**found, "status": {**status, "conditions": conditions}}


def _not_available(reason: str, message: str) -> Condition:
    return Condition(api_service.AVAILABLE, "False", reason, message)
