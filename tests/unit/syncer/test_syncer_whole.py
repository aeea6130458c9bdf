"""The syncer as a whole against clusters in memory: both directions of the synchronization, status and metrics."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from memory_cluster import MemoryCluster, until
from structlog.testing import capture_logs

from vcsync.api import names
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.kube.errors import ApiError, Forbidden, NotFound, ServerError, Status, Unreachable
from vcsync.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    EVENTS,
    INGRESS_CLASSES,
    INGRESSES,
    LEASES,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    ROLE_BINDINGS,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from vcsync.syncer.identity import WrongSuperCluster
from vcsync.syncer.reconcile import ROUNDS
from vcsync.syncer.service import Syncer, SyncerSettings
from vcsync.syncer.tenant_objects import TenantObjects
from vcsync.tenancy.caches import CACHE_SYNC_SECONDS, CachesNotSynced

KEY = "root-acme"
PLACE = names.super_namespace(KEY, "shop")


class Stage:
    """One super cluster with one node; namespace `shop` of tenant acme holds slices there."""

    def __init__(self) -> None:
        self.meta, self.below, self.tenant = (
            MemoryCluster("meta"),
            MemoryCluster("r1"),
            MemoryCluster("tenant"),
        )
        self.meta.put(SUPER_CLUSTERS, "r1", spec={"id": "r1"}, status={})
        kubeconfig = base64.b64encode(b"config").decode()
        self.meta.put(SECRETS, names.role_secret(names.ROLE_SYNCER), KEY, data={"kubeconfig": kubeconfig})
        self.virtual_cluster()
        self.grant({"r1": 1})
        self.below.put(
            CONFIG_MAPS,
            names.SUPER_CLUSTER_INFO,
            names.SUPER_CLUSTER_INFO_NAMESPACE,
            data={names.SUPER_CLUSTER_INFO_KEY: "r1"},
        )
        self.node("n1")
        self.tenant.put(NAMESPACES, "kube-system", metadata={"uid": "uid-of-acme"})
        self.tenant.put(NAMESPACES, "shop")
        self.tenant.put(SERVICE_ACCOUNTS, "default", "shop")
        self.tenant.put(CONFIG_MAPS, "kube-root-ca.crt", "shop", data={"ca.crt": "theirs"})
        self.tenant.put(CONFIG_MAPS, "settings", "shop", data={"colour": "red"})
        self.tenant.raw = {"binding": self._bind, "token": self._token}
        self.tokens_asked = 0

    def virtual_cluster(self, **spec: Any) -> None:
        self.meta.put(
            VIRTUAL_CLUSTERS,
            "acme",
            "vcsync",
            spec=spec,
            status={"phase": "Running", "clusterNamespace": KEY, "controlPlaneUID": "uid-of-acme"},
        )

    def grant(self, placements: dict[str, int], namespace: str = "shop", **metadata: Any) -> None:
        size = {"cpu": "1", "memory": "1Gi", "pods": "10"}
        self.meta.put(
            NAMESPACE_PLACEMENTS,
            namespace,
            KEY,
            metadata={"finalizers": [names.drain_finalizer("r1")], **metadata},
            spec={
                "virtualCluster": {"name": "acme", "namespace": "vcsync", "uid": "uid-acme"},
                "tenant": KEY,
                "namespace": namespace,
                "namespaceUID": f"uid-{namespace}",
                "quota": {"cpu": "1"},
                "sliceSize": size,
                "slices": 1,
            },
            status={"placements": placements, "sliceSize": size},
        )

    def stray_namespace(self) -> None:
        """Let a super namespace stand of which the ledger knows nothing."""
        metadata = {
            "labels": {names.CONTROLLED: names.TRUE},
            "annotations": {names.CLUSTER: KEY, names.NAMESPACE: "old"},
        }
        self.below.put(NAMESPACES, names.super_namespace(KEY, "old"), metadata=metadata)

    def node(self, name: str) -> None:
        self.below.put(
            NODES,
            name,
            metadata={"labels": {"kubernetes.io/os": "linux"}},
            status={
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        )

    def pod(self, name: str, **spec: Any) -> None:
        self.tenant.put(
            PODS,
            name,
            "shop",
            metadata={
                "uid": f"uid-of-pod-{name}",
                "labels": {names.SUPER_CLUSTER: "r1"},
                "annotations": {names.SUPER_CLUSTER: "r1"},
            },
            spec={
                "containers": [{"name": "c", "image": "i"}],
                "serviceAccountName": "default",
                "automountServiceAccountToken": False,
                **spec,
            },
            status={"phase": "Pending"},
        )

    def _bind(self, namespace: str, name: str, body: dict[str, Any]) -> bytes:
        found = self.tenant.found(PODS, name, namespace)
        assert found is not None
        self.tenant.put(
            PODS, name, namespace, **{**found, "spec": {**found["spec"], "nodeName": body["target"]["name"]}}
        )
        return b"{}"

    def _token(self, namespace: str, name: str, body: dict[str, Any]) -> bytes:
        self.tokens_asked += 1
        expires = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {"token": f"token-{self.tokens_asked}-of-{namespace}-{name}", "expirationTimestamp": expires}
        return json.dumps({**body, "status": status}).encode()

    def here(self, resource: Resource, name: str, namespace: str = PLACE) -> dict[str, Any] | None:
        return self.below.found(resource, name, namespace)

    def runs(self, name: str, node: str = "n1") -> None:
        """Have the super cluster run a Pod."""
        found = self.here(PODS, name)
        assert found is not None
        spec = {**found["spec"], "nodeName": node}
        status = {
            "phase": "Running",
            "podIP": "10.1.2.3",
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        self.below.put(PODS, name, PLACE, **{**found, "spec": spec, "status": status})

    @asynccontextmanager
    async def running(self, **settings: Any) -> AsyncIterator[Syncer]:
        syncer = Syncer(
            meta=self.meta,  # type: ignore[arg-type]
            super_client=self.below,  # type: ignore[arg-type]
            super_id="r1",
            settings=SyncerSettings(identity="me", **settings),
            make_client=lambda _kubeconfig, _key: self.tenant,  # type: ignore[arg-type,return-value]
        )
        task = asyncio.create_task(syncer.run())
        try:
            yield syncer
        finally:
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled(), task.exception()


@pytest.fixture
async def stage() -> Stage:
    return Stage()


def tenant_status(syncer: Syncer) -> dict[str, Any]:
    """What /status shows of the tenant."""
    shown: list[dict[str, Any]] = list(syncer.status()["tenants"])
    return shown[0] if shown else {}


def samples(syncer: Syncer) -> dict[tuple[str, ...], float]:
    """All samples by name and label values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in syncer.metrics()
        for sample in family.samples
    }


def up(stage: Stage, name: str) -> dict[str, Any]:
    found = stage.tenant.found(PODS, name, "shop")
    assert found is not None
    return found


def events(cluster: MemoryCluster, reason: str) -> list[dict[str, Any]]:
    return [each for each in cluster.all(EVENTS) if each.get("reason") == reason]


async def test_a_pod_is_created_and_its_node_and_status_are_copied_up(stage: Stage) -> None:
    stage.pod("web")
    async with stage.running() as syncer:
        await until(lambda: stage.here(PODS, "web"))
        assert stage.here(CONFIG_MAPS, "settings")
        space = stage.here(NAMESPACES, PLACE, "")
        assert space
        assert space["metadata"]["annotations"][names.NAMESPACE] == "shop"
        stage.runs("web")
        await until(lambda: up(stage, "web")["status"].get("podIP"))
        assert up(stage, "web")["spec"]["nodeName"] == "n1.r1"
        shown = stage.tenant.found(NODES, "n1.r1")
        assert shown
        assert shown["status"]["allocatable"]["cpu"] == "4"
        await until(lambda: stage.tenant.all(LEASES))
        await until(lambda: not tenant_status(syncer)["queued"])
        stage.node("n2")
        stage.tenant.remove(PODS, "web", "shop")
        await until(lambda: stage.here(PODS, "web") is None)


async def test_a_cordon_opens_the_budgets_of_pods_on_the_node_and_its_end_closes_them(stage: Stage) -> None:
    stage.pod("web")
    claim = f"{names.DISRUPTIONS_PREFIX}r1"
    counted = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 0, "disruptionsAllowed": 1}
    stage.tenant.put(
        POD_DISRUPTION_BUDGETS,
        "web",
        "shop",
        metadata={"uid": "uid-of-budget", "generation": 1},
        spec={"minAvailable": 0, "selector": {}},
        status=counted,
    )

    def minimum() -> int:
        found = stage.here(POD_DISRUPTION_BUDGETS, "web")
        return found["spec"]["minAvailable"] if found is not None else -1

    def published() -> bool:
        found = stage.tenant.found(POD_DISRUPTION_BUDGETS, "web", "shop")
        return claim in ((found or {})["metadata"].get("annotations") or {})

    async with stage.running() as syncer:
        await until(lambda: stage.here(PODS, "web") and minimum() > 1)
        stage.runs("web")
        found = stage.here(POD_DISRUPTION_BUDGETS, "web")
        assert found is not None
        metadata = {**found["metadata"], "generation": 1}
        stage.below.put(
            POD_DISRUPTION_BUDGETS, "web", PLACE, **{**found, "metadata": metadata, "status": counted}
        )
        await until(lambda: not tenant_status(syncer)["queued"])
        assert not published()
        node = stage.below.found(NODES, "n1")
        assert node is not None
        stage.below.put(NODES, "n1", **{**node, "spec": {"unschedulable": True}})
        await until(lambda: published() and minimum() == 0)
        waiting = [each["reason"] for each in tenant_status(syncer)["waiting"]]
        assert any("PodDisruptionBudget web: Pods are on an unschedulable node" in each for each in waiting)
        stage.below.put(NODES, "n1", **{**node, "spec": {}})
        await until(lambda: not published() and minimum() > 1)
        await until(lambda: not tenant_status(syncer)["waiting"])
        assert syncer.status()["drift"]["repairs"] == 0


async def test_operators_learn_that_a_range_of_cluster_ips_has_no_effect(stage: Stage) -> None:
    stage.virtual_cluster(serviceCidr="10.64.0.0")
    async with stage.running():
        [event] = await until(lambda: events(stage.meta, "ServiceRangeRefused"))
        assert event["message"].startswith("spec.serviceCidr 10.64.0.0 has no effect: it is not a range")
        assert event["involvedObject"]["name"] == "acme"


async def test_a_changed_node_changes_its_virtual_nodes(stage: Stage) -> None:
    stage.pod("web")
    async with stage.running():
        await until(lambda: stage.here(PODS, "web"))
        stage.runs("web")
        await until(lambda: stage.tenant.found(NODES, "n1.r1"))
        conditions = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]
        stage.below.put(NODES, "n1", status={"allocatable": {"cpu": "3"}, "conditions": conditions})
        await until(
            lambda: (stage.tenant.found(NODES, "n1.r1") or {})["status"]["allocatable"].get("cpu") == "3"
        )


async def test_the_status_of_a_settled_system(stage: Stage) -> None:
    stage.pod("web")
    async with stage.running() as syncer:
        assert syncer.ready() == (
            False,
            "super cluster r1: waiting for the first list of "
            + ", ".join(each.resource.plural for each in syncer.caches.required()),
        )
        await until(lambda: stage.here(PODS, "web"))
        await until(lambda: tenant_status(syncer).get("queued") == 0)
        await until(lambda: (stage.meta.found(SUPER_CLUSTERS, "r1") or {})["status"])
        assert syncer.ready() == (True, "")
        shown = syncer.status()
        assert (shown["superCluster"], shown["shard"]) == ("r1", "1/1")
        assert shown["super"]["caches"]["pods"] == {
            "objects": 1,
            "synced": True,
            "lastError": None,
        }
        assert set(shown) >= {"queue", "drains", "events", "patrol", "braked", "drift", "lastErrors"}
        assert (shown["drains"], shown["braked"], shown["lastErrors"]) == ([], [], [])
        (tenant,) = shown["tenants"]
        assert (tenant["key"], tenant["oldest"], tenant["delayed"]) == (KEY, None, 0)
        assert tenant["caches"]["configmaps"]["objects"] == 2
        values = samples(syncer)
        assert values["vcsync_syncer_objects", "r1", "tenant"] >= 5
        assert values["vcsync_syncer_objects", "r1", "super"] >= 4
        assert values["vcsync_syncer_tenant_queued", "r1", KEY] == 0
        for name in ("queue:queued", "queue:delayed", "queue:in_process", "braked", "drains"):
            metric, _, state = name.partition(":")
            assert (f"vcsync_syncer_{metric}", "r1", *([state] if state else [])) in values
        for name in ("events_written", "events_dropped"):
            assert values[f"vcsync_syncer_{name}_total", "r1"] == 0
        assert values["vcsync_syncer_drift_repairs_total", "r1", "configmaps", "changed"] == 0
    status = (stage.meta.found(SUPER_CLUSTERS, "r1") or {})["status"]
    assert (status["syncerIdentity"], status["nodes"]) == ("me", {"ready": 1, "total": 1})
    assert status["largestNode"]["cpu"] == "4"
    assert syncer.ready()[0] is False, "it has ended"


async def test_changes_in_the_super_cluster_only_are_repaired_and_counted(stage: Stage) -> None:
    async with stage.running() as syncer:
        found = await until(lambda: stage.here(CONFIG_MAPS, "settings"))
        stage.below.put(CONFIG_MAPS, "settings", PLACE, **{**found, "data": {"colour": "blue"}})
        await until(lambda: (stage.here(CONFIG_MAPS, "settings") or {})["data"] == {"colour": "red"})
        await until(lambda: repairs(syncer, "changed") == 1)
        drift = syncer.status()["drift"]
        assert (drift["repairs"], len(drift["latest"])) == (1, 1)


async def test_repairs_are_named_by_their_action(stage: Stage) -> None:
    stage.tenant.put(CONFIG_MAPS, "fixed", "shop", data={"a": "b"}, immutable=True)
    async with stage.running() as syncer:
        await until(lambda: stage.here(CONFIG_MAPS, "settings"))
        fixed = await until(lambda: stage.here(CONFIG_MAPS, "fixed"))
        await until(lambda: not tenant_status(syncer)["queued"])
        stage.below.remove(CONFIG_MAPS, "settings", PLACE)
        await until(lambda: stage.here(CONFIG_MAPS, "settings"))
        stage.below.put(CONFIG_MAPS, "fixed", PLACE, **{**fixed, "data": {"a": "c"}})
        await until(lambda: (stage.here(CONFIG_MAPS, "fixed") or {}).get("data") == {"a": "b"})
        await until(lambda: (repairs(syncer, "removed"), repairs(syncer, "replaced")) == (2, 1))
        latest = [(each["name"], each["cause"]) for each in syncer.status()["drift"]["latest"]]
    assert set(latest) == {("settings", "removed"), ("fixed", "replaced"), ("fixed", "removed")}


def repairs(syncer: Syncer, cause: str) -> float:
    """Return how many ConfigMaps were repaired for a cause."""
    return samples(syncer)["vcsync_syncer_drift_repairs_total", "r1", "configmaps", cause]


async def test_the_patrol_removes_namespaces_without_placement(stage: Stage) -> None:
    place = names.super_namespace(KEY, "old")
    ours = {
        "labels": {names.CONTROLLED: names.TRUE},
        "annotations": {names.CLUSTER: KEY, names.NAMESPACE: "old"},
    }
    async with stage.running(patrol_seconds=0.02) as syncer:
        await until(lambda: stage.here(CONFIG_MAPS, "settings"))
        stage.below.put(NAMESPACES, place, metadata=ours)
        stage.below.put(NAMESPACES, "of-nobody", metadata={"labels": ours["labels"]})
        await until(lambda: stage.here(NAMESPACES, place, "") is None)
        rounds = syncer.status()["patrol"]["rounds"]
        await until(lambda: syncer.status()["patrol"]["rounds"] > rounds + 1)
        patrol = syncer.status()["patrol"]
        assert 0 < patrol["longestStepSeconds"] <= patrol["cpuSeconds"]
        assert stage.here(NAMESPACES, PLACE, "")
        assert stage.here(NAMESPACES, "of-nobody", "")


async def test_a_node_that_the_tenant_created_keeps_its_name(stage: Stage) -> None:
    stage.tenant.put(NODES, "n1.r1", metadata={"labels": {"of": "the-tenant"}})
    stage.pod("web")
    with capture_logs() as logged:
        async with stage.running():
            await until(lambda: stage.here(PODS, "web"))
            stage.runs("web")
            await until(lambda: [each for each in logged if each["event"] == "item failed"])
            text = next(each for each in logged if each["event"] == "item failed")["error"]
            assert text == "the tenant has a Node n1.r1 that vcsync did not create; delete or rename it"
            assert not up(stage, "web")["spec"].get("nodeName")
            stage.tenant.remove(NODES, "n1.r1")
            await until(lambda: up(stage, "web")["spec"].get("nodeName") == "n1.r1")


async def test_a_node_of_an_earlier_syncer_is_used(stage: Stage) -> None:
    refused = [True]

    def before(verb: str, plural: str, name: str) -> None:
        if (verb, plural) == ("create", "nodes") and refused.pop():
            refused.append(False)
            # What another one makes at this moment is not in our cache yet.
            stage.tenant.objects["nodes", "", name] = {
                "metadata": {
                    "name": name,
                    "uid": "theirs",
                    "resourceVersion": "1",
                    "labels": {names.SUPER_CLUSTER_ID: "r1"},
                }
            }

    stage.tenant.before = before
    stage.pod("web")
    async with stage.running():
        await until(lambda: stage.here(PODS, "web"))
        stage.runs("web")
        await until(lambda: up(stage, "web")["spec"].get("nodeName") == "n1.r1")


async def test_events_of_a_pod_that_was_recreated_in_the_tenant_are_dropped(stage: Stage) -> None:
    stage.pod("web")
    stage.pod("other")
    async with stage.running() as syncer:
        below = await until(lambda: stage.here(PODS, "web"))
        other = await until(lambda: stage.here(PODS, "other"))
        found = up(stage, "web")
        # The new Pod waits below until the old one's end: what is said of that is not about the new one.
        metadata = {**found["metadata"], "uid": "uid-of-the-next", "resourceVersion": "999"}
        stage.tenant.objects["pods", "shop", "web"] = {**found, "metadata": metadata}
        syncer._tenants[KEY].objects.tenant_caches.reflectors[PODS].observe(
            stage.tenant._envelope(("pods", "shop", "web"))
        )
        for name, uid in (("killing", below["metadata"]["uid"]), ("started", other["metadata"]["uid"])):
            stage.below.put(
                EVENTS,
                name,
                PLACE,
                involvedObject={
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": PLACE,
                    "name": "web" if name == "killing" else "other",
                    "uid": uid,
                },
                reason=name.title(),
                message="of container c",
                type="Normal",
                count=1,
                lastTimestamp=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            )
        await until(lambda: events(stage.tenant, "Started"))
        assert events(stage.tenant, "Killing") == []


async def test_events_about_a_pod_are_copied_to_its_tenant(stage: Stage) -> None:
    stage.pod("web")
    async with stage.running() as syncer:
        below = await until(lambda: stage.here(PODS, "web"))
        about = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": PLACE,
            "name": "web",
            "uid": below["metadata"]["uid"],
        }
        for name, uid in (("pulled", about["uid"]), ("foreign", "another")):
            stage.below.put(
                EVENTS,
                name,
                PLACE,
                involvedObject={**about, "uid": uid},
                reason="Pulled",
                message="Container image pulled",
                type="Normal",
                count=1,
                lastTimestamp=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            )
        await until(lambda: events(stage.tenant, "Pulled"))
        (event,) = events(stage.tenant, "Pulled")
        assert (event["involvedObject"]["namespace"], event["involvedObject"]["uid"]) == (
            "shop",
            "uid-of-pod-web",
        )
        await until(lambda: samples(syncer)["vcsync_syncer_events_written_total", "r1"] == 1)


TOKEN_VOLUME = {
    "name": "kube-api-access",
    "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}]},
}


async def test_a_pod_gets_a_token_of_its_account(stage: Stage) -> None:
    stage.pod("web", volumes=[TOKEN_VOLUME])
    async with stage.running():
        secret = await until(
            lambda: next((each for each in stage.below.all(SECRETS) if "uid-of-pod-web" in str(each)), None)
        )
        pod = await until(lambda: stage.here(PODS, "web"))
        texts = [base64.b64decode(value).decode() for value in secret["data"].values()]
        assert texts[0].startswith("token-1-of-shop-default")
        assert secret["metadata"]["namespace"] == PLACE
        assert secret["metadata"]["name"] in json.dumps(pod["spec"]["volumes"])
        stage.tenant.remove(PODS, "web", "shop")
        await until(lambda: stage.here(SECRETS, secret["metadata"]["name"]) is None)


async def token_secret(stage: Stage) -> dict[str, Any]:
    """The Secret of Pod web's token, once it is there."""
    name = names.TOKEN_SECRET_PREFIX + "uid-of-pod-web"
    secret: dict[str, Any] = await until(lambda: stage.here(SECRETS, name))
    return secret


async def test_a_token_that_became_due_without_a_syncer_is_renewed(stage: Stage) -> None:
    stage.pod("web", volumes=[TOKEN_VOLUME])
    async with stage.running():
        secret = await token_secret(stage)
    metadata = dict(secret["metadata"])
    metadata["annotations"] = {**metadata["annotations"], names.TOKEN_RENEW: "2026-01-01T00:00:00Z"}
    stage.below.put(SECRETS, metadata["name"], PLACE, **{**secret, "metadata": metadata})
    async with stage.running():
        await until(lambda: stage.tokens_asked == 2)
        await until(
            lambda: (
                (stage.here(SECRETS, metadata["name"]) or {})["metadata"]["annotations"][names.TOKEN_RENEW]
                > "2026-01-02"
            )
        )
    (text,) = (stage.here(SECRETS, metadata["name"]) or {})["data"].values()
    assert base64.b64decode(text).decode() == "token-2-of-shop-default"


async def test_a_token_whose_pod_was_deleted_without_a_syncer_is_removed(stage: Stage) -> None:
    stage.pod("web", volumes=[TOKEN_VOLUME])
    async with stage.running():
        secret = await token_secret(stage)
        await until(lambda: stage.here(PODS, "web"))
    del stage.tenant.objects["pods", "shop", "web"], stage.below.objects["pods", PLACE, "web"]
    async with stage.running():
        await until(lambda: stage.here(SECRETS, secret["metadata"]["name"]) is None)
    assert stage.tokens_asked == 1


async def test_pods_get_the_tenants_api_and_the_operators_mappings(stage: Stage) -> None:
    stage.virtual_cluster(
        priorityClasses={"urgent": "tenants-urgent"}, apiEndpoint={"host": "10.9.8.7", "port": 7443}
    )
    stage.pod("web", priorityClassName="urgent")
    stage.pod("plain")
    async with stage.running():
        pod = await until(lambda: stage.here(PODS, "web"))
        plain = await until(lambda: stage.here(PODS, "plain"))
    assert pod["spec"]["priorityClassName"] == "tenants-urgent"
    assert "priorityClassName" not in plain["spec"]
    environment = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    assert environment["KUBERNETES_SERVICE_HOST"] == "10.9.8.7"
    assert environment["KUBERNETES_SERVICE_PORT"] == "7443"


async def test_a_pod_gets_the_priority_that_its_super_cluster_publishes(stage: Stage) -> None:
    public = {"labels": {names.SUPER_PUBLIC: names.TRUE}}
    stage.below.put(PRIORITY_CLASSES, "high", metadata=public, value=1000)
    stage.below.put(PRIORITY_CLASSES, "system-cluster-critical", metadata=public, value=2_000_000_000)
    stage.below.put(PRIORITY_CLASSES, "operators-own", value=1_000_000)
    for name in ("high", "system-cluster-critical", "operators-own", "absent"):
        stage.pod(
            name, priorityClassName=name, priority=1_000_000_000, preemptionPolicy="PreemptLowerPriority"
        )
    async with stage.running():
        pods = [await until(lambda name=name: stage.here(PODS, name)) for name in ("high", "absent")]
        pods += [
            await until(lambda name=name: stage.here(PODS, name))
            for name in ("system-cluster-critical", "operators-own")
        ]
    assert [pod["spec"].get("priorityClassName") for pod in pods] == ["high", None, None, None]
    assert not any(field in pod["spec"] for pod in pods for field in ("priority", "preemptionPolicy"))


async def test_a_mapping_wins_over_a_published_class(stage: Stage) -> None:
    stage.virtual_cluster(priorityClasses={"high": "low"})
    public = {"labels": {names.SUPER_PUBLIC: names.TRUE}}
    stage.below.put(PRIORITY_CLASSES, "high", metadata=public, value=1000)
    stage.pod("web", priorityClassName="high")
    async with stage.running():
        pod = await until(lambda: stage.here(PODS, "web"))
    assert pod["spec"]["priorityClassName"] == "low"


async def test_without_an_api_endpoint_pods_use_the_address_of_the_syncer(
    stage: Stage,
) -> None:
    stage.pod("web")
    async with stage.running():
        pod = await until(lambda: stage.here(PODS, "web"))
    environment = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    assert (environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]) == (
        "tenant",
        "6443",
    )


async def test_a_pod_waits_for_its_runtime_class_on_both_sides(stage: Stage) -> None:
    stage.pod("web", runtimeClassName="fast")
    async with stage.running() as syncer:
        await until(lambda: tenant_status(syncer).get("waitingLongest"))
        waits = tenant_status(syncer)["waitingLongest"]
        assert waits["item"] == "pods/shop/web"
        assert "fast" in waits["reason"]
        assert [each["item"] for each in tenant_status(syncer)["waiting"]] == ["pods/shop/web"]
        assert samples(syncer)["vcsync_syncer_waiting", "r1"] == 1
        stage.tenant.put(RUNTIME_CLASSES, "fast", handler="quick")
        stage.below.put(
            RUNTIME_CLASSES, "below", metadata={"labels": {names.SUPER_PUBLIC: "true"}}, handler="quick"
        )
        found = await until(lambda: stage.here(PODS, "web"))
        assert found["spec"]["runtimeClassName"] == "below"


async def test_a_pod_waits_for_its_tenants_name_server(stage: Stage) -> None:
    stage.grant({"r1": 1}, "kube-system")
    stage.tenant.put(
        SERVICES,
        "kube-dns",
        "kube-system",
        spec={"clusterIP": "10.0.0.10", "type": "ClusterIP", "ports": [{"port": 53, "protocol": "UDP"}]},
    )
    stage.pod("web")
    space = names.super_namespace(KEY, "kube-system")
    async with stage.running() as syncer:
        service = await until(lambda: stage.here(SERVICES, "kube-dns", space))
        waits = await until(lambda: tenant_status(syncer).get("waitingLongest"))
        assert waits["item"] == "pods/shop/web"
        assert stage.here(PODS, "web") is None
        spec = {**service["spec"], "clusterIP": "10.5.5.5", "clusterIPs": ["10.5.5.5"]}
        stage.below.put(SERVICES, "kube-dns", space, **{**service, "spec": spec})
        found = await until(lambda: stage.here(PODS, "web"))
    assert found["spec"]["dnsConfig"]["nameservers"] == ["10.5.5.5"]


async def test_pods_that_lose_their_slices_are_evicted_with_an_event(stage: Stage) -> None:
    evicted: list[str] = []

    def evict(_namespace: str, name: str, body: dict[str, Any]) -> bytes:
        assert (body["apiVersion"], body["kind"]) == ("policy/v1", "Eviction")
        assert body["deleteOptions"]["preconditions"] == {"uid": f"uid-of-pod-{name}"}
        evicted.append(name)
        return b"{}"

    stage.tenant.raw["eviction"] = evict
    stage.pod("web")
    async with stage.running() as syncer:
        await until(lambda: stage.here(PODS, "web"))
        stage.runs("web")
        await until(lambda: up(stage, "web")["status"].get("podIP"))
        stage.grant({"r2": 1})
        await until(lambda: evicted)
        await until(lambda: stage.here(PODS, "web") is None)
        await until(lambda: events(stage.tenant, "SlicesLost"))
        (event,) = events(stage.tenant, "SlicesLost")
        assert event["involvedObject"] == {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "web",
            "uid": "uid-of-pod-web",
        }
        assert "has no slices on super cluster r1 any more" in event["message"]
        await until(lambda: stage.here(NAMESPACES, PLACE, "") is None)
        assert event["count"] == 1
        assert syncer.ready()[0]


async def test_a_pod_that_is_evicted_while_its_super_cluster_does_not_answer_gets_the_event(
    stage: Stage,
) -> None:
    """A lost super cluster may never answer, and its tenant sees a Pod that is deleted without a reason."""

    def before(verb: str, plural: str, _name: str) -> None:
        if (verb, plural) == ("delete", "pods"):
            raise ServerError(Status(503, "ServiceUnavailable", "r1 is away"), endpoint="r1")

    stage.tenant.raw["eviction"] = lambda *_: b"{}"
    stage.pod("web")
    async with stage.running():
        await until(lambda: stage.here(PODS, "web"))
        stage.runs("web")
        await until(lambda: up(stage, "web")["status"].get("podIP"))
        stage.below.before = before
        stage.grant({"r2": 1})
        await until(lambda: events(stage.tenant, "SlicesLost"))
        assert stage.here(PODS, "web") is not None


async def test_objects_of_a_tenant_that_lost_its_data_are_kept_in_the_super_cluster(stage: Stage) -> None:
    for number in range(40):
        stage.tenant.put(CONFIG_MAPS, f"m{number}", "shop", data={"n": str(number)})
    async with stage.running():
        await until(lambda: stage.here(CONFIG_MAPS, "m39"))
    for number in range(40):
        del stage.tenant.objects["configmaps", "shop", f"m{number}"]
    async with stage.running(patrol_seconds=0.05) as syncer:
        (brake,) = await until(lambda: syncer.status()["braked"])
        assert (brake["tenant"], brake["what"]) == (
            KEY,
            "configmaps in super cluster r1",
        )
        assert (brake["wanted"], brake["of"]) == (40, 42)
        assert stage.here(CONFIG_MAPS, "m39")
        assert samples(syncer)["vcsync_syncer_braked", "r1"] == 1
        braked = await until(
            lambda: [
                each
                for each in (stage.meta.found(SUPER_CLUSTERS, "r1") or {})["status"]["conditions"]
                if each["type"] == "Braked" and each["status"] == "True"
            ]
        )
        assert (braked[0]["reason"], braked[0]["message"]) == (
            "TooManyDeletions",
            f"{KEY}: 40 of 42 configmaps in super cluster r1, first configmaps/shop/m0",
        )
        found = stage.meta.found(VIRTUAL_CLUSTERS, "acme", "vcsync")
        assert found
        at = (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        stage.meta.put(
            VIRTUAL_CLUSTERS,
            "acme",
            "vcsync",
            **{**found, "metadata": {**found["metadata"], "annotations": {names.BRAKE_RELEASED: at}}},
        )
        await until(lambda: stage.here(CONFIG_MAPS, "m39") is None)


async def test_tenants_of_another_shard_are_not_synced(stage: Stage) -> None:
    shards = [1, 2]
    made = []
    for which in shards:
        async with stage.running(shard=(which, 2)) as syncer:
            await until(lambda: syncer.ready()[0])
            for _ in range(100):
                await asyncio.sleep(0)
            made.append(bool(tenant_status(syncer)))
            assert syncer.status()["shard"] == f"{which}/2"
    assert sorted(made) == [False, True]


async def test_a_wrong_super_cluster_is_not_written(stage: Stage) -> None:
    stage.below.put(
        CONFIG_MAPS,
        names.SUPER_CLUSTER_INFO,
        names.SUPER_CLUSTER_INFO_NAMESPACE,
        data={names.SUPER_CLUSTER_INFO_KEY: "r2"},
    )
    syncer = Syncer(meta=stage.meta, super_client=stage.below, super_id="r1")  # type: ignore[arg-type]
    with pytest.raises(WrongSuperCluster, match="leads to super cluster 'r2', not 'r1'"):
        await syncer.run()
    assert stage.below.all(NAMESPACES) == []


def test_a_syncer_without_rights_for_role_bindings_syncs_and_gets_them_later(
    in_virtual_time: Callable[[Coroutine[Any, Any, Any]], None],
) -> None:
    async def main() -> None:
        stage = Stage()
        stage.pod("web")

        def before(_: str, plural: str, __: str) -> None:
            if plural == "rolebindings":
                raise Forbidden(Status(403, "Forbidden", "rolebindings is forbidden"), endpoint="r1")

        stage.below.before = before
        async with stage.running() as syncer:
            await until(lambda: stage.here(PODS, "web"))
            await until(lambda: tenant_status(syncer)["state"] == "Ready")
            assert syncer.ready()[0]
            stage.below.before = lambda *_: None
            await until(lambda: stage.here(ROLE_BINDINGS, "vcsync-streams"))
            stage.below.remove(ROLE_BINDINGS, "vcsync-streams", PLACE)
            await until(lambda: stage.here(ROLE_BINDINGS, "vcsync-streams"))

    in_virtual_time(main())


@pytest.mark.parametrize("lacking", ["below", "tenant"])
@pytest.mark.parametrize(
    "error", [Forbidden(Status(403, "Forbidden", "no")), NotFound(Status(404, "NotFound", "no"))]
)
def test_an_optional_kind_that_one_side_lacks_waits_and_everything_else_is_synced(
    in_virtual_time: Callable[[Coroutine[Any, Any, Any]], None], lacking: str, error: ApiError
) -> None:
    async def main() -> None:
        stage = Stage()
        stage.pod("web")
        rule = {"podSelector": {}, "policyTypes": ["Ingress"]}
        stage.tenant.put(NETWORK_POLICIES, "closed", "shop", metadata={"uid": "uid-of-closed"}, spec=rule)

        def before(_: str, plural: str, __: str) -> None:
            if plural == "networkpolicies":
                raise error

        cluster: MemoryCluster = getattr(stage, lacking)
        cluster.before = before
        async with stage.running() as syncer:
            await until(lambda: stage.here(PODS, "web"))
            await until(lambda: tenant_status(syncer)["state"] == "Ready")
            await asyncio.sleep(180)
            assert syncer.ready()[0]
            assert stage.here(NETWORK_POLICIES, "closed") is None
            reports = events(stage.tenant, "NotSynced")
            assert len(reports) == (1 if lacking == "below" else 0)
            cluster.before = lambda *_: None
            await asyncio.sleep(60)
            assert stage.here(NETWORK_POLICIES, "closed") is not None

    in_virtual_time(main())


@pytest.mark.parametrize("lacking", ["resourceclaims", "deviceclasses"])
def test_a_claim_to_devices_waits_while_a_super_cluster_is_too_old_and_goes_there_when_it_is_not(
    in_virtual_time: Callable[[Coroutine[Any, Any, Any]], None], lacking: str
) -> None:
    async def main() -> None:
        stage = Stage()
        stage.pod("web")
        published = {"labels": {names.SUPER_PUBLIC: names.TRUE}}
        stage.below.put(DEVICE_CLASSES, "gpu", metadata=published, spec={})
        requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
        assigned = {"uid": "uid-of-one", "labels": {names.SUPER_CLUSTER: "r1"}}
        stage.tenant.put(
            RESOURCE_CLAIMS, "one", "shop", metadata=assigned, spec={"devices": {"requests": requests}}
        )

        def before(_: str, plural: str, __: str) -> None:
            if plural == lacking:
                raise NotFound(Status(404, "NotFound", "the server could not find the requested resource"))

        stage.below.before = before
        async with stage.running() as syncer:
            await until(lambda: stage.here(PODS, "web"))
            await asyncio.sleep(180)
            assert syncer.ready()[0]
            assert stage.here(RESOURCE_CLAIMS, "one") is None
            [report] = events(stage.tenant, "NotSynced")
            assert "resourceclaims are not synced to super cluster r1" in report["message"]
            stage.below.before = lambda *_: None
            await asyncio.sleep(60)
            assert stage.here(RESOURCE_CLAIMS, "one") is not None

    in_virtual_time(main())


def test_a_super_cluster_that_cannot_be_read_in_time_ends_the_syncer_with_the_reason(in_virtual_time) -> None:  # type: ignore[no-untyped-def]
    why = "secrets is forbidden: User vcsync cannot list resource secrets"

    async def main() -> None:
        stage = Stage()

        def before(verb: str, plural: str, name: str) -> None:
            if (verb, plural) == ("list", "secrets"):
                raise Forbidden(Status(403, "Forbidden", why), endpoint="r1")

        stage.below.before = before
        syncer = Syncer(meta=stage.meta, super_client=stage.below, super_id="r1")  # type: ignore[arg-type]
        async with asyncio.timeout(2 * CACHE_SYNC_SECONDS), asyncio.TaskGroup() as tasks:
            tasks.create_task(syncer.run())
            await asyncio.sleep(CACHE_SYNC_SECONDS / 2)
            ready, reason = syncer.ready()
            assert not ready
            assert reason.startswith("super cluster r1: waiting for the first list of secrets (")
            assert why in reason

    with pytest.RaisesGroup(
        pytest.RaisesExc(CachesNotSynced, match=rf"within 120 s: secrets \(.*{why}"), flatten_subgroups=True
    ):
        in_virtual_time(main())


def test_a_tenant_whose_secrets_cannot_be_read_in_time_is_shown_with_the_reason_and_tried_again(
    in_virtual_time: Callable[[Coroutine[Any, Any, Any]], None],
) -> None:
    async def main() -> None:
        stage = Stage()

        def before(verb: str, plural: str, name: str) -> None:
            if (verb, plural) == ("list", "secrets"):
                raise Forbidden(Status(403, "Forbidden", "secrets is forbidden"), endpoint="tenant")

        stage.tenant.before = before
        async with stage.running() as syncer:
            await asyncio.sleep(CACHE_SYNC_SECONDS / 2)
            assert tenant_status(syncer)["state"] == "Connecting"
            await asyncio.sleep(CACHE_SYNC_SECONDS / 2)
            await until(lambda: events(stage.meta, "CachesNotSynced"))
            why = tenant_status(syncer)["last_error"]
            assert why.startswith("CachesNotSynced: could not read within 120 s: secrets (")
            assert "secrets is forbidden" in why
            assert [event["message"] for event in events(stage.meta, "CachesNotSynced")] == [f"syncer: {why}"]
            stage.tenant.before = lambda *_: None
            await until(lambda: tenant_status(syncer)["state"] == "Ready")

    in_virtual_time(main())


async def test_items_in_flight_are_finished_before_the_syncer_stops(stage: Stage) -> None:
    stage.pod("web")
    async with stage.running() as syncer:
        await until(lambda: stage.here(PODS, "web"))
        assert await syncer.drain_work(5)
        stage.pod("late")
        for _ in range(200):
            await asyncio.sleep(0)
        assert stage.here(PODS, "late") is None, "no more work is taken"


async def test_an_item_that_fails_is_named_and_tried_again(stage: Stage) -> None:
    refused = [ServerError(Status(500, "InternalError", "the disk is full"), endpoint="r1")] * 2

    def before(verb: str, plural: str, name: str) -> None:
        if (verb, plural, name) == ("create", "pods", "web") and refused:
            raise refused.pop()

    stage.below.before = before
    stage.pod("web")
    with capture_logs() as logged:
        async with stage.running() as syncer:
            await until(lambda: syncer.status()["lastErrors"])
            (failed,) = syncer.status()["lastErrors"]
            assert (failed["tenant"], failed["item"]) == (KEY, "pods/shop/web")
            await until(lambda: stage.here(PODS, "web"))
    (first, *_) = [each for each in logged if each["event"] == "item failed"]
    assert first["log_level"] == "info"
    assert (first["super_cluster"], first["tenant"], first["item"]) == ("r1", KEY, "pods/shop/web")
    assert first["again_in"] > 0
    assert "the disk is full" in first["error"]


async def test_a_defect_is_logged_with_its_traceback(stage: Stage) -> None:
    defects = [RuntimeError("a defect")]

    def before(verb: str, plural: str, name: str) -> None:
        if (verb, plural, name) == ("create", "pods", "web") and defects:
            raise defects.pop()

    stage.below.before = before
    stage.pod("web")
    with capture_logs() as logged:
        async with stage.running():
            await until(lambda: stage.here(PODS, "web"))
    (failed,) = [each for each in logged if each["event"] == "item failed"]
    assert failed["log_level"] == "error"
    assert (failed["super_cluster"], failed["tenant"], failed["item"]) == ("r1", KEY, "pods/shop/web")
    assert isinstance(failed["exc_info"], RuntimeError)


async def test_a_changed_weight_of_a_tenant_applies_immediately(stage: Stage) -> None:
    stage.virtual_cluster(weight=7)
    async with stage.running(tenant_share=5) as syncer:
        await until(lambda: tenant_status(syncer).get("caches"))
        queue = syncer._pool.queue
        assert queue._weights[KEY] == 7
        stage.virtual_cluster(weight=2)
        await until(lambda: queue._weights[KEY] == 2)
        assert queue._limits[KEY] == 5


async def test_a_tenant_that_is_removed_is_forgotten(stage: Stage) -> None:
    stage.pod("web")
    async with stage.running() as syncer:
        await until(lambda: stage.here(PODS, "web"))
        stage.meta.remove(VIRTUAL_CLUSTERS, "acme", "vcsync")
        await until(lambda: not tenant_status(syncer))
        assert syncer.ready() == (True, "")
        assert stage.here(PODS, "web"), "its Pods go with its slices, not with its session"
        stage.grant({}, deletionTimestamp="2026-01-01T00:00:00Z")
        await until(lambda: stage.here(PODS, "web") is None)
        await until(lambda: stage.here(NAMESPACES, PLACE, "") is None)


def ingress(stage: Stage, *hosts: str, **spec: Any) -> None:
    rules = [{"host": host} for host in hosts]
    stage.tenant.put(
        INGRESSES, "web", "shop", metadata={"uid": "uid-of-web"}, spec={"rules": rules, **spec}, status={}
    )


async def test_a_host_is_handed_over_when_its_owner_gives_it_up(stage: Stage) -> None:
    stage.below.put(INGRESSES, "own", "default", spec={"rules": [{"host": "a.org"}]})
    ingress(stage, "a.org")
    async with stage.running() as syncer:
        await until(lambda: events(stage.tenant, "HostTaken"))
        (waiting,) = tenant_status(syncer)["waiting"]
        assert waiting["reason"].startswith("Ingress web: spec.rules[0].host a.org is in use by another")
        assert stage.here(INGRESSES, "web") is None
        stage.below.put(INGRESSES, "own", "default", spec={"rules": [{"host": "b.org"}]})
        await until(lambda: stage.here(INGRESSES, "web"))
        assert tenant_status(syncer)["waiting"] == []


async def test_a_plan_that_overlooks_the_owner_of_a_host_is_not_executed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(TenantObjects, "host_holder", lambda _, host, **__: looked.append(host))
    stage.below.put(INGRESSES, "own", "default", spec={"rules": [{"host": "a.org"}]})
    ingress(stage, "a.org")
    async with stage.running():
        await until(lambda: len(looked) >= ROUNDS)
        await asyncio.sleep(0.05)
        assert stage.here(INGRESSES, "web") is None


async def test_the_younger_of_two_copies_with_a_host_is_deleted(stage: Stage) -> None:
    ingress(stage, "a.org")
    async with stage.running():
        await until(lambda: stage.here(INGRESSES, "web"))
        # Objects in memory have no creation timestamp, so the UID decides.
        first = {"uid": "!"}
        stage.below.put(INGRESSES, "own", "default", metadata=first, spec={"rules": [{"host": "*.org"}]})
        await until(lambda: stage.here(INGRESSES, "web") is None)
        await until(lambda: events(stage.tenant, "HostTaken"))


async def test_a_class_is_awaited(stage: Stage) -> None:
    ingress(stage, "a.org", ingressClassName="nginx")
    async with stage.running():
        await until(lambda: events(stage.tenant, "ClassNotOffered"))
        stage.below.put(INGRESS_CLASSES, "nginx", metadata={"labels": {names.SUPER_PUBLIC: names.TRUE}})
        await until(lambda: stage.here(INGRESSES, "web"))


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (None, True),
        (Forbidden(Status(403, "Forbidden", "no")), False),
        (ServerError(Status(500, "Timeout", "perhaps")), True),
        (Unreachable("the connection was cut"), True),
    ],
)
async def test_hosts_are_reserved_while_it_is_open_whether_they_are_written(
    stage: Stage, error: Exception | None, kept: bool
) -> None:
    ingress(stage, "a.org")
    holders: list[Any] = []
    hosts: list[Any] = []

    def before(verb: str, plural: str, _: str) -> None:
        if (verb, plural) == ("create", "ingresses"):
            holders.append(hosts[0].holder("another", "a.org"))
            if error is not None:
                raise error

    stage.below.before = before
    async with stage.running() as syncer:
        hosts.append(syncer._hosts)
        await until(lambda: holders)
        await asyncio.sleep(0.05)
        assert holders[0] == (PLACE, "web")
        assert (hosts[0].holder("another", "a.org") is not None) is kept
        stage.below.before = lambda *_: None
        stage.tenant.remove(INGRESSES, "web", "shop")
        await until(lambda: len(hosts[0]) == 0)
    assert stage.here(INGRESSES, "web") is None


@pytest.mark.parametrize("error", [Forbidden(Status(403, "Forbidden", "no"))])
def test_ingresses_wait_until_classes_can_be_read(
    in_virtual_time: Callable[[Coroutine[Any, Any, Any]], None], error: ApiError
) -> None:
    async def main() -> None:
        stage = Stage()
        ingress(stage, "a.org")

        def before(_: str, plural: str, __: str) -> None:
            if plural == "ingressclasses":
                raise error

        stage.below.before = before
        async with stage.running():
            await until(lambda: events(stage.tenant, "NotSynced"))
            assert stage.here(INGRESSES, "web") is None
            stage.below.before = lambda *_: None
            await asyncio.sleep(120)
            assert stage.here(INGRESSES, "web") is not None

    in_virtual_time(main())


def watched(syncer: Syncer) -> bool:
    return bool(tenant_status(syncer).get("watched"))


async def test_a_tenant_without_slices_here_is_not_watched_until_it_has_some(stage: Stage) -> None:
    stage.meta.remove(NAMESPACE_PLACEMENTS, "shop", KEY)
    async with stage.running() as syncer:
        await until(lambda: tenant_status(syncer).get("state") == "Ready")
        assert not watched(syncer)
        assert tenant_status(syncer)["caches"] == {}
        assert syncer.ready() == (True, "")
        stage.grant({"r1": 1})
        await until(lambda: stage.here(CONFIG_MAPS, "settings"))
        assert watched(syncer)


@pytest.mark.parametrize("kind", [NODES, PERSISTENT_VOLUMES])
async def test_a_tenant_with_something_of_this_super_cluster_is_watched(stage: Stage, kind: Resource) -> None:
    """Remains of an earlier process have to be removed."""
    stage.meta.remove(NAMESPACE_PLACEMENTS, "shop", KEY)
    stage.tenant.put(kind, "left.r1", metadata={"labels": {names.SUPER_CLUSTER_ID: "r1"}})
    async with stage.running() as syncer:
        await until(lambda: watched(syncer))
        await until(lambda: tenant_status(syncer)["caches"])


async def test_a_tenant_with_a_namespace_in_the_super_cluster_is_watched(stage: Stage) -> None:
    stage.meta.remove(NAMESPACE_PLACEMENTS, "shop", KEY)
    stage.stray_namespace()
    async with stage.running() as syncer:
        await until(lambda: watched(syncer))


async def test_a_namespace_that_appears_in_the_super_cluster_has_its_tenant_watched(stage: Stage) -> None:
    stage.meta.remove(NAMESPACE_PLACEMENTS, "shop", KEY)
    async with stage.running() as syncer:
        await until(lambda: tenant_status(syncer).get("state") == "Ready")
        assert not watched(syncer)
        stage.stray_namespace()
        await until(lambda: watched(syncer))
