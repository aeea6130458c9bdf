"""Preemption: as few Pods as necessary, of the lowest priorities, and only if it helps."""

from typing import Any

import pytest

from vcsync.objects.envelope import Envelope, encode, parse
from vcsync.simulate.fitting import Nodes, needs_of
from vcsync.simulate.preempting import Victims, priority, victims


def node(name: str, cpu: str = "4", **spec: Any) -> Envelope:
    status = {
        "allocatable": {"cpu": cpu, "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return parse(encode({"metadata": {"name": name}, "spec": spec, "status": status}))


def pod(
    name: str, priority: int, cpu: str = "2", on: str = "", *, going: bool = False, **spec: Any
) -> Envelope:
    metadata = {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    if going:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    body = {"metadata": metadata, "spec": {"containers": containers, "priority": priority, **spec}}
    if on:
        body["spec"]["nodeName"] = on
    return parse(encode(body))


def chosen(
    wanted: Envelope, *standing: Envelope, nodes: tuple[Envelope, ...] = (node("a"), node("b"))
) -> tuple[str, list[str]] | None:
    world = Nodes()
    for each in nodes:
        world.update_node(each)
    for each in standing:
        world.add(each.uid, parse_node(each), needs_of(each))
    before = {name: dict(each.used) for name, each in world.by_name.items()}
    found = victims(wanted, needs_of(wanted), world.by_name.values(), standing, None)
    assert {name: each.used for name, each in world.by_name.items()} == before
    return None if found is None else (found.node, [each.name for each in found.pods])


def parse_node(each: Envelope) -> str:
    return next(
        name for name in ("a", "b") if f'"nodeName":"{name}"'.encode() in each.spec.replace(b" ", b"")
    )


def test_the_pod_of_lowest_priority_is_evicted() -> None:
    standing = [pod("low", 1, on="a"), *(pod(f"middle-{index}", 5, on=on) for index, on in enumerate("abb"))]
    assert chosen(pod("high", 9), *standing) == ("a", ["low"])


def test_as_few_pods_as_necessary_are_evicted() -> None:
    standing = [pod("one", 1, "1", on="a"), pod("two", 1, "1", on="a"), pod("large", 1, "2", on="a")]
    nodes = (node("a"),)
    assert chosen(pod("high", 9, "1"), *standing, nodes=nodes) == ("a", ["two"])
    assert chosen(pod("high", 9, "4"), *standing, nodes=nodes) == ("a", ["large", "one", "two"])


@pytest.mark.parametrize(
    "wanted",
    [
        pod("equal", 5),
        pod("plain", 0),
        pod("polite", 9, preemptionPolicy="Never"),
        pod("huge", 9, "8"),
        pod("elsewhere", 9, nodeSelector={"disk": "ssd"}),
    ],
    ids=lambda each: str(each.name),
)
def test_no_pod_is_evicted_if_that_does_not_help(wanted: Envelope) -> None:
    standing = [pod(f"p{index}", 5, on=on) for index, on in enumerate("aabb")]
    assert chosen(wanted, *standing) is None


def test_a_node_with_terminating_pods_needs_no_evictions() -> None:
    standing = [pod("going", 5, on="b", going=True), pod("stays", 5, on="b"), pod("low", 1, "4", on="a")]
    assert chosen(pod("high", 9), *standing) == ("b", [])


def test_other_reasons_to_refuse_a_node_still_apply() -> None:
    world = Nodes()
    world.update_node(node("a"))
    low = pod("low", 1, "4", on="a")
    world.add("low", "a", needs_of(low))
    wanted = pod("high", 9)
    nodes = list(world.by_name.values())
    assert victims(wanted, needs_of(wanted), nodes, [low], lambda _: "alone") is None
    assert victims(wanted, needs_of(wanted), nodes, [low], lambda _: "") == Victims("a", (low,))


def test_negative_priorities_do_not_preempt() -> None:
    assert priority(pod("low", -5)) == 0
