"""Validation of updates of a ResourceClaim's status. Pure.

Source: `ValidateResourceClaimStatusUpdate` in Kubernetes' `pkg/apis/resource/validation`.
"""

import uuid
from collections.abc import Callable

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.addresses import interface_address
from vcsync.apimachinery.kinds.core.pod_scheduling import node_selector
from vcsync.apimachinery.kinds.core.pod_volumes import csi_driver_name
from vcsync.apimachinery.kinds.resource import device_slices
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    conditions,
    immutable,
    indexed,
    items,
    needed,
    part,
    say,
    text,
)

References = Callable[[str, Object], Findings]
"""(path, object with `requests`) -> findings on the requests that it names."""
Configuration = Callable[[str, Object], Findings]
_SOURCES = ("FromClaim", "FromClass")
_MOST_RESERVED, _MOST_RESULTS, _MOST_CONFIGURATIONS, _MOST_CONDITIONS = 256, 32, 64, 8
_LONGEST_DATA, _MOST_ADDRESSES = 10 * 1024, 16
_LONGEST = {"interfaceName": 256, "hardwareAddress": 128}


def pool_name(path: str, name: str) -> Findings:
    """Check the name of a pool: DNS subdomains with slashes between them."""
    if not name:
        yield errors.required(path)
        return
    if names.size(name) > 253:
        yield errors.too_long(path, 253)
    for segment in name.split("/"):
        yield from say(path, segment, names.dns_subdomain(segment))


def findings(
    new: Object,
    old: Object,
    references: References,
    one: Callable[[str, str], Findings],
    opaque: Configuration,
) -> list[FieldError]:
    """Return the findings on a claim's new status.

    Args:
        new: the updated claim.
        old: the stored claim.
        references: checks the requests that a configuration names.
        one: checks the name of one request.
        opaque: checks a configuration's parameters.
    """
    status, before = part(new, "status"), part(old, "status")
    found = list(_reserved(status))
    found += _devices(status)
    if items(status, "reservedFor"):
        found += _may_reserve(new, status, before)
    allocation = status.get("allocation")
    if allocation is not None and before.get("allocation") is not None:
        found += immutable("status.allocation", allocation, before["allocation"])
    elif allocation is not None:
        found += _allocation("status.allocation", allocation, references, one, opaque)
    return found


def _reserved(status: Object) -> Findings:
    path, users = "status.reservedFor", items(status, "reservedFor")
    if len(users) > _MOST_RESERVED:
        yield errors.too_many(path, len(users), _MOST_RESERVED)
        return
    for each, here in indexed(status, "reservedFor", path):
        for key in ("resource", "name", "uid"):
            yield from needed(each, key, here)
    seen: set[str] = set()
    for each, here in indexed(status, "reservedFor", path):
        if text(each, "uid") in seen:
            yield errors.duplicate(here, text(each, "uid"))
        seen.add(text(each, "uid"))


def _may_reserve(new: Object, status: Object, before: Object) -> Findings:
    path = "status.reservedFor"
    if status.get("allocation") is None:
        yield errors.not_allowed(path, "may not be specified when `allocated` is not set")
    elif "deletionTimestamp" in new["metadata"] and any(
        each not in items(before, "reservedFor") for each in items(status, "reservedFor")
    ):
        message = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        yield errors.not_allowed(path, message)


def _identity(found: Object) -> dict[str, str]:
    return {
        "Driver": text(found, "driver"),
        "Pool": text(found, "pool"),
        "Device": text(found, "device"),
        "ShareID": text(found, "shareID"),
    }


def _devices(status: Object) -> Findings:
    results = items(part(status, "allocation", "devices"), "results")
    allocated = [_identity(each) for each in results]
    seen: list[dict[str, str]] = []
    for each, here in indexed(status, "devices", "status.devices"):
        yield from csi_driver_name(f"{here}.driver", text(each, "driver"))
        yield from pool_name(f"{here}.pool", text(each, "pool"))
        yield from say(f"{here}.device", text(each, "device"), names.dns_label(text(each, "device")))
        if "shareID" in each:
            yield from _share(f"{here}.shareID", each["shareID"])
        if _identity(each) not in allocated:
            yield errors.wrong(here, _identity(each), "must be an allocated device in the claim")
        if len(items(each, "conditions")) > _MOST_CONDITIONS:
            yield errors.too_many(f"{here}.conditions", len(items(each, "conditions")), _MOST_CONDITIONS)
        yield from conditions(f"{here}.conditions", items(each, "conditions"))
        if "data" in each:
            yield from raw_object(f"{here}.data", each["data"], _LONGEST_DATA)
        yield from _network(f"{here}.networkData", part(each, "networkData"))
    for each, here in indexed(status, "devices", "status.devices"):
        if _identity(each) in seen:
            yield errors.duplicate(here, _identity(each))
        seen.append(_identity(each))


def raw_object(path: str, value: object, longest: int) -> Findings:
    """Check free-form data, which must be an object."""
    if value is None:
        yield errors.required(path)
    elif not isinstance(value, dict):
        yield errors.wrong(path, "<value omitted>", "must be a valid JSON object")
    elif names.size(errors.value_text(value)) > longest:
        yield errors.too_long(path, longest)


def _network(path: str, found: Object) -> Findings:
    for key, longest in _LONGEST.items():
        if names.size(text(found, key)) > longest:
            yield errors.too_long(f"{path}.{key}", longest)
    addresses = items(found, "ips")
    if len(addresses) > _MOST_ADDRESSES:
        yield errors.too_many(f"{path}.ips", len(addresses), _MOST_ADDRESSES)
        return
    for index, each in enumerate(addresses):
        yield from interface_address(f"{path}.ips[{index}]", each)
        if each in addresses[:index]:
            yield errors.duplicate(f"{path}.ips[{index}]", each)


def _share(path: str, value: str) -> Findings:
    try:
        normal = str(uuid.UUID(value))
    except ValueError:
        yield errors.wrong(path, value, f"error validating uid: invalid UUID length: {names.size(value)}")
        return
    if normal != value:
        message = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
            "hexadecimal characters"
        )
        yield errors.wrong(path, value, message)


def _allocation(
    path: str,
    found: Object,
    references: References,
    one: Callable[[str, str], Findings],
    opaque: Configuration,
) -> Findings:
    devices, here = part(found, "devices"), f"{path}.devices"
    if len(items(devices, "results")) > _MOST_RESULTS:
        yield errors.too_many(f"{here}.results", len(items(devices, "results")), _MOST_RESULTS)
    else:
        for each, place in indexed(devices, "results", f"{here}.results"):
            yield from _result(place, each, one)
    if len(items(devices, "config")) > _MOST_CONFIGURATIONS:
        yield errors.too_many(f"{here}.config", len(items(devices, "config")), _MOST_CONFIGURATIONS)
    else:
        for each, place in indexed(devices, "config", f"{here}.config"):
            source = text(each, "source")
            if not source:
                yield errors.required(f"{place}.source")
            elif source not in _SOURCES:
                yield errors.not_supported(f"{place}.source", source, _SOURCES)
            yield from references(place, each)
            yield from opaque(place, each)
    if "nodeSelector" in found:
        yield from node_selector(f"{path}.nodeSelector", found["nodeSelector"])


def _result(path: str, found: Object, one: Callable[[str, str], Findings]) -> Findings:
    yield from one(f"{path}.request", text(found, "request"))
    yield from csi_driver_name(f"{path}.driver", text(found, "driver"))
    yield from pool_name(f"{path}.pool", text(found, "pool"))
    yield from say(f"{path}.device", text(found, "device"), names.dns_label(text(found, "device")))
    yield from device_slices.binding_conditions(path, found)
    if "shareID" in found:
        yield from _share(f"{path}.shareID", found["shareID"])
