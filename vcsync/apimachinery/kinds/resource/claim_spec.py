"""Defaults and validation of the spec that ResourceClaims and ResourceClaimTemplates share. Pure.

Source: Kubernetes' `pkg/apis/resource/v1/defaults.go` and `pkg/apis/resource/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.core.pod_volumes import csi_driver_name
from vcsync.apimachinery.kinds.resource import device_slices, device_values
from vcsync.apimachinery.kinds.resource.limited_lists import limited, limited_set
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
_MOST_REQUESTS, _MOST_CHOICES, _MOST_SELECTORS, _MOST_CONSTRAINTS = 32, 8, 32, 32
MOST_CONFIGURATIONS = 32
_MOST_SEGMENTS = 2
_LONGEST_PARAMETERS = 10 * 1024
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


class Requests:
    """The names of a claim's requests, and of the choices of each."""

    def __init__(self, spec: Object) -> None:
        self._choices: dict[str, set[str]] = {}
        for each in items(part(spec, "devices"), "requests"):
            self._choices[text(each, "name")] = {
                text(choice, "name") for choice in items(each, "firstAvailable")
            }

    def reference(self, path: str, name: str) -> Findings:
        """Check a reference to a request (`one`) or to a choice of one (`one/first`)."""
        segments = name.split("/")
        if len(segments) > _MOST_SEGMENTS:
            yield errors.wrong(path, name, _UNKNOWN)
            return
        for segment in segments:
            yield from _label(path, segment)
        request, *choice = segments
        if request not in self._choices or not self._choices[request].issuperset(choice):
            yield errors.wrong(path, name, _UNKNOWN)

    def references(self, path: str, found: Object) -> Findings:
        """Check the list `requests` of a constraint or configuration."""
        yield from limited_set(
            f"{path}.requests", found, "requests", _MOST_REQUESTS, self.reference, identity=str
        )


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
        here = f"{path}.firstAvailable"
        yield from limited_set(here, found, "firstAvailable", _MOST_CHOICES, _choice, identity=_name)


def _choice(path: str, found: Object) -> Findings:
    yield from _label(f"{path}.name", text(found, "name"))
    yield from _wanted(path, found)


def _name(found: Object) -> str:
    return text(found, "name")


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
    """Yield the findings on the selectors of a request or a DeviceClass, except those on their expressions."""

    def selector(here: str, each: Object) -> Findings:
        if each.get("cel") is None:
            yield errors.required(f"{here}.cel")

    yield from limited(path, found, "selectors", _MOST_SELECTORS, selector)


def claim(path: str, spec: Object) -> Findings:
    """Yield the findings on the spec of a claim."""
    devices, here, requests = part(spec, "devices"), f"{path}.devices", Requests(spec)
    yield from limited_set(f"{here}.requests", devices, "requests", _MOST_REQUESTS, _request, identity=_name)

    def constraint(place: str, found: Object) -> Findings:
        yield from requests.references(place, found)
        yield from _attribute(place, found)

    def settings(place: str, found: Object) -> Findings:
        yield from requests.references(place, found)
        yield from configuration(place, found)

    yield from limited(f"{here}.constraints", devices, "constraints", _MOST_CONSTRAINTS, constraint)
    yield from limited(f"{here}.config", devices, "config", MOST_CONFIGURATIONS, settings)


def _attribute(path: str, found: Object) -> Findings:
    key = next((key for key in ("matchAttribute", "distinctAttribute") if key in found), None)
    if key is None:
        message = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )
        yield errors.required(path, message)
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
    yield from device_values.raw_object(
        f"{path}.opaque.parameters", opaque.get("parameters"), _LONGEST_PARAMETERS
    )


def claim_update(new: Object, old: Object) -> list[FieldError]:
    """Return a finding if an update changes the spec."""
    return list(immutable("spec", new.get("spec"), old.get("spec")))
