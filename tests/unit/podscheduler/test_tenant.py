import json

import pytest
from tenant_kit import NS, SIZE, Tenant

from vcsync.api.names import REFUSAL_PREFIX, SUPER_CLUSTER
from vcsync.kube.errors import Conflict, ServerError, Status
from vcsync.objects.merge_patch import merge_patch
from vcsync.podscheduler.tenant import NEW_NAMESPACE_SECONDS, Outcome, StillHeld, TenantPods
from vcsync.scheduling.snapshot import Health, SuperView


@pytest.fixture
def tenant() -> Tenant:
    made = Tenant()
    made.pods.grant(NS, SIZE, {"r1": 1, "r2": 1})
    made.pods.begin()
    return made


async def test_a_new_pod_costs_one_patch_and_no_event(tenant):
    tenant.create("p")
    assert tenant.queue == [((NS, "p"), True)]
    await tenant.settle()
    assert tenant.home("p") == "r1"
    assert len(tenant.patches) == 1
    assert tenant.events == []


async def test_nothing_is_decided_before_all_pods_are_counted():
    tenant = Tenant()
    tenant.create("new", "100m")
    tenant.create("old", "100m", labels={SUPER_CLUSTER: "r1"})
    tenant.pods.grant(NS, SIZE, {"r1": 1, "r2": 1})
    assert tenant.queue == []
    tenant.pods.begin()
    await tenant.settle()
    assert tenant.home("new") == "r2"


async def test_a_pod_that_does_not_fit_gets_one_event_and_is_tried_when_room_is_freed(tenant):
    for name in ("a", "b", "c"):
        tenant.create(name, "100m")
    await tenant.settle()
    assert (tenant.home("a"), tenant.home("b"), tenant.home("c")) == ("r1", "r2", "")
    assert [name for name, _ in tenant.events] == ["c"]
    [condition] = tenant.objects["c"]["status"]["conditions"]
    assert condition["message"] == "r1: cpu 100m asked, 0 of 100m free; r2: cpu 100m asked, 0 of 100m free"
    done = len(tenant.patches)
    tenant.store("c", tenant.objects["c"])  # anything happens to it
    await tenant.settle()
    assert len(tenant.patches) == done
    tenant.delete("b")
    await tenant.settle()
    assert tenant.home("c") == "r2"


async def test_a_restart_does_not_repeat_events(tenant):
    tenant.create("large", "150m")
    await tenant.settle()
    again = Tenant()
    again.pods.grant(NS, SIZE, {"r1": 1, "r2": 1})
    again.store("large", tenant.objects["large"])
    again.pods.begin()
    await again.settle()
    assert (again.patches, again.events) == ([], [])
    again.pods.grant(NS, SIZE, {"r1": 2, "r2": 1})
    await again.settle()
    assert again.home("large") == "r1"


async def test_a_pod_in_a_new_namespace_gets_no_event_before_slices_are_distributed():
    tenant = Tenant()
    tenant.pods.begin()
    tenant.create("p")
    await tenant.settle()
    assert (tenant.patches, tenant.events) == ([], [])
    tenant.pods.grant(NS, SIZE, {"r1": 1})
    await tenant.settle()
    await tenant.pass_time()
    assert tenant.home("p") == "r1"
    assert (len(tenant.patches), tenant.events) == (1, [])


async def test_a_report_to_a_pod_without_slices_that_failed_is_repeated():
    tenant = Tenant()
    tenant.pods.begin()
    tenant.create("p")
    await tenant.settle()
    tenant.fail = [ServerError(Status(500))]
    with pytest.raises(ServerError):
        await tenant.pass_time()
    await tenant.pods.schedule((NS, "p"))
    await tenant.pods.schedule((NS, "p"))
    assert [name for name, _ in tenant.events] == ["p"]


async def test_pods_wait_for_slices_and_move_with_them(tenant):
    tenant.pods.grant(NS, {}, {})
    tenant.create("p")
    await tenant.settle()
    await tenant.pass_time()
    assert tenant.home("p") == ""
    assert "needs a ResourceQuota" in tenant.events[0][1]
    tenant.pods.grant(NS, SIZE, {"r2": 1})
    await tenant.settle()
    assert tenant.home("p") == "r2"
    tenant.held = {"r1"}
    tenant.pods.grant(NS, SIZE, {"r1": 1})
    await tenant.settle()
    assert tenant.home("p") == "r1"


async def test_a_waiting_pod_has_no_label(tenant):
    tenant.held = {"r2"}
    tenant.create("p", "150m", labels={SUPER_CLUSTER: "r1"})
    tenant.pods.grant(NS, SIZE, {"r2": 1})  # where it was put has lost its slices, and the other has no room
    await tenant.settle()
    metadata = tenant.objects["p"]["metadata"]
    assert (metadata["labels"], metadata.get("annotations", {})) == ({}, {})
    assert [message for _, message in tenant.events] == [
        f"label {SUPER_CLUSTER}: super cluster r1 has no slices of namespace shop; the Pod waits",
        "r2: cpu 150m asked, 100m of 100m free",
    ]
    patches = len(tenant.patches)
    tenant.pods.grant(NS, SIZE, {"r2": 2})
    await tenant.settle()
    assert tenant.home("p") == "r2"
    assert len(tenant.patches) == patches + 1


async def test_pods_wait_for_a_super_cluster_to_come_back(tenant):
    for super_id in ("r1", "r2"):
        tenant.views[super_id] = SuperView(super_id, Health.LOST, {})
    tenant.create("p")
    await tenant.settle()
    assert tenant.events == [("p", "r1: is lost; r2: is lost")]
    tenant.views["r2"] = SuperView("r2", Health.READY, {})
    tenant.pods.pool_changed()
    await tenant.settle()
    assert tenant.home("p") == "r2"


@pytest.mark.parametrize("error", [Conflict(Status(409)), ServerError(Status(500))])
async def test_a_failed_write_frees_the_share_and_the_pod_is_tried_again(tenant, error):
    tenant.create("p", "100m")
    tenant.fail = [error]
    with pytest.raises(type(error)):
        await tenant.settle()
    assert tenant.pods.accounting.share(NS, "r1").used["cpu"] == 0
    await tenant.pods.schedule((NS, "p"))  # as the work queue does after its backoff
    assert tenant.home("p") == "r1"


async def test_a_report_that_failed_is_repeated(tenant):
    tenant.create("p", "150m")
    tenant.fail = [ServerError(Status(500))]
    with pytest.raises(ServerError):
        await tenant.settle()
    assert tenant.events == []
    await tenant.pods.schedule((NS, "p"))
    assert [name for name, _ in tenant.events] == ["p"]


async def test_a_pod_deleted_meanwhile_is_forgotten(tenant):
    tenant.create("p", "100m")
    del tenant.objects["p"]
    await tenant.settle()
    assert tenant.pods.accounting.pods == {}
    assert tenant.pods.accounting.share(NS, "r1").used["cpu"] == 0


async def test_a_changed_label_of_a_bound_pod_is_repaired(tenant):
    tenant.create("p", labels={SUPER_CLUSTER: "r2"}, nodeName="node.r1")
    await tenant.settle()
    assert tenant.home("p") == "r1"


def fail(tenant: Tenant, super_id: str, health: Health = Health.LOST) -> None:
    tenant.views[super_id] = SuperView(super_id, health, {}, out_of_touch="no heartbeat since noon")
    tenant.pods.pool_changed()


def run_on(tenant: Tenant, name: str, super_id: str) -> None:
    tenant.create(name, labels={SUPER_CLUSTER: super_id}, nodeName=f"node.{super_id}")


async def test_pods_on_a_lost_super_cluster_say_so_once(tenant):
    run_on(tenant, "p", "r1")
    run_on(tenant, "q", "r2")
    await tenant.settle()
    tenant.patches.clear()
    fail(tenant, "r1")
    await tenant.settle()
    [(name, patch)] = tenant.patches
    [condition] = patch["status"]["conditions"]
    assert (name, patch["metadata"]) == ("p", {"uid": "uid-p"})
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "Ready",
        "Unknown",
        "SuperClusterLost",
    )
    assert condition["message"] == (
        "whether the Pod runs is not known, because super cluster r1 is lost: no heartbeat since noon"
    )
    fail(tenant, "r1")
    await tenant.settle()
    assert len(tenant.patches) == 1


async def test_a_pod_whose_mark_is_overwritten_while_its_super_cluster_is_lost_gets_it_again(tenant):
    run_on(tenant, "p", "r1")
    fail(tenant, "r1")
    await tenant.settle()
    tenant.patches.clear()
    ready = {"type": "Ready", "status": "False", "reason": ""}
    tenant.store("p", tenant.objects["p"] | {"status": {"conditions": [ready]}})
    await tenant.settle()
    [(_, patch)] = tenant.patches
    assert patch["status"]["conditions"][0]["status"] == "Unknown"


@pytest.mark.parametrize("health", [Health.SUSPECT, Health.RECOVERING, Health.READY, Health.UNKNOWN])
async def test_pods_keep_their_conditions_while_their_super_cluster_is_not_lost(tenant, health):
    run_on(tenant, "p", "r1")
    await tenant.settle()
    tenant.patches.clear()
    fail(tenant, "r1", health)
    await tenant.settle()
    assert tenant.patches == []


async def test_a_gated_pod_is_ignored_until_its_gates_are_removed(tenant):
    tenant.create("p", schedulingGates=[{"name": "wait"}])
    await tenant.settle()
    assert (tenant.patches, tenant.home("p")) == ([], "")
    tenant.create("p")
    await tenant.settle()
    assert tenant.home("p") == "r1"


async def test_a_new_pod_with_the_name_of_a_waiting_pod_gets_its_own_event(tenant):
    tenant.create("web-0", "150m")
    await tenant.settle()
    anew = tenant.objects["web-0"]
    anew["metadata"]["uid"] = "another"
    del anew["status"]
    tenant.store("web-0", anew)
    await tenant.settle()
    assert "150m asked" in tenant.objects["web-0"]["status"]["conditions"][0]["message"]
    assert [name for name, _ in tenant.events] == ["web-0", "web-0"]


async def test_a_pod_without_slices_gets_its_event_after_the_delay():
    tenant = Tenant()
    tenant.now = 10.0
    tenant.pods.begin()
    tenant.create("p")
    tenant.now = 10.5
    await tenant.settle()
    assert tenant.later == [((NS, "p"), 10.0 + NEW_NAMESPACE_SECONDS)]
    tenant.now = 10.0 + NEW_NAMESPACE_SECONDS
    await tenant.pods.schedule((NS, "p"))
    assert [name for name, _ in tenant.events] == ["p"]


@pytest.mark.parametrize("where", ["label", "annotation"])
async def test_half_of_an_assignment_is_removed_from_a_waiting_pod(tenant, where):
    tenant.held = {"r2"}
    tenant.create("p", "150m", labels={SUPER_CLUSTER: "r1"} if where == "label" else {})
    if where == "annotation":
        tenant.objects["p"]["metadata"]["annotations"] = {SUPER_CLUSTER: "r1"}
        tenant.store("p", tenant.objects["p"])
    tenant.pods.grant(NS, SIZE, {"r2": 1})
    await tenant.settle()
    metadata = tenant.objects["p"]["metadata"]
    assert (metadata["labels"], metadata.get("annotations", {})) == ({}, {})


async def test_a_pod_with_smaller_requests_makes_room_for_waiting_pods(tenant):
    tenant.create("a", "100m")
    tenant.create("b", "100m")
    tenant.create("c", "60m")
    await tenant.settle()
    assert tenant.home("c") == ""
    smaller = tenant.objects["a"]
    smaller["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "40m"
    tenant.store("a", smaller)
    await tenant.settle()
    assert tenant.home("c") == tenant.home("a")


async def test_slices_of_another_namespace_do_not_enqueue_a_pod(tenant):
    tenant.create("p", "150m")
    await tenant.settle()
    tenant.pods.grant("other", SIZE, {"r1": 2})
    assert tenant.queue == []


async def test_an_outcome_contains_its_latency(tenant):
    tenant.now = 5.0
    tenant.create("p")
    tenant.now = 7.5
    outcome = await tenant.pods.schedule((NS, "p"))
    assert (outcome.kind, outcome.super_id, outcome.latency) == ("assigned", "r1", 2.5)
    assert outcome.decision is not None
    assert await tenant.pods.schedule((NS, "p")) == Outcome("left")
    assert await tenant.pods.schedule((NS, "nobody")) == Outcome("left")
    tenant.create("large", "150m")
    waits = await tenant.pods.schedule((NS, "large"))
    assert (waits.kind, waits.super_id, waits.latency) == ("waiting", "", 0.0)
    assert waits.decision is not None


async def test_waiting_pods_are_scheduled_after_new_pods(tenant):
    tenant.create("p", "150m")
    assert tenant.queue == [((NS, "p"), True)]
    await tenant.settle()
    tenant.pods.pool_changed()
    tenant.look()
    assert tenant.queue == [((NS, "p"), False)]
    await tenant.settle()
    tenant.pods.grant(NS, SIZE, {"r1": 1})
    assert tenant.queue == [((NS, "p"), False)]


async def test_nothing_is_enqueued_before_all_pods_are_counted():
    tenant = Tenant()
    tenant.pods.grant(NS, SIZE, {"r1": 1})
    tenant.create("old", "100m", labels={SUPER_CLUSTER: "r1"})
    tenant.create("new", "100m")
    await tenant.pods.schedule((NS, "new"))
    tenant.delete("old")
    tenant.pods.pool_changed()
    assert tenant.queue == []


async def test_pods_of_a_suspended_tenant_wait_for_that_reason():
    tenant = Tenant()
    suspended = [False]
    tenant.pods = TenantPods(
        tenant,
        lambda: tenant.views,
        tenant.add,
        tenant.add_after,
        lambda: tenant.now,
        suspended=lambda: suspended[0],
    )
    tenant.pods.begin()
    tenant.create("p")
    tenant.now += NEW_NAMESPACE_SECONDS
    await tenant.settle()
    assert "needs a ResourceQuota" in tenant.events[-1][1]
    suspended[0] = True
    tenant.pods.pool_changed()
    await tenant.settle()
    said = "the tenant is suspended: nothing runs until its operator resumes it"
    assert tenant.events[-1] == ("p", said)
    assert tenant.objects["p"]["status"]["conditions"][0]["message"] == said
    count = len(tenant.events)
    tenant.pods.pool_changed()
    await tenant.settle()
    assert len(tenant.events) == count
    suspended[0] = False
    tenant.pods.grant(NS, SIZE, {"r1": 1})
    await tenant.settle()
    assert tenant.home("p") == "r1"


async def test_a_suspended_tenants_pods_are_not_assigned_while_its_slices_stand():
    """Slices leave when the namespace scheduler has written that, which may be later."""
    tenant = Tenant()
    suspended = [False]
    tenant.pods = TenantPods(
        tenant,
        lambda: tenant.views,
        tenant.add,
        tenant.add_after,
        lambda: tenant.now,
        suspended=lambda: suspended[0],
    )
    tenant.pods.begin()
    tenant.pods.grant(NS, SIZE, {"r1": 1})
    tenant.create("before")
    await tenant.settle()
    assert tenant.home("before") == "r1"
    suspended[0] = True
    tenant.create("after")
    tenant.now += NEW_NAMESPACE_SECONDS
    await tenant.settle()
    assert (tenant.home("before"), tenant.home("after")) == ("r1", "")
    said = "the tenant is suspended: nothing runs until its operator resumes it"
    assert tenant.events[-1] == ("after", said)
    suspended[0] = False
    tenant.pods.pool_changed()
    await tenant.settle()
    assert tenant.home("after") == "r1"


async def test_a_waiting_pod_says_when_its_suspect_super_cluster_is_lost(tenant):
    fail(tenant, "r1", Health.SUSPECT)
    fail(tenant, "r2", Health.SUSPECT)
    tenant.create("p")
    await tenant.settle()
    fail(tenant, "r2")
    await tenant.settle()
    messages = [message for name, message in tenant.events if name == "p"]
    assert messages == [
        "r1: is suspect: no heartbeat since noon; r2: is suspect: no heartbeat since noon",
        "r1: is suspect: no heartbeat since noon; r2: is lost: no heartbeat since noon",
    ]


@pytest.mark.parametrize(
    ("label", "cpu", "home", "told"),
    [
        ("r2", "50m", "r2", []),
        ("r9", "50m", "r1", ["super cluster r9 has no slices of namespace shop; the Pod is placed on r1"]),
        ("r2", "80m", "r1", ["super cluster r2 cannot take the Pod; the Pod is placed on r1"]),
    ],
)
async def test_a_label_that_the_tenant_wrote_is_followed_only_where_it_has_slices_and_room(
    tenant, label, cpu, home, told
):
    tenant.create("there", "50m", labels={SUPER_CLUSTER: "r2"})
    await tenant.settle()
    tenant.create("p", cpu, labels={SUPER_CLUSTER: label}, schedulerName="mine")
    await tenant.settle()
    if home != label in tenant.views:
        said = json.loads(tenant.objects["p"]["metadata"]["annotations"][REFUSAL_PREFIX + label])
        assert said == {"state": "withdrawn", "reason": "NoRoom"}
        annotations = {REFUSAL_PREFIX + label: json.dumps(said | {"state": "returned"})}
        tenant.store("p", merge_patch(tenant.objects["p"], {"metadata": {"annotations": annotations}}))
        await tenant.settle()
    assert tenant.home("p") == home
    assert [message for name, message in tenant.events if name == "p" and message.startswith("label")] == [
        f"label {SUPER_CLUSTER}: {each}" for each in told
    ]


@pytest.mark.parametrize("after", [{"r2": 1}, {}], ids=["for another one", "to wait"])
async def test_a_pod_does_not_leave_if_a_live_read_says_that_a_copy_may_exist(tenant, after):
    """The caches of this process are old: the namespace has got slices there again, or a fence has ended."""
    tenant.create("p")
    await tenant.settle()
    tenant.held = {"r2"}
    tenant.now = NEW_NAMESPACE_SECONDS
    tenant.live = {"r1"}
    tenant.pods.grant(NS, SIZE, after)
    for _ in range(2):
        with pytest.raises(StillHeld, match="the Pod may still have a copy on super cluster r1"):
            await tenant.pods.schedule((NS, "p"))
    assert tenant.home("p") == "r1"
    tenant.live = set()
    await tenant.pods.schedule((NS, "p"))
    assert tenant.home("p") == "".join(after)


async def test_room_elsewhere_is_not_held_for_a_pod_whose_super_cluster_nobody_hears_from(tenant):
    tenant.create("p", "100m")
    await tenant.settle()
    tenant.pods.grant(NS, SIZE, {"r2": 1})
    await tenant.settle()
    tenant.create("q", "100m")
    await tenant.settle()
    assert (tenant.home("p"), tenant.home("q")) == ("r1", ""), "the room on r2 is for p"
    tenant.views["r1"] = SuperView("r1", Health.SUSPECT, {}, out_of_touch="no heartbeat since noon")
    tenant.pods.pool_changed(frozenset({"r1"}))
    await tenant.settle()
    assert (tenant.home("p"), tenant.home("q")) == ("r1", "r2")
    told = "super cluster r1 may still run this Pod, and nobody hears from it: no heartbeat since noon; "
    assert [message for name, message in tenant.events if name == "p" and message.startswith(told)] == [
        told + "the Pod stays there until r1 answers again or its operator fences it"
    ]
    tenant.held = set()
    tenant.pods.released(NS)
    await tenant.settle()
    assert tenant.home("p") == "", "r1 has cleared the namespace"


async def test_a_label_that_this_scheduler_wrote_is_changed_without_an_event(tenant):
    tenant.create("p")
    await tenant.settle()
    tenant.held = {"r2"}
    tenant.pods.grant(NS, SIZE, {"r2": 1})
    await tenant.settle()
    assert (tenant.home("p"), tenant.events) == ("r2", [])
