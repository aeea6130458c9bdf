"""Quota arithmetic: writes are charged to all matching quotas, or refused with all resources that exceed them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apiserver.admission.charge import NotCovered, QuotaExceeded, Write, charge, matches
from vcsync.apiserver.admission.framework.settings import Limited
from vcsync.objects.quantity import milli


def quota(name="q", *, hard, used=None, **spec):
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"hard": hard, "used": used if used is not None else dict.fromkeys(hard, "0")},
    }


def pod(**spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {}}], **spec}}


def sized(requests=None, limits=None):
    resources = {"requests": requests or {}, "limits": limits or {}}
    return pod(containers=[{"name": "c", "resources": resources}])


def created(obj, plural="pods", group=""):
    return Write(group, plural, obj, None)


FITS = [
    # hard, used, pod's requests, used afterwards
    ({"pods": "2"}, {"pods": "1"}, {}, {"pods": "2"}),
    ({"requests.cpu": "1"}, {"requests.cpu": "600m"}, {"cpu": "400m"}, {"requests.cpu": "1"}),
    ({"requests.memory": "1Gi"}, {"requests.memory": "0"}, {"memory": "256Mi"}, {"requests.memory": "256Mi"}),
    (
        {"requests.memory": "1Gi"},
        {"requests.memory": "1M"},
        {"memory": "1Mi"},
        {"requests.memory": "2048576"},
    ),
    ({"count/pods": "9"}, {"count/pods": "0", "old": "3"}, {}, {"count/pods": "1", "old": "3"}),
]


@pytest.mark.parametrize(("hard", "used", "requests", "after"), FITS)
def test_writes_within_a_quota_are_charged(hard, used, requests, after):
    assert charge(created(sized(requests)), [quota(hard=hard, used=used)]) == [(0, after)]


REFUSED = [
    ({"pods": "1"}, {"pods": "1"}, {},
     "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"),
    ({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "2"},
     {"requests.cpu": "600m", "limits.memory": "256Mi", "pods": "1"},
     {"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi"}},
     ("exceeded quota: q, requested: limits.memory=2Gi,requests.cpu=500m, used: limits.memory=256Mi,"
      "requests.cpu=600m, limited: limits.memory=1Gi,requests.cpu=1")),
    ({"requests.cpu": "1"}, {"requests.cpu": "0"}, {}, "failed quota: q: must specify requests.cpu for: c"),
    ({"requests.cpu": "1", "pods": "1"}, {"pods": "0"}, {"requests": {"cpu": "1"}},
     "status unknown for quota: q, resources: pods,requests.cpu"),
]  # fmt: skip


@pytest.mark.parametrize(("hard", "used", "resources", "message"), REFUSED)
def test_writes_that_exceed_a_quota_are_refused(hard, used, resources, message):
    with pytest.raises(QuotaExceeded) as refused:
        charge(created(sized(**resources)), [quota(hard=hard, used=used)])
    assert str(refused.value) == message


def test_all_matching_quotas_are_charged():
    quotas = [
        quota("a", hard={"pods": "5"}),
        quota("b", hard={"secrets": "0"}),
        quota("c", hard={"pods": "9"}),
    ]
    assert charge(created(pod()), quotas) == [(0, {"pods": "1"}), (2, {"pods": "1"})]


def test_quotas_without_status_do_not_apply():
    assert charge(created(pod()), [{"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}]) == []


SCOPES = [
    ("BestEffort", pod(), True),
    ("BestEffort", sized({"cpu": "1"}), False),
    ("BestEffort", sized({"cpu": "0"}), True),
    ("NotBestEffort", sized({"cpu": "1"}), True),
    ("NotBestEffort", pod(), False),
    ("Terminating", pod(activeDeadlineSeconds=1), True),
    ("Terminating", pod(), False),
    ("NotTerminating", pod(), True),
    ("NotTerminating", pod(activeDeadlineSeconds=1), False),
    ("CrossNamespacePodAffinity", pod(), False),
    ("PriorityClass", pod(priorityClassName="high"), True),
    ("PriorityClass", pod(), False),
    ("Unknown", pod(), False),
]


@pytest.mark.parametrize(("scope", "obj", "expected"), SCOPES)
def test_quota_scopes_select_pods(scope, obj, expected):
    assert matches(created(obj), quota(hard={"pods": "1"}, scopes=[scope]), obj) is expected


TERM = {"topologyKey": "a", "namespaces": ["b"]}
AFFINITIES = [
    ({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}, True),
    (
        {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": TERM}]}},
        True,
    ),
    ({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaceSelector": {}}]}}, True),
    ({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}}, False),
]


@pytest.mark.parametrize(("affinity", "expected"), AFFINITIES)
def test_cross_namespace_affinity_is_a_scope(affinity, expected):
    obj = pod(affinity=affinity)
    limited = quota(hard={"pods": "1"}, scopes=["CrossNamespacePodAffinity"])
    assert matches(created(obj), limited, obj) is expected


SELECTED = [
    ("In", ["a", "b"], "a", True),
    ("In", ["b"], "a", False),
    ("In", ["b"], "", False),
    ("NotIn", ["b"], "a", True),
    ("NotIn", ["a"], "a", False),
    ("NotIn", ["a"], "", True),
    ("Exists", [], "a", True),
    ("Exists", [], "", False),
    ("DoesNotExist", [], "", True),
    ("DoesNotExist", [], "a", False),
]


@pytest.mark.parametrize(("operator", "values", "name", "expected"), SELECTED)
def test_scope_selectors_select_priority_classes(operator, values, name, expected):
    selector = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    limited = quota(hard={"pods": "1"}, scopeSelector={"matchExpressions": [selector]})
    obj = pod(priorityClassName=name)
    assert matches(created(obj), limited, obj) is expected


def claim(size):
    return {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": size}}}}


def test_updates_are_charged_with_the_difference():
    limited = quota(hard={"requests.storage": "10Gi"}, used={"requests.storage": "4Gi"})
    more = Write("", "persistentvolumeclaims", claim("7Gi"), claim("1Gi"))
    assert charge(more, [limited]) == [(0, {"requests.storage": "10Gi"})]
    with pytest.raises(QuotaExceeded, match=r"requested: requests\.storage=7Gi, used: requests\.storage=4Gi"):
        charge(Write("", "persistentvolumeclaims", claim("8Gi"), claim("1Gi")), [limited])


def test_updates_that_use_less_do_not_lower_usage():
    limited = quota(hard={"requests.storage": "1Gi"}, used={"requests.storage": "4Gi"})
    assert charge(Write("", "persistentvolumeclaims", claim("1Gi"), claim("2Gi")), [limited]) == []


def test_pods_that_enter_a_scope_are_charged_in_full():
    limited = quota(hard={"pods": "1"}, scopes=["Terminating"])
    assert charge(Write("", "pods", pod(activeDeadlineSeconds=5), pod()), [limited]) == [(0, {"pods": "1"})]


writes = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), max_size=30)


@given(attempts=writes, cpu=st.integers(0, 3000), memory=st.integers(0, 3000), pods=st.integers(0, 10))
def test_usage_is_the_sum_of_admitted_writes_and_at_most_hard(attempts, cpu, memory, pods):
    hard = {"requests.cpu": f"{cpu}m", "requests.memory": f"{memory}Mi", "pods": str(pods)}
    used = dict.fromkeys(hard, "0")
    admitted = []
    for each in attempts:
        obj = sized({"cpu": f"{each[0]}m", "memory": f"{each[1]}Mi"})
        try:
            charged = charge(created(obj), [quota(hard=hard, used=used)])
        except QuotaExceeded:
            over = (
                sum(one for one, _ in admitted) + each[0] > cpu,
                sum(two for _, two in admitted) + each[1] > memory,
            )
            assert any(over) or len(admitted) >= pods
            continue
        admitted.append(each)
        used = charged[0][1]
        assert all(0 <= milli(used[name]) <= milli(hard[name]) for name in hard)
    assert milli(used["pods"]) == 1000 * len(admitted)
    assert milli(used["requests.cpu"]) == sum(one for one, _ in admitted)
    assert milli(used["requests.memory"]) == sum(two for _, two in admitted) * 2**20 * 1000


@given(sizes=st.lists(st.integers(0, 50), min_size=2, max_size=20), hard=st.integers(0, 200))
def test_updates_keep_usage_between_zero_and_hard(sizes, hard):
    used, size = {"requests.storage": "0"}, 0
    limited = {"requests.storage": f"{hard}Gi"}
    for each in sizes:
        write = Write("", "persistentvolumeclaims", claim(f"{each}Gi"), claim(f"{size}Gi"))
        try:
            charged = charge(write, [quota(hard=limited, used=used)])
        except QuotaExceeded:
            continue
        size = each
        used = charged[0][1] if charged else used
        assert 0 <= milli(used["requests.storage"]) <= milli(limited["requests.storage"])
        assert milli(used["requests.storage"]) >= milli(f"{size}Gi")


HIGH = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
NEEDS = (Limited("", "pods", (), (HIGH,)), Limited("", "persistentvolumeclaims", ("gold.",)))


def high(**more):
    return {"metadata": {"name": "p"}, "spec": {"priorityClassName": "high", **more}}


def quota_of(hard, *scopes):
    zero = dict.fromkeys(hard, "0")
    spec = {"hard": hard, "scopeSelector": {"matchExpressions": list(scopes)}}
    return {"metadata": {"name": "q"}, "spec": spec, "status": {"hard": hard, "used": zero}}


def test_limited_scopes_need_a_quota():
    with pytest.raises(
        NotCovered, match=r"^insufficient quota to match these scopes: \[\{PriorityClass In \[high\]\}\]$"
    ):
        charge(Write("", "pods", high(), None), [], NEEDS)
    assert charge(Write("", "pods", high(), None), [quota_of({"pods": "1"}, HIGH)], NEEDS) == [
        (0, {"pods": "1"})
    ]
    assert charge(Write("", "pods", {"metadata": {"name": "p"}, "spec": {}}, None), [], NEEDS) == []


def classed(class_name, size="1Gi", **status):
    spec = {"storageClassName": class_name, "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": "c"}, "spec": spec, "status": status}


def test_limited_resources_need_a_quota():
    gold = "gold.storageclass.storage.k8s.io/requests.storage"
    write = Write("", "persistentvolumeclaims", classed("gold"), None)
    with pytest.raises(
        QuotaExceeded, match=r"^insufficient quota to consume: gold.*persistentvolumeclaims,gold"
    ):
        charge(write, [], NEEDS)
    with pytest.raises(
        QuotaExceeded, match=r"^insufficient quota to consume: gold.*/persistentvolumeclaims$"
    ):
        charge(write, [quota_of({gold: "5Gi"})], NEEDS)
    assert charge(Write("", "persistentvolumeclaims", classed("tin"), None), [], NEEDS) == []


def test_quotas_track_only_resources_that_they_limit():
    assert matches(created(pod()), quota(hard={"pods": "1"}), pod())
    assert not matches(created(pod()), quota(hard={"services": "1"}), pod())
    assert not matches(created(pod()), {"metadata": {"name": "q"}}, pod())


def test_writes_without_new_usage_need_no_quota():
    assert charge(Write("", "pods", high(), high()), [], NEEDS) == []


def test_storage_is_charged_in_whole_bytes_and_by_its_allocation():
    quotas = [quota_of({"requests.storage": "5Gi"})]
    assert charge(Write("", "persistentvolumeclaims", classed("", "1500m"), None), quotas)[0][1] == {
        "requests.storage": "2"
    }
    grown = classed("", "1Gi", allocatedResources={"storage": "3Gi"})
    write = Write("", "persistentvolumeclaims", grown, classed("", "1Gi"), reports_status=True)
    assert charge(write, quotas) == [(0, {"requests.storage": "2Gi"})]


def test_status_writes_are_charged_and_not_refused():
    grown = classed("", "1Gi", allocatedResources={"storage": "9Gi"})
    write = Write("", "persistentvolumeclaims", grown, classed("", "1Gi"), reports_status=True)
    assert charge(write, [quota_of({"requests.storage": "5Gi"})]) == [(0, {"requests.storage": "8Gi"})]


def test_claims_are_in_the_scopes_of_their_current_and_target_classes():
    scope = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}
    quotas = [quota_of({"persistentvolumeclaims": "3"}, scope)]
    has = classed("", currentVolumeAttributesClassName="gold")
    gets = classed("", modifyVolumeStatus={"targetVolumeAttributesClassName": "gold"})
    for each, number in ((has, 1), (gets, 1), (classed(""), 0)):
        assert len(charge(Write("", "persistentvolumeclaims", each, None), quotas)) == number


def test_object_counts_can_be_limited_resources():
    deployment = {"metadata": {"name": "d"}}
    limited = (Limited("apps", "deployments", ("count/deployments",)),)
    covering = quota(hard={"count/deployments.apps": "5"})
    write = created(deployment, "deployments", "apps")
    assert charge(write, [covering], limited) == [(0, {"count/deployments.apps": "1"})]
    with pytest.raises(QuotaExceeded, match=r"^insufficient quota to consume: count/deployments\.apps$"):
        charge(write, [quota(hard={"count/deployments.other": "5"})], limited)
