"""The Pod scheduler as a whole against clusters in memory: its reads, writes, status and change of leader."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from memory_cluster import MemoryCluster, until
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.refusals import (
    CLAIMS,
    RETURNED,
    SLICES_LEFT,
    WITHDRAWN,
    Said,
    refusal_annotation,
    said_by,
)
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.fairqueue import ObjectName
from vcsync.kube.errors import Conflict, Forbidden, NotFound, ServerError, Status, Unauthorized
from vcsync.kube.resources import (
    EVENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
    VOLUME_SNAPSHOTS,
)
from vcsync.podscheduler import PodScheduler, evictions, leadership
from vcsync.podscheduler.finished_names import FinishedNames
from vcsync.podscheduler.pods import FINISHED
from vcsync.podscheduler.settings import Settings
from vcsync.tenancy.caches import CACHE_SYNC_SECONDS
from vcsync.tenancy.memory import OVERHEAD_BYTES

ROOT = "root-acme"
PLACED_LABEL = names.SUPER_CLUSTER


class Stage:
    """A meta cluster with one super cluster, where one namespace of one tenant holds two CPUs."""

    def __init__(self) -> None:
        self.meta, self.tenant = MemoryCluster("meta"), MemoryCluster("tenant")
        self.super_cluster("r1")
        kubeconfig = base64.b64encode(b"config").decode()
        self.meta.put(
            SECRETS, names.role_secret(names.ROLE_PODSCHEDULER), ROOT, data={"kubeconfig": kubeconfig}
        )
        self.virtual_cluster()
        self.grant({"r1": 2})

    def super_cluster(
        self,
        name: str,
        *,
        allocatable: str = "4",
        largest: str = "4",
        silent: timedelta = timedelta(),
        **spec: Any,
    ) -> None:
        beat = (datetime.now(UTC) - silent).strftime("%Y-%m-%dT%H:%M:%SZ")
        status: dict[str, Any] = {
            "allocatable": {"cpu": allocatable, "memory": "8Gi", "pods": "110"},
            "largestNode": {"cpu": largest, "memory": "8Gi", "pods": "110"},
            "heartbeatTime": beat,
        }
        if silent:  # as an earlier term has seen
            status["failure"] = {"state": "Suspect", "since": beat, "outOfTouchTime": beat}
        self.meta.put(SUPER_CLUSTERS, name, spec={"id": name, **spec}, status=status)

    def virtual_cluster(self, weight: int = 3, **spec: Any) -> None:
        self.meta.put(
            VIRTUAL_CLUSTERS,
            "acme",
            "vcsync",
            spec={"weight": weight, **spec},
            status={"phase": "Running", "clusterNamespace": ROOT},
        )

    def grant(self, placements: dict[str, int], namespace: str = "shop", **metadata: Any) -> None:
        size = {"cpu": "1", "memory": "1Gi", "pods": "10"}
        self.meta.put(
            NAMESPACE_PLACEMENTS,
            namespace,
            ROOT,
            metadata=metadata,
            spec={
                "virtualCluster": {"name": "acme", "namespace": "vcsync", "uid": "uid-acme"},
                "tenant": ROOT,
                "namespace": namespace,
                "namespaceUID": f"uid-{namespace}",
                "quota": {"cpu": "2"},
                "sliceSize": size,
                "slices": 2,
            },
            status={"placements": placements, "sliceSize": size},
        )

    def pod(self, name: str, cpu: str = "1", namespace: str = "shop", **spec: Any) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], **spec}
        self.tenant.put(PODS, name, namespace, spec=spec, status={"phase": "Pending"})

    def placed(self, name: str, namespace: str = "shop") -> str:
        found = self.tenant.found(PODS, name, namespace)
        assert found is not None
        label: str = found["metadata"].get("labels", {}).get(PLACED_LABEL, "")
        return label

    def said(self, name: str, super_id: str) -> Said:
        found = self.tenant.found(PODS, name, "shop")
        assert found is not None
        return said_by(found["metadata"].get("annotations") or {}, super_id)

    async def give_back(self, name: str, super_id: str) -> None:
        """Act as a syncer that has no copy of a Pod."""
        annotations = refusal_annotation(super_id, replace(self.said(name, super_id), state=RETURNED))
        await self.tenant.patch(PODS, name, {"metadata": {"annotations": annotations}}, "shop")

    def condition(self, name: str) -> dict[str, Any]:
        found = self.tenant.found(PODS, name, "shop")
        assert found is not None
        conditions: list[dict[str, Any]] = found["status"].get("conditions", [])
        return conditions[0] if conditions else {}

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[PodScheduler]:
        scheduler = PodScheduler(
            self.meta,  # type: ignore[arg-type]
            identity="me",
            leader_elect=False,
            make_client=lambda _kubeconfig, _key: self.tenant,  # type: ignore[arg-type,return-value]
            **options,
        )
        task = asyncio.create_task(scheduler.run())
        try:
            yield scheduler
        finally:
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled(), task.exception()


async def settled() -> None:
    """Let everything that is under way come to rest."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.fixture
async def stage() -> Stage:
    return Stage()


def test_a_tenant_with_more_pods_than_memory_is_not_served_until_it_has_fewer(
    in_virtual_time: Callable[[Coroutine[Any, Any, Any]], None],
) -> None:
    """The control plane may be the tenant's own, and its lists may have no end."""

    async def main() -> None:
        stage = Stage()
        for number in range(20):
            stage.pod(f"many-{number}", "8")
        async with stage.running(settings=Settings(memory_per_tenant=15 * OVERHEAD_BYTES)) as scheduler:
            [event] = await until(lambda: stage.meta.all(EVENTS))
            assert event["reason"] == "TenantTooLarge"
            assert "of a Pod scheduler's memory that a tenant may have" in event["message"]
            shown = scheduler.status()["tenants"][ROOT]
            assert shown["state"] == "Backoff"
            assert "--memory-per-tenant" in shown["lastError"]
            stage.pod("late")
            for number in range(20):
                stage.tenant.remove(PODS, f"many-{number}", "shop")
            assert await until(lambda: stage.placed("late")) == "r1"

    in_virtual_time(main())


async def test_a_pod_is_assigned_to_the_super_cluster_with_slices_of_its_namespace(stage: Stage) -> None:
    stage.pod("early")
    async with stage.running() as scheduler:
        await asyncio.sleep(0)
        assert scheduler.ready() == (
            False,
            "reading SuperClusters and NamespacePlacements from the meta cluster",
        )
        await until(lambda: stage.placed("early"))
        stage.pod("late")
        await until(lambda: stage.placed("late"))
    assert (stage.placed("early"), stage.placed("late")) == ("r1", "r1")
    found = stage.tenant.found(PODS, "early", "shop")
    assert found is not None
    assert found["metadata"]["annotations"][PLACED_LABEL] == "r1"
    assert stage.tenant.fields["pods"] == FINISHED, "finished Pods need no place"


async def test_a_pod_that_does_not_fit_shows_the_reason_and_waits(stage: Stage) -> None:
    stage.pod("large", cpu="3")
    async with stage.running():
        await until(lambda: stage.condition("large"))
        await until(lambda: stage.tenant.all(EVENTS))
        condition = stage.condition("large")
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "PodScheduled",
            "False",
            "Unschedulable",
        )
        assert "cpu" in condition["message"]
        written = datetime.strptime(condition["lastTransitionTime"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        assert abs((datetime.now(UTC) - written).total_seconds()) < 600
        [event] = stage.tenant.all(EVENTS)
        subject = event["involvedObject"]
        assert (subject["kind"], subject["apiVersion"]) == ("Pod", "v1")
        assert (subject["name"], subject["namespace"], subject["uid"]) == ("large", "shop", "uid-large")
        assert (event["reason"], event["type"]) == ("FailedScheduling", "Warning")
        assert event["message"] == condition["message"]
        stage.grant({"r1": 3})
        await until(lambda: stage.placed("large"))


async def test_a_deleted_pod_makes_room_for_a_waiting_one(stage: Stage) -> None:
    stage.pod("first", cpu="2")
    async with stage.running():
        await until(lambda: stage.placed("first"))
        stage.pod("second", cpu="2")
        await until(lambda: stage.condition("second"))
        stage.tenant.remove(PODS, "first", "shop")
        await until(lambda: stage.placed("second"))


@pytest.mark.parametrize("how", ["gone", "deleting", "moved"])
async def test_removed_slices_take_no_more_pods(stage: Stage, how: str) -> None:
    async with stage.running():
        stage.pod("first")
        await until(lambda: stage.placed("first"))
        if how == "gone":
            stage.meta.remove(NAMESPACE_PLACEMENTS, "shop", ROOT)
        elif how == "deleting":
            stage.grant({"r1": 2}, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"])
        else:
            stage.grant({"r2": 2})
        await settled()
        stage.pod("second")
        await until(lambda: stage.condition("second"))
        assert not stage.placed("second")


async def test_a_ledger_entry_that_cannot_be_read_changes_nothing(stage: Stage) -> None:
    async with stage.running():
        stage.pod("first")
        await until(lambda: stage.placed("first"))
        stage.meta.put(NAMESPACE_PLACEMENTS, "shop", ROOT, spec={"slices": "many"}, status={"placements": 3})
        await settled()
        stage.pod("second")
        await until(lambda: stage.placed("second"))


async def test_a_super_cluster_that_takes_pods_again_wakes_waiting_pods(stage: Stage) -> None:
    stage.super_cluster("r1", cordoned=True)
    stage.pod("web")
    async with stage.running():
        await until(lambda: stage.condition("web"))
        stage.super_cluster("r1")
        await until(lambda: stage.placed("web"))


async def test_operators_see_tenants_pool_queues_and_decisions(stage: Stage) -> None:
    stage.pod("web")
    stage.pod("large", cpu="3")
    async with stage.running() as scheduler:
        await until(lambda: stage.placed("web") and stage.condition("large"))
        await until(lambda: scheduler.explain_pod(ROOT, "shop", "web"))
        await until(lambda: scheduler.explain_pod(ROOT, "shop", "large"))
        assert scheduler.explain_pod(ROOT, "shop", "nobody") is None
        assert scheduler.ready() == (True, "leading")
        assert scheduler._terms.current is not None
        scheduler._terms.current.work.add_after(ROOT, ("shop", "later"), 3600.0)
        shown = scheduler.status()
        metrics = {metric.name: metric for metric in scheduler.metrics()}
        placed, waiting = (scheduler.explain_pod(ROOT, "shop", name) for name in ("web", "large"))
    assert (shown["role"], shown["identity"], shown["leader"]) == ("podscheduler", "me", True)
    tenant = shown["tenants"][ROOT]
    assert (tenant["vc"], tenant["synced"], tenant["waiting"]) == ("vcsync/acme", True, 1)
    assert tenant["kinds"] == {"pods": {"objects": 2, "synced": True}}
    assert shown["superClusters"]["r1"]["health"] == "Ready"
    assert shown["lastErrors"] == []
    assert set(shown["queues"]) == {"pods", "delayed", "inProcess"}
    values = {
        name: {tuple(sample.labels.values()): sample.value for sample in metric.samples}
        for name, metric in metrics.items()
    }
    assert values["vcsync_podscheduler_leading"] == {(): 1.0}
    assert values["vcsync_podscheduler_waiting"] == {(ROOT,): 1.0}
    decisions = values["vcsync_podscheduler_decisions"]
    outcomes = {("assigned",), ("promised",), ("waiting",), ("withdrawn",)}
    assert (set(decisions), decisions["assigned",]) == (outcomes, 1.0)
    assert (values["vcsync_podscheduler_queued"], values["vcsync_podscheduler_delayed"]) == (
        {(): 0.0},
        {(): 1.0},
    )
    assert all(isinstance(value, int | float) for each in values.values() for value in each.values())
    labels = {
        name: {label for sample in metric.samples for label in sample.labels}
        for name, metric in metrics.items()
    }
    assert labels["vcsync_podscheduler_decisions"] == {"outcome"}
    assert labels["vcsync_podscheduler_waiting"] == {"tenant"}
    latency = {sample.name: sample.value for sample in metrics["vcsync_podscheduler_latency_seconds"].samples}
    assert latency["vcsync_podscheduler_latency_seconds_count"] == 1
    assert 0 < latency["vcsync_podscheduler_latency_seconds_sum"] < 600
    assert all(metric.documentation for metric in metrics.values())
    assert placed is not None
    assert waiting is not None
    assert (placed["outcome"], placed["superCluster"]) == ("assigned", "r1")
    assert [(entry["id"], entry["refused"]) for entry in placed["superClusters"]] == [("r1", {})]
    assert isinstance(placed["superClusters"][0]["score"], int)
    assert (waiting["outcome"], waiting["superCluster"]) == ("waiting", None)
    assert waiting["message"] == stage.condition("large")["message"]
    assert waiting["superClusters"][0]["refused"]


async def test_nothing_is_decided_before_every_super_cluster_has_reported(stage: Stage) -> None:
    stage.meta.put(SUPER_CLUSTERS, "r2", spec={"id": "r2"}, status={})
    stage.pod("web")
    async with stage.running() as scheduler:
        await until(lambda: "heartbeat of r2" in scheduler.ready()[1])
        assert scheduler.ready()[0] is False
        assert not stage.placed("web")
        stage.super_cluster("r2")
        await until(lambda: stage.placed("web"))


async def test_a_changed_weight_of_a_tenant_applies_immediately(stage: Stage) -> None:
    stage.pod("web")
    async with stage.running() as scheduler:
        await until(lambda: stage.placed("web"))
        term = scheduler._terms.current
        assert term is not None
        assert term.work.queue._weights == {ROOT: 3}
        stage.virtual_cluster(weight=7)
        await until(lambda: term.work.queue._weights == {ROOT: 7})


async def test_credentials_are_read_again_after_a_refused_write(stage: Stage) -> None:
    refused: list[str] = []

    def before(verb: str, plural: str, name: str) -> None:
        if verb == "patch" and plural == "pods" and not refused:
            refused.append(name)
            raise Unauthorized(Status(401), endpoint="tenant")

    reads: list[str] = []

    def read(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("get", "secrets"):
            reads.append(name)

    stage.tenant.before = before
    stage.meta.before = read
    stage.pod("web")
    async with stage.running():
        await until(lambda: stage.placed("web"))
        await until(lambda: len(reads) == 2)
    assert refused == ["web"]


def test_a_tenant_whose_pods_cannot_be_read_in_time_is_shown_with_the_reason_and_tried_again(
    in_virtual_time: Callable[[Coroutine[Any, Any, Any]], None],
) -> None:
    async def main() -> None:
        stage = Stage()

        def before(verb: str, plural: str, name: str) -> None:
            if (verb, plural) == ("list", "pods"):
                raise Forbidden(Status(403, "Forbidden", "pods is forbidden"), endpoint="tenant")

        stage.tenant.before = before
        async with stage.running() as scheduler:
            await asyncio.sleep(CACHE_SYNC_SECONDS / 2)
            assert scheduler.status()["tenants"][ROOT]["state"] == "Connecting"
            await asyncio.sleep(CACHE_SYNC_SECONDS / 2)
            await until(lambda: stage.meta.all(EVENTS))
            why = scheduler.status()["tenants"][ROOT]["lastError"]
            assert why.startswith("CachesNotSynced: could not read within 120 s: pods (")
            assert "pods is forbidden" in why
            assert [event["message"] for event in stage.meta.all(EVENTS)] == [f"podscheduler: {why}"]
            stage.tenant.before = lambda *_: None
            await until(lambda: scheduler.status()["tenants"][ROOT]["state"] == "Ready")

    in_virtual_time(main())


async def test_a_pod_in_a_namespace_without_slices_is_scheduled_again_later(stage: Stage) -> None:
    stage.pod("early", namespace="new")
    async with stage.running() as scheduler:
        await until(lambda: scheduler.explain_pod(ROOT, "new", "early"))
        shown = scheduler.status()
        assert (shown["queues"]["delayed"], shown["lastErrors"]) == (1, [])
        stage.grant({"r1": 2}, "new")
        await until(lambda: stage.placed("early", "new"))


async def test_a_standby_shows_no_decisions(stage: Stage) -> None:
    scheduler = PodScheduler(stage.meta, identity="me")  # type: ignore[arg-type]
    assert scheduler.status() == {"role": "podscheduler", "identity": "me", "leader": False}
    assert [metric.name for metric in scheduler.metrics()] == ["vcsync_podscheduler_leading"]
    assert scheduler.explain_pod(ROOT, "shop", "web") is None


async def test_a_repaired_label_is_shown_without_a_decision(stage: Stage) -> None:
    stage.pod("web", nodeName="node.r1")
    async with stage.running() as scheduler:
        await until(lambda: scheduler.explain_pod(ROOT, "shop", "web"))
        assert scheduler.explain_pod(ROOT, "shop", "web") == {"outcome": "assigned", "superCluster": "r1"}


async def test_the_oldest_decisions_are_forgotten(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "_MOST_OUTCOMES", 2)
    async with stage.running() as scheduler:
        for name in ("a", "b", "c"):
            stage.pod(name, cpu="100m")
            await until(lambda name=name: scheduler.explain_pod(ROOT, "shop", name))  # type: ignore[misc]
        assert scheduler.explain_pod(ROOT, "shop", "a") is None
        assert scheduler.explain_pod(ROOT, "shop", "b") is not None


async def test_items_of_a_tenant_that_is_not_connected_are_skipped(stage: Stage) -> None:
    async with stage.running() as scheduler:
        await until(lambda: scheduler.status().get("tenants"))
        term = scheduler._terms.current
        assert term is not None
        await term._handle("root-nobody", ("shop", "web"))
        assert (set(term.counts.values()), list(term.outcomes)) == ({0}, [])


@pytest.mark.parametrize(
    ("change", "looks"),
    [
        pytest.param({"cordoned": True}, True, id="cordoned"),
        pytest.param({"largest": "8"}, True, id="a larger node"),
        pytest.param({"allocatable": "64"}, False, id="more room that slices stand for"),
    ],
)
async def test_waiting_pods_are_scheduled_when_they_may_fit(
    stage: Stage, change: dict[str, Any], looks: bool
) -> None:
    stage.pod("large", cpu="3")
    async with stage.running() as scheduler:
        await until(lambda: stage.condition("large"))
        await until(lambda: scheduler.explain_pod(ROOT, "shop", "large"))
        term = scheduler._terms.current
        assert term is not None
        await settled()
        before = term.counts["waiting"]
        stage.super_cluster("r1", **change)
        await settled()
        assert (term.counts["waiting"] > before) is looks


def claim(stage: Stage, name: str = "data", **metadata: Any) -> None:
    stage.tenant.put(
        PERSISTENT_VOLUME_CLAIMS, name, "shop", metadata=metadata, spec={"storageClassName": "fast"}
    )


def uses(name: str = "data") -> dict[str, Any]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def publish(stage: Stage, name: str, *classes: str) -> None:
    stage.super_cluster(name)
    found = stage.meta.found(SUPER_CLUSTERS, name)
    assert found is not None
    status = {**found["status"], "storageClasses": [{"name": each} for each in classes]}
    stage.meta.put(SUPER_CLUSTERS, name, spec=found["spec"], status=status)


async def test_a_claim_is_assigned_with_its_first_pod_and_later_pods_follow_it(stage: Stage) -> None:
    publish(stage, "r1")
    publish(stage, "r2", "fast")
    stage.grant({"r1": 2, "r2": 2})
    claim(stage)
    stage.pod("first", **uses())
    async with stage.running():
        await until(lambda: stage.placed("first") == "r2")
        found = stage.tenant.found(PERSISTENT_VOLUME_CLAIMS, "data", "shop")
        assert found is not None
        assert found["metadata"]["labels"] == {PLACED_LABEL: "r2"}
        publish(stage, "r1", "fast")
        stage.pod("second", **uses())
        await until(lambda: stage.placed("second") == "r2")


async def test_a_pod_waits_until_its_claim_exists_and_its_class_is_published(stage: Stage) -> None:
    stage.pod("web", **uses())
    async with stage.running() as scheduler:
        await until(
            lambda: 'persistentvolumeclaim "data" not found' in stage.condition("web").get("message", "")
        )
        claim(stage)
        await until(
            lambda: (
                "fast of claim data" in str((scheduler.explain_pod(ROOT, "shop", "web") or {}).get("message"))
            )
        )
        publish(stage, "r1", "fast")
        await until(lambda: stage.placed("web") == "r1")


async def test_a_pod_follows_a_claim_that_an_earlier_leader_has_assigned(stage: Stage) -> None:
    """The earlier leader ended between its two writes."""
    publish(stage, "r1", "fast")
    publish(stage, "r2", "fast")
    stage.grant({"r1": 2, "r2": 2})
    claim(stage, labels={PLACED_LABEL: "r2"})
    stage.pod("web", **uses())
    async with stage.running():
        await until(lambda: stage.placed("web") == "r2")


REQUESTED = {f"{names.PROVISIONING_PREFIX}r1": '{"state":"requested"}'}


async def test_a_claim_follows_the_ledger_once_its_super_cluster_has_removed_everything(stage: Stage) -> None:
    publish(stage, "r1", "fast")
    publish(stage, "r2", "fast")
    stage.grant({"r2": 2}, finalizers=[names.drain_finalizer("r1")])
    claim(stage, labels={PLACED_LABEL: "r1"}, annotations=REQUESTED)
    stage.pod("web", **uses())
    async with stage.running():
        await until(lambda: "claim data is on super cluster r1" in stage.condition("web").get("message", ""))
        stage.grant({"r2": 2})
        await until(lambda: stage.placed("web") == "r2")
    found = stage.tenant.found(PERSISTENT_VOLUME_CLAIMS, "data", "shop")
    assert found is not None
    assert found["metadata"]["labels"] == {PLACED_LABEL: "r2"}
    assert not found["metadata"].get("annotations")


async def test_an_outdated_ledger_moves_no_claim(stage: Stage) -> None:
    """The cache does not have the slices on r1 yet, whose syncer has made a copy already."""
    publish(stage, "r1", "fast")
    publish(stage, "r2", "fast")
    stage.grant({"r2": 2})
    claim(stage, labels={PLACED_LABEL: "r1"}, annotations=REQUESTED)
    stage.meta.before = outdated = Outdated(stage)
    stage.pod("web", **uses())
    async with stage.running():
        await until(lambda: outdated.reads > 1)
    found = stage.tenant.found(PERSISTENT_VOLUME_CLAIMS, "data", "shop")
    assert found is not None
    assert (found["metadata"]["labels"], found["metadata"]["annotations"]) == (
        {PLACED_LABEL: "r1"},
        REQUESTED,
    )


class Outdated:
    """Grants the slices at each live read of the ledger, and takes them back before the next decision."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.reads = stage, 0

    def __call__(self, verb: str, plural: str, _name: str) -> None:
        if (verb, plural) == ("get", NAMESPACE_PLACEMENTS.plural):
            self.reads += 1
            body = self.stage.meta.objects[plural, ROOT, "shop"]
            body["status"]["placements"] = {"r1": 2, "r2": 2}


@pytest.mark.parametrize("change", ["class", "health"])
async def test_a_claim_that_was_never_copied_leaves_a_super_cluster_that_cannot_make_it(
    stage: Stage, change: str
) -> None:
    publish(stage, "r1", "fast")
    publish(stage, "r2", "fast")
    stage.grant({"r1": 2, "r2": 2})
    claim(stage)
    stage.pod("web", **uses(), nodeSelector={names.SUPER_CLUSTER_ID: "r1"})
    stage.pod("free", **uses())
    async with stage.running():
        await until(lambda: stage.placed("web") == "r1" and stage.placed("free") == "r1")
        stage.tenant.remove(PODS, "web", "shop")
        if change == "class":
            publish(stage, "r1")
            await until(lambda: stage.said("free", "r1") == Said(WITHDRAWN, 0, CLAIMS))
            await stage.give_back("free", "r1")
        else:
            stage.meta.remove(SUPER_CLUSTERS, "r1")
        await until(lambda: stage.placed("free") == "r2")


async def test_a_pod_without_node_leaves_when_the_ledger_says_that_nothing_is_left_where_it_was(
    stage: Stage,
) -> None:
    """The syncer that releases the namespace need not say anything about its Pods."""
    stage.super_cluster("r2")
    first, second = names.drain_finalizer("r1"), names.drain_finalizer("r2")
    stage.grant({"r1": 2}, finalizers=[first])
    stage.pod("web")
    stage.pod("other")
    async with stage.running():
        await until(lambda: stage.placed("web") == stage.placed("other") == "r1")
        stage.grant({"r2": 2}, finalizers=[first, second])
        await until(
            lambda: {stage.said(each, "r1") for each in ("web", "other")} == {Said(WITHDRAWN, 0, SLICES_LEFT)}
        )
        await stage.give_back("other", "r1")
        await until(lambda: stage.placed("other") == "r2")
        await settled()
        assert stage.placed("web") == "r1", "r1 may run it"
        stage.grant({"r2": 2}, finalizers=[second])
        await until(lambda: stage.placed("web") == "r2")
    assert stage.said("web", "r1") == stage.said("other", "r1") == Said()


async def test_finished_pods_are_looked_for_when_a_super_cluster_is_out_of_the_question(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[FinishedNames] = []

    def look_again(found: FinishedNames) -> None:
        looks.append(found)

    monkeypatch.setattr(FinishedNames, "look_again", look_again)
    stage.super_cluster("r2")
    first, second = names.drain_finalizer("r1"), names.drain_finalizer("r2")
    stage.grant({"r1": 1, "r2": 1}, finalizers=[first, second])
    stage.pod("web")
    async with stage.running():
        await until(lambda: stage.placed("web"))
        stage.grant({"r1": 1}, finalizers=[first, second])
        await settled()
        assert looks == [], "r2 may have copies until it has released the namespace"
        stage.grant({"r1": 1}, finalizers=[first])
        await until(lambda: len(looks) == 1)
        stage.super_cluster("r2", fenced=True)
        await until(lambda: len(looks) == 2)
        stage.meta.remove(SUPER_CLUSTERS, "r1")
        await until(lambda: len(looks) == 3)


async def test_an_assignment_that_was_refused_is_tried_again(stage: Stage) -> None:
    publish(stage, "r1", "fast")
    claim(stage)
    stage.pod("web", **uses())
    refusals = [
        Conflict(Status(409, "Conflict", "it has changed")),
        ServerError(Status(500, "InternalError", "no")),
    ]

    def before(verb: str, plural: str, _: str) -> None:
        if (verb, plural) == ("patch", "persistentvolumeclaims") and refusals:
            raise refusals.pop()

    stage.tenant.before = before
    async with stage.running():
        await until(lambda: stage.placed("web") == "r1")
    assert not refusals


async def test_pods_without_claims_are_scheduled_though_claims_cannot_be_read(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tenant's roles are of an earlier version."""
    monkeypatch.setattr(leadership, "_CLAIMS_SECONDS", 0.01)

    def before(verb: str, plural: str, _: str) -> None:
        if (verb, plural) == ("list", "persistentvolumeclaims"):
            raise Forbidden(Status(403, "Forbidden", "no rights to claims"), endpoint=stage.tenant.name)

    stage.tenant.before = before
    publish(stage, "r1", "fast")
    claim(stage)
    stage.pod("web")
    stage.pod("db", **uses())
    async with stage.running():
        await until(lambda: stage.placed("web") == "r1")
        await until(
            lambda: (
                "PersistentVolumeClaims cannot be read: 403 no rights to claims"
                in stage.condition("db").get("message", "")
            )
        )
        stage.tenant.before = lambda *_: None
        await until(lambda: stage.placed("db") == "r1")


async def test_a_restored_claim_says_that_the_tenant_does_not_serve_snapshots_until_it_does(
    stage: Stage,
) -> None:
    def before(verb: str, plural: str, _: str) -> None:
        if (verb, plural) == ("list", "volumesnapshots"):
            raise NotFound(Status(404, "NotFound", "the server could not find the requested resource"))

    stage.tenant.before = before
    publish(stage, "r1", "fast")
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "monday"}
    spec = {"storageClassName": "fast", "dataSource": source}
    stage.tenant.put(PERSISTENT_VOLUME_CLAIMS, "data", "shop", spec=spec)
    labels = {PLACED_LABEL: "r1"}
    stage.tenant.put(VOLUME_SNAPSHOTS, "monday", "shop", metadata={"labels": labels})
    stage.pod("db", **uses())
    async with stage.running():
        await until(lambda: "VolumeSnapshots cannot be read" in stage.condition("db").get("message", ""))
        stage.tenant.before = lambda *_: None
        await until(lambda: stage.placed("db") == "r1")


async def test_a_kind_that_tenants_lack_is_asked_for_as_seldom_as_other_optional_kinds(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: dict[str, Any] = {}

    class Recorded(leadership.Reflector):
        def __init__(self, client: Any, resource: Any, **options: Any) -> None:
            pauses[resource.plural] = options.get("backoff")
            super().__init__(client, resource, **options)

    monkeypatch.setattr(leadership, "Reflector", Recorded)
    async with stage.running():
        await until(lambda: "volumesnapshots" in pauses)
    assert pauses["volumesnapshots"] == pauses["resourceclaims"] == leadership._CLAIMS_BACKOFF


@pytest.mark.parametrize("label", ["", "r2"])
async def test_claims_follow_a_pod_whose_creator_chose_the_node_unless_they_are_elsewhere(
    stage: Stage, label: str
) -> None:
    publish(stage, "r1", "fast")
    publish(stage, "r2", "fast")
    claim(stage, labels={PLACED_LABEL: label} if label else {})
    stage.pod("web", nodeName="n1.r1", **uses())
    async with stage.running():
        await until(lambda: stage.placed("web") == "r1")
    found = stage.tenant.found(PERSISTENT_VOLUME_CLAIMS, "data", "shop")
    assert found is not None
    assert found["metadata"]["labels"] == {PLACED_LABEL: label or "r1"}


SPEC = b'{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}'


async def test_room_is_promised_to_a_pod_before_it_exists(stage: Stage) -> None:
    stage.tenant.put(NAMESPACES, "kube-system")
    async with stage.running() as scheduler:
        await until(lambda: scheduler.promise("acme", "uid-kube-system", "shop", "probe", SPEC) is not None)
        promise = scheduler.promise("acme", "uid-kube-system", "shop", "web", SPEC)
        assert promise is not None
        assert promise.super_id == "r1"
        third = scheduler.promise("acme", "uid-kube-system", "shop", "third", SPEC)
        assert third is not None
        assert third.super_id == "", "two CPUs are promised already"
        third.give_back()
        assert promise.writing("uid-web")
        promise.written(7)
        assert scheduler.status()["tenants"][ROOT]["promised"] == 2
        shown = scheduler.explain_pod(ROOT, "shop", "web")
        assert shown is not None
        assert shown["superCluster"] == "r1"
        [entry] = scheduler.timeline(ROOT, ObjectName(PODS.plural, "shop", "web"))
        assert "created on super cluster r1" in str(entry)
        counts = {
            sample.labels["outcome"]: sample.value
            for metric in scheduler.metrics()
            if metric.name == "vcsync_podscheduler_promises"
            for sample in metric.samples
        }
        assert counts == {"placed": 2, "left": 1, "given back": 1, "expired": 0}
    assert not promise.writing("uid-web"), "promises end with the term"
    assert scheduler.promise("acme", "uid-kube-system", "shop", "web", SPEC) is None


async def test_nothing_is_promised_to_another_control_plane_of_the_same_name(stage: Stage) -> None:
    stage.tenant.put(NAMESPACES, "kube-system")
    async with stage.running() as scheduler:
        await until(lambda: scheduler.promise("acme", "uid-kube-system", "shop", "web", SPEC) is not None)
        for tenant, uid in (("acme", "uid-other"), ("acme", ""), ("umbrella", "uid-kube-system")):
            assert scheduler.promise(tenant, uid, "shop", "web", SPEC) is None
        assert scheduler.promise("acme", "uid-kube-system", "shop", "web", b'{"containers":7}') is None


def labelled_pod(stage: Stage, name: str, **metadata: Any) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    metadata = {"labels": {"app": "web"}, **metadata}
    stage.tenant.put(PODS, name, "shop", metadata=metadata, spec={"containers": [container]}, status={})


def keeping_service(stage: Stage, value: str = names.TRUE) -> None:
    labels = {names.KEEP_TOGETHER: value}
    stage.tenant.put(SERVICES, "web", "shop", metadata={"labels": labels}, spec={"selector": {"app": "web"}})


@pytest.fixture
def wide(stage: Stage) -> Stage:
    """Two super clusters that do not reach each other."""
    stage.super_cluster("r2")
    stage.grant({"r1": 1, "r2": 1})
    return stage


async def test_the_pods_of_a_service_are_kept_together_also_by_a_later_leader(wide: Stage) -> None:
    keeping_service(wide)
    for term in ("a", "b"):
        async with wide.running():
            for number in range(3):
                labelled_pod(wide, f"web-{term}-{number}")
                await until(lambda name=f"web-{term}-{number}": wide.placed(name))
    placed = {wide.placed(f"web-{term}-{number}") for term in "ab" for number in range(3)}
    assert placed == {"r1"}


async def test_pods_that_stand_count_when_their_service_gets_the_label(wide: Stage) -> None:
    placed = {PLACED_LABEL: "r2"}
    labelled_pod(wide, "old", labels={"app": "web", **placed}, annotations=placed)
    async with wide.running() as scheduler:
        labelled_pod(wide, "first")
        await until(lambda: wide.placed("first") == "r1")
        wide.tenant.remove(PODS, "first", "shop")
        keeping_service(wide)

        def counted() -> bool:
            session = scheduler._terms.current.tenants[ROOT]  # type: ignore[union-attr]
            return session.pods.accounting.pods["shop", "old"].services == ("web",)

        await until(counted)
        labelled_pod(wide, "next")
        await until(lambda: wide.placed("next"))
    assert wide.placed("next") == "r2"


async def test_pods_are_placed_while_services_may_not_be_read(
    wide: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "_CLAIMS_SECONDS", 0.01)

    def before(verb: str, plural: str, *_: object) -> None:
        if (verb, plural) == ("list", "services"):
            raise Forbidden(Status(403, "Forbidden", "no rights to services"))

    wide.tenant.before = before
    keeping_service(wide)
    labelled_pod(wide, "web")
    async with wide.running():
        await until(lambda: wide.placed("web"))


async def test_a_label_that_is_not_valid_gets_an_event_on_the_service(wide: Stage) -> None:
    keeping_service(wide, "yes")
    async with wide.running():
        await until(lambda: wide.tenant.all(EVENTS))
    [event] = wide.tenant.all(EVENTS)
    assert event["reason"] == "NotKeptTogether"
    assert event["involvedObject"]["name"] == "web"


def running_on_r2(stage: Stage, name: str, **metadata: Any) -> None:
    """Have a Pod run on super cluster r2, which is lost, and which its slices have left."""
    where = {PLACED_LABEL: "r2"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    stage.tenant.put(
        PODS,
        name,
        "shop",
        metadata={"labels": where, "annotations": where, **metadata},
        spec={"containers": [container], "nodeName": "n1.r2"},
        status={"phase": "Running"},
    )


async def test_pods_are_evicted_from_a_lost_super_cluster_that_their_slices_have_left(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evictions, "LOOK_SECONDS", 0.05)
    stage.super_cluster("r2", silent=timedelta(hours=1))
    stage.virtual_cluster(failover={"policy": "MoveAfter", "afterSeconds": 0})
    running_on_r2(stage, "web")
    evicted: list[tuple[str, Any]] = []

    def evict(_namespace: str, name: str, body: dict[str, Any]) -> bytes:
        evicted.append((name, body["deleteOptions"]["preconditions"]))
        return b"{}"

    stage.tenant.raw["eviction"] = evict
    async with stage.running():
        await until(lambda: evicted)
        await until(lambda: [each for each in stage.tenant.all(EVENTS) if each["reason"] == "Evicted"])
    assert evicted[0] == ("web", {"uid": "uid-web"})


async def test_a_fence_ends_the_pods_that_are_being_deleted_there(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evictions, "LOOK_SECONDS", 0.05)
    stage.super_cluster("r2", silent=timedelta(hours=1), fenced=True)
    running_on_r2(stage, "db", deletionTimestamp="2026-01-01T00:00:00Z")
    running_on_r2(stage, "web")
    async with stage.running():
        await until(lambda: stage.tenant.found(PODS, "db", "shop") is None)
    assert stage.tenant.found(PODS, "web", "shop") is not None
