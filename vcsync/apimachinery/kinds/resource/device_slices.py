"""Validation of the devices and shared counters of a ResourceSlice. Pure.

Source: `validateDevice` and what it calls in Kubernetes' `pkg/apis/resource/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.core.pod_scheduling import node_selector
from vcsync.apimachinery.kinds.core.pod_volumes import csi_driver_name
from vcsync.apimachinery.kinds.core.resources import is_native, milli
from vcsync.apimachinery.kinds.resource.limited_lists import limited, limited_set
from vcsync.apimachinery.kinds.resource.request_policies import policy
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, items, keyed, label_key, part, say, text
from vcsync.patterns.linear import linear

EFFECTS = ("NoExecute", "NoSchedule", "None")
_MOST_ENTRIES, _MOST_VALUES = 32, 48
_MOST_TAINTS, _MOST_CONSUMED, _MOST_COUNTERS, _MOST_SETS = 16, 2, 32, 8
_MOST_CONDITIONS = 4
_LONGEST_VALUE, _LONGEST_ID, _LONGEST_KEY = 64, 32, 63 + 1 + 32
_LISTS = ("bools", "ints", "strings", "versions")
_MAPPINGS = "nodeAllocatableResourceMappings"
_VERSION = linear(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
)
_SELECTION = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
    "true in the ResourceSlice spec"
)
_NO_SELECTION = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)


def drop_disabled(spec: Object, before: Object) -> None:
    """Drop fields of disabled features from a spec in place, unless `before` has them.

    The features are DRAListTypeAttributes and DRANodeAllocatableResources (`dropDisabledFields` of Kubernetes'
    `pkg/registry/resource/resourceslice`).
    """
    lists = any(_has_lists(each) for each in items(before, "devices"))
    mapped = any(_MAPPINGS in each for each in items(before, "devices"))
    for each in items(spec, "devices"):
        if not mapped:
            each.pop(_MAPPINGS, None)
        for attribute in () if lists else part(each, "attributes").values():
            for key in _LISTS:
                attribute.pop(key, None)


def most_devices(spec: Object) -> int:
    """Return the largest number of devices that a slice may have."""
    advanced = any(
        items(each, "taints") or items(each, "consumesCounters") or _has_lists(each)
        for each in items(spec, "devices")
    )
    return 64 if advanced else 128


def _has_lists(device: Object) -> bool:
    return any(key in each for each in part(device, "attributes").values() for key in _LISTS)


def device(path: str, found: Object, before: Object | None, *, per_device: bool) -> Findings:
    """Check one device; `before` is the stored device of the same name."""
    yield from say(f"{path}.name", text(found, "name"), names.dns_label(text(found, "name")))
    attributes, capacity = part(found, "attributes"), part(found, "capacity")
    if len(attributes) + len(capacity) > _MOST_ENTRIES:
        message = f"the total number of attributes and capacities must not exceed {_MOST_ENTRIES}"
        yield errors.wrong(path, len(attributes) + len(capacity), message)
    values = sum(_values(each) for each in attributes.values())
    if values > _MOST_VALUES:
        yield errors.wrong(
            path, values, f"the total number of attribute values must not exceed {_MOST_VALUES}"
        )
    for name, each in attributes.items():
        yield from qualified_name(f"{path}.attributes", name)
        yield from _attribute(keyed(f"{path}.attributes", _truncated(name)), each)
    for name, each in capacity.items():
        yield from qualified_name(f"{path}.capacity", name)
        here = f"{keyed(f'{path}.capacity', _truncated(name))}.requestPolicy"
        given = each.get("requestPolicy")
        if given is not None and found.get("allowMultipleAllocations"):
            yield from policy(here, given, each.get("value"))
        elif given is not None:
            yield errors.not_allowed(here, "allowMultipleAllocations must be true")
    if before is None or before.get("taints") != found.get("taints"):
        yield from limited(f"{path}.taints", found, "taints", _MOST_TAINTS, taint)
    yield from limited_set(
        f"{path}.consumesCounters",
        found,
        "consumesCounters",
        _MOST_CONSUMED,
        lambda here, each: _counters(here, each, "counterSet"),
        identity=lambda each: text(each, "counterSet"),
    )
    yield from _selection(path, found, per_device=per_device)
    yield from binding_conditions(path, found)
    yield from _mappings(f"{path}.{_MAPPINGS}", found, capacity)


def counter_sets(path: str, spec: Object) -> Findings:
    """Check the counters that devices share."""
    yield from limited_set(
        path,
        spec,
        "sharedCounters",
        _MOST_SETS,
        lambda here, each: _counters(here, each, "name"),
        identity=lambda each: text(each, "name"),
    )


def _counters(path: str, found: Object, named: str) -> Findings:
    name, counters = text(found, named), part(found, "counters")
    if name:
        yield from say(f"{path}.{named}", name, names.dns_label(name))
    else:
        yield errors.required(f"{path}.{named}")
    if not counters:
        yield errors.required(f"{path}.counters")
    elif len(counters) > _MOST_COUNTERS:
        yield errors.too_many(f"{path}.counters", len(counters), _MOST_COUNTERS)
    else:
        for counter in counters:
            yield from say(f"{path}.counters", counter, names.dns_label(counter))


def _values(attribute: Object) -> int:
    lists = sum(len(items(attribute, key)) for key in _LISTS)
    return lists or 1


def _truncated(name: str) -> str:
    if names.size(name) <= _LONGEST_KEY:
        return name
    whole, left = name.encode(), _LONGEST_KEY - 3
    return (whole[: (left + 1) // 2] + b"..." + whole[-(left // 2) :]).decode(errors="replace")


def qualified_name(path: str, name: str) -> Findings:
    """Check a name with or without a domain. A name with more than one slash gets one finding only."""
    parts = name.split("/")
    if len(parts) == 1:
        yield from _identifier(path, name)
    elif len(parts) == 2:
        domain, own = parts
        if domain:
            yield from csi_driver_name(path, domain)
        else:
            yield errors.wrong(path, "", "the domain must not be empty")
        if own:
            yield from _identifier(path, own)
        else:
            yield errors.wrong(path, "", "the name must not be empty")


def _identifier(path: str, name: str) -> Findings:
    if names.size(name) > _LONGEST_ID:
        yield errors.too_long(path, _LONGEST_ID)
    yield from say(path, name, names.identifier(name))


def _attribute(path: str, found: Object) -> Findings:
    given = 0
    for key in ("bool", "int", "string", "version", *_LISTS):
        if key not in found:
            continue
        given += 1
        value, here = found[key], f"{path}.{key}"
        check = {"string": _string_value, "version": _version_value}.get(key.rstrip("s"))
        if not isinstance(value, list):
            if check:
                yield from check(here, value)
            continue
        if not value:
            yield errors.wrong(here, value, "must not be empty if specified")
        if check:
            for index, each in enumerate(value):
                yield from check(f"{here}[{index}]", each)
    if given != 1:
        yield errors.wrong(path, found if given else "", "exactly one value must be specified")


def _string_value(path: str, value: str) -> Findings:
    if names.size(value) > _LONGEST_VALUE:
        yield errors.too_long(path, _LONGEST_VALUE)


def _version_value(path: str, value: str) -> Findings:
    if not _VERSION.fullmatch(value):
        yield errors.wrong(path, value, "must be a string compatible with semver.org spec 2.0.0")
    yield from _string_value(path, value)


def taint(path: str, found: Object) -> Findings:
    """Check a taint of a device."""
    key, value, effect = text(found, "key"), text(found, "value"), text(found, "effect")
    yield from say(f"{path}.key", key, names.qualified_name(key))
    if value:
        yield from say(f"{path}.value", value, names.label_value(value))
    if not effect:
        yield errors.required(f"{path}.effect")
    elif effect not in EFFECTS:
        yield errors.not_supported(f"{path}.effect", effect, EFFECTS)


def toleration(path: str, found: Object) -> Findings:
    """Check a request's toleration of device taints."""
    key, value, effect = text(found, "key"), text(found, "value"), text(found, "effect")
    if key:
        yield from say(f"{path}.key", key, names.qualified_name(key))
    operator = text(found, "operator")
    if operator == "Exists":
        if value:
            yield errors.wrong(f"{path}.value", value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from say(f"{path}.value", value, names.label_value(value))
    elif operator:
        yield errors.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    else:
        yield errors.required(f"{path}.operator")
    if effect and effect not in EFFECTS:
        yield errors.not_supported(f"{path}.effect", effect, EFFECTS)


def _selection(path: str, found: Object, *, per_device: bool) -> Findings:
    keys = ("nodeName", "nodeSelector", "allNodes")
    if not per_device:
        if any(key in found for key in keys):
            yield errors.wrong(path, None, _NO_SELECTION)
        return
    given = [key for key in keys if found.get(key) or (key == "nodeSelector" and key in found)]
    node = text(found, "nodeName")
    if node:
        yield from say(f"{path}.nodeName", node, names.dns_subdomain(node))
    elif "nodeName" in found:
        yield errors.wrong(f"{path}.nodeName", node, "must not be empty")
    if "nodeSelector" in found:
        yield from node_selector(f"{path}.nodeSelector", found["nodeSelector"])
    if found.get("allNodes") is False:
        yield errors.wrong(f"{path}.allNodes", False, "must be either unset or set to true")
    if not given:
        yield errors.required(path, _SELECTION)
    elif len(given) > 1:
        yield errors.wrong(path, "{" + ", ".join(f"`{key}`" for key in given) + "}", _SELECTION)


def binding_conditions(path: str, found: Object) -> Findings:
    """Check the binding conditions and binding failure conditions of a device."""
    for key in ("bindingConditions", "bindingFailureConditions"):
        yield from limited(f"{path}.{key}", found, key, _MOST_CONDITIONS, label_key)
    wanted, failing = items(found, "bindingConditions"), items(found, "bindingFailureConditions")
    for key, listed in (("bindingConditions", wanted), ("bindingFailureConditions", failing)):
        seen: set[str] = set()
        for index, each in enumerate(listed):
            place = f"{path}.{key}[{index}]"
            if each in seen:
                yield errors.duplicate(place, each)
            seen.add(each)
            if listed is failing and each in wanted:
                yield errors.wrong(place, each, f"{key} must not overlap with bindingConditions")
    if failing and not wanted:
        message = "bindingConditions are required to use bindingFailureConditions"
        yield errors.wrong(f"{path}.bindingConditions", found.get("bindingConditions"), message)
    if wanted and not failing:
        message = "bindingFailureConditions are required to use bindingConditions"
        yield errors.wrong(f"{path}.bindingFailureConditions", found.get("bindingFailureConditions"), message)


def _mappings(path: str, found: Object, capacity: Object) -> Findings:
    for name, each in part(found, _MAPPINGS).items():
        here = keyed(path, name)
        if not is_native(name):
            yield errors.wrong(here, name, "must be a node allocatable resource name")
        multiplier, key = each.get("allocationMultiplier"), each.get("capacityKey")
        if multiplier is None and key is None:
            yield errors.wrong(here, "", "at least one of allocationMultiplier or capacityKey must be set")
        if multiplier is not None and milli(multiplier) <= 0:
            yield errors.wrong(f"{here}.allocationMultiplier", multiplier, "must be positive")
        if key == "":
            yield errors.wrong(f"{here}.capacityKey", "", "capacityKey must not be an empty string")
        elif key is not None and key not in capacity:
            yield errors.absent(f"{here}.capacityKey", key)
