"""Updates of a ResourceClaim's status: what they drop, and their validation. Pure.

Source: `ValidateResourceClaimStatusUpdate` in Kubernetes' `pkg/apis/resource/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.addresses import interface_address
from vcsync.apimachinery.kinds.core.pod_scheduling import node_selector
from vcsync.apimachinery.kinds.core.pod_volumes import csi_driver_name
from vcsync.apimachinery.kinds.resource import device_slices, device_values
from vcsync.apimachinery.kinds.resource.claim_spec import MOST_CONFIGURATIONS, Requests, configuration
from vcsync.apimachinery.kinds.resource.limited_lists import limited, limited_set
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    choice,
    conditions,
    immutable,
    items,
    needed,
    part,
    say,
    text,
)

_SOURCES = ("FromClaim", "FromClass")
_MOST_RESERVED, _MOST_RESULTS, _MOST_CONDITIONS = 256, 32, 8
_LONGEST_DATA, _MOST_ADDRESSES = 10 * 1024, 16
_LONGEST = {"interfaceName": 256, "hardwareAddress": 128}


def drop_deallocated(new: Object, old: Object) -> None:
    """Drop what drivers reported of devices that an update deallocates, in place.

    Source: `dropDeallocatedStatusDevices` in Kubernetes' `pkg/registry/resource/resourceclaim`.
    """
    status, before = part(new, "status"), part(old, "status")
    kept = _allocated(status)
    freed = [each for each in _allocated(before) if each not in kept]
    if any(_identity(each) in freed for each in items(status, "devices")):
        status["devices"] = [each for each in items(status, "devices") if _identity(each) not in freed]


def findings(new: Object, old: Object) -> list[FieldError]:
    """Return the findings on the new status of a claim; `old`: the stored claim."""
    status, before = part(new, "status"), part(old, "status")
    found = list(_reserved(status))
    found += _devices(status)
    if items(status, "reservedFor"):
        found += _may_reserve(new, status, before)
    allocation = status.get("allocation")
    if allocation is not None and before.get("allocation") is not None:
        found += immutable("status.allocation", allocation, before["allocation"])
    elif allocation is not None:
        found += _allocation("status.allocation", allocation, Requests(part(new, "spec")))
    return found


def _reserved(status: Object) -> Findings:
    def user(path: str, found: Object) -> Findings:
        for key in ("resource", "name", "uid"):
            yield from needed(found, key, path)

    yield from limited_set(
        "status.reservedFor",
        status,
        "reservedFor",
        _MOST_RESERVED,
        user,
        identity=lambda each: text(each, "uid"),
    )


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


def _allocated(status: Object) -> list[dict[str, str]]:
    return [_identity(each) for each in items(part(status, "allocation", "devices"), "results")]


def _devices(status: Object) -> Findings:
    allocated = _allocated(status)

    def device(path: str, found: Object) -> Findings:
        yield from _device(path, found)
        if "shareID" in found:
            yield from device_values.uid(f"{path}.shareID", text(found, "shareID"))
        if _identity(found) not in allocated:
            yield errors.wrong(path, _identity(found), "must be an allocated device in the claim")
        reported = items(found, "conditions")
        if len(reported) > _MOST_CONDITIONS:
            yield errors.too_many(f"{path}.conditions", len(reported), _MOST_CONDITIONS)
        yield from conditions(f"{path}.conditions", reported)
        if found.get("data") is not None:
            yield from device_values.raw_object(f"{path}.data", found["data"], _LONGEST_DATA)
        yield from _network(f"{path}.networkData", part(found, "networkData"))

    every = len(items(status, "devices"))
    yield from limited_set("status.devices", status, "devices", every, device, identity=_identity)


def _device(path: str, found: Object) -> Findings:
    yield from csi_driver_name(f"{path}.driver", text(found, "driver"))
    yield from device_values.pool_name(f"{path}.pool", text(found, "pool"))
    yield from say(f"{path}.device", text(found, "device"), names.dns_label(text(found, "device")))


def _network(path: str, found: Object) -> Findings:
    for key, longest in _LONGEST.items():
        if names.size(text(found, key)) > longest:
            yield errors.too_long(f"{path}.{key}", longest)
    yield from limited_set(f"{path}.ips", found, "ips", _MOST_ADDRESSES, interface_address, identity=str)


def _allocation(path: str, found: Object, requests: Requests) -> Findings:
    devices, here = part(found, "devices"), f"{path}.devices"

    def result(place: str, each: Object) -> Findings:
        yield from requests.reference(f"{place}.request", text(each, "request"))
        yield from _device(place, each)
        yield from device_slices.binding_conditions(place, each)
        if "shareID" in each:
            yield from device_values.uid(f"{place}.shareID", text(each, "shareID"))

    def settings(place: str, each: Object) -> Findings:
        yield from choice(f"{place}.source", text(each, "source"), _SOURCES)
        yield from requests.references(place, each)
        yield from configuration(place, each)

    yield from limited(f"{here}.results", devices, "results", _MOST_RESULTS, result)
    # The class and the claim may each have as many.
    yield from limited(f"{here}.config", devices, "config", 2 * MOST_CONFIGURATIONS, settings)
    if "nodeSelector" in found:
        yield from node_selector(f"{path}.nodeSelector", found["nodeSelector"])
