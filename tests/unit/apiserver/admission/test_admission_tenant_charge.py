"""The rules of tenants' quotas: names and values of limits, what objects use, and which writes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apiserver.admission.charge import QuotaExceeded, Write
from vcsync.apiserver.admission.tenant_charge import TenantQuotaExceeded, charge_tenant
from vcsync.apiserver.admission.tenant_quota_count import corrected
from vcsync.apiserver.tenants.quota_records import QuotaRecord, decode_quota, encode_quota, with_limits
from vcsync.quota.tenants import amounts, charged, free, kinds, needs_objects, problems
from vcsync.quota.usage import Amount

CLAIMS = [("", "persistentvolumeclaims")]
PODS = [("", "pods")]
ADMISSION = "admissionregistration.k8s.io"
GOLD = "gold.storageclass.storage.k8s.io/"


@pytest.mark.parametrize(
    ("name", "of", "objects"),
    [
        ("pods", PODS, True),
        ("cpu", PODS, True),
        ("requests.memory", PODS, True),
        ("limits.ephemeral-storage", PODS, True),
        ("hugepages-2Mi", PODS, True),
        ("requests.hugepages-2Mi", PODS, True),
        ("requests.nvidia.com/gpu", PODS, True),
        ("requests.storage", CLAIMS, True),
        ("persistentvolumeclaims", CLAIMS, False),
        (f"{GOLD}requests.storage", CLAIMS, True),
        (f"{GOLD}persistentvolumeclaims", CLAIMS, True),
        ("gpu.deviceclass.resource.k8s.io/devices", [("resource.k8s.io", "resourceclaims")], True),
        ("services", [("", "services")], False),
        ("services.nodeports", [("", "services")], True),
        ("services.loadbalancers", [("", "services")], True),
        ("configmaps", [("", "configmaps")], False),
        ("secrets", [("", "secrets")], False),
        ("replicationcontrollers", [("", "replicationcontrollers")], False),
        ("resourcequotas", [("", "resourcequotas")], False),
        ("count/pods", PODS, False),
        ("count/persistentvolumeclaims", CLAIMS, False),
        ("count/deployments.apps", [("apps", "deployments")], False),
        ("count/widgets.shop.example.com", [("shop.example.com", "widgets")], False),
        ("namespaces", [("", "namespaces")], False),
        ("count/nodes", [("", "nodes")], False),
        ("customresourcedefinitions", [("apiextensions.k8s.io", "customresourcedefinitions")], False),
        (
            "webhookconfigurations",
            [
                (ADMISSION, "mutatingwebhookconfigurations"),
                (ADMISSION, "validatingwebhookconfigurations"),
            ],
            False,
        ),
    ],
)
def test_each_name_counts_objects_of_its_kinds(name, of, objects):
    assert not list(problems({name: "1"}, "quota"))
    assert kinds(name) == of
    assert needs_objects(name) is objects
    for kind in of:
        assert charged(*kind, [name, "bytes"]) == [name]
    assert charged("example.com", "others", [name]) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("podz", "1", "quota[podz]: there is no such resource: use count/RESOURCE.GROUP, or one of"),
        ("", "1", "quota[]: there is no such resource"),
        ("count/", "1", "quota[count/]: there is no such resource"),
        ("count/Pods", "1", "quota[count/Pods]: there is no such resource"),
        ("requests.cpuu", "1", "quota[requests.cpuu]: there is no such resource"),
        ("count/events", "1", "quota[count/events]: no quota counts this resource: remove it"),
        ("count/events.events.k8s.io", "1", "no quota counts this resource"),
        ("pods", "-1", "quota[pods]: -1 is negative: use 0 to allow none"),
        ("pods", "1500m", "quota[pods]: 1500m is not a whole number, but objects are counted: round it"),
        ("bytes", "0.5", "quota[bytes]: 0.5 is not a whole number"),
        ("count/pods", "0.1", "quota[count/pods]: 0.1 is not a whole number"),
        ("cpu", "many", "quota[cpu]: 'many' is not a quantity"),
        ("x" * 5000, "1", f"quota[{'x' * 100}]: there is no such resource"),
    ],
)
def test_a_wrong_limit_is_named_with_its_remedy(name, value, said):
    (found,) = problems({name: value, "secrets": "1"}, "quota")
    assert said in found
    assert found.startswith("quota[")
    assert len(found) < 400


def test_amounts_need_not_be_whole_and_there_may_not_be_too_many():
    assert not list(problems({"cpu": "0.5", "requests.storage": "1.5", f"{GOLD}requests.storage": "1m"}, "q"))
    assert list(problems({f"count/a{each}": "1" for each in range(65)}, "q")) == [
        "q: there are 65 resources: name at most 64"
    ]


def test_what_no_quota_tracks_is_not_charged():
    assert charged("", "events", ["count/events"]) == []


def test_the_rest_is_never_negative():
    assert free({"pods": "3", "cpu": "2", "memory": "1Gi"}, {"pods": "5", "cpu": "500m"}) == {
        "pods": "0",
        "cpu": "1500m",
    }


def record(hard, used=None, counted=None):
    used = used or dict.fromkeys(hard, "0")
    return QuotaRecord(hard, used, counted or dict.fromkeys(used, 1))


def test_records_are_stored_and_keep_what_was_counted_when_limits_change():
    old = record({"pods": "3", "cpu": "1"}, {"pods": "2", "cpu": "1"})
    assert decode_quota(encode_quota(old)) == old
    new = with_limits(old, {"pods": "9", "secrets": "1", "bytes": "5"})
    assert new == QuotaRecord(
        {"pods": "9", "secrets": "1", "bytes": "5"}, {"pods": "2", "secrets": "0"}, {"pods": 1, "secrets": 0}
    )
    assert new.uncounted() == ["secrets"]
    assert with_limits(None, {"pods": "1"}).uncounted() == ["pods"]


def pod(cpu="1", **more):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}} if cpu else {}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container]}, **more}


def test_a_write_is_charged_up_to_the_limit():
    quota = record({"pods": "2", "requests.cpu": "2"}, {"pods": "1", "requests.cpu": "1500m"})
    after = charge_tenant("acme", Write("", "pods", pod("500m"), None), quota)
    assert after.used == {"pods": "2", "requests.cpu": "2"}
    with pytest.raises(TenantQuotaExceeded) as refused:
        charge_tenant("acme", Write("", "pods", pod("600m"), None), after)
    assert str(refused.value) == (
        "exceeded quota: tenant quota of acme, requested: pods=1,requests.cpu=600m, used: pods=2,requests.cpu=2, "
        "limited: pods=2,requests.cpu=2"
    )


def test_a_pod_must_specify_what_is_limited():
    with pytest.raises(
        QuotaExceeded, match=r"failed quota: tenant quota of acme: must specify requests\.cpu"
    ):
        charge_tenant("acme", Write("", "pods", pod(""), None), record({"requests.cpu": "1"}))


def test_other_kinds_are_not_charged():
    assert charge_tenant("acme", Write("", "secrets", {"metadata": {}}, None), record({"pods": "0"})) is None


def test_a_write_that_shrinks_is_never_refused_and_reports_of_the_status_are_only_charged():
    quota = record({"requests.cpu": "1"}, {"requests.cpu": "4"})
    smaller = charge_tenant("acme", Write("", "pods", pod("2"), pod("3")), quota)
    assert smaller.used == {"requests.cpu": "3"}
    reported = charge_tenant("acme", Write("", "pods", pod("5"), pod("3"), reports_status=True), quota)
    assert reported.used == {"requests.cpu": "6"}
    assert charge_tenant("acme", Write("", "pods", pod("3"), pod("3")), quota) is None
    lost = record({"requests.cpu": "1"}, {"requests.cpu": "1"})
    assert charge_tenant("acme", Write("", "pods", pod("0"), pod("3")), lost).used == {"requests.cpu": "0"}


def test_an_unlimited_name_that_is_still_counted_refuses_nothing():
    quota = QuotaRecord({}, {"pods": "5"}, {"pods": 1})
    assert charge_tenant("acme", Write("", "pods", pod(), None), quota).used == {"pods": "6"}


def test_a_count_changes_the_usage_by_the_difference_at_its_revision():
    then = record({"pods": "9"}, {"pods": "5"})
    now = record({"pods": "9"}, {"pods": "7"})
    fixed = corrected(now, then, {"pods": Amount(3000)}, 8)
    assert (fixed.used, fixed.counted) == ({"pods": "5"}, {"pods": 8})
    assert corrected(now, then, {"pods": Amount(5000)}, 8) is None
    first = QuotaRecord({"pods": "9"}, {"pods": "0"}, {"pods": 0})
    assert corrected(first, first, {"pods": Amount(0)}, 8).counted == {"pods": 8}
    gone = record({"pods": "9"}, {"pods": "1"})
    assert corrected(gone, then, {"pods": Amount(0)}, 8).used == {"pods": "0"}


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["create", "delete", "count", "resize"])), max_size=40
    )
)
def test_the_usage_is_never_less_than_what_exists_nor_more_than_the_limit(steps):
    quota = record({"requests.cpu": "5", "pods": "4"})
    existing = []
    for cpu, step in steps:
        try:
            if step == "create":
                quota = charge_tenant("a", Write("", "pods", pod(str(cpu)), None), quota) or quota
                existing.append(cpu)
            elif step == "resize" and existing:
                write = Write("", "pods", pod(str(cpu)), pod(str(existing[-1])))
                quota = charge_tenant("a", write, quota) or quota
                existing[-1] = cpu
        except QuotaExceeded:
            pass
        if step == "delete" and existing:
            existing.pop()
        if step == "count":
            found = {"requests.cpu": Amount(1000 * sum(existing)), "pods": Amount(1000 * len(existing))}
            quota = corrected(quota, quota, found, 9) or quota
            assert quota.used == {"requests.cpu": str(sum(existing)), "pods": str(len(existing))}
        assert sum(existing) <= int(quota.used["requests.cpu"]) <= 5
        assert len(existing) <= int(quota.used["pods"]) <= 4


def test_what_objects_of_the_cluster_use():
    found = amounts(ADMISSION, "mutatingwebhookconfigurations", {"metadata": {}})
    assert set(found) == {f"count/mutatingwebhookconfigurations.{ADMISSION}", "webhookconfigurations"}
