"""The simulated scheduler: the node for a Pod, or the reasons why none fits."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.objects.envelope import encode, parse
from vcsync.simulate.fitting import Nodes, needs_of


def node(name: str, cpu: str = "4", taints: Any = None, **labels: str) -> Any:
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints} if taints else {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return parse(encode(body))


def pod(cpu: str = "1", **spec: Any) -> Any:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}, "ports": spec.pop("ports", [])}
    return needs_of(parse(encode({"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}})))


def cluster(*nodes: Any) -> Nodes:
    made = Nodes()
    for each in nodes:
        made.update_node(each)
    return made


def test_the_emptiest_node_is_chosen() -> None:
    nodes = cluster(node("a"), node("b"))
    nodes.add("one", "a", pod())
    assert nodes.choose(pod()) == "b"


def test_a_finished_pod_frees_its_resources() -> None:
    nodes = cluster(node("a", cpu="1"))
    nodes.add("one", "a", pod())
    assert nodes.choose(pod()) == {"Insufficient cpu": 1}
    assert nodes.remove("one")
    assert nodes.choose(pod()) == "a"


def test_a_refused_pod_is_scheduled_once_resources_are_free() -> None:
    nodes = cluster(node("a", cpu="1"))
    nodes.add("one", "a", pod())
    assert nodes.choose(pod("500m")) == nodes.choose(pod("500m")) == {"Insufficient cpu": 1}
    assert nodes.update_node(node("b", cpu="1"))
    assert nodes.choose(pod("500m")) == "b"
    assert not nodes.update_node(node("b", cpu="1"))
    nodes.remove_node("b")
    assert nodes.choose(pod("500m")) == {"Insufficient cpu": 1}
    assert nodes.update_node(node("a", cpu="2"))
    assert nodes.choose(pod("500m")) == "a"


@given(st.lists(st.tuples(st.sampled_from(["100m", "1", "3"]), st.booleans()), max_size=40))
def test_the_same_pods_in_the_same_order_get_the_same_nodes(pods: list[tuple[str, bool]]) -> None:
    def story() -> list[Any]:
        nodes, chosen = cluster(*(node(f"n{number}") for number in range(5))), []
        for number, (cpu, goes) in enumerate(pods):
            found = nodes.choose(pod(cpu))
            chosen.append(found)
            if isinstance(found, str):
                nodes.add(f"u{number}", found, pod(cpu))
            if goes:
                nodes.remove(f"u{number // 2}")
        return chosen

    assert story() == story()


AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
            ]
        }
    }
}
TAINT = [{"key": "team", "value": "blue", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("where", "needs", "refused"),
    [
        (node("a"), pod(nodeSelector={"disk": "ssd"}), "node(s) didn't match Pod's node affinity/selector"),
        (node("a"), pod(affinity=AFFINITY), "node(s) didn't match Pod's node affinity/selector"),
        (node("a", disk="ssd"), pod(affinity=AFFINITY), ""),
        (node("a", taints=TAINT), pod(), "node(s) had untolerated taint(s) {team: blue}"),
        (node("a", taints=TAINT), pod(tolerations=[{"key": "team", "operator": "Exists"}]), ""),
        (node("a", taints=TAINT), pod(tolerations=[{"operator": "Exists"}]), ""),
        (
            node("a", taints=TAINT),
            pod(tolerations=[{"key": "team", "value": "red"}]),
            "node(s) had untolerated",
        ),
        (node("a"), pod(cpu="5"), "Insufficient cpu"),
    ],
)
def test_a_node_refuses_for_a_reason(where: Any, needs: Any, refused: str) -> None:
    chosen = cluster(where).choose(needs)
    if refused:
        assert isinstance(chosen, dict)
        assert next(iter(chosen)).startswith(refused)
    else:
        assert chosen == "a"


def test_a_host_port_is_used_once_per_node() -> None:
    nodes = cluster(node("a"))
    needs = pod(ports=[{"containerPort": 80, "hostPort": 80}])
    nodes.add("one", "a", needs)
    assert nodes.choose(needs) == {"node(s) didn't have free ports for the requested pod ports": 1}


def test_cordoned_and_unready_nodes_accept_no_pods() -> None:
    body = {"metadata": {"name": "a"}, "spec": {"unschedulable": True}}
    nodes = cluster(parse(encode(body)), parse(encode({"metadata": {"name": "b"}})))
    assert nodes.choose(pod()) == {"node(s) were unschedulable": 1, "node(s) were not ready": 1}


@given(st.lists(st.integers(100, 3000), max_size=40))
@settings(deadline=None)
def test_no_node_is_ever_overcommitted(asked: list[int]) -> None:
    nodes = cluster(*(node(f"n{number}") for number in range(3)))
    used = dict.fromkeys(("n0", "n1", "n2"), 0)
    for number, cpu in enumerate(asked):
        needs = pod(cpu=f"{cpu}m")
        chosen = nodes.choose(needs)
        if isinstance(chosen, str):
            nodes.add(str(number), chosen, needs)
            used[chosen] += cpu
        else:
            assert all(cpu + each > 4000 for each in used.values()) or "Too many pods" in chosen
    assert max(used.values()) <= 4000
