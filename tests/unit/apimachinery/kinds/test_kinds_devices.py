"""Devices: what ResourceSlices tell of them, what claims ask for, and what is told of claims."""

from copy import deepcopy

import pytest

from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.kinds.resource import device_slices
from vcsync.apimachinery.strategy import Context, User

GROUP = "resource.k8s.io"
NOW = "2026-01-01T00:00:00Z"
SLICE = {
    "metadata": {"name": "s"},
    "spec": {
        "driver": "a.example",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d"}],
    },
}
CLAIM = {
    "metadata": {"name": "c"},
    "spec": {
        "devices": {
            "requests": [
                {"name": "r", "exactly": {"deviceClassName": "d", "allocationMode": "ExactCount", "count": 1}}
            ]
        }
    },
}
RESULT = {"request": "r", "driver": "a.example", "pool": "p", "device": "d"}


def _of(kind):
    return BEHAVIOURS[GROUP, kind]


def _fields(found):
    return [each.field.removeprefix("spec.devices[0].") for each in found]


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ({}, []),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, []),
        ({"taints": [{"key": "a b", "effect": "Never"}]}, ["taints[0].key", "taints[0].effect"]),
        ({"taints": [{"key": "a", "value": "b c"}]}, ["taints[0].value", "taints[0].effect"]),
        ({"attributes": {"a": {"string": "x"}, "b.example/c": {"int": 1}}}, []),
        ({"attributes": {"a": {}}}, ["attributes[a]"]),
        ({"attributes": {"a": {"int": 1, "bool": True}}}, ["attributes[a]"]),
        ({"attributes": {"a": {"version": "one"}}}, ["attributes[a].version"]),
        ({"attributes": {"a": {"version": "1.2.3-rc.1+b"}}}, []),
        ({"attributes": {"a": {"string": "x" * 65}}}, ["attributes[a].string"]),
        ({"attributes": {"a": {"ints": []}}}, ["attributes[a].ints"]),
        ({"attributes": {"not one": {"int": 1}}}, ["attributes"]),
        ({"attributes": {"/a": {"int": 1}}}, ["attributes"]),
        ({"attributes": {"a.example/": {"int": 1}}}, ["attributes"]),
        ({"capacity": {"a": {"value": "1", "requestPolicy": {}}}}, ["capacity[a].requestPolicy"]),
        ({"nodeName": "n"}, ["spec.devices[0]"]),
        ({"bindingConditions": ["a"]}, ["bindingFailureConditions"]),
        ({"bindingFailureConditions": ["a"]}, ["bindingConditions"]),
        ({"bindingConditions": ["a", "a"], "bindingFailureConditions": ["b"]}, ["bindingConditions[1]"]),
        ({"bindingConditions": ["a"], "bindingFailureConditions": ["a"]}, ["bindingFailureConditions[0]"]),
        ({"consumesCounters": [{"counterSet": "c", "counters": {"a": {"value": "1"}}}]}, []),
        ({"consumesCounters": [{}]}, ["consumesCounters[0].counterSet", "consumesCounters[0].counters"]),
        (
            {"consumesCounters": [{"counterSet": "c", "counters": {"A": {}}}] * 2},
            ["consumesCounters[0].counters", "consumesCounters[1].counters", "consumesCounters[1]"],
        ),
        (
            {"nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "0"}}},
            ["nodeAllocatableResourceMappings[cpu].allocationMultiplier"],
        ),
        (
            {"nodeAllocatableResourceMappings": {"a.example/b": {"capacityKey": "k"}}},
            [
                "nodeAllocatableResourceMappings[a.example/b]",
                "nodeAllocatableResourceMappings[a.example/b].capacityKey",
            ],
        ),
    ],
)
def test_what_is_wrong_with_a_device(device, expected):
    made = deepcopy(SLICE)
    made["spec"]["devices"][0] |= device
    assert _fields(_of("ResourceSlice").validate(made)) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"default": "1", "validValues": ["1", "2"]}, []),
        ({"validValues": ["1"]}, ["default"]),
        (
            {"default": "3", "validValues": ["2", "1", "9"]},
            ["validValues[1]", "validValues[2]", "validValues"],
        ),
        ({"default": "1", "validRange": {"min": "1", "max": "3", "step": "1"}}, []),
        ({"default": "1", "validRange": {}}, ["validRange.min"]),
        ({"default": "1", "validRange": {"min": "2", "max": "9"}}, ["validRange.min", "validRange.max"]),
        ({"default": "2", "validRange": {"min": "1", "step": "2"}}, ["validRange.step"]),
        ({"default": "1", "validRange": {"min": "1"}, "validValues": ["1"]}, [""]),
    ],
)
def test_what_may_be_asked_of_a_capacity(policy, expected):
    made = deepcopy(SLICE)
    capacity = {"a": {"value": "4", "requestPolicy": policy}}
    made["spec"]["devices"][0] |= {"allowMultipleAllocations": True, "capacity": capacity}
    found = _fields(_of("ResourceSlice").validate(made))
    assert [each.removeprefix("capacity[a].requestPolicy").lstrip(".") for each in found] == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeSelector": {"nodeSelectorTerms": []}}, ["spec.nodeSelector.nodeSelectorTerms"] * 2 + ["spec"]),
        ({"allNodes": False}, ["spec.allNodes"]),
        ({"perDeviceNodeSelection": True}, ["spec", "spec.devices[0]"]),
        ({"sharedCounters": [{"name": "c", "counters": {"a": {"value": "1"}}}]}, ["spec"]),
        ({"devices": [{"name": "d"}, {"name": "d"}]}, ["spec.devices[1]"]),
        ({"devices": [{"name": f"d{at}"} for at in range(129)]}, ["spec.devices"]),
    ],
)
def test_what_is_wrong_with_a_slice(spec, expected):
    made = deepcopy(SLICE)
    made["spec"] |= spec
    assert [each.field for each in _of("ResourceSlice").validate(made)] == expected


def test_disabled_features_of_devices_are_dropped_unless_they_were_in_use():
    device = {"name": "d", "attributes": {"a": {"ints": [1]}}, "nodeAllocatableResourceMappings": {"cpu": {}}}
    fresh, kept = ({"devices": [deepcopy(device)]} for _ in range(2))
    device_slices.drop_disabled(fresh, {})
    assert fresh == {"devices": [{"name": "d", "attributes": {"a": {}}}]}
    device_slices.drop_disabled(kept, {"devices": [device]})
    assert kept == {"devices": [device]}


def test_taints_of_devices_tell_when_they_were_added():
    made = deepcopy(SLICE)
    made["spec"]["devices"][0]["taints"] = [{"key": "a", "effect": "NoSchedule"}]
    _of("ResourceSlice").prepare_create(made, Context("t", User("me"), NOW))
    assert made["spec"]["devices"][0]["taints"][0]["timeAdded"] == NOW


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, []),
        ({"operator": "Exists", "value": "x"}, ["value"]),
        ({"operator": "Equal", "value": "a b"}, ["value"]),
        ({"operator": "Like", "effect": "Never"}, ["operator", "effect"]),
        ({"key": "a b"}, ["key", "operator"]),
    ],
)
def test_what_is_wrong_with_a_toleration(toleration, expected):
    found = device_slices.toleration("t", toleration)
    assert [each.field.removeprefix("t.") for each in found] == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, []),
        ({"allocation": {"devices": {"results": [RESULT]}}, "devices": [RESULT]}, []),
        ({"devices": [RESULT]}, ["status.devices[0]"]),
        ({"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}, ["status.reservedFor"]),
        (
            {"reservedFor": [{}] * 2},
            [f"status.reservedFor[{at}].{key}" for at in range(2) for key in ("resource", "name", "uid")]
            + ["status.reservedFor[1]", "status.reservedFor"],
        ),
        (
            {"allocation": {"devices": {"results": [RESULT | {"request": "other"}]}}},
            ["status.allocation.devices.results[0].request"],
        ),
        (
            {"allocation": {"devices": {"results": [RESULT | {"shareID": "x"}]}}},
            ["status.allocation.devices.results[0].shareID"],
        ),
        (
            {"allocation": {"devices": {"config": [{"source": "Elsewhere"}]}}},
            ["status.allocation.devices.config[0].source", "status.allocation.devices.config[0].opaque"],
        ),
    ],
)
def test_what_is_wrong_with_a_claims_status(status, expected):
    found = _of("ResourceClaim").status.validate({**CLAIM, "status": status}, CLAIM)
    assert [each.field for each in found] == expected


def test_an_allocation_does_not_change():
    old = {**CLAIM, "status": {"allocation": {"devices": {"results": [RESULT]}}}}
    new = {**CLAIM, "status": {"allocation": {"devices": {"results": []}}}}
    assert [each.field for each in _of("ResourceClaim").status.validate(new, old)] == ["status.allocation"]


def test_a_claim_template_has_labels_and_annotations_only():
    made = {"spec": {"metadata": {"labels": {"a": "b"}, "name": "x"}, "spec": CLAIM["spec"]}}
    assert [each.field for each in _of("ResourceClaimTemplate").validate(made)] == ["spec.metadata.name"]


def _with_empty_counters(**spec):
    found = deepcopy(SLICE)
    found["spec"] |= {"sharedCounters": [], **spec}
    _of("ResourceSlice").default(found)
    return found


def test_an_empty_list_of_counters_is_refused_beside_devices():
    found = _with_empty_counters()
    _of("ResourceSlice").prepare_create(found, Context("t", User("u"), NOW))
    assert [each.body for each in _of("ResourceSlice").validate(found)] == [
        'Invalid value: "": only one of `sharedCounters` or `devices` is allowed'
    ]


def test_an_empty_list_of_counters_is_not_stored():
    found = _with_empty_counters(devices=[])
    _of("ResourceSlice").prepare_create(found, Context("t", User("u"), NOW))
    assert not {"sharedCounters", "devices"} & set(found["spec"])
    assert not _of("ResourceSlice").validate(found)
