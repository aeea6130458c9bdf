"""Nodes read what Pods bound to them name, and nothing else."""

from typing import Any

import pytest

from tests.unit.apiserver.identity.conftest import House
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization import nodes
from vcsync.apiserver.request.caller import Attributes, Caller, Decision

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


async def test_a_claim_that_pods_name_often_is_read_once(house: House) -> None:
    volumes = [{"name": f"v{number}", "persistentVolumeClaim": {"claimName": "c"}} for number in range(200)]
    for name in ("p", "q"):
        found = pod(volumes=volumes)
        await house.put("acme", "", "pods", {**found, "metadata": {**found["metadata"], "name": name}})
    real, read_keys = house.store.get, []

    async def counted(key: str, **options: Any) -> Any:
        read_keys.append(key)
        return await real(key, **options)

    house.store.get = counted  # type: ignore[method-assign]
    assert not await allowed(house, NODE, read("secrets"))
    assert len([key for key in read_keys if "persistentvolumeclaims" in key]) == 1


async def test_the_name_alone_makes_no_node(house: House) -> None:
    await house.put("acme", "", "pods", pod(**volume(secret={"secretName": "wanted"})))
    for user in (User("system:node:n1"), User("n1", groups=("system:nodes",))):
        assert not await allowed(house, Caller(user, "acme"), read("secrets"))


async def test_a_node_reads_the_volumes_behind_its_pods(house: House) -> None:
    await house.identity.lifecycle.set_controllers("acme", "external")
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


def resource(verb: str, plural: str, name: str = "wanted", **more: Any) -> Attributes:
    """Return a question about a resource; `plural` may hold its group before a slash."""
    group, _, plain = plural.rpartition("/")
    return Attributes(verb, group=group, resource=plain, name=name, **more)


LEASE, CSI, SLICE = "coordination.k8s.io/leases", "storage.k8s.io/csinodes", "resource.k8s.io/resourceslices"
REQUEST, ATTACHMENT = "certificates.k8s.io/podcertificaterequests", "storage.k8s.io/volumeattachments"
OWN, OTHER = (("spec.nodeName", "n1"),), (("spec.nodeName", "n2"),)
INDIVIDUAL = "can only get individual resources of this type"
UNRELATED = "no relationship found between node 'n1' and this object"
SLICE_VERBS = (
    "only the following verbs are allowed for a ResourceSlice: "
    "get, watch, list, create, update, patch, delete, deletecollection"
)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        # Secrets and ConfigMaps
        (resource("create", "secrets", namespace="a"), "can only read resources of this type"),
        (resource("get", "configmaps", namespace="a", subresource="x"), "cannot read subresource"),
        (resource("get", "secrets"), "can only read namespaced object of this type"),
        (resource("list", "secrets", "", namespace="a"), "No Object name found"),
        (resource("get", "secrets", namespace="a"), UNRELATED),
        # Claims and volumes
        (resource("list", "persistentvolumeclaims", namespace="a"), INDIVIDUAL),
        (resource("get", "persistentvolumeclaims", namespace="a", subresource="x"), "cannot get subresource"),
        (
            resource("get", "persistentvolumeclaims", namespace="a", subresource="status"),
            "can only get/update/patch this type",
        ),
        (resource("update", "persistentvolumeclaims", namespace="a", subresource="status"), UNRELATED),
        (resource("list", "persistentvolumes"), INDIVIDUAL),
        (resource("get", "persistentvolumes", subresource="status"), "cannot get subresource"),
        (resource("get", "persistentvolumes", ""), "No Object name found"),
        (resource("get", "persistentvolumes"), UNRELATED),
        (resource("list", ATTACHMENT), INDIVIDUAL),
        (resource("get", ATTACHMENT, subresource="status"), "cannot get subresource"),
        (resource("get", ATTACHMENT, ""), "No Object name found"),
        (resource("get", ATTACHMENT), UNRELATED),
        # ServiceAccounts
        (
            resource("list", "serviceaccounts", "", namespace="a"),
            "can only create tokens for individual service accounts",
        ),
        (
            resource("create", "serviceaccounts", "", namespace="a"),
            "can only create tokens for individual service accounts",
        ),
        (
            resource("create", "serviceaccounts", namespace="a"),
            "can only create token subresource of serviceaccount",
        ),
        (
            resource("get", "serviceaccounts", namespace="a", subresource="token"),
            "can only create tokens for individual service accounts",
        ),
        (resource("create", "serviceaccounts", namespace="a", subresource="token"), UNRELATED),
        (resource("get", "serviceaccounts", namespace="a"), UNRELATED),
        # Leases and CSINodes
        (resource("list", LEASE, "n1"), "can only get, create, update, patch, or delete a node lease"),
        (
            resource("get", LEASE, "n1", namespace="a"),
            'can only access leases in the "kube-node-lease" system namespace',
        ),
        (
            resource("get", LEASE, "n2", namespace="kube-node-lease"),
            "can only access node lease with the same name as the requesting node",
        ),
        (resource("list", CSI, "n1"), "can only get, create, update, patch, or delete a CSINode"),
        (resource("get", CSI, "n1", subresource="status"), "cannot authorize CSINode subresources"),
        (resource("update", CSI, "n2"), "can only access CSINode with the same name as the requesting node"),
        # Slices of devices
        (resource("create", SLICE, subresource="status"), "cannot authorize ResourceSlice subresources"),
        (
            resource("list", SLICE, "", selected=OTHER),
            "can only list/watch/deletecollection resourceslices with nodeName field selector",
        ),
        (resource("approve", SLICE), SLICE_VERBS),
        (resource("get", SLICE), UNRELATED),
        (resource("delete", SLICE, ""), "No Object name found"),
        # Certificates of Pods
        (
            resource("create", REQUEST, namespace="a", subresource="status"),
            "nodes may not access the status subresource of PodCertificateRequests",
        ),
        (
            resource("watch", REQUEST, "", namespace="a"),
            "can only list/watch podcertificaterequests with nodeName field selector",
        ),
        (resource("delete", REQUEST, namespace="a"), "nodes may not delete podcertificaterequests"),
        (resource("get", REQUEST, namespace="a"), UNRELATED),
        # Nodes and Pods
        (resource("get", "nodes", "n2"), "node 'n1' cannot read 'n2', only its own Node object"),
        (resource("list", "nodes", ""), "node 'n1' cannot read all nodes, only its own Node object"),
        (resource("get", "nodes", "n1", subresource="status"), ""),
        (resource("update", "nodes", "n1", subresource="proxy"), ""),
        (resource("delete", "nodes", "n1"), ""),
        (resource("patch", "pods", namespace="a", subresource="eviction"), ""),
        (resource("create", "pods", namespace="a", subresource="binding"), ""),
        (resource("update", "pods", namespace="a"), ""),
        (
            resource("list", "pods", "", selected=OTHER),
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (resource("get", "pods", namespace="a"), UNRELATED),
        (resource("get", "resource.k8s.io/resourceclaims", namespace="a"), UNRELATED),
        (resource("list", "resource.k8s.io/resourceclaims", namespace="a"), INDIVIDUAL),
    ],
)
async def test_what_a_node_is_refused(house: House, asked: Attributes, why: str) -> None:
    decision = await nodes.decide(house.store, "acme", "n1", asked)
    assert decision == Decision(False, why)


@pytest.mark.parametrize(
    "asked",
    [
        *(
            resource(verb, LEASE, "n1", namespace="kube-node-lease")
            for verb in ("get", "update", "patch", "delete")
        ),
        resource("create", LEASE, "", namespace="kube-node-lease"),
        *(resource(verb, CSI, "n1") for verb in ("get", "update", "patch", "delete")),
        resource("create", CSI, ""),
        resource("create", SLICE, ""),
        *(resource(verb, SLICE, "", selected=OWN) for verb in ("list", "watch", "deletecollection")),
        resource("create", REQUEST, "", namespace="a"),
        *(resource(verb, REQUEST, "", selected=OWN) for verb in ("list", "watch")),
        *(resource(verb, "nodes", "n1") for verb in ("get", "list", "watch", "create", "update", "patch")),
        *(resource(verb, "nodes", "n1", subresource="status") for verb in ("update", "patch")),
        *(resource(verb, "pods", "", selected=OWN) for verb in ("list", "watch")),
        *(resource(verb, "pods", namespace="a") for verb in ("create", "delete")),
        *(resource(verb, "pods", namespace="a", subresource="status") for verb in ("update", "patch")),
        resource("create", "pods", namespace="a", subresource="eviction"),
        # What default rights give every node, whatever its Pods
        resource("list", "services", ""),
        resource("create", "events", "", namespace="a"),
    ],
)
async def test_what_every_node_may(house: House, asked: Attributes) -> None:
    assert await nodes.decide(house.store, "acme", "n1", asked) == Decision(True)


async def test_a_node_without_a_name_may_nothing(house: House) -> None:
    decision = await nodes.decide(house.store, "acme", "", resource("create", CSI, ""))
    assert decision == Decision(False, 'unknown node for user "system:node:"')


async def test_what_says_that_it_is_of_a_node_is_open_to_it(house: House) -> None:
    await house.identity.lifecycle.set_controllers("acme", "external")
    for group, plural, namespace in (
        ("storage.k8s.io", "volumeattachments", ""),
        ("resource.k8s.io", "resourceslices", ""),
        ("certificates.k8s.io", "podcertificaterequests", "a"),
    ):
        place = {"namespace": namespace} if namespace else {}
        for name, node in (("own", "n1"), ("other", "n2")):
            body = {"metadata": {"name": name, **place}, "spec": {"nodeName": node}}
            await house.put("acme", group, plural, body)
            asked = resource("get", f"{group}/{plural}", name, namespace=namespace)
            assert await allowed(house, NODE, asked) is (node == "n1")


async def test_a_node_reads_its_own_pod_by_name(house: House) -> None:
    await house.put("acme", "", "pods", pod())
    assert await allowed(house, NODE, read("pods", "p"))
    assert await allowed(house, NODE, read("pods", "p", verb="watch"))
    await house.put("acme", "", "pods", pod("n2"))
    assert not await allowed(house, NODE, read("pods", "p"))


async def test_tokens_are_made_for_the_accounts_of_a_nodes_pods(house: House) -> None:
    token = resource("create", "serviceaccounts", namespace="a", subresource="token")
    reading = resource("get", "serviceaccounts", namespace="a")
    await house.put("acme", "", "pods", pod(serviceAccountName="another"))
    assert not await allowed(house, NODE, token)
    await house.put("acme", "", "pods", pod(serviceAccountName="wanted"))
    assert await allowed(house, NODE, token)
    assert await allowed(house, NODE, reading)


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"resourceClaims": [{"name": "x", "resourceClaimName": "wanted"}]}, {}),
        ({}, {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "wanted"}]}),
        ({}, {"extendedResourceClaimStatus": {"resourceClaimName": "wanted"}}),
    ],
)
async def test_claims_of_devices_are_read_by_the_node_of_their_pod(
    house: House, spec: dict[str, Any], status: dict[str, Any]
) -> None:
    asked = resource("get", "resource.k8s.io/resourceclaims", namespace="a")
    await house.put("acme", "", "pods", {**pod(**spec), "status": status})
    assert await allowed(house, NODE, asked)
    await house.put("acme", "", "pods", {**pod("n2", **spec), "status": status})
    assert not await allowed(house, NODE, asked)


async def test_a_claim_of_a_nodes_pod_may_be_reported_on(house: House) -> None:
    claim = {"persistentVolumeClaim": {"claimName": "wanted"}}
    await house.put("acme", "", "pods", pod(volumes=[{"name": "v", **claim}]))
    for verb in ("update", "patch"):
        asked = resource(verb, "persistentvolumeclaims", namespace="a", subresource="status")
        assert await allowed(house, NODE, asked)


@pytest.mark.parametrize(
    ("volume_says", "opened"),
    [
        ({"namespace": "a", "name": "claim"}, True),
        ({"namespace": "b", "name": "claim"}, False),
        ({"namespace": "a", "name": "other"}, False),
        (None, False),
    ],
)
@pytest.mark.parametrize(
    "source",
    [
        {"azureFile": {"secretName": "wanted"}},
        *(
            {kind: {"secretRef": {"name": "wanted"}}}
            for kind in ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
        ),
        *(
            {"csi": {reference: {"name": "wanted"}}}
            for reference in ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")
        ),
    ],
)
async def test_secrets_of_volumes_are_open_if_claim_and_volume_name_each_other(
    house: House, source: dict[str, Any], volume_says: dict[str, str] | None, opened: bool
) -> None:
    claim = {"metadata": {"name": "claim", "namespace": "a"}, "spec": {"volumeName": "pv"}}
    await house.put("acme", "", "persistentvolumeclaims", claim)
    spec = {**source, "claimRef": volume_says} if volume_says else source
    await house.put("acme", "", "persistentvolumes", {"metadata": {"name": "pv"}, "spec": spec})
    await house.put("acme", "", "pods", pod(**volume(persistentVolumeClaim={"claimName": "claim"})))
    assert await allowed(house, NODE, read("secrets")) is opened


@pytest.mark.parametrize(
    "source",
    [
        {"azureFile": {"secretName": "wanted"}},
        *(
            {kind: {"secretRef": {"name": "wanted"}}}
            for kind in ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
        ),
    ],
)
async def test_secrets_of_volumes_in_a_pod_are_open_to_its_node(house: House, source: dict[str, Any]) -> None:
    await house.put("acme", "", "pods", pod(**volume(**source)))
    assert await allowed(house, NODE, read("secrets"))


@pytest.mark.parametrize("part", ["containers", "initContainers", "ephemeralContainers"])
async def test_every_sort_of_container_opens_what_it_names(house: House, part: str) -> None:
    entry = [{"name": "c", "envFrom": [{"secretRef": {"name": "wanted"}}]}]
    await house.put("acme", "", "pods", pod(**{part: entry}))
    assert await allowed(house, NODE, read("secrets"))


async def test_a_pod_behind_many_others_is_found(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "PAGE", 2)
    for name in "abcde":
        other = pod(**volume(secret={"secretName": name}))
        other["metadata"]["name"] = name
        await house.put("acme", "", "pods", other)
    for name in "abcde":
        assert await allowed(house, NODE, read("secrets", name))
    assert not await allowed(house, NODE, read("secrets", "f"))
