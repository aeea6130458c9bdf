"""Pods on unschedulable nodes are known at any time, and are looked for once after each change."""

from __future__ import annotations

from typing import Any

from engine_paper import PaperApi

from vcsync.api import names
from vcsync.kube.resources import PODS
from vcsync.objects.envelope import Envelope, encode
from vcsync.syncer.caches import SuperCaches
from vcsync.syncer.kinds import KINDS


class Cluster:
    def __init__(self) -> None:
        self.cordons: list[str] = []
        client: Any = PaperApi("r1")
        self.caches = SuperCaches(
            client,
            KINDS,
            enqueue=lambda *_: None,
            wake=lambda *_: None,
            on_node=lambda _: None,
            on_cordon=self.cordons.append,
        )
        self.version = 0

    def pod(self, name: str, node: str, namespace: str = "key-shop") -> Envelope:
        self.version += 1
        pod = Envelope(
            name,
            namespace,
            f"uid-{name}",
            str(self.version),
            labels={names.CONTROLLED: names.TRUE},
            spec=encode({"nodeName": node} if node else {}),
        )
        self.caches.reflectors[PODS].observe(pod)
        return pod

    def node(self, name: str, **spec: Any) -> Envelope:
        self.version += 1
        node = Envelope(name, "", f"uid-{name}", str(self.version), spec=encode(spec))
        self.caches.nodes.observe(node)
        return node

    def leaving(self, namespace: str = "key-shop") -> list[str]:
        return [each.name for each in self.caches.on_cordoned_nodes(namespace)]


def test_pods_come_and_go_on_nodes_that_are_cordoned_and_given_back() -> None:
    cluster = Cluster()
    cluster.node("n1")
    cluster.node("n2", unschedulable=False, taints=[{"key": "unschedulable"}])
    cluster.pod("a", "n1")
    cluster.pod("b", "n2")
    cluster.pod("c", "n1", "key-other")
    assert cluster.leaving() == []
    assert cluster.cordons == []
    cluster.node("n1", unschedulable=True)
    cluster.node("n1", unschedulable=True, taints=[])
    assert cluster.cordons == ["n1"]
    assert cluster.leaving() == cluster.leaving() == ["a"]
    assert cluster.leaving("key-other") == ["c"]
    cluster.pod("d", "")
    assert cluster.leaving() == ["a"]
    moved = cluster.pod("d", "n1")
    assert sorted(cluster.leaving()) == ["a", "d"]
    cluster.version += 1
    cluster.caches.reflectors[PODS].observe_gone(moved.namespace, "d", moved.uid)
    assert cluster.leaving() == ["a"]
    cluster.node("n1")
    assert cluster.cordons == ["n1", "n1"]
    assert cluster.leaving() == []


def test_a_cordoned_node_that_is_removed_is_forgotten() -> None:
    cluster = Cluster()
    cluster.pod("a", "n1")
    gone = cluster.node("n1", unschedulable=True)
    assert cluster.leaving() == ["a"]
    cluster.caches.nodes.observe_gone("", "n1", gone.uid)
    assert cluster.cordons == ["n1", "n1"]
    assert cluster.leaving() == []
