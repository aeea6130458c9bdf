"""Names of Pods that are deleted before they have a node: they are free once no super cluster can have a copy."""

import pytest
from msgspec.structs import replace
from tenant_kit import NS, SIZE, Tenant

from vcsync.api.names import COPY_FINALIZER, SUPER_CLUSTER
from vcsync.api.refusals import RETURNED, Said, refusal_annotation
from vcsync.objects.merge_patch import merge_patch
from vcsync.podscheduler.tenant import StillHeld
from vcsync.scheduling.snapshot import Health

SET = "web-0"


@pytest.fixture
def tenant() -> Tenant:
    made = Tenant()
    made.held = {"r1", "r2"}
    made.pods.grant(NS, SIZE, {"r1": 1})
    made.pods.begin()
    return made


def finalizers(tenant: Tenant, name: str) -> list[str]:
    return tenant.objects[name]["metadata"].get("finalizers", [])


def silence(tenant: Tenant, super_id: str, health: Health = Health.LOST) -> None:
    view = replace(tenant.views[super_id], health=health, out_of_touch="its heartbeats ended")
    tenant.views[super_id] = view
    tenant.pods.pool_changed(frozenset({super_id}))


async def test_the_write_of_the_label_keeps_a_fixed_name(tenant):
    tenant.create(SET)
    tenant.create("web-5d4c8b7d9f-x2z4b", generated=True)
    await tenant.settle()
    assert len(tenant.patches) == 2
    assert finalizers(tenant, SET) == [COPY_FINALIZER]
    assert finalizers(tenant, "web-5d4c8b7d9f-x2z4b") == []


async def test_finalizers_of_others_remain(tenant):
    tenant.create(SET)
    tenant.objects[SET]["metadata"]["finalizers"] = ["example.com/held"]
    tenant.store(SET, tenant.objects[SET])
    await tenant.settle()
    assert finalizers(tenant, SET) == ["example.com/held", COPY_FINALIZER]
    tenant.pods.grant(NS, SIZE, {})
    tenant.held = set()
    tenant.pods.released(NS)
    await tenant.settle()
    await tenant.pass_time()
    assert (tenant.home(SET), finalizers(tenant, SET)) == ("", ["example.com/held"])


async def test_a_bound_pod_does_not_get_the_finalizer(tenant):
    tenant.create(SET, nodeName="node.r1")
    await tenant.settle()
    assert (tenant.home(SET), finalizers(tenant, SET)) == ("r1", [])


async def test_a_pod_that_an_earlier_version_has_labelled_is_left_alone(tenant):
    tenant.create(SET, labels={SUPER_CLUSTER: "r1"})
    tenant.objects[SET]["metadata"]["annotations"] = {SUPER_CLUSTER: "r1"}
    tenant.store(SET, tenant.objects[SET])
    await tenant.settle()
    assert tenant.patches == []


async def test_a_deleted_pod_keeps_its_name_and_room_until_its_super_cluster_has_ended_it(tenant):
    tenant.create(SET, "100m")
    await tenant.settle()
    writes = len(tenant.patches)
    tenant.end(SET)
    tenant.create("next", "100m")
    await tenant.settle()
    await tenant.pass_time()
    assert SET in tenant.objects
    assert tenant.home("next") == ""
    assert [name for name, _ in tenant.patches[writes:]] == ["next"], "only why the other one waits"
    tenant.delete(SET)
    await tenant.settle()
    assert tenant.home("next") == "r1"


@pytest.mark.parametrize("how", ["released", "fenced", "removed", "unlabelled", "returned"])
async def test_a_deleted_pod_ends_once_its_super_cluster_cannot_have_a_copy(tenant, how):
    tenant.create(SET)
    await tenant.settle()
    tenant.end(SET)
    await tenant.settle()
    assert SET in tenant.objects
    match how:
        case "released":
            tenant.pods.grant(NS, SIZE, {})
            tenant.held = {"r2"}
            tenant.pods.released(NS)
        case "fenced":
            tenant.views["r1"] = replace(tenant.views["r1"], fenced=True)
            tenant.pods.pool_changed(frozenset({"r1"}))
        case "removed":
            del tenant.views["r1"]
            tenant.pods.pool_changed(frozenset({"r1"}))
        case "unlabelled":
            change = {"metadata": {"labels": {SUPER_CLUSTER: None}}}
            tenant.store(SET, merge_patch(tenant.objects[SET], change))
        case "returned":
            change = {"metadata": {"annotations": refusal_annotation("r1", Said(RETURNED))}}
            tenant.store(SET, merge_patch(tenant.objects[SET], change))
    await tenant.settle()
    assert SET not in tenant.objects


async def test_a_live_read_decides_whether_the_name_is_free(tenant):
    tenant.create(SET)
    await tenant.settle()
    tenant.end(SET)
    tenant.live = {"r1"}  # it holds the namespace again, or the fence has ended
    tenant.held = set()
    tenant.pods.released(NS)
    with pytest.raises(StillHeld):
        await tenant.settle()
    assert SET in tenant.objects
    tenant.live = set()
    await tenant.pods.schedule((NS, SET))
    assert SET not in tenant.objects


@pytest.mark.parametrize("health", [Health.LOST, Health.SUSPECT])
async def test_a_pod_that_is_deleted_on_a_silent_super_cluster_says_so_once(tenant, health):
    tenant.create(SET)
    await tenant.settle()
    silence(tenant, "r1", health)
    tenant.end(SET)
    await tenant.settle()
    tenant.pods.pool_changed(frozenset({"r1"}))
    await tenant.settle()
    [(name, told)] = tenant.events
    assert name == SET
    assert told == (
        "super cluster r1 may still run this Pod, which is being deleted, and nobody hears from it: its heartbeats ended; "
        "the Pod keeps its name until r1 answers again or its operator fences it"
    )
    tenant.views["r1"] = replace(tenant.views["r1"], fenced=True)
    tenant.pods.pool_changed(frozenset({"r1"}))
    await tenant.settle()
    assert SET not in tenant.objects


async def test_a_bound_pod_whose_super_cluster_is_removed_ends_in_spite_of_the_finalizer(tenant):
    """It was bound, and its syncer ended before the write of the status that frees the name."""
    tenant.create(SET)
    await tenant.settle()
    tenant.objects[SET]["spec"]["nodeName"] = "node.r1"
    tenant.store(SET, tenant.objects[SET])
    tenant.end(SET)
    await tenant.settle()
    assert finalizers(tenant, SET) == [COPY_FINALIZER]
    del tenant.views["r1"]
    tenant.pods.pool_changed(frozenset({"r1"}))
    await tenant.settle()
    assert finalizers(tenant, SET) == []


async def test_a_finalizer_of_the_tenants_own_keeps_no_pod_without_super_cluster(tenant):
    tenant.create(SET, "500m")
    tenant.objects[SET]["metadata"]["finalizers"] = [COPY_FINALIZER]
    tenant.store(SET, tenant.objects[SET])
    await tenant.settle()
    assert tenant.home(SET) == ""
    tenant.end(SET)
    await tenant.settle()
    assert SET not in tenant.objects


@pytest.mark.parametrize("held", [True, False])
async def test_a_pod_that_is_not_followed_any_more_is_looked_for_if_its_name_may_be_free(tenant, held):
    """The garbage collector has marked it as failed before the scheduler has freed its name."""
    unseen = []
    tenant.pods._on_unseen = lambda: unseen.append(SET)
    tenant.create(SET)
    tenant.create("web-x2z4b", generated=True)
    await tenant.settle()
    tenant.held = {"r1"} if held else set()
    for name in (SET, "web-x2z4b"):
        tenant.delete(name)
    assert unseen == ([] if held else [SET])
