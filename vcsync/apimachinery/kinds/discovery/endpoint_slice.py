"""The kind EndpointSlice: defaults, generation, validation, warnings and columns. Pure.

Source: Kubernetes' `pkg/apis/discovery`.
"""

from collections.abc import Callable
from datetime import datetime

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.address_warnings import address_warnings
from vcsync.apimachinery.kinds.common.addresses import address, canonical_address, is_v6, reachable
from vcsync.apimachinery.kinds.common.defaults import fill
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.kinds.core.pod_containers import PROTOCOLS
from vcsync.apimachinery.strategy import Context
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
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
from vcsync.apimachinery.wire import cells

_COUNTED = ("addressType", "endpoints", "ports")
"""Fields whose change increments the generation. A change of labels does, too."""
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


def _prepare_create(new: Object, _: Context) -> None:
    _drop_topology(new, None)


def _drop_topology(new: Object, old: Object | None) -> None:
    """Drop `deprecatedTopology`, which only v1beta1 can write, unless the endpoints are unchanged."""
    if old is not None and items(new, "endpoints") == items(old, "endpoints"):
        return
    for each in items(new, "endpoints"):
        each.pop("deprecatedTopology", None)


def _prepare_update(new: Object, old: Object, _: Context) -> None:
    metadata, before = new["metadata"], old["metadata"]
    labelled = (metadata.get("labels") or {}) != (before.get("labels") or {})
    # The fields dropped below count as changes.
    if labelled or any((new.get(key) or None) != (old.get(key) or None) for key in _COUNTED):
        metadata["generation"] = int(before.get("generation") or 0) + 1
    _drop_topology(new, old)


def _warnings(new: Object, old: Object | None) -> list[str]:
    if text(new, "addressType") == "FQDN":
        return [] if old is not None else ["spec.addressType: FQDN endpoints are deprecated"]
    return [
        message
        for each, here in indexed(new, "endpoints", "endpoints")
        for value, place in indexed(each, "addresses", f"{here}.addresses")
        for message in address_warnings(place, value)
    ]


def slice_ports(obj: cells.Object, _: datetime) -> str:
    """Return the ports of an EndpointSlice."""
    texts = [
        str(cells.look(each, "port", cells.look(each, "name", "*"))) for each in cells.look(obj, "ports", ())
    ]
    return cells.more(texts, len(texts), cells.SHOWN) or cells.UNSET


def slice_endpoints(obj: cells.Object, _: datetime) -> str:
    """Return the addresses of an EndpointSlice."""
    texts = [text for each in cells.look(obj, "endpoints", ()) for text in each.get("addresses") or ()]
    return cells.more(texts, len(texts), cells.SHOWN) or cells.UNSET


KIND = Kind(
    group="discovery.k8s.io",
    kind="EndpointSlice",
    plural="endpointslices",
    generation=("addressType", "endpoints", "ports"),
    default=_default,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    validate=_slice,
    validate_update=_update,
    warnings=_warnings,
    columns={
        "Name": cells.name,
        "AddressType": cells.field("addressType"),
        "Ports": slice_ports,
        "Endpoints": slice_endpoints,
        "Age": cells.age,
    },
    repeats_metadata_findings=False,
)
