"""Defaults and validation of the spec that ResourceClaims and ResourceClaimTemplates share. Pure.

Source: Kubernetes' `pkg/apis/resource/v1/defaults.go` and `pkg/apis/resource/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.core.pod_volumes import csi_driver_name
from vcsync.apimachinery.kinds.resource import device_slices, device_status
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    immutable,
    indexed,
    items,
    number,
    part,
    say,
    text,
)

_MODES = ("All", "ExactCount")
_MOST_REQUESTS = 32
_UNKNOWN = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def default_tolerations(found: Object) -> None:
    """Set the defaults of the tolerations of a request."""
    for each in items(found, "tolerations"):
        fill(each, {"operator": "Equal"})


def _default_request(found: Object) -> None:
    default_tolerations(found)
    if not text(found, "allocationMode"):
        found["allocationMode"] = "ExactCount"
    if found["allocationMode"] == "ExactCount" and not found.get("count"):
        found["count"] = 1


def default_spec(spec: Object) -> None:
    """Set the defaults of the spec of a claim."""
    for request in items(part(spec, "devices"), "requests"):
        if isinstance(request.get("exactly"), dict):
            _default_request(request["exactly"])
        for each in items(request, "firstAvailable"):
            _default_request(each)


def _label(path: str, name: str) -> Findings:
    yield from say(path, name, names.dns_label(name))


def _request(path: str, found: Object) -> Findings:
    yield from _label(f"{path}.name", text(found, "name"))
    exactly, choices = found.get("exactly"), items(found, "firstAvailable")
    if exactly is None and not choices:
        yield errors.required(path, "exactly one of `exactly` or `firstAvailable` is required")
    elif exactly is not None and choices:
        message = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        yield errors.wrong(path, None, message)
    elif exactly is not None:
        yield from _wanted(f"{path}.exactly", exactly)
    else:
        if len(choices) > 8:
            yield errors.too_many(f"{path}.firstAvailable", len(choices), 8)
        seen: set[str] = set()
        for each, here in indexed(found, "firstAvailable", f"{path}.firstAvailable"):
            name = text(each, "name")
            yield from _label(f"{here}.name", name)
            yield from _wanted(here, each)
            if name in seen:
                yield errors.duplicate(here, name)
            seen.add(name)


def _wanted(path: str, found: Object) -> Findings:
    kind = text(found, "deviceClassName")
    if not kind:
        yield errors.required(f"{path}.deviceClassName")
    else:
        yield from say(f"{path}.deviceClassName", kind, names.dns_subdomain(kind))
    yield from selectors(f"{path}.selectors", found)
    mode, count = text(found, "allocationMode"), number(found, "count")
    if mode == "All" and count:
        yield errors.wrong(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        yield errors.wrong(f"{path}.count", count, "must be greater than zero")
    elif mode not in _MODES:
        yield errors.not_supported(f"{path}.allocationMode", mode, _MODES)
    for each, here in indexed(found, "tolerations", f"{path}.tolerations"):
        yield from device_slices.toleration(here, each)


def selectors(path: str, found: Object) -> Findings:
    """Yield the findings on the selectors of a request or a DeviceClass."""
    if len(items(found, "selectors")) > 32:
        yield errors.too_many(path, len(items(found, "selectors")), 32)
    for each, here in indexed(found, "selectors", path):
        if each.get("cel") is None:
            yield errors.required(f"{here}.cel")


def claim(path: str, spec: Object) -> Findings:
    """Yield the findings on the spec of a claim."""
    devices = part(spec, "devices")
    requests, here = items(devices, "requests"), f"{path}.devices"
    if len(requests) > _MOST_REQUESTS:
        yield errors.too_many(f"{here}.requests", len(requests), _MOST_REQUESTS)
    seen: set[str] = set()
    for each, place in indexed(devices, "requests", f"{here}.requests"):
        yield from _request(place, each)
        name = text(each, "name")
        if name in seen:
            yield errors.duplicate(place, name)
        seen.add(name)
        seen |= {f"{name}/{text(choice, 'name')}" for choice in items(each, "firstAvailable")}
    for key in ("constraints", "config"):
        for each, place in indexed(devices, key, f"{here}.{key}"):
            yield from references(place, each, seen)
            if key == "constraints" and "matchAttribute" not in each and "distinctAttribute" not in each:
                message = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
                yield errors.required(place, message)
            if key == "constraints":
                yield from _attribute(place, each)
            if key == "config":
                yield from configuration(place, each)


def references(path: str, found: Object, known: set[str]) -> Findings:
    """Yield the findings on the request names in a constraint or configuration."""
    named = items(found, "requests")
    for index, each in enumerate(named):
        yield from reference(f"{path}.requests[{index}]", each, known)
    for index, each in enumerate(named):
        if each in named[:index]:
            yield errors.duplicate(f"{path}.requests[{index}]", each)


def reference(here: str, name: str, known: set[str]) -> Findings:
    """Yield the findings on the name of a request or subrequest."""
    for segment in name.split("/") if name.count("/") < 2 else ():
        yield from _label(here, segment)
    if name not in known:
        yield errors.wrong(here, name, _UNKNOWN)


def _attribute(path: str, found: Object) -> Findings:
    key = next((key for key in ("matchAttribute", "distinctAttribute") if key in found), None)
    if key is None:
        return
    here, value = f"{path}.{key}", text(found, key)
    yield from device_slices.qualified_name(here, value)
    if "/" not in value:
        yield errors.wrong(
            here, value, "a fully qualified name must be a domain and a name separated by a slash"
        )


def configuration(path: str, found: Object) -> Findings:
    """Yield the findings on the configuration of a driver."""
    opaque = found.get("opaque")
    if opaque is None:
        yield errors.required(f"{path}.opaque")
        return
    yield from csi_driver_name(f"{path}.opaque.driver", text(opaque, "driver"))
    yield from device_status.raw_object(f"{path}.opaque.parameters", opaque.get("parameters"), 10 * 1024)


def claim_update(new: Object, old: Object) -> list[FieldError]:
    """Return a finding if an update changes the spec."""
    return list(immutable("spec", new.get("spec"), old.get("spec")))


def _taint_create(new: Object, context: Context) -> None:
    taint = part(new, "spec").get("taint")
    if isinstance(taint, dict):
        fill(taint, {"timeAdded": context.now})
