import json

import msgspec
import pytest

from vcsync.scheduling.pods import PodNeeds, pod_needs, pod_requests, super_of_node

MI = 1024 * 1024 * 1000


def container(cpu=None, memory=None, *, limits=None, restart=None):
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text is not None}
    resources = {"requests": requests} if requests else {}
    if limits:
        resources["limits"] = limits
    return {"name": "c", "resources": resources, **({"restartPolicy": restart} if restart else {})}


SIDECAR = "Always"

CASES = {
    "nothing asked": ({"containers": [container()]}, {}),
    "containers add up": (
        {"containers": [container("100m", "1Mi"), container("1")]},
        {"cpu": 1100, "memory": MI},
    ),
    "limits stand for missing requests": (
        {"containers": [container("100m", limits={"cpu": "2", "memory": "1Mi"})]},
        {"cpu": 100, "memory": MI},
    ),
    "an init container counts if it is more": (
        {"containers": [container("1")], "initContainers": [container("2"), container("1500m", "1Mi")]},
        {"cpu": 2000, "memory": MI},
    ),
    "a small init container is covered": (
        {"containers": [container("1")], "initContainers": [container("500m")]},
        {"cpu": 1000},
    ),
    "sidecars add up with containers": (
        {"containers": [container("1")], "initContainers": [container("300m", restart=SIDECAR)]},
        {"cpu": 1300},
    ),
    "an init container runs beside the sidecars before it": (
        {
            "containers": [container("1")],
            "initContainers": [
                container("2"),
                container("300m", restart=SIDECAR),
                container("2"),
                container("400m", restart=SIDECAR),
            ],
        },
        {"cpu": 2300},
    ),
    "overhead comes on top": (
        {"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "1Mi"}},
        {"cpu": 1250, "memory": MI},
    ),
    "requests at Pod level replace the sum": (
        {
            "containers": [container("1", "5Mi")],
            "resources": {"requests": {"cpu": "3"}},
            "overhead": {"cpu": "1"},
        },
        {"cpu": 4000, "memory": 5 * MI},
    ),
    "limits at Pod level stand for missing requests only": (
        {"containers": [container("1")], "resources": {"limits": {"cpu": "3", "memory": "1Mi"}}},
        {"cpu": 1000, "memory": MI},
    ),
    "other resources are counted too": (
        {
            "containers": [
                container(limits={"nvidia.com/gpu": "2"}),
                container(limits={"nvidia.com/gpu": "1"}),
            ]
        },
        {"nvidia.com/gpu": 3000},
    ),
    "numbers instead of strings": (
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": 2}}}]},
        {"cpu": 2000},
    ),
    "null fields": (
        {
            "containers": [{"name": "c", "resources": {"requests": None}}],
            "initContainers": None,
            "overhead": None,
        },
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_requests_are_counted_as_the_kubernetes_scheduler_does(name):
    spec, requests = CASES[name]
    assert pod_requests(json.dumps(spec).encode()) == requests


def test_an_empty_spec_requests_one_pod_and_nothing_else():
    assert pod_requests(b"") == {}
    assert pod_needs(b"") == PodNeeds({"pods": 1000})


def test_an_invalid_spec_is_refused():
    with pytest.raises(msgspec.ValidationError):
        pod_requests(b"[]")


def affinity(*terms):
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
            }
        }
    }


def supers(operator, *ids):
    key = "tenancy.x-k8s.io/superclusterid"
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(ids)}]}


def hosts(*names):
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}]}


@pytest.mark.parametrize(
    ("spec", "supers"),
    [
        ({}, None),
        ({"nodeSelector": {"disk": "ssd"}}, None),
        ({"nodeSelector": {"kubernetes.io/hostname": "node-1.r1"}}, ("r1",)),
        ({"nodeSelector": {"kubernetes.io/hostname": "node-1"}}, ()),
        ({"nodeSelector": {"kubernetes.io/hostname": "a.b.example.r2"}}, ("r2",)),
        ({"nodeSelector": {"tenancy.x-k8s.io/superclusterid": "r1"}}, ("r1",)),
        (affinity(hosts("a.r1", "b.r2")), ("r1", "r2")),
        (affinity(hosts("a.r1"), {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}), None),
        (affinity(hosts("a.r1"), hosts("b.r2")), ("r1", "r2")),
        (
            affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a.r3"]}]}),
            ("r3",),
        ),
        (
            {"nodeSelector": {"tenancy.x-k8s.io/superclusterid": "r1"}, **affinity(hosts("a.r1", "b.r2"))},
            ("r1",),
        ),
        ({"nodeSelector": {"tenancy.x-k8s.io/superclusterid": "r1"}, **affinity(hosts("b.r2"))}, ()),
    ],
)
def test_required_virtual_nodes_select_the_super_cluster(spec, supers):
    assert pod_needs(json.dumps(spec).encode()).supers == supers


def test_binding_and_gates_are_read():
    needs = pod_needs(b'{"nodeName":"n.r1","schedulingGates":[{"name":"wait"}]}')
    assert (needs.node, needs.gated) == ("n.r1", True)


@pytest.mark.parametrize(
    ("node", "super_id"), [("n.r1", "r1"), ("a.b.r1", "r1"), ("n", ""), ("", ""), (".r1", ""), ("n.", "")]
)
def test_a_virtual_nodes_name_ends_in_its_super_cluster(node, super_id):
    assert super_of_node(node) == super_id


def test_needs_can_be_encoded_and_decoded():
    needs = pod_needs(b'{"nodeName":"n.r1","containers":[{"resources":{"requests":{"cpu":"1"}}}]}')
    assert msgspec.json.decode(msgspec.json.encode(needs), type=PodNeeds) == needs


@pytest.mark.parametrize(
    ("spec", "accepted"),
    [
        ({}, {"r1", "r2", "r3"}),
        (affinity(supers("NotIn", "r1")), {"r2", "r3"}),
        (affinity(supers("NotIn", "r1"), supers("NotIn", "r2")), {"r1", "r2", "r3"}),
        (affinity(supers("NotIn", "r1", "r2"), supers("In", "r2")), {"r2", "r3"}),
        (affinity(supers("Exists")), {"r1", "r2", "r3"}),
        (affinity(supers("DoesNotExist")), set()),
        (
            {"nodeSelector": {"tenancy.x-k8s.io/superclusterid": "r1"}, **affinity(supers("NotIn", "r1"))},
            set(),
        ),
        (affinity({"matchExpressions": [supers(op, i)["matchExpressions"][0] for op, i in
                                        (("In", "r3"), ("NotIn", "r1"))]}), {"r3"}),
    ],
)  # fmt: skip
def test_a_pod_may_exclude_super_clusters(spec, accepted):
    needs = pod_needs(json.dumps(spec).encode())
    assert {super_id for super_id in ("r1", "r2", "r3") if needs.accepts(super_id)} == accepted
