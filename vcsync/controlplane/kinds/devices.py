"""ResourceClaims, DeviceClasses, ResourceSlices, DeviceTaintRules. Pure.

Expressions in CEL are for their engine to check.

Source: Kubernetes' `pkg/apis/resource`.
"""

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pod_defaults import fill
from vcsync.controlplane.kinds.pod_volumes import csi_driver_name
from vcsync.controlplane.kinds.resources import is_extended
from vcsync.controlplane.kinds.rules import (
    Findings,
    Object,
    annotations,
    immutable,
    indexed,
    items,
    labels,
    number,
    part,
    say,
    text,
)

_GROUP = "resource.k8s.io"
_MODES = ("All", "ExactCount")
_MOST_REQUESTS = 32
_MOST_DEVICES = 128
_UNKNOWN = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def _default_request(found: Object) -> None:
    if not text(found, "allocationMode"):
        found["allocationMode"] = "ExactCount"
    if found["allocationMode"] == "ExactCount" and not found.get("count"):
        found["count"] = 1


def _default_spec(spec: Object) -> None:
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
        told = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        yield errors.wrong(path, None, told)
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
    yield from _selectors(f"{path}.selectors", found)
    mode, count = text(found, "allocationMode"), number(found, "count")
    if mode == "All" and count:
        yield errors.wrong(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        yield errors.wrong(f"{path}.count", count, "must be greater than zero")
    elif mode not in _MODES:
        yield errors.not_supported(f"{path}.allocationMode", mode, _MODES)


def _selectors(path: str, found: Object) -> Findings:
    if len(items(found, "selectors")) > 32:
        yield errors.too_many(path, len(items(found, "selectors")), 32)
    for each, here in indexed(found, "selectors", path):
        if each.get("cel") is None:
            yield errors.required(f"{here}.cel")


def _claim(path: str, spec: Object) -> Findings:
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
            yield from _references(place, each, seen)
            if key == "constraints" and "matchAttribute" not in each and "distinctAttribute" not in each:
                told = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
                yield errors.required(place, told)
            if key == "constraints":
                yield from _attribute(place, each)
            if key == "config":
                yield from _configuration(place, each)


def _references(path: str, found: Object, known: set[str]) -> Findings:
    seen: set[str] = set()
    for index, each in enumerate(items(found, "requests")):
        here = f"{path}.requests[{index}]"
        if each in seen:
            yield errors.duplicate(here, each)
        seen.add(each)
        for segment in each.split("/") if each.count("/") < 2 else ():
            yield from _label(here, segment)
        if each not in known:
            yield errors.wrong(here, each, _UNKNOWN)


def _attribute(path: str, found: Object) -> Findings:
    key = next((key for key in ("matchAttribute", "distinctAttribute") if key in found), None)
    if key is None:
        return
    here, value = f"{path}.{key}", text(found, key)
    if "/" not in value:  # with a domain the real server looks no further
        yield from say(here, value, names.identifier(value))
        yield errors.wrong(
            here, value, "a fully qualified name must be a domain and a name separated by a slash"
        )


def _configuration(path: str, found: Object) -> Findings:
    opaque = found.get("opaque")
    if opaque is None:
        yield errors.required(f"{path}.opaque")
        return
    yield from csi_driver_name(f"{path}.opaque.driver", text(opaque, "driver"))
    if not isinstance(opaque.get("parameters"), dict):
        yield errors.required(f"{path}.opaque.parameters")


def _claim_update(new: Object, old: Object) -> list[FieldError]:
    return list(immutable("spec", new.get("spec"), old.get("spec")))


def _template_default(found: Object) -> None:
    _default_spec(part(found, "spec", "spec"))


def _class(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from _selectors("spec.selectors", spec)
    for each, here in indexed(spec, "config", "spec.config"):
        yield from _configuration(here, each)
    extended = spec.get("extendedResourceName")
    if extended is not None and not is_extended(extended):
        yield errors.wrong("spec.extendedResourceName", extended, "must be a valid extended resource name")


def _slice(found: Object) -> Findings:
    spec = part(found, "spec")
    yield from csi_driver_name("spec.driver", text(spec, "driver"))
    pool = part(spec, "pool")
    name = text(pool, "name")
    if not name:
        yield errors.required("spec.pool.name")
    else:
        if names.size(name) > 253:
            yield errors.too_long("spec.pool.name", 253)
        for segment in name.split("/"):
            yield from say("spec.pool.name", segment, names.dns_subdomain(segment))
    if number(pool, "resourceSliceCount") <= 0:
        yield errors.wrong(
            "spec.pool.resourceSliceCount", number(pool, "resourceSliceCount"), "must be greater than zero"
        )
    if number(pool, "generation") < 0:
        told = "must be greater than or equal to zero"
        yield errors.wrong("spec.pool.generation", number(pool, "generation"), told)
    yield from _nodes(spec)
    devices = items(spec, "devices")
    if len(devices) > _MOST_DEVICES:
        yield errors.too_many("spec.devices", len(devices), _MOST_DEVICES)
    seen: set[str] = set()
    for each, here in indexed(spec, "devices", "spec.devices"):
        device = text(each, "name")
        yield from _label(f"{here}.name", device)
        if device in seen:
            yield errors.duplicate(here, device)
        seen.add(device)


def _nodes(spec: Object) -> Findings:
    keys = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
    given = [key for key in keys if spec.get(key)]
    told = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not given:
        yield errors.required("spec", told)
    elif len(given) > 1:
        shown = "{" + ", ".join(f"`{key}`" for key in given) + "}"
        yield errors.wrong("spec", shown, f"{told}, but multiple fields are set")
    node = text(spec, "nodeName")
    if "nodeName" in spec and not node:
        yield errors.wrong("spec.nodeName", node, "must be either unset or set to a non-empty string")
    if node:
        yield from say("spec.nodeName", node, names.dns_subdomain(node))


def _slice_update(new: Object, old: Object) -> list[FieldError]:
    now, was = part(new, "spec"), part(old, "spec")
    found = list(_slice(new))
    for path, keys in (
        ("spec.pool.name", ("pool", "name")),
        ("spec.driver", ("driver",)),
        ("spec.nodeName", ("nodeName",)),
    ):
        holders = (part(now, *keys[:-1]), part(was, *keys[:-1])) if len(keys) > 1 else (now, was)
        found.extend(immutable(path, holders[0].get(keys[-1]), holders[1].get(keys[-1])))
    return found


def _taint_create(new: Object, context: Context) -> None:
    taint = part(new, "spec").get("taint")
    if isinstance(taint, dict):
        fill(taint, {"timeAdded": context.now})


def _template(found: Object) -> list[FieldError]:
    metadata = part(found, "spec", "metadata")
    return [
        *annotations("spec.metadata.annotations", part(metadata, "annotations")),
        *labels("spec.metadata.labels", part(metadata, "labels")),
        *_claim("spec.spec", part(found, "spec", "spec")),
    ]


DEVICES = {
    (_GROUP, "ResourceClaim"): Part(
        default=lambda found: _default_spec(part(found, "spec")),
        validate=lambda found: list(_claim("spec", part(found, "spec"))),
        validate_update=_claim_update,
    ),
    (_GROUP, "ResourceClaimTemplate"): Part(
        default=_template_default,
        validate=_template,
        validate_update=_claim_update,
    ),
    (_GROUP, "DeviceClass"): Part(validate=lambda found: list(_class(found))),
    (_GROUP, "DeviceTaintRule"): Part(prepare_create=_taint_create),
    (_GROUP, "ResourceSlice"): Part(
        validate=lambda found: list(_slice(found)),
        validate_update=_slice_update,
        fields=lambda found: {
            "spec.nodeName": text(part(found, "spec"), "nodeName"),
            "spec.driver": text(part(found, "spec"), "driver"),
        },
    ),
}
