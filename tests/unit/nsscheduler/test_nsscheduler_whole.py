"""The namespace scheduler as a whole against clusters in memory: its reads, writes, status and change of leader."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from memory_cluster import MemoryCluster, until

from vcsync.api import names
from vcsync.api.moves import MoveRequest, Wanted, request_annotation
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.api.specs import Failover
from vcsync.kube.errors import Conflict, Forbidden, Status, Unreachable
from vcsync.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    LEASES,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    RESOURCE_QUOTAS,
    SECRETS,
)
from vcsync.nsscheduler import NamespaceScheduler, departures, rebalancing, transfers
from vcsync.nsscheduler.settings import Settings
from vcsync.tenancy.caches import CACHE_SYNC_SECONDS
from vcsync.tenancy.memory import OVERHEAD_BYTES

ROOT = "root-acme"
QUOTA = {"cpu": "2", "memory": "4Gi"}


class Stage:
    """A meta cluster with one super cluster and one tenant, which has one namespace with a quota."""

    def __init__(self) -> None:
        self.meta, self.tenant = MemoryCluster("meta"), MemoryCluster("tenant")
        self.super_cluster("r1")
        kubeconfig = base64.b64encode(b"config").decode()
        self.meta.put(
            SECRETS, names.role_secret(names.ROLE_NSSCHEDULER), ROOT, data={"kubeconfig": kubeconfig}
        )
        self.virtual_cluster()
        self.namespace("shop", QUOTA)

    def super_cluster(self, name: str, *, silent: timedelta = timedelta(), **spec: Any) -> None:
        beat = (datetime.now(UTC) - silent).strftime("%Y-%m-%dT%H:%M:%SZ")
        status: dict[str, Any] = {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "heartbeatTime": beat,
        }
        if silent:  # as an earlier term has seen
            status["failure"] = {"state": "Suspect", "since": beat, "outOfTouchTime": beat}
        self.meta.put(SUPER_CLUSTERS, name, spec={"id": name, **spec}, status=status)

    def virtual_cluster(self, uid: str = "uid-acme", *, weight: int = 3, **metadata: Any) -> None:
        self.meta.put(
            VIRTUAL_CLUSTERS,
            "acme",
            "vcsync",
            metadata={"uid": uid, "finalizers": [names.VIRTUAL_CLUSTER_DRAIN_FINALIZER], **metadata},
            spec={"weight": weight},
            status={"phase": "Running", "clusterNamespace": ROOT},
        )

    def namespace(self, name: str, quota: dict[str, str] | None = None) -> None:
        self.tenant.put(NAMESPACES, name)
        if quota is not None:
            self.tenant.put(RESOURCE_QUOTAS, "all", name, spec={"hard": quota})

    def placements(self, name: str = "shop") -> dict[str, int]:
        found = self.meta.found(NAMESPACE_PLACEMENTS, name, ROOT) or {}
        placed: dict[str, int] = found.get("status", {}).get("placements", {})
        return placed

    def scheduler(self, **options: Any) -> NamespaceScheduler:
        return NamespaceScheduler(
            self.meta,  # type: ignore[arg-type]
            identity="me",
            make_client=lambda _kubeconfig, _key: self.tenant,  # type: ignore[arg-type,return-value]
            **{"leader_elect": False, **options},
        )

    @asynccontextmanager
    async def running(
        self, scheduler: NamespaceScheduler | None = None, **options: Any
    ) -> AsyncIterator[NamespaceScheduler]:
        scheduler = scheduler or self.scheduler(**options)
        task = asyncio.create_task(scheduler.run())
        try:
            yield scheduler
        finally:
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled(), task.exception()


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_a_namespace_with_a_quota_is_placed_labelled_and_gets_an_event(stage: Stage) -> None:
    async with stage.running() as scheduler:
        await asyncio.sleep(0)
        assert scheduler.ready() == (
            False,
            "reading VirtualClusters, SuperClusters and NamespacePlacements from the meta cluster",
        )
        await until(stage.placements)
        await until(lambda: stage.tenant.all(EVENTS))
    assert set(stage.placements()) == {"r1"}
    [event] = stage.tenant.all(EVENTS)
    subject = event["involvedObject"]
    assert (subject["kind"], subject["apiVersion"]) == ("Namespace", "v1")
    assert (subject["name"], subject["namespace"], subject["uid"]) == ("shop", "shop", "uid-shop")
    assert event["metadata"]["namespace"] == "shop"
    assert (event["reason"], event["type"]) == ("Scheduled", "Normal")
    assert "r1" in event["message"]
    assert event["source"]["component"] == "vcsync-nsscheduler"


def test_a_tenant_with_more_objects_than_memory_is_not_served_until_it_has_fewer(
    in_virtual_time: Callable[[Coroutine[Any, Any, Any]], None],
) -> None:
    """The control plane may be the tenant's own, and its lists may have no end."""

    async def main() -> None:
        stage = Stage()
        for number in range(20):
            stage.namespace(f"many-{number}")
        async with stage.running(settings=Settings(memory_per_tenant=15 * OVERHEAD_BYTES)) as scheduler:
            [event] = await until(lambda: stage.meta.all(EVENTS))
            assert event["reason"] == "TenantTooLarge"
            assert "of a namespace scheduler's memory that a tenant may have" in event["message"]
            shown = scheduler.status()["tenants"][ROOT]
            assert shown["state"] == "Backoff"
            assert "--memory-per-tenant" in shown["lastError"]
            stage.namespace("late", QUOTA)
            for number in range(20):
                stage.tenant.remove(NAMESPACES, f"many-{number}")
            assert set(await until(lambda: stage.placements("late"))) == {"r1"}

    in_virtual_time(main())


def test_a_tenant_whose_resourcequotas_cannot_be_read_in_time_is_shown_with_the_reason_and_tried_again(
    in_virtual_time: Callable[[Coroutine[Any, Any, Any]], None],
) -> None:
    async def main() -> None:
        stage = Stage()

        def before(verb: str, plural: str, name: str) -> None:
            if (verb, plural) == ("list", "resourcequotas"):
                raise Forbidden(Status(403, "Forbidden", "resourcequotas is forbidden"), endpoint="tenant")

        stage.tenant.before = before
        async with stage.running() as scheduler:
            await asyncio.sleep(CACHE_SYNC_SECONDS / 2)
            assert scheduler.status()["tenants"][ROOT]["state"] == "Connecting"
            await asyncio.sleep(CACHE_SYNC_SECONDS / 2)
            await until(lambda: stage.meta.all(EVENTS))
            why = scheduler.status()["tenants"][ROOT]["lastError"]
            assert why.startswith("CachesNotSynced: could not read within 120 s: resourcequotas (")
            assert "resourcequotas is forbidden" in why
            assert [event["message"] for event in stage.meta.all(EVENTS)] == [f"nsscheduler: {why}"]
            stage.tenant.before = lambda *_: None
            await until(lambda: scheduler.status()["tenants"][ROOT]["state"] == "Ready")

    in_virtual_time(main())


async def test_operators_see_which_published_definitions_a_tenant_lacks(stage: Stage) -> None:
    name = "widgets.example.com"
    stage.tenant.put(CUSTOM_RESOURCE_DEFINITIONS, name)
    found = stage.meta.found(SUPER_CLUSTERS, "r1")
    assert found is not None
    published = {"customResourceDefinitions": [{"name": name, "digest": "d1"}]}
    stage.meta.put(SUPER_CLUSTERS, "r1", **{**found, "status": {**found["status"], **published}})
    async with stage.running() as scheduler:
        await until(lambda: "definitions" in scheduler.status().get("tenants", {}).get(ROOT, {}))
        shown = scheduler.status()["tenants"][ROOT]
    assert shown["definitions"] == {name: "the tenant has a definition of its own"}


async def test_operators_see_tenants_pool_queues_and_decisions(stage: Stage) -> None:
    stage.namespace("waits", {"cpu": "100", "memory": "4Gi"})
    async with stage.running() as scheduler:
        await until(stage.placements)
        await until(lambda: scheduler.status().get("waiting"))
        assert await until(lambda: scheduler.ready()[1] == "leading")
        assert scheduler.ready() == (True, "leading")
        assert scheduler._terms.current is not None
        await until(lambda: set(scheduler.status()["queues"].values()) == {0})
        scheduler._terms.current.work.add_after(ROOT, "later", 3600.0)
        shown = scheduler.status()
        tenant = shown["tenants"][ROOT]
        metrics = {metric.name: metric for metric in scheduler.metrics()}
        explained = scheduler.explain_namespace(ROOT, "shop")
        assert scheduler.explain_namespace(ROOT, "nowhere") is None
    assert (shown["role"], shown["identity"], shown["leader"]) == ("nsscheduler", "me", True)
    assert (tenant["vc"], tenant["synced"], tenant["waiting"]) == ("vcsync/acme", True, 1)
    assert tenant["kinds"] == {
        "namespaces": {"objects": 2, "synced": True},
        "resourcequotas": {"objects": 2, "synced": True},
    }
    assert shown["superClusters"]["r1"]["health"] == "Ready"
    assert shown["superClusters"]["r1"]["dealt"]["cpu"] == "4"
    assert (shown["placements"], shown["braked"], shown["lastErrors"]) == (2, [], [])
    assert set(shown["queues"]) == {"namespaces", "delayed", "inProcess"}
    [waiting] = shown["waiting"]
    assert (waiting["tenant"], waiting["namespace"]) == (ROOT, "waits")
    assert "cpu 2 asked, 0 of 4 free" in waiting["reason"]
    values = {name: [sample.value for sample in metric.samples] for name, metric in metrics.items()}
    assert values["vcsync_nsscheduler_leading"] == [1.0]
    assert values["vcsync_nsscheduler_placements"] == [2.0]
    assert values["vcsync_nsscheduler_waiting"] == [1.0]
    assert values["vcsync_nsscheduler_braked"] == [0.0]
    assert (values["vcsync_nsscheduler_queued"], values["vcsync_nsscheduler_delayed"]) == ([0.0], [1.0])
    decisions = metrics["vcsync_nsscheduler_decisions"]
    assert {sample.labels["reason"]: sample.value for sample in decisions.samples}["Scheduled"] == 1.0
    assert all(metric.documentation for metric in metrics.values())
    assert explained is not None
    assert (explained["reason"], explained["quota"]) == ("Scheduled", QUOTA)
    assert explained["placements"] == stage.placements()
    assert (explained["waiting"], explained["refused"]) == (0, [])
    assert set(explained) == {
        "reason",
        "message",
        "quota",
        "sliceSize",
        "slices",
        "placements",
        "waiting",
        "refused",
        "superClusters",
    }
    [entry] = explained["superClusters"]
    assert set(entry) == {"id", "slices", "kept", "score", "refused"}
    assert (entry["id"], entry["slices"]) == ("r1", explained["slices"])
    assert set(entry["refused"]) <= {"Capacity"}, "the other namespace may have taken the rest before"


async def test_nothing_is_decided_before_every_super_cluster_has_reported(stage: Stage) -> None:
    stage.meta.put(SUPER_CLUSTERS, "r2", spec={"id": "r2"}, status={})
    async with stage.running() as scheduler:
        await until(lambda: "heartbeat of r2" in scheduler.ready()[1])
        assert scheduler.ready()[0] is False
        assert not stage.placements()
        stage.super_cluster("r2")
        await until(stage.placements)


async def test_settings_are_applied(stage: Stage) -> None:
    settings = Settings(default_slice={"cpu": "1", "memory": "2Gi"})
    async with stage.running(settings=settings) as scheduler:
        await until(stage.placements)
        explained = scheduler.explain_namespace(ROOT, "shop")
    assert explained is not None
    assert (explained["slices"], explained["sliceSize"]["cpu"]) == (2, "1")


async def test_a_new_leader_writes_its_term_into_the_ledger_before_it_decides(stage: Stage) -> None:
    async with stage.running():
        await until(stage.placements)
    async with stage.running(leader_elect=True) as scheduler:
        await until(lambda: scheduler.ready()[1] == "leading")
        term = await until(
            lambda: (
                stage.meta.found(NAMESPACE_PLACEMENTS, "shop", ROOT)["metadata"]  # type: ignore[index]
                .get("annotations", {})
                .get(names.LEDGER_TERM)
            )
        )
    [lease] = stage.meta.all(LEASES)
    assert term == f"{lease['spec']['leaseTransitions']}.{lease['metadata']['uid']}"
    assert (lease["metadata"]["name"], lease["metadata"]["namespace"]) == (
        "vcsync-nsscheduler",
        names.SYSTEM_NAMESPACE,
    )


async def test_a_new_leader_reads_the_ledger_until_it_can(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcsync.nsscheduler.leadership._RETRY_SECONDS", 0.001)
    failures = ["list", "list"]

    def before(verb: str, plural: str, _name: str) -> None:
        if verb == "list" and plural == NAMESPACE_PLACEMENTS.plural and failures:
            failures.pop()
            raise Unreachable("cut", endpoint="meta")

    stage.meta.before = before
    async with stage.running(leader_elect=True):
        await until(stage.placements)
    assert not failures


async def test_a_deleted_quota_frees_its_slices_for_waiting_namespaces(stage: Stage) -> None:
    async with stage.running():
        await until(stage.placements)
        stage.namespace("later", {"cpu": "4", "memory": "4Gi"})
        await until(lambda: stage.meta.found(NAMESPACE_PLACEMENTS, "later", ROOT))
        await asyncio.sleep(0)
        stage.tenant.remove(RESOURCE_QUOTAS, "all", "shop")
        await until(lambda: sum(stage.placements("later").values()) == 1)


async def test_a_virtual_cluster_loses_its_finalizer_when_its_ledger_is_empty(stage: Stage) -> None:
    stage.meta.put(
        NAMESPACES,
        ROOT,
        metadata={
            "annotations": {
                names.VC_ROOT_NAMESPACE: names.TRUE,
                names.VC_NAME: "acme",
                names.VC_NAMESPACE: "vcsync",
                names.VC_UID: "uid-acme",
            },
        },
    )
    async with stage.running() as scheduler:
        await until(stage.placements)
        stage.virtual_cluster(deletionTimestamp="2026-01-01T00:00:00Z")
        for _ in range(50):
            await asyncio.sleep(0)
        assert scheduler.status()["lastErrors"] == []

        def cleared() -> bool:
            entry = stage.meta.found(NAMESPACE_PLACEMENTS, "shop", ROOT)
            if entry is not None and entry["metadata"].get("deletionTimestamp"):
                assert stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync") is not None, (
                    "it waits for its syncers"
                )
                stage.meta.remove(NAMESPACE_PLACEMENTS, "shop", ROOT)
            return stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync") is None

        await until(cleared)
        assert stage.meta.found(NAMESPACES, ROOT) is None


async def test_other_finalizers_of_a_virtual_cluster_are_kept(stage: Stage) -> None:
    async with stage.running() as scheduler:
        await until(stage.placements)
        stage.meta.remove(NAMESPACE_PLACEMENTS, "shop", ROOT)
        stage.virtual_cluster(
            deletionTimestamp="2026-01-01T00:00:00Z",
            finalizers=["example.com/theirs", names.VIRTUAL_CLUSTER_DRAIN_FINALIZER],
        )

        def finalizers() -> list[str]:
            entry = stage.meta.found(NAMESPACE_PLACEMENTS, "shop", ROOT)
            if entry is not None and entry["metadata"].get("deletionTimestamp"):
                stage.meta.remove(NAMESPACE_PLACEMENTS, "shop", ROOT)
            found = stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
            assert found is not None
            left: list[str] = found["metadata"]["finalizers"]
            return left

        await until(lambda: finalizers() == ["example.com/theirs"])
        await asyncio.sleep(0)
        assert scheduler.status()["lastErrors"] == []


async def test_a_conflicting_write_is_retried_and_shown(stage: Stage) -> None:
    conflicts = [1, 2]

    def before(verb: str, plural: str, _name: str) -> None:
        if verb == "patch" and plural == NAMESPACE_PLACEMENTS.plural and conflicts:
            conflicts.pop()
            raise Conflict(Status(409, "Conflict", "somebody was faster"), endpoint="meta")

    stage.meta.before = before
    async with stage.running():
        await until(stage.placements)


async def test_a_changed_weight_applies_immediately(stage: Stage) -> None:
    async with stage.running() as scheduler:
        await until(stage.placements)
        term = scheduler._terms.current
        assert term is not None
        assert term.work.queue._weights == {ROOT: 3}
        stage.virtual_cluster(weight=7)
        await until(lambda: term.work.queue._weights == {ROOT: 7})


async def test_a_standby_shows_no_decisions(stage: Stage) -> None:
    scheduler = NamespaceScheduler(stage.meta, identity="me")  # type: ignore[arg-type]
    assert scheduler.status() == {"role": "nsscheduler", "identity": "me", "leader": False}
    assert [metric.name for metric in scheduler.metrics()] == ["vcsync_nsscheduler_leading"]
    assert scheduler.explain_namespace(ROOT, "shop") is None


async def test_a_namespace_without_quota_is_explained_without_a_decision(stage: Stage) -> None:
    stage.namespace("bare")
    async with stage.running() as scheduler:
        explained = await until(lambda: scheduler.explain_namespace(ROOT, "bare"))
    assert set(explained) == {"reason", "message"}
    assert explained["reason"] == "NoQuota"


async def test_the_entry_is_read_after_a_write_without_an_answer(stage: Stage) -> None:
    lost: list[str] = []

    def after(verb: str, plural: str, name: str) -> None:
        if verb == "patch" and plural == NAMESPACE_PLACEMENTS.plural and not lost:
            lost.append(name)
            raise Unreachable("cut", endpoint="meta")

    stage.meta.after = after
    async with stage.running() as scheduler:
        await until(lambda: scheduler.explain_namespace(ROOT, "shop"))
        assert lost == ["shop"]
        assert stage.placements()
        assert scheduler.status()["lastErrors"] == []


async def test_the_oldest_decisions_are_forgotten_first(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcsync.nsscheduler.leadership._MOST_OUTCOMES", 1)
    async with stage.running() as scheduler:
        await until(lambda: scheduler.explain_namespace(ROOT, "shop"))
        stage.namespace("newer", {"cpu": "1", "memory": "1Gi"})
        await until(lambda: scheduler.explain_namespace(ROOT, "newer"))
        assert scheduler.explain_namespace(ROOT, "shop") is None


async def test_a_release_is_valid_when_this_process_leads_again(stage: Stage) -> None:
    small = Settings(default_slice={"cpu": "100m", "memory": "200Mi"})
    lost = [f"lost-{number}" for number in range(8)]
    for name in lost:
        stage.namespace(name, {"cpu": "100m", "memory": "64Mi"})
    async with stage.running(settings=small):
        await until(lambda: all(map(stage.placements, lost)))

    for name in lost:  # while nobody watches
        del stage.tenant.objects[NAMESPACES.plural, "", name]
        del stage.tenant.objects[RESOURCE_QUOTAS.plural, name, "all"]
    scheduler = stage.scheduler(settings=small)
    async with stage.running(scheduler):
        await until(lambda: scheduler.status().get("braked"))
        assert all(map(stage.placements, lost))
    at = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    stage.virtual_cluster(annotations={names.BRAKE_RELEASED: at})
    async with stage.running(scheduler):
        await until(lambda: not any(map(stage.placements, lost)))
    assert stage.placements()


async def test_a_namespace_that_fits_nowhere_gets_an_event(stage: Stage) -> None:
    stage.super_cluster("r1", cordoned=True)
    async with stage.running() as scheduler:
        explained = await until(lambda: scheduler.explain_namespace(ROOT, "shop"))
    assert explained["reason"] == "FailedScheduling"
    assert explained["message"].endswith("placed: none")


async def lose(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Place a slice on each of three super clusters, then let one be lost. Waves follow each other at once."""
    monkeypatch.setattr(departures, "LOOK_SECONDS", 0.01)
    stage.super_cluster("r2")
    stage.super_cluster("r3")
    stage.namespace("shop", {"cpu": "6", "memory": "12Gi"})
    async with stage.running():
        await until(lambda: set(stage.placements()) == {"r1", "r2", "r3"})
    stage.super_cluster("r2", silent=timedelta(hours=1))


async def test_slices_leave_a_lost_super_cluster_by_the_tenants_policy(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lose(stage, monkeypatch)
    moving = Settings(failover=Failover(policy="MoveAfter", after_seconds=0))
    async with stage.running(settings=moving):
        await until(lambda: set(stage.placements()) == {"r1", "r3"})
    found = stage.meta.found(NAMESPACE_PLACEMENTS, "shop", ROOT) or {}
    assert found["status"]["clearing"]["r2"]["cpu"] == "2"
    assert any("1 moved from r2, which is lost" in event["message"] for event in stage.tenant.all(EVENTS))


async def test_a_loss_is_recorded_and_the_next_leader_goes_on_with_its_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lose(stage, monkeypatch)
    moving = Settings(failover=Failover(policy="MoveAfter", after_seconds=1800))

    def record() -> dict[str, Any]:
        found = stage.meta.found(SUPER_CLUSTERS, "r2") or {}
        kept: dict[str, Any] = found["status"].get("failure", {})
        return kept

    async with stage.running(settings=moving):
        await until(lambda: record().get("state") == "Lost")
        assert (stage.meta.found(SUPER_CLUSTERS, "r1") or {})["status"]["failure"]["state"] == "Ready"
    assert set(stage.placements()) == {"r1", "r2", "r3"}
    record()["since"] = (datetime.now(UTC) - timedelta(minutes=31)).strftime("%Y-%m-%dT%H:%M:%SZ")
    async with stage.running(settings=moving):
        await until(lambda: set(stage.placements()) == {"r1", "r3"})


async def test_slices_with_claims_stay_if_the_policy_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lose(stage, monkeypatch)
    label = {"labels": {names.SUPER_CLUSTER: "r2"}}
    stage.tenant.put(PERSISTENT_VOLUME_CLAIMS, "data", "shop", metadata=label)
    stage.namespace("blog", {"cpu": "2", "memory": "4Gi"})
    moving = Settings(failover=Failover(policy="MoveStateless", after_seconds=0))
    async with stage.running(settings=moving) as scheduler:
        await until(
            lambda: scheduler._terms.current and scheduler._terms.current.waves.departures.released("r2")
        )
        assert scheduler._terms.current is not None
        assert scheduler._terms.current.waves.departures.leaving((ROOT, "shop")) == {"r2": 1}
    assert set(stage.placements()) == {"r1", "r2", "r3"}


async def test_slices_move_as_a_request_asks_which_then_goes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, "LOOK_SECONDS", 0.01)
    stage.namespace("shop", {"cpu": "4", "memory": "8Gi"})
    async with stage.running():
        await until(lambda: stage.placements() == {"r1": 2})
        stage.super_cluster("r2")
        request = MoveRequest(at="2999-01-01T00:00:00Z", moves=(Wanted("r1", "r2", 1),), left={"r1": 1})
        found = dict(stage.meta.found(NAMESPACE_PLACEMENTS, "shop", ROOT) or {})
        metadata = found["metadata"] | {"annotations": request_annotation(request)}
        stage.meta.put(NAMESPACE_PLACEMENTS, "shop", ROOT, **found | {"metadata": metadata})
        await until(lambda: stage.placements() == {"r1": 1, "r2": 1})

        def annotations() -> dict[str, str]:
            entry = stage.meta.found(NAMESPACE_PLACEMENTS, "shop", ROOT) or {}
            kept: dict[str, str] = entry["metadata"].get("annotations", {})
            return kept

        await until(lambda: names.MOVES not in annotations())


async def test_slices_go_back_to_a_super_cluster_that_has_returned(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (transfers, rebalancing):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    await lose(stage, monkeypatch)
    settings = Settings(failover=Failover(policy="MoveAfter", after_seconds=0), fail_back="WithinBudget")
    async with stage.running(settings=settings):
        await until(lambda: set(stage.placements()) == {"r1", "r3"})
    # A new leader knows what has left. The super cluster works again and has cleared it.
    stage.super_cluster("r2")
    entry = dict(stage.meta.found(NAMESPACE_PLACEMENTS, "shop", ROOT) or {})
    kept = [each for each in entry["metadata"]["finalizers"] if each != names.drain_finalizer("r2")]
    metadata = entry["metadata"] | {"finalizers": kept}
    stage.meta.put(NAMESPACE_PLACEMENTS, "shop", ROOT, **entry | {"metadata": metadata})
    async with stage.running(settings=settings):
        await until(lambda: stage.placements() == {"r1": 1, "r2": 1, "r3": 1})
        found = stage.meta.found(NAMESPACE_PLACEMENTS, "shop", ROOT) or {}
        assert not found["status"].get("away")
