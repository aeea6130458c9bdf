import pytest

from vcsync.quota.usage import counted, updates_count, usage

GROUP, PLURAL = "resource.k8s.io", "resourceclaims"
GOLD = "gold.deviceclass.resource.k8s.io/devices"
SILVER = "silver.deviceclass.resource.k8s.io/devices"


def request(device_class, mode="ExactCount", count=1):
    return {"deviceClassName": device_class, "allocationMode": mode, "count": count}


def claim(*requests):
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": list(requests)}}}


@pytest.mark.parametrize(
    ("requests", "devices"),
    [
        ([], {}),
        ([{"exactly": request("gold")}], {GOLD: 1000}),
        ([{"exactly": request("gold", count=2)}, {"exactly": request("gold")}], {GOLD: 3000}),
        ([{"exactly": request("gold", "All", 0)}], {GOLD: 32000}),
        ([{"exactly": request("gold", "Later")}], {}),
        ([{"firstAvailable": [request("gold", count=3), request("gold"), request("silver")]}], {GOLD: 3000, SILVER: 1000}),
    ],
)  # fmt: skip
def test_resource_claims_count_devices_by_class(requests, devices):
    found = usage(GROUP, PLURAL, claim(*requests))
    assert {name: each.milli for name, each in found.items()} == {
        "count/resourceclaims.resource.k8s.io": 1000,
        **devices,
    }


def test_device_quotas_apply_to_resource_claims():
    names = [GOLD, "pods", "count/resourceclaims.resource.k8s.io"]
    assert counted(GROUP, PLURAL, names) == ["count/resourceclaims.resource.k8s.io", GOLD]
    assert updates_count(GROUP, PLURAL)
