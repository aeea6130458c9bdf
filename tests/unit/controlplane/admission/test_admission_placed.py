"""Pods on nodes: topology labels, and updates that a node cannot follow."""

import pytest

from vcsync.controlplane.admission import app_armor, placed_pods
from vcsync.controlplane.errors import StatusError

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


@pytest.fixture
def nodes(things):
    def add(name, labels, **status):
        things.add("", "nodes", name, metadata={"labels": labels}, status=status)

    add("n1", {ZONE: "z", REGION: "r", "other": "x"}, allocatable={"cpu": "2", "memory": "1Gi"})
    add("w1", {"kubernetes.io/os": "windows"}, allocatable={"cpu": "2"})
    add("bare", {})


def pod(node="", cpu="1", generation=1, memory="1Mi", init=None):
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    spec = {"containers": [{"name": "c", "resources": resources}]}
    if init is not None:
        spec["initContainers"] = [{"name": "i", "resources": {"requests": {"cpu": init}}}]
    return {
        "metadata": {"name": "p", "generation": generation},
        "spec": {**spec, **({"nodeName": node} if node else {})},
    }


@pytest.mark.parametrize(
    ("node", "labels"),
    [("n1", {ZONE: "z", REGION: "r"}), ("bare", None), ("gone", None), ("", None)],
)
async def test_a_placed_pod_has_its_nodes_topology(asked, nodes, node, labels):
    assert (await asked(placed_pods.topology_labels, pod(node)))["metadata"].get("labels") == labels


async def test_the_nodes_topology_goes_before_what_the_pod_says(asked, nodes):
    wanted = pod("n1")
    wanted["metadata"]["labels"] = {ZONE: "mine", "kept": "yes"}
    found = await asked(placed_pods.topology_labels, wanted)
    assert found["metadata"]["labels"] == {ZONE: "z", REGION: "r", "kept": "yes"}


@pytest.mark.parametrize(("kind", "labels"), [("Node", {ZONE: "z", REGION: "r"}), ("", None)])
async def test_a_binding_to_a_node_carries_its_topology(asked, nodes, kind, labels):
    binding = {"metadata": {"name": "p"}, "target": {"kind": kind, "name": "n1"}}
    found = await asked(placed_pods.topology_labels, binding, subresource="binding")
    assert found["metadata"].get("labels") == labels


@pytest.mark.parametrize(
    ("new", "said", "causes"),
    [
        (pod("n1", "2", 2), "", []),
        (pod("n1", "3", 2),
         "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000",
         ["NodeCapacity"]),
        (pod("n1", "3", 2, "2Gi"),
         ("node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000; "
          "memory, requested: 2147483648, allocatable: 1073741824"), ["NodeCapacity"]),
        (pod("w1", "1", 2), 'pod resize is only supported on linux nodes, node "w1" is "windows"',
         ["UnsupportedPlatform"]),
        (pod("gone", "1", 2), 'node "gone" not found', []),
        (pod("", "9", 2), "", []),
        (pod("n1", "9", 1), "", []),
    ],
)  # fmt: skip
async def test_a_resize_stays_within_its_node(asked, nodes, new, said, causes):
    async def resize():
        old = pod(new["spec"].get("nodeName", ""))
        await asked(placed_pods.resize_fits, new, old=old, subresource="resize")

    if not said:
        await resize()
        return
    with pytest.raises(StatusError) as refused:
        await resize()
    assert refused.value.message == f'pods "p" is forbidden: {said}'
    assert [each.reason for each in refused.value.causes] == causes


async def test_init_containers_are_resized_where_the_node_says_that_it_can(asked, nodes, things):
    old, new = pod("n1", init="1m"), pod("n1", init="2m", generation=2)
    with pytest.raises(StatusError, match="features InPlacePodVerticalScalingInitContainers which are not"):
        await asked(placed_pods.declared_features, new, old=old, subresource="resize")
    declared = {"declaredFeatures": [placed_pods.RESIZES_INIT]}
    things.add("", "nodes", "n1", status=declared)
    await asked(placed_pods.declared_features, new, old=old, subresource="resize")
    sidecars = [pod("bare", init=size, generation=at) for at, size in enumerate(("1m", "2m"))]
    for each in sidecars:
        each["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    await asked(placed_pods.declared_features, sidecars[1], old=sidecars[0], subresource="resize")


KEY = "container.apparmor.security.beta.kubernetes.io/c"


@pytest.mark.parametrize(
    ("annotation", "profile", "warned"),
    [
        ("unconfined", {"type": "Unconfined"}, True),
        ("runtime/default", {"type": "RuntimeDefault"}, True),
        ("localhost/mine", {"type": "Localhost", "localhostProfile": "mine"}, True),
        ("localhost/", None, True),
        ("localhost/ padded", None, True),
        ("other", None, True),
    ],
)
async def test_an_apparmor_profile_in_an_annotation_becomes_a_field(
    asked, scope, annotation, profile, warned
):
    wanted, here = pod(), scope("", "pods")
    wanted["metadata"]["annotations"] = {KEY: annotation}
    found = await asked(app_armor.app_armor_fields, wanted, scope=here)
    context = found["spec"]["containers"][0].get("securityContext") or {}
    assert context.get("appArmorProfile") == profile
    said = f'metadata.annotations[{KEY}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    assert here.warnings == [said] * warned


@pytest.mark.parametrize("where", ["pod", "container", "windows"])
async def test_a_profile_that_is_told_otherwise_stays(asked, scope, where):
    wanted, here = pod(), scope("", "pods")
    wanted["metadata"]["annotations"] = {KEY: "unconfined"}
    profile = {"appArmorProfile": {"type": "Unconfined"}}
    if where == "windows":
        wanted["spec"]["os"] = {"name": "windows"}
    else:
        (wanted["spec"] if where == "pod" else wanted["spec"]["containers"][0])["securityContext"] = profile
    assert await asked(app_armor.app_armor_fields, wanted, scope=here) == wanted
    assert here.warnings == []
