"""Validation of the devices and shared counters of a ResourceSlice. Pure.

Source: `validateDevice` and what it calls in Kubernetes' `pkg/apis/resource/validation`.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.core.pod_scheduling import node_selector
from vcsync.apimachinery.kinds.core.pod_volumes import csi_driver_name
from vcsync.apimachinery.kinds.core.resources import is_native, milli
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, indexed, items, keyed, part, say, text
from vcsync.objects import quantity

EFFECTS = ("NoExecute", "NoSchedule", "None")
_MOST_ENTRIES, _MOST_VALUES = 32, 48
_MOST_TAINTS, _MOST_CONSUMED, _MOST_COUNTERS, _MOST_SETS = 16, 2, 32, 8
_MOST_CONDITIONS = 4
_MOST_OPTIONS = 10
_LONGEST_VALUE, _LONGEST_ID, _LONGEST_KEY = 64, 32, 63 + 1 + 32
_LISTS = ("bools", "ints", "strings", "versions")
_MAPPINGS = "nodeAllocatableResourceMappings"
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
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
        policy, here = (
            each.get("requestPolicy"),
            f"{keyed(f'{path}.capacity', _truncated(name))}.requestPolicy",
        )
        if policy is not None and found.get("allowMultipleAllocations"):
            yield from _policy(here, policy, each.get("value"))
        elif policy is not None:
            yield errors.not_allowed(here, "allowMultipleAllocations must be true")
    if before is None or before.get("taints") != found.get("taints"):
        yield from _limited(f"{path}.taints", found, "taints", _MOST_TAINTS, taint)
    yield from _counted(f"{path}.consumesCounters", found, "consumesCounters", _MOST_CONSUMED, "counterSet")
    yield from _selection(path, found, per_device=per_device)
    yield from binding_conditions(path, found)
    yield from _mappings(f"{path}.{_MAPPINGS}", found, capacity)


def counter_sets(path: str, spec: Object) -> Findings:
    """Check the counters that devices share."""
    yield from _counted(path, spec, "sharedCounters", _MOST_SETS, "name")


def _limited(
    path: str, found: Object, key: str, most: int, check: Callable[[str, Any], Findings]
) -> Findings:
    if len(items(found, key)) > most:
        yield errors.too_many(path, len(items(found, key)), most)
        return
    for each, here in indexed(found, key, path):
        yield from check(here, each)


def _counted(path: str, found: Object, key: str, most: int, named: str) -> Findings:
    if len(items(found, key)) > most:
        yield errors.too_many(path, len(items(found, key)), most)
        return
    for each, here in indexed(found, key, path):
        name = text(each, named)
        if name:
            yield from say(f"{here}.{named}", name, names.dns_label(name))
        else:
            yield errors.required(f"{here}.{named}")
        counters = part(each, "counters")
        if not counters:
            yield errors.required(f"{here}.counters")
        elif len(counters) > _MOST_COUNTERS:
            yield errors.too_many(f"{here}.counters", len(counters), _MOST_COUNTERS)
        else:
            for counter in counters:
                yield from say(f"{here}.counters", counter, names.dns_label(counter))
    seen: set[str] = set()
    for each, here in indexed(found, key, path):
        if text(each, named) in seen:
            yield errors.duplicate(here, text(each, named))
        seen.add(text(each, named))


def _values(attribute: Object) -> int:
    lists = sum(len(items(attribute, key)) for key in _LISTS)
    return lists or 1


def _truncated(name: str) -> str:
    if names.size(name) <= _LONGEST_KEY:
        return name
    left = _LONGEST_KEY - 3
    return f"{name[: (left + 1) // 2]}...{name[-(left // 2) :]}"


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


def _policy(path: str, policy: Object, capacity: Any) -> Findings:
    options, within = items(policy, "validValues"), policy.get("validRange")
    if options and within is not None:
        message = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        yield errors.not_allowed(path, message)
    elif options or within is not None:
        key = "validValues" if options else "validRange"
        if "default" not in policy:
            yield errors.required(f"{path}.default", f"required when {key} is defined")
        elif options:
            yield from _options(f"{path}.{key}", options, policy["default"], capacity)
        else:
            yield from _range(f"{path}.{key}", part(policy, key), policy["default"], capacity)


def _options(path: str, options: Sequence[Any], default: Any, capacity: Any) -> Findings:
    sizes = [milli(each) for each in options]
    for index, (one, following) in enumerate(pairwise(sizes), 1):
        if one > following:
            yield errors.wrong(f"{path}[{index}]", options[index], "values must be sorted in ascending order")
    if len(options) > _MOST_OPTIONS:
        yield errors.too_many(path, len(options), _MOST_OPTIONS)
    else:
        for index, size in enumerate(sizes):
            if size > milli(capacity):
                message = f"option is larger than capacity value: {capacity}"
                yield errors.wrong(f"{path}[{index}]", options[index], message)
        seen: set[int] = set()
        for index, size in enumerate(sizes):
            whole = _whole(size)
            if whole in seen:
                yield errors.duplicate(f"{path}[{index}]", str(whole))
            seen.add(whole)
    if len(options) > _MOST_OPTIONS or milli(default) not in sizes:
        yield errors.wrong(path, default, "default value is not valid according to the requestPolicy")


def _range(path: str, found: Object, default: Any, capacity: Any) -> Findings:
    if "min" not in found:
        yield errors.required(f"{path}.min", "required when validRange is defined")
        return
    least, most, step = found["min"], found.get("max"), found.get("step")
    if milli(least) > milli(capacity):
        yield errors.wrong(f"{path}.min", least, f"min is larger than capacity value: {capacity}")
    if milli(default) < milli(least):
        yield errors.wrong(f"{path}.min", default, f"default is less than min: {least}")
    if most is not None:
        if milli(least) > milli(most):
            yield errors.wrong(f"{path}.max", least, f"min is larger than max: {most}")
        if milli(most) > milli(capacity):
            yield errors.wrong(f"{path}.max", most, f"max is larger than capacity value: {capacity}")
        if milli(default) > milli(most):
            yield errors.wrong(f"{path}.max", default, f"default is more than max: {most}")
    if step is not None and _whole(milli(step)):
        yield from _steps(f"{path}.step", found, default, capacity)


def _steps(path: str, found: Object, default: Any, capacity: Any) -> Findings:
    least, step = found["min"], found["step"]
    one = milli(least) + milli(step)
    if one > milli(capacity):
        yield errors.wrong(
            path, step, f"one step {quantity.canonical(one)} is larger than capacity value: {capacity}"
        )
    for value in (default, found.get("max")):
        if value is None:
            continue
        over = _whole(milli(value)) - _whole(milli(least))
        if over % _whole(milli(step)):
            yield errors.wrong(
                path, value, f"value is not a multiple of a given step ({step}) from ({least})"
            )


def _whole(size: int) -> int:
    """Return a number of thousandths as a whole number, rounded up."""
    return -(-size // 1000)


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
        here = f"{path}.{key}"
        if len(items(found, key)) > _MOST_CONDITIONS:
            yield errors.too_many(here, len(items(found, key)), _MOST_CONDITIONS)
            continue
        for each, place in indexed(found, key, here):
            yield from say(place, each, names.qualified_name(each))
    wanted, failing = items(found, "bindingConditions"), items(found, "bindingFailureConditions")
    for key, listed in (("bindingConditions", wanted), ("bindingFailureConditions", failing)):
        for index, each in enumerate(listed):
            place = f"{path}.{key}[{index}]"
            if each in listed[:index]:
                yield errors.duplicate(place, each)
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
