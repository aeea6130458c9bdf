"""Scheduled Pods: topology labels, updates that their node does not support, and AppArmor profiles."""

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.admission import app_armor, placed_pods

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
async def test_scheduled_pods_get_the_topology_labels_of_their_node(admit, nodes, node, labels):
    assert (await admit(placed_pods.topology_labels, pod(node)))["metadata"].get("labels") == labels


async def test_topology_labels_of_the_node_override_those_of_the_pod(admit, nodes):
    wanted = pod("n1")
    wanted["metadata"]["labels"] = {ZONE: "mine", "kept": "yes"}
    found = await admit(placed_pods.topology_labels, wanted)
    assert found["metadata"]["labels"] == {ZONE: "z", REGION: "r", "kept": "yes"}


@pytest.mark.parametrize(("kind", "labels"), [("Node", {ZONE: "z", REGION: "r"}), ("", None)])
async def test_bindings_get_the_topology_labels_of_the_node(admit, nodes, kind, labels):
    binding = {"metadata": {"name": "p"}, "target": {"kind": kind, "name": "n1"}}
    found = await admit(placed_pods.topology_labels, binding, subresource="binding")
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
async def test_resizes_that_exceed_the_node_are_refused(admit, nodes, new, said, causes):
    async def resize():
        old = pod(new["spec"].get("nodeName", ""))
        await admit(placed_pods.resize_fits, new, old=old, subresource="resize")

    if not said:
        await resize()
        return
    with pytest.raises(StatusError) as refused:
        await resize()
    assert refused.value.message == f'pods "p" is forbidden: {said}'
    assert [each.reason for each in refused.value.causes] == causes


async def test_resizes_of_init_containers_need_the_declared_feature(admit, nodes, things):
    old, new = pod("n1", init="1m"), pod("n1", init="2m", generation=2)
    with pytest.raises(StatusError, match="features InPlacePodVerticalScalingInitContainers which are not"):
        await admit(placed_pods.declared_features, new, old=old, subresource="resize")
    declared = {"declaredFeatures": [placed_pods.RESIZES_INIT]}
    things.add("", "nodes", "n1", status=declared)
    await admit(placed_pods.declared_features, new, old=old, subresource="resize")
    sidecars = [pod("bare", init=size, generation=at) for at, size in enumerate(("1m", "2m"))]
    for each in sidecars:
        each["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    await admit(placed_pods.declared_features, sidecars[1], old=sidecars[0], subresource="resize")


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
async def test_apparmor_annotations_are_copied_to_fields(admit, scope, annotation, profile, warned):
    wanted, here = pod(), scope("", "pods")
    wanted["metadata"]["annotations"] = {KEY: annotation}
    found = await admit(app_armor.app_armor_fields, wanted, scope=here)
    context = found["spec"]["containers"][0].get("securityContext") or {}
    assert context.get("appArmorProfile") == profile
    said = f'metadata.annotations[{KEY}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    assert here.warnings == [said] * warned


@pytest.mark.parametrize("where", ["pod", "container", "windows"])
async def test_existing_apparmor_fields_are_kept(admit, scope, where):
    wanted, here = pod(), scope("", "pods")
    wanted["metadata"]["annotations"] = {KEY: "unconfined"}
    profile = {"appArmorProfile": {"type": "Unconfined"}}
    if where == "windows":
        wanted["spec"]["os"] = {"name": "windows"}
    else:
        (wanted["spec"] if where == "pod" else wanted["spec"]["containers"][0])["securityContext"] = profile
    assert await admit(app_armor.app_armor_fields, wanted, scope=here) == wanted
    assert here.warnings == []


@pytest.mark.parametrize("kind", ["initContainers", "containers", "ephemeralContainers"])
async def test_apparmor_annotations_apply_to_the_named_container_only(admit, scope, kind):
    wanted, here = pod(), scope("", "pods")
    wanted["metadata"]["annotations"] = {KEY: "localhost/mine"}
    wanted["spec"]["containers"] = [{"name": "other"}]
    wanted["spec"][kind] = [
        {"name": "first"},
        {"name": "c", "securityContext": {"runAsUser": 1}},
        {"name": "last"},
    ]
    found = await admit(app_armor.app_armor_fields, wanted, scope=here)
    profile = {"type": "Localhost", "localhostProfile": "mine"}
    context = {"runAsUser": 1, "appArmorProfile": profile}
    assert found["spec"][kind] == [
        {"name": "first"},
        {"name": "c", "securityContext": context},
        {"name": "last"},
    ]
    assert len(here.warnings) == 1


async def test_a_profile_equal_to_that_of_the_pod_does_not_stop_later_containers(admit, scope):
    wanted, here = pod(), scope("", "pods")
    unconfined = {"type": "Unconfined"}
    wanted["metadata"]["annotations"] = {KEY: "unconfined", KEY[:-1] + "d": "runtime/default"}
    wanted["spec"]["securityContext"] = {"appArmorProfile": unconfined}
    wanted["spec"]["containers"] = [{"name": "c"}, {"name": "d"}]
    found = await admit(app_armor.app_armor_fields, wanted, scope=here)
    context = {"appArmorProfile": {"type": "RuntimeDefault"}}
    assert found["spec"]["containers"] == [{"name": "c"}, {"name": "d", "securityContext": context}]


@pytest.mark.parametrize(("name", "valid"), [("a" * 4095, True), ("a" * 4096, False), ("é" * 2048, False)])
def test_a_profile_name_has_at_most_4095_bytes(name, valid):
    profile = {"type": "Localhost", "localhostProfile": name}
    assert app_armor.profile_of(f"localhost/{name}") == (profile if valid else None)
