"""EndpointSlices. Pure.

Source: Kubernetes' `pkg/apis/discovery`.
"""

from collections.abc import Callable

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Context
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.address_warnings import address_warnings
from vcsync.controlplane.kinds.addresses import address, canonical_address, is_v6, reachable
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.pod_containers import PROTOCOLS
from vcsync.controlplane.kinds.pod_defaults import fill
from vcsync.controlplane.kinds.rules import (
    Findings,
    Object,
    choice,
    immutable,
    indexed,
    items,
    labels,
    one_of,
    part,
    say,
    text,
)

_TYPES = ("FQDN", "IPv4", "IPv6")


def _default(found: Object) -> None:
    for each in items(found, "ports"):
        fill(each, {"name": "", "protocol": "TCP"})


def _ports(found: Object) -> Findings:
    ports = items(found, "ports")
    if len(ports) > 20000:
        yield errors.too_many("ports", len(ports), 20000)
        return
    seen: set[str] = set()
    for each, here in indexed(found, "ports", "ports"):
        name = text(each, "name")
        if name:
            yield from say(f"{here}.name", name, names.dns_label(name))
        if name in seen:
            yield errors.duplicate(f"{here}.name", name)
        seen.add(name)
        yield from one_of(f"{here}.protocol", text(each, "protocol"), PROTOCOLS)
        if "appProtocol" in each:
            yield from say(
                f"{here}.appProtocol", each["appProtocol"], names.qualified_name(each["appProtocol"])
            )


def _domain(path: str, value: str) -> Findings:
    if not value:
        yield errors.required(path)
        return
    name = value.removesuffix(".")
    wrong = names.dns_subdomain(name)
    if wrong:
        yield errors.wrong(path, name, ",".join(wrong))
    elif "." not in name:
        yield errors.wrong(path, name, "should be a domain with at least two segments separated by dots")
    else:
        for label in name.split("."):
            bad = names.dns_label(label)
            if bad:
                yield errors.wrong(path, label, ",".join(bad))
                return


def _addresses(path: str, values: list[str], kind: str) -> Findings:
    if not values:
        yield errors.required(path, "must contain at least 1 address")
    elif len(values) > 100:
        yield errors.too_many(path, len(values), 100)
    for index, each in enumerate(values):
        here = f"{path}[{index}]"
        if kind == "FQDN":
            yield from _domain(here, each)
        elif kind in ("IPv4", "IPv6"):
            wrong = list(address(here, each) if kind == "IPv4" else canonical_address(here, each))
            yield from wrong
            if not wrong:
                if is_v6(each) != (kind == "IPv6"):
                    yield errors.wrong(path, each, f"must be an {kind} address")
                yield from reachable(here, each)


def _endpoints(found: Object) -> Findings:
    endpoints, kind = items(found, "endpoints"), text(found, "addressType")
    if len(endpoints) > 1000:
        yield errors.too_many("endpoints", len(endpoints), 1000)
        return
    for each, here in indexed(found, "endpoints", "endpoints"):
        yield from _addresses(f"{here}.addresses", items(each, "addresses"), kind)
        if "nodeName" in each:
            yield from say(f"{here}.nodeName", each["nodeName"], names.dns_subdomain(each["nodeName"]))
        topology = part(each, "deprecatedTopology")
        if len(topology) > 16:
            yield errors.too_many(f"{here}.deprecatedTopology", len(topology), 16)
        yield from labels(f"{here}.deprecatedTopology", topology)
        if "hostname" in each:
            yield from say(f"{here}.hostname", each["hostname"], names.dns_label(each["hostname"]))
        yield from _hints(f"{here}.hints", part(each, "hints"))


def _hints(path: str, hints: Object) -> Findings:
    for key, check in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        yield from _hint_names(f"{path}.{key}", items(hints, key), check)


def _hint_names(path: str, found: list[Object], check: Callable[[str], list[str]]) -> Findings:
    if len(found) > 8:
        yield errors.too_many(path, len(found), 8)
        return
    seen: set[str] = set()
    for index, each in enumerate(found):
        name, here = text(each, "name"), f"{path}[{index}].name"
        if name in seen:
            yield errors.duplicate(here, name)
        seen.add(name)
        yield from say(here, name, check(name))


def _slice(found: Object) -> list[FieldError]:
    return [
        *choice("addressType", text(found, "addressType"), _TYPES),
        *_ports(found),
        *_endpoints(found),
    ]


def _update(new: Object, old: Object) -> list[FieldError]:
    kind = text(new, "addressType")
    found = [*choice("addressType", kind, _TYPES), *_ports(new)]
    if items(new, "endpoints") != items(old, "endpoints"):
        found.extend(_endpoints(new))
    return [*found, *immutable("addressType", kind, text(old, "addressType"))]


def _prepare_update(new: Object, old: Object, _: Context) -> None:
    metadata, before = new["metadata"], old["metadata"]
    if (metadata.get("labels") or {}) != (before.get("labels") or {}):
        metadata["generation"] = int(before.get("generation") or 0) + 1


def _warnings(new: Object, _: Object | None) -> list[str]:
    if text(new, "addressType") == "FQDN":
        return ["FQDN endpoints are deprecated"]
    return [
        told
        for each, here in indexed(new, "endpoints", "endpoints")
        for value, place in indexed(each, "addresses", f"{here}.addresses")
        for told in address_warnings(place, value)
    ]


DISCOVERY = {
    ("discovery.k8s.io", "EndpointSlice"): Part(
        default=_default,
        prepare_update=_prepare_update,
        validate=_slice,
        validate_update=_update,
        warnings=_warnings,
    )
}
