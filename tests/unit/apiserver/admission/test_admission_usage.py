"""Usage of objects: containers, init containers, sidecars, overhead, classes, ports."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.quota.usage import (
    Amount,
    amount,
    counted,
    is_terminating,
    missing_in_pod,
    pod_total,
    updates_count,
    usage,
)


def container(name="c", restart=None, **resources):
    found = {"name": name, "resources": resources}
    return {**found, "restartPolicy": restart} if restart else found


def pod(*containers, init=(), **spec):
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": list(containers), "initContainers": list(init), **spec},
    }


def amounts(found):
    return {name: str(each) for name, each in found.items() if each.milli}


PODS = [
    # Pod, its usage
    (pod(container()), {"count/pods": "1", "pods": "1"}),
    (
        pod(container(requests={"cpu": "100m"}), container(requests={"cpu": "1"})),
        {"count/pods": "1", "pods": "1", "cpu": "1100m", "requests.cpu": "1100m"},
    ),
    (
        pod(container(limits={"memory": "1Gi"}, requests={"memory": "512Mi"})),
        {
            "count/pods": "1",
            "pods": "1",
            "memory": "512Mi",
            "requests.memory": "512Mi",
            "limits.memory": "1Gi",
        },
    ),
    (
        pod(container(requests={"cpu": "1"}), init=[container(requests={"cpu": "3"})]),
        {"count/pods": "1", "pods": "1", "cpu": "3", "requests.cpu": "3"},
    ),
    (
        pod(
            container(requests={"cpu": "1"}),
            init=[container(restart="Always", requests={"cpu": "1"}), container(requests={"cpu": "3"})],
        ),
        {"count/pods": "1", "pods": "1", "cpu": "4", "requests.cpu": "4"},
    ),
    (
        pod(container(requests={"cpu": "1"}), overhead={"cpu": "250m", "memory": "1Mi"}),
        {
            "count/pods": "1",
            "pods": "1",
            "cpu": "1250m",
            "requests.cpu": "1250m",
            "memory": "1Mi",
            "requests.memory": "1Mi",
        },
    ),
    (
        pod(container(requests={"example.org/gpu": "2", "hugepages-2Mi": "4Mi"})),
        {
            "count/pods": "1",
            "pods": "1",
            "requests.example.org/gpu": "2",
            "hugepages-2Mi": "4Mi",
            "requests.hugepages-2Mi": "4Mi",
        },
    ),
    (
        pod(container(requests={"cpu": "1"}), resources={"requests": {"cpu": "5"}}),
        {"count/pods": "1", "pods": "1", "cpu": "5", "requests.cpu": "5"},
    ),
    ({**pod(container(requests={"cpu": "1"})), "status": {"phase": "Succeeded"}}, {"count/pods": "1"}),
    ({**pod(container(requests={"cpu": "1"})), "status": {"phase": "Failed"}}, {"count/pods": "1"}),
]


@pytest.mark.parametrize(("given_pod", "expected"), PODS)
def test_pods_count_the_resources_that_nodes_reserve(given_pod, expected):
    assert amounts(usage("", "pods", given_pod)) == expected


OBJECTS = [
    ("", "configmaps", {}, {"count/configmaps": "1", "configmaps": "1"}),
    ("", "secrets", {}, {"count/secrets": "1", "secrets": "1"}),
    ("", "serviceaccounts", {}, {"count/serviceaccounts": "1"}),
    ("apps", "deployments", {}, {"count/deployments.apps": "1"}),
    ("example.org", "secrets", {}, {"count/secrets.example.org": "1"}),
    ("", "services", {"spec": {"ports": [{"port": 1}]}}, {"count/services": "1", "services": "1"}),
    (
        "",
        "services",
        {"spec": {"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}},
        {"count/services": "1", "services": "1", "services.nodeports": "2"},
    ),
    (
        "",
        "services",
        {"spec": {"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2}]}},
        {"count/services": "1", "services": "1", "services.nodeports": "2", "services.loadbalancers": "1"},
    ),
    (
        "",
        "services",
        {
            "spec": {
                "type": "LoadBalancer",
                "allocateLoadBalancerNodePorts": False,
                "ports": [{"port": 1}, {"port": 2, "nodePort": 30000}],
            }
        },
        {"count/services": "1", "services": "1", "services.nodeports": "1", "services.loadbalancers": "1"},
    ),
    (
        "",
        "persistentvolumeclaims",
        {
            "metadata": {},
            "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "2Gi"}}},
        },
        {
            "count/persistentvolumeclaims": "1",
            "persistentvolumeclaims": "1",
            "requests.storage": "2Gi",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            "gold.storageclass.storage.k8s.io/requests.storage": "2Gi",
        },
    ),
    (
        "",
        "persistentvolumeclaims",
        {"metadata": {}, "spec": {"storageClassName": ""}},
        {"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1"},
    ),
]


@pytest.mark.parametrize(("group", "plural", "obj", "expected"), OBJECTS)
def test_objects_count_by_kind_and_by_requests(group, plural, obj, expected):
    assert amounts(usage(group, plural, obj)) == expected


COUNTED = [
    ("", "pods", ["pods", "cpu", "services", "count/pods", "requests.example.org/gpu"],
     ["count/pods", "cpu", "pods", "requests.example.org/gpu"]),
    ("", "services", ["services.nodeports", "pods"], ["services.nodeports"]),
    ("", "configmaps", ["configmaps", "secrets", "count/secrets"], ["configmaps"]),
    ("apps", "pods", ["pods", "count/pods.apps"], ["count/pods.apps"]),
    ("", "persistentvolumeclaims", ["requests.storage", "a.storageclass.storage.k8s.io/requests.storage"],
     ["a.storageclass.storage.k8s.io/requests.storage", "requests.storage"]),
]  # fmt: skip


@pytest.mark.parametrize(("group", "plural", "names", "expected"), COUNTED)
def test_only_resources_of_the_kind_are_tracked(group, plural, names, expected):
    assert counted(group, plural, names) == expected


MISSING = [
    (["requests.cpu"], pod(container("a"), container("b")), "requests.cpu for: a,b"),
    (["requests.cpu", "limits.memory"], pod(container("a", requests={"cpu": "1"})), "limits.memory for: a"),
    (["pods"], pod(container()), ""),
    (["cpu"], pod(container(requests={"cpu": "0"})), ""),
    (["cpu"], pod(container(limits={"cpu": "1"})), "cpu for: c"),
    (["cpu"], pod(container(), resources={"requests": {"cpu": "1"}}), ""),
]


@pytest.mark.parametrize(("required", "given_pod", "expected"), MISSING)
def test_pods_must_specify_limited_resources(required, given_pod, expected):
    assert missing_in_pod(required, given_pod) == expected


def test_updates_of_services_and_claims_count():
    assert updates_count("", "services")
    assert updates_count("", "persistentvolumeclaims")
    assert not updates_count("", "configmaps")
    assert not updates_count("example.org", "services")


def test_a_pod_with_a_deadline_is_terminating():
    assert is_terminating({"spec": {"activeDeadlineSeconds": 0}})
    assert not is_terminating({"spec": {}})


def test_amounts_added_to_zero_keep_their_format():
    assert str(Amount(0) + amount("256Mi")) == "256Mi"
    assert str(amount("1k") + amount("24")) == "1024"


cpus = st.lists(st.integers(0, 5000), min_size=1, max_size=4)


@given(running=cpus, starting=st.lists(st.integers(0, 5000), max_size=4))
def test_pods_need_the_maximum_of_running_and_init_containers(running, starting):
    def made(each):
        return container(requests={"cpu": f"{each}m"})

    spec = pod(*map(made, running), init=list(map(made, starting)))["spec"]
    assert pod_total(spec, "requests")["cpu"].milli == max(sum(running), *starting, 0)
