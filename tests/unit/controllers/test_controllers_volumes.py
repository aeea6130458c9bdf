"""Volumes and claims: binding, release, and protection while they are used."""

from typing import Any

import pytest
from controllers_world import NAMESPACE, World
from hypothesis import given
from hypothesis import strategies as st

from vcsync.controllers.framework.plan import NOTHING, Absent, Controller
from vcsync.controllers.framework.worker import ReconcileContext
from vcsync.controllers.volumes.claim_plan import VOLUME_CLAIM
from vcsync.controllers.volumes.protection_plan import (
    VOLUME_CLAIM_PROTECTION,
    VOLUME_PROTECTION,
    protect_claim,
)
from vcsync.controllers.volumes.volume_plan import VOLUME
from vcsync.kube.cache import Change
from vcsync.kube.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    Resource,
)
from vcsync.objects.envelope import Envelope

BOUND = "pv.kubernetes.io/bind-completed"
BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
ONCE = ["ReadWriteOnce"]


@pytest.fixture
def world() -> World:
    return new_world()


def new_world() -> World:
    made = World([VOLUME_CLAIM, VOLUME, VOLUME_PROTECTION])
    made.put(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    return made


def put_volume(made: World, name: str = "v", size: str = "10Gi", **spec: Any) -> None:
    metadata = {"name": name, "finalizers": ["kubernetes.io/pv-protection"], **spec.pop("metadata", {})}
    whole = {"capacity": {"storage": size}, "accessModes": ONCE, "persistentVolumeReclaimPolicy": "Retain"}
    made.put(PERSISTENT_VOLUMES, {"metadata": metadata, "spec": whole | spec, "status": {"phase": "Pending"}})


def put_claim(made: World, name: str = "c", size: str = "5Gi", **spec: Any) -> None:
    metadata = {"name": name, **spec.pop("metadata", {})}
    whole = {"accessModes": ONCE, "resources": {"requests": {"storage": size}}, "storageClassName": ""}
    body = {"metadata": metadata, "spec": whole | spec, "status": {"phase": "Pending"}}
    made.put(PERSISTENT_VOLUME_CLAIMS, body)


def put_class(made: World, name: str, *, default: bool = False, **fields: Any) -> None:
    metadata: dict[str, Any] = {"name": name}
    if default:
        metadata["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    made.put(STORAGE_CLASSES, {"metadata": metadata, "volumeBindingMode": "Immediate", **fields})


def claim(made: World, name: str = "c") -> dict[str, Any]:
    return made.body(PERSISTENT_VOLUME_CLAIMS, name)


def volume(made: World, name: str = "v") -> dict[str, Any]:
    return made.body(PERSISTENT_VOLUMES, name)


def phases(made: World) -> tuple[str, str]:
    return claim(made)["status"]["phase"], volume(made)["status"]["phase"]


def emitted(made: World) -> list[tuple[str, str]]:
    return [(each.reason, each.message) for each in made.events]


def settled(made: World) -> list[tuple[str, str]]:
    """Settle; return the Events of reconciles that changed nothing."""
    made.settle()
    made.events.clear()
    made.settle()
    return emitted(made)


def bind(made: World, **spec: Any) -> None:
    """Bind the claim to the volume."""
    put_volume(made, **spec)
    put_claim(made)
    made.settle()
    made.events.clear()


def test_a_claim_is_bound_to_a_fitting_volume(world: World) -> None:
    put_volume(world)
    put_claim(world)
    world.settle()
    assert phases(world) == ("Bound", "Bound")
    mine = claim(world)
    assert mine["spec"]["volumeName"] == "v"
    assert mine["metadata"]["annotations"] == {BOUND: "yes", BY_CONTROLLER: "yes"}
    assert mine["status"]["capacity"] == {"storage": "10Gi"}
    assert mine["status"]["accessModes"] == ONCE
    reference = volume(world)["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"]) == (NAMESPACE, "c")
    assert reference["uid"] == mine["metadata"]["uid"]
    assert volume(world)["metadata"]["annotations"] == {BY_CONTROLLER: "yes"}
    world.written.clear()
    world.settle()
    assert world.written == []


@pytest.mark.parametrize(
    ("of_volume", "of_claim"),
    [
        ({"size": "4Gi"}, {}),
        ({"accessModes": ["ReadOnlyMany"]}, {}),
        ({"volumeMode": "Block"}, {}),
        ({"storageClassName": "fast"}, {}),
        ({}, {"storageClassName": "fast"}),
        ({"volumeAttributesClassName": "gold"}, {}),
        ({}, {"selector": {"matchLabels": {"disk": "ssd"}}}),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, {}),
        ({"claimRef": {"namespace": NAMESPACE, "name": "other"}}, {}),
        ({"claimRef": {"namespace": NAMESPACE, "name": "c", "uid": "another"}}, {}),
    ],
)
def test_a_volume_that_does_not_fit_is_not_bound(
    world: World, of_volume: dict[str, Any], of_claim: dict[str, Any]
) -> None:
    put_claim(world, **of_claim)
    put_volume(world, **of_volume)
    world.settle()
    assert claim(world)["status"]["phase"] == "Pending"
    assert "volumeName" not in claim(world)["spec"]


def test_the_smallest_volume_with_the_fewest_access_modes_is_bound(world: World) -> None:
    put_volume(world, "wide", "5Gi", accessModes=["ReadOnlyMany", "ReadWriteOnce"])
    put_volume(world, "large", "20Gi")
    put_volume(world, "small", "6Gi")
    put_claim(world)
    world.settle()
    assert claim(world)["spec"]["volumeName"] == "small"


def test_a_reserved_volume_is_preferred(world: World) -> None:
    put_volume(world, "small", "5Gi")
    put_volume(world, "kept", "20Gi", claimRef={"namespace": NAMESPACE, "name": "c"})
    put_claim(world)
    world.settle()
    assert claim(world)["spec"]["volumeName"] == "kept"
    assert volume(world, "kept")["metadata"].get("annotations") is None
    assert volume(world, "small")["status"]["phase"] == "Available"


def test_a_claim_gets_the_volume_that_it_names(world: World) -> None:
    put_claim(world, volumeName="v")
    world.settle()
    assert claim(world)["status"]["phase"] == "Pending"
    put_volume(world)
    world.settle()
    assert phases(world) == ("Bound", "Bound")
    assert claim(world)["metadata"]["annotations"] == {BOUND: "yes"}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"size": "1Gi"}, "requested PV is too small"),
        ({"storageClassName": "fast"}, "storageClassName does not match"),
        ({"volumeMode": "Block"}, "incompatible volumeMode"),
        ({"accessModes": ["ReadOnlyMany"]}, "incompatible accessMode"),
    ],
)
def test_a_named_volume_that_does_not_fit_is_reported(
    world: World, spec: dict[str, Any], reason: str
) -> None:
    put_volume(world, **spec)
    put_claim(world, volumeName="v")
    assert settled(world) == [("VolumeMismatch", f'Cannot bind to requested volume "v": {reason}')]
    assert phases(world) == ("Pending", "Available")


def test_a_named_volume_of_another_claim_is_reported(world: World) -> None:
    put_volume(world)
    put_claim(world, "first")
    world.settle()
    put_claim(world, volumeName="v")
    assert settled(world) == [("FailedBinding", 'volume "v" already bound to a different claim.')]
    assert claim(world)["status"]["phase"] == "Pending"


def test_a_claim_without_class_and_volume_is_reported(world: World) -> None:
    put_claim(world)
    text = "no persistent volumes available for this claim and no storage class is set"
    assert settled(world) == [("FailedBinding", text)]


def test_the_default_class_is_assigned_later(world: World) -> None:
    put_claim(world, storageClassName=None)
    world.settle()
    put_class(world, "old", default=True, provisioner="example.com/disk")
    world.pass_time(60)
    put_class(world, "new", default=True, provisioner="example.com/disk")
    world.settle()
    assert claim(world)["spec"]["storageClassName"] == "new"


@pytest.mark.parametrize(
    ("provisioner", "reason", "text"),
    [
        (
            "example.com/disk",
            "ExternalProvisioning",
            "external provisioner 'example.com/disk' or manually by",
        ),
        (
            "kubernetes.io/no-provisioner",
            "ProvisioningFailed",
            "no volume plugin matched name: kubernetes.io/no-",
        ),
        (None, "ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found'),
    ],
)
def test_the_provisioner_is_requested(world: World, provisioner: str | None, reason: str, text: str) -> None:
    if provisioner:
        put_class(world, "fast", provisioner=provisioner)
    put_claim(world, storageClassName="fast")
    [event] = settled(world)
    assert event[0] == reason
    assert text in event[1]
    annotations = claim(world)["metadata"].get("annotations", {})
    expected = provisioner if reason == "ExternalProvisioning" else None
    assert annotations.get("volume.kubernetes.io/storage-provisioner") == expected
    assert claim(world)["status"]["phase"] == "Pending"


def test_a_class_can_wait_for_the_first_consumer(world: World) -> None:
    put_class(
        world, "local", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"
    )
    put_volume(world, storageClassName="local")
    put_claim(world, storageClassName="local")
    waiting = ("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
    assert settled(world) == [waiting]
    put_pod(world, "user")
    assert settled(world) == [("WaitForPodScheduled", "waiting for pod user to be scheduled")]
    put_pod(world, "other")
    assert settled(world) == [("WaitForPodScheduled", "waiting for pods user,other to be scheduled")]
    put_pod(world, "user", node="n")
    put_pod(world, "other", phase="Failed")
    assert settled(world) == [waiting]
    patch = {"spec": {"claimRef": {"namespace": NAMESPACE, "name": "c"}}}
    world.change(PERSISTENT_VOLUMES, "v", patch)
    world.settle()
    assert phases(world) == ("Bound", "Bound")


@pytest.mark.parametrize(
    ("policy", "extra", "phase", "reason"),
    [
        ("Retain", {}, "Released", None),
        ("Delete", {"csi": {"driver": "d"}}, "Released", None),
        (
            "Delete",
            {"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "example.com/d"}}},
            "Released",
            None,
        ),
        ("Delete", {}, "Failed", "VolumeFailedDelete"),
        ("Recycle", {}, "Failed", "VolumeFailedRecycle"),
    ],
)
def test_a_volume_without_its_claim_follows_its_reclaim_policy(
    world: World, policy: str, extra: dict[str, Any], phase: str, reason: str | None
) -> None:
    bind(world, persistentVolumeReclaimPolicy=policy, **extra)
    world.remove(PERSISTENT_VOLUME_CLAIMS, "c")
    world.settle()
    assert volume(world)["status"]["phase"] == phase
    assert [each.reason for each in world.events] == ([reason] if reason else [])
    put_claim(world, "next")
    world.settle()
    assert claim(world, "next")["status"]["phase"] == "Pending"


def test_the_absence_of_a_claim_is_confirmed_before_its_volume_is_released(world: World) -> None:
    put_volume(world, claimRef={"namespace": NAMESPACE, "name": "c", "uid": "unseen"})
    plan = VOLUME.plan(world.view(), world.key("", "v"))
    assert plan.steps[0] == [Absent(PERSISTENT_VOLUME_CLAIMS, NAMESPACE, "c", "unseen")]


def test_a_freed_volume_becomes_available(world: World) -> None:
    put_volume(world)
    put_claim(world)
    world.settle()
    world.remove(PERSISTENT_VOLUME_CLAIMS, "c")
    world.settle()
    world.change(PERSISTENT_VOLUMES, "v", {"spec": {"claimRef": None}})
    put_claim(world, "next")
    world.settle()
    assert claim(world, "next")["spec"]["volumeName"] == "v"


def test_a_claim_without_its_volume_is_lost(world: World) -> None:
    bind(world)
    world.remove(PERSISTENT_VOLUMES, "v")
    world.settle()
    mine = claim(world)["status"]
    assert mine == {"phase": "Lost"}
    text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    assert emitted(world) == [("ClaimLost", text)]


def test_the_wrong_one_of_two_claims_of_a_volume_is_lost(world: World) -> None:
    bind(world)
    put_claim(world, "other", volumeName="v", metadata={"annotations": {BOUND: "yes"}})
    world.settle()
    assert claim(world, "other")["status"]["phase"] == "Lost"
    assert emitted(world)[0][0] == "ClaimMisbound"
    assert phases(world) == ("Bound", "Bound")


@pytest.mark.parametrize("by_controller", [True, False])
def test_the_unused_one_of_two_volumes_of_a_claim_is_freed(world: World, by_controller: bool) -> None:
    put_volume(world)
    put_claim(world)
    world.settle()
    reference = {"namespace": NAMESPACE, "name": "c", "uid": claim(world)["metadata"]["uid"]}
    annotations = {BY_CONTROLLER: "yes"} if by_controller else {}
    put_volume(world, "w", claimRef=reference, metadata={"annotations": annotations})
    world.settle()
    left = volume(world, "w")
    assert left["status"]["phase"] == "Available"
    kept = None if by_controller else {"namespace": NAMESPACE, "name": "c"}
    assert left["spec"].get("claimRef") == kept


def test_a_volume_reserved_for_a_claim_that_cannot_use_it_is_reported(world: World) -> None:
    put_claim(world)
    reference = {"namespace": NAMESPACE, "name": "c", "uid": claim(world)["metadata"]["uid"]}
    put_volume(world, volumeMode="Block", claimRef=reference)
    assert {each[0] for each in settled(world)} == {"VolumeMismatch", "FailedBinding"}


@given(st.data())
def test_after_any_history_bindings_are_one_to_one(data: st.DataObject) -> None:
    made = new_world()
    for number in range(data.draw(st.integers(1, 4))):
        put_volume(made, f"v{number}", f"{data.draw(st.integers(1, 4))}Gi")
    for number in range(data.draw(st.integers(1, 4))):
        put_claim(made, f"c{number}", f"{data.draw(st.integers(1, 4))}Gi")
    for _ in range(data.draw(st.integers(0, 12))):  # cut off, in any order, at any write
        name, resource = data.draw(
            st.sampled_from(
                [(VOLUME_CLAIM.name, PERSISTENT_VOLUME_CLAIMS), (VOLUME.name, PERSISTENT_VOLUMES)]
            )
        )
        bodies = made.bodies(resource)
        metadata = data.draw(st.sampled_from(bodies))["metadata"]
        steps = (
            made.controllers[name]
            .plan(made.view(), made.key(metadata.get("namespace", ""), metadata["name"]))
            .steps
        )
        made._steps(list(steps)[: data.draw(st.integers(0, 4))])
    made.settle()
    claims = {each["metadata"]["uid"]: each for each in made.bodies(PERSISTENT_VOLUME_CLAIMS)}
    for each in made.bodies(PERSISTENT_VOLUMES):
        reference = each["spec"].get("claimRef")
        if reference:
            assert claims[reference["uid"]]["spec"]["volumeName"] == each["metadata"]["name"]
            assert each["status"]["phase"] == "Bound"
    names = [each["spec"]["volumeName"] for each in claims.values() if "volumeName" in each["spec"]]
    assert len(names) == len(set(names))
    free = [each for each in made.bodies(PERSISTENT_VOLUMES) if "claimRef" not in each["spec"]]
    waiting = [each for each in claims.values() if "volumeName" not in each["spec"]]
    for each in waiting:
        wanted = int(each["spec"]["resources"]["requests"]["storage"][0])
        assert all(int(one["spec"]["capacity"]["storage"][0]) < wanted for one in free)


# ---- Who is woken --------------------------------------------------------------------------


def envelope(made: World, resource: Resource, name: str) -> Envelope:
    found = made.view().of[resource].get("acme", NAMESPACE if resource.namespaced else "", name)
    assert found is not None
    return found


def woken(made: World, controller: Controller, of: Resource, change: Change) -> list[str]:
    watches = [each for each in controller.watches if each.resource == of]
    return sorted(key.name for watch in watches for key in watch.keys(change, made.view()))


def test_waiting_claims_are_queued_by_relevant_changes(world: World) -> None:
    put_volume(world)
    put_claim(world, "bound")
    world.settle()
    put_claim(world, "waits")
    put_volume(world, "new", status={"phase": "Available"})
    world.change(PERSISTENT_VOLUMES, "new", {"status": {"phase": "Available"}})
    news = Change(None, envelope(world, PERSISTENT_VOLUMES, "new"))
    assert woken(world, VOLUME_CLAIM, PERSISTENT_VOLUMES, news) == ["waits"]
    gone = Change(envelope(world, PERSISTENT_VOLUMES, "v"), None)
    assert woken(world, VOLUME_CLAIM, PERSISTENT_VOLUMES, gone) == ["bound"]
    put_class(world, "fast")
    news = Change(None, envelope(world, STORAGE_CLASSES, "fast"))
    assert woken(world, VOLUME_CLAIM, STORAGE_CLASSES, news) == ["waits"]
    put_pod(world, "user", claim="waits")
    news = Change(None, envelope(world, PODS, "user"))
    assert woken(world, VOLUME_CLAIM, PODS, news) == ["waits"]
    gone = Change(envelope(world, PERSISTENT_VOLUME_CLAIMS, "bound"), None)
    assert woken(world, VOLUME, PERSISTENT_VOLUME_CLAIMS, gone) == ["v"]


# ---- Protection ----------------------------------------------------------------------------

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def put_pod(
    made: World, name: str, *, node: str = "", phase: str = "Pending", claim: str = "c", **more: Any
) -> None:
    spec = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}], **more}
    if node:
        spec["nodeName"] = node
    made.put(PODS, {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}})


class Server:
    """The tenant's API: the objects that reads return, and the writes."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.patched: list[Any] = []

    async def list(self, resource: Resource, namespace: str) -> list[Envelope]:
        return list(self.made.view().of[resource].within("acme", namespace))

    async def patch(self, _resource: Resource, _name: str, patch: Any, _namespace: str, *, kind: str) -> None:
        self.patched.append((kind, patch["metadata"]))


async def protected(made: World) -> list[Any]:
    server = Server(made)
    assert await protect_claim(ReconcileContext(made.view(), server), made.key(NAMESPACE, "c")) is None  # type: ignore[arg-type]
    return server.patched


async def test_a_claim_is_protected_while_a_pod_with_a_node_uses_it(world: World) -> None:
    put_claim(world)
    [(kind, metadata)] = await protected(world)
    assert (kind, metadata["finalizers"]) == ("merge", ["kubernetes.io/pvc-protection"])
    put_claim(world, metadata={"finalizers": ["kubernetes.io/pvc-protection"], **DELETED})
    put_pod(world, "waits")
    put_pod(world, "user", node="n", phase="Succeeded")
    assert await protected(world) == []
    world.remove(PODS, "user")
    [(kind, metadata)] = await protected(world)
    assert kind == "strategic"
    assert metadata["$deleteFromPrimitiveList/finalizers"] == ["kubernetes.io/pvc-protection"]


async def test_an_ephemeral_claim_is_protected_only_for_its_own_pod(world: World) -> None:
    owner = {"kind": "Pod", "apiVersion": "v1", "name": "user", "uid": "u", "controller": True}
    metadata = {"finalizers": ["kubernetes.io/pvc-protection"], "ownerReferences": [owner], **DELETED}
    put_claim(world, "user-data", metadata=metadata)
    spec = {"nodeName": "n", "volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]}

    async def kept(uid: str, **more: Any) -> bool:
        world.put(PODS, {"metadata": {"name": "user", "uid": uid, **more}, "spec": spec})
        server = Server(world)
        await protect_claim(ReconcileContext(world.view(), server), world.key(NAMESPACE, "user-data"))  # type: ignore[arg-type]
        return not server.patched

    assert await kept("u")
    assert not await kept("u", deletionGracePeriodSeconds=0, **DELETED)
    world.remove(PODS, "user")
    assert not await kept("another")


def test_a_terminating_claim_is_queued_when_its_pods_end(world: World) -> None:
    put_claim(world, metadata=DELETED)
    put_claim(world, "stays")
    put_pod(world, "user", node="n")
    put_pod(world, "other", node="n", claim="stays")
    watch = VOLUME_CLAIM_PROTECTION.watches[1]
    found = [
        key.name
        for name in ("user", "other")
        for key in watch.keys(Change(envelope(world, PODS, name), None), world.view())
    ]
    assert found == ["c"]


def test_a_volume_is_protected_while_it_is_bound(world: World) -> None:
    put_volume(world)
    put_claim(world)
    world.settle()
    world.change(PERSISTENT_VOLUMES, "v", {"metadata": DELETED})
    world.settle()
    assert phases(world) == ("Bound", "Bound")
    world.remove(PERSISTENT_VOLUME_CLAIMS, "c")
    world.settle()
    assert world.bodies(PERSISTENT_VOLUMES) == []


def test_a_volume_without_the_finalizer_gets_it(world: World) -> None:
    put_volume(world, metadata={"finalizers": ["example.com/x"]})
    world.settle()
    assert volume(world)["metadata"]["finalizers"] == ["example.com/x", "kubernetes.io/pv-protection"]


@pytest.mark.parametrize("controller", [VOLUME_CLAIM, VOLUME, VOLUME_PROTECTION])
def test_deleted_objects_need_no_actions(world: World, controller: Controller) -> None:
    assert controller.plan(world.view(), world.key(NAMESPACE, "no-such")) == NOTHING
