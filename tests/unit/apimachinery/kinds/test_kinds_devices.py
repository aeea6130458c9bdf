"""Devices: what ResourceSlices tell of them, what claims ask for, and what is told of claims."""

from copy import deepcopy

import pytest

from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS
from vcsync.apimachinery.kinds.resource import device_slices, device_values, request_policies
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


@pytest.mark.parametrize(
    ("lists", "stored", "refused"),
    [
        ({"devices": [], "sharedCounters": []}, {}, True),
        ({"devices": [{"name": "d"}], "sharedCounters": []}, {}, True),
        ({"devices": []}, {}, False),
        ({"sharedCounters": []}, {}, False),
        ({"devices": [{"name": "d"}]}, {"devices": [{"name": "d"}]}, False),
    ],
)
def test_an_empty_list_counts_only_beside_the_other_list_of_a_slice(lists, stored, refused):
    found = deepcopy(SLICE)
    del found["spec"]["devices"]
    found["spec"] |= lists
    _of("ResourceSlice").default(found)
    messages = [each.body for each in _of("ResourceSlice").validate(found)]
    if refused:
        assert messages == ['Invalid value: "": only one of `sharedCounters` or `devices` is allowed']
    else:
        assert not messages
        assert {key: found["spec"][key] for key in lists if key in found["spec"]} == stored


REQUEST = {"name": "r", "exactly": {"deviceClassName": "d", "allocationMode": "ExactCount", "count": 1}}
EITHER = {"name": "f", "firstAvailable": [{"name": "a", "deviceClassName": "d", "allocationMode": "All"}]}


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ({"requests": [REQUEST] * 33}, ["requests"]),
        ({"requests": [{"name": "f", "firstAvailable": EITHER["firstAvailable"] * 9}]}, ["requests[0].firstAvailable"]),
        ({"requests": [REQUEST, REQUEST, {"name": "s"}]}, ["requests[2]", "requests[1]"]),
        ({"constraints": [{}] * 33, "config": [{}] * 33}, ["constraints", "config"]),
        (
            {"requests": [REQUEST], "config": [{"requests": ["r"] * 33, "opaque": {"driver": "d", "parameters": {}}}]},
            ["config[0].requests"],
        ),
        (
            {"requests": [REQUEST, EITHER], "constraints": [{"requests": ["r", "f", "f/a"], "matchAttribute": "d/a"}]},
            [],
        ),
        (
            {"requests": [REQUEST, EITHER], "constraints": [{"requests": ["f/b", "r/a", "f/a/b"], "matchAttribute": "d/a"}]},
            [f"constraints[0].requests[{at}]" for at in range(3)],
        ),
        (
            {"requests": [{**REQUEST, "name": "a/b"}], "constraints": [{"requests": ["a/b"], "matchAttribute": "d/a"}]},
            ["requests[0].name", "constraints[0].requests[0]"],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_claim(devices, expected):
    found = _of("ResourceClaim").validate({"metadata": {"name": "c"}, "spec": {"devices": devices}})
    assert [each.field.removeprefix("spec.devices.") for each in found] == expected


def test_a_class_has_at_most_32_configurations():
    found = _of("DeviceClass").validate({"metadata": {"name": "c"}, "spec": {"config": [{}] * 33}})
    assert [str(each) for each in found] == ["spec.config: Too many: 33: must have at most 32 items"]


def test_a_policy_without_a_default_lacks_it_even_if_it_is_null():
    found = list(request_policies.policy("p", {"default": None, "validValues": ["1"]}, "1"))
    assert [str(each) for each in found] == [
        "p.default: Required value: required when validValues is defined"
    ]


@pytest.mark.parametrize(
    ("least", "step", "shown"), [("9Gi", "1Gi", "10Gi"), ("9", "1Gi", "1073741833"), ("0", "9Gi", "9Gi")]
)
def test_one_step_is_shown_in_the_notation_of_its_origin(least, step, shown):
    asked = {"default": least, "validRange": {"min": least, "step": step}}
    found = request_policies.policy("p", asked, "8")
    assert f"one step {shown} is larger than capacity value: 8" in "".join(map(str, found))


def test_long_names_of_attributes_are_shortened_by_bytes():
    made = deepcopy(SLICE)
    made["spec"]["devices"][0]["attributes"] = {"é" * 60: {}}
    shown = "é" * 23 + "\N{REPLACEMENT CHARACTER}..." + "é" * 23
    assert _fields(_of("ResourceSlice").validate(made))[-1] == f"attributes[{shown}]"


def test_capitals_in_the_name_of_a_driver_cause_a_warning():
    made = deepcopy(SLICE)
    made["spec"]["driver"] = "D.example"
    assert _of("ResourceSlice").warnings(made, None) == [
        'spec.driver: driver names should be lowercase; "D.example" contains uppercase characters'
    ]
    assert not _of("ResourceSlice").warnings(SLICE, None)


def test_what_identifies_a_slice_does_not_change():
    made = deepcopy(SLICE)
    made["spec"] |= {"driver": "b.example", "nodeName": "m", "pool": {**SLICE["spec"]["pool"], "name": "q"}}
    found = _of("ResourceSlice").validate_update(made, SLICE)
    assert [each.field for each in found] == ["spec.pool.name", "spec.driver", "spec.nodeName"]


UUID = "00000000-0000-4000-8000-0000000000aa"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (UUID, ""),
        ("x", "error validating uid: invalid UUID length: 1"),
        (UUID.replace("-", "x", 1), "error validating uid: invalid UUID format"),
        (f"[{UUID}]", "error validating uid: invalid bracketed UUID format"),
        (f"uri:uuid:{UUID}", 'error validating uid: invalid urn prefix: "uri:uuid:"'),
        ("g" * 32, "error validating uid: invalid UUID format"),
        *((each, "uid must be in RFC 4122") for each in (UUID.upper(), UUID.replace("-", ""), f"{{{UUID}}}", f"URN:UUID:{UUID}")),
    ],
)  # fmt: skip
def test_uids_are_uuids_in_normalized_form(value, message):
    found = [each.body for each in device_values.uid("u", value)]
    assert len(found) == bool(message)
    assert all(message in each for each in found)


def test_what_drivers_report_goes_with_the_allocation():
    other = RESULT | {"device": "e"}
    old = {
        **CLAIM,
        "status": {"allocation": {"devices": {"results": [RESULT, other]}}, "devices": [RESULT, other]},
    }
    new = {**CLAIM, "status": {"allocation": {"devices": {"results": [other]}}, "devices": [RESULT, other]}}
    _of("ResourceClaim").status.prepare(new, old, Context("t", User("u"), NOW))
    assert new["status"]["devices"] == [other]
