"""Nodes read what Pods bound to them name, and nothing else."""

from typing import Any

import pytest

from tests.unit.controlplane.identity.conftest import House
from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.identity.caller import Attributes, Caller

NODE = Caller(User("system:node:n1", groups=("system:nodes", "system:authenticated")), "acme")


def pod(node: str = "n1", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "a", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"nodeName": node, **spec}}


def read(plural: str, name: str = "wanted", namespace: str = "a", verb: str = "get") -> Attributes:
    return Attributes(verb, resource=plural, namespace=namespace, name=name)


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def container(**of: Any) -> dict[str, Any]:
    return {"initContainers": [{"name": "c", **of}]}


async def allowed(house: House, caller: Caller, asked: Attributes) -> bool:
    return (await house.identity.authorizer.decide(caller, asked)).allowed


@pytest.mark.parametrize(
    ("plural", "spec"),
    [
        ("secrets", volume(secret={"secretName": "wanted"})),
        ("secrets", volume(csi={"nodePublishSecretRef": {"name": "wanted"}})),
        ("secrets", volume(projected={"sources": [{"secret": {"name": "wanted"}}]})),
        ("secrets", {"imagePullSecrets": [{"name": "wanted"}]}),
        ("secrets", container(env=[{"valueFrom": {"secretKeyRef": {"name": "wanted", "key": "k"}}}])),
        ("secrets", container(envFrom=[{"secretRef": {"name": "wanted"}}])),
        ("configmaps", volume(configMap={"name": "wanted"})),
        ("configmaps", volume(projected={"sources": [{"configMap": {"name": "wanted"}}]})),
        ("configmaps", container(env=[{"valueFrom": {"configMapKeyRef": {"name": "wanted", "key": "k"}}}])),
        ("configmaps", container(envFrom=[{"configMapRef": {"name": "wanted"}}])),
    ],
)
async def test_a_node_reads_what_its_pods_name(house: House, plural: str, spec: dict[str, Any]) -> None:
    assert not await allowed(house, NODE, read(plural))
    await house.put("acme", "", "pods", pod(**spec))
    assert await allowed(house, NODE, read(plural))
    other = {"secrets": "configmaps", "configmaps": "secrets"}[plural]
    for asked in (
        read(other),
        read(plural, "another"),
        read(plural, namespace="b"),
        read(plural, verb="update"),
        read(plural, "", verb="list"),
    ):
        assert not await allowed(house, NODE, asked)
    elsewhere = Caller(NODE.user, "umbrella")
    assert not await allowed(house, elsewhere, read(plural))


@pytest.mark.parametrize(
    "found",
    [
        pod("n2", **volume(secret={"secretName": "wanted"})),
        pod(annotations={"kubernetes.io/config.mirror": "x"}, **volume(secret={"secretName": "wanted"})),
        pod(**volume(secret={"secretName": "other"}), hostname="wanted"),
    ],
)
async def test_pods_of_others_and_mirrors_open_nothing(house: House, found: dict[str, Any]) -> None:
    await house.put("acme", "", "pods", found)
    with pytest.raises(StatusError, match="no relationship found between node 'n1' and this object"):
        await house.identity.authorizer.authorize(NODE, read("secrets"))


async def test_the_name_alone_makes_no_node(house: House) -> None:
    await house.put("acme", "", "pods", pod(**volume(secret={"secretName": "wanted"})))
    for user in (User("system:node:n1"), User("n1", groups=("system:nodes",))):
        assert not await allowed(house, Caller(user, "acme"), read("secrets"))


async def test_a_node_reads_the_volumes_behind_its_pods(house: House) -> None:
    claim = {"metadata": {"name": "p-v", "namespace": "a"}, "spec": {"volumeName": "pv"}}
    volume = {
        "metadata": {"name": "pv"},
        "spec": {
            "claimRef": {"namespace": "a", "name": "p-v"},
            "csi": {"nodeStageSecretRef": {"name": "wanted", "namespace": "a"}},
        },
    }
    attached = {"metadata": {"name": "va"}, "spec": {"nodeName": "n1"}}
    await house.put("acme", "", "persistentvolumeclaims", claim)
    await house.put("acme", "", "persistentvolumes", volume)
    await house.put("acme", "storage.k8s.io", "volumeattachments", attached)
    questions = [
        read("persistentvolumeclaims", "p-v"),
        read("persistentvolumes", "pv", namespace=""),
        read("secrets"),
    ]
    assert not any([await allowed(house, NODE, each) for each in questions])
    await house.put("acme", "", "pods", pod(**volume_of_pod()))
    assert all([await allowed(house, NODE, each) for each in questions])
    other = Caller(User("system:node:n2", groups=("system:nodes",)), "acme")
    assert not any([await allowed(house, other, each) for each in questions])
    attachment = Attributes("get", group="storage.k8s.io", resource="volumeattachments", name="va")
    assert await allowed(house, NODE, attachment)
    assert not await allowed(house, other, attachment)


def volume_of_pod() -> dict[str, Any]:
    return {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}


@pytest.mark.parametrize(
    ("selected", "may"),
    [((("spec.nodeName", "n1"),), True), ((("spec.nodeName", "n2"),), False), ((), False)],
)
async def test_a_node_lists_only_its_own_pods(
    house: House, selected: tuple[tuple[str, str], ...], may: bool
) -> None:
    asked = Attributes("list", resource="pods", selected=selected)
    assert await allowed(house, NODE, asked) is may
