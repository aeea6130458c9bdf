"""Removals because of objects that are missing in the meta cluster, with and without an observed deletion."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from vcsync.api import names
from vcsync.api.objects import NamespacePlacement
from vcsync.api.resources import NAMESPACE_PLACEMENTS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.kube.cache import Change
from vcsync.kube.errors import NotFound, Status
from vcsync.kube.resources import NAMESPACES, Resource
from vcsync.nsscheduler.leadership import Leadership
from vcsync.nsscheduler.scheduler import NamespaceScheduler
from vcsync.nsscheduler.settings import Settings
from vcsync.objects.envelope import Envelope, parse
from vcsync.scheduling.snapshot import Health
from vcsync.tenancy.terms import UNCONTESTED

TENANTS = ("acme", "umbrella", "wonka")


def root(tenant: str) -> str:
    return f"vcsync-{tenant}"


def virtual_cluster(tenant: str, uid: str = "") -> dict[str, Any]:
    return {
        "metadata": {
            "name": tenant,
            "namespace": "vcsync",
            "uid": uid or f"uid-{tenant}",
            "resourceVersion": "3",
        },
        "status": {"phase": "Running", "clusterNamespace": root(tenant)},
    }


def placement(tenant: str, namespace: str, slices: dict[str, int]) -> dict[str, Any]:
    owner = {"namespace": "vcsync", "name": tenant, "uid": f"uid-{tenant}"}
    return {
        "metadata": {
            "name": namespace,
            "namespace": root(tenant),
            "uid": f"p-{namespace}",
            "resourceVersion": "4",
        },
        "spec": {
            "virtualCluster": owner,
            "tenant": root(tenant),
            "namespace": namespace,
            "namespaceUID": f"n-{namespace}",
            "quota": {},
            "sliceSize": {"cpu": "1", "memory": "1Gi"},
            "slices": 1,
        },
        "status": {"placements": slices, "sliceSize": {"cpu": "1", "memory": "1Gi"}},
    }


class Meta:
    """A meta cluster of the test's making."""

    name = "meta"

    def __init__(self) -> None:
        self.objects: dict[tuple[Resource, str, str], dict[str, Any]] = {}
        self.deleted: list[tuple[str, str]] = []
        self.patches: list[dict[str, Any]] = []
        self.put(NAMESPACES, {"metadata": {"name": names.SYSTEM_NAMESPACE, "uid": "system"}})

    def put(self, resource: Resource, body: dict[str, Any]) -> Envelope:
        metadata = body["metadata"]
        self.objects[resource, metadata.get("namespace", ""), metadata["name"]] = body
        return parse(json.dumps(body).encode())

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Envelope:
        try:
            return parse(msgspec.json.encode(self.objects[resource, namespace, name]))
        except KeyError:
            raise NotFound(Status(404)) from None

    async def list(self, resource: Resource, namespace: str) -> list[Envelope]:
        return [
            parse(msgspec.json.encode(body))
            for (kind, where, _), body in self.objects.items()
            if (kind, where) == (resource, namespace)
        ]

    async def delete(self, resource: Resource, name: str, namespace: str = "", **_: Any) -> None:
        del self.objects[resource, namespace, name]
        self.deleted.append((namespace, name))

    async def patch(
        self, resource: Resource, name: str, patch: dict[str, Any], namespace: str, **_: Any
    ) -> Envelope:
        self.patches.append(patch)
        return await self.get(resource, name, namespace)


class Stage:
    """A term that has read a meta cluster with three tenants, each with a namespace in r1 and r2."""

    def __init__(self, meta: Meta | None = None, term: Leadership | None = None) -> None:
        self.meta = meta or Meta()
        self.term = term or Leadership(self.meta, Settings())  # type: ignore[arg-type]
        for tenant in TENANTS:
            self.see(self.meta.put(VIRTUAL_CLUSTERS, virtual_cluster(tenant)))
            entry = placement(tenant, "shop", {"r1": 1, "r2": 1})
            self.term.placements.cache.observe(self.meta.put(NAMESPACE_PLACEMENTS, entry))
            self.term._count((root(tenant), "shop"))
            annotations = {
                names.VC_ROOT_NAMESPACE: names.TRUE,
                names.VC_NAME: tenant,
                names.VC_NAMESPACE: "vcsync",
                names.VC_UID: f"uid-{tenant}",
            }
            body = {"metadata": {"name": root(tenant), "uid": "r", "annotations": annotations}}
            self.meta.put(NAMESPACES, body)
        for super_id in ("r1", "r2"):
            self.put_super(super_id)

    def see(self, envelope: Envelope) -> None:
        self.term.registry.virtual_clusters.cache.observe(envelope)

    def put_super(self, super_id: str) -> None:
        body = {
            "metadata": {"name": super_id, "uid": super_id, "resourceVersion": "1"},
            "spec": {"id": super_id},
        }
        self.term.pool.observe(Change(None, self.meta.put(SUPER_CLUSTERS, body)))

    def lose(self, tenant: str, *, reported: bool = False) -> None:
        """Let a VirtualCluster be gone from the meta cluster."""
        cache = self.term.registry.virtual_clusters.cache
        found = cache.get("vcsync", tenant)
        assert found is not None
        cache.forget(found)
        del self.meta.objects[VIRTUAL_CLUSTERS, "vcsync", tenant]
        self.term._virtual_cluster_changed(Change(found, None, reported))

    def lose_super(self, super_id: str, *, reported: bool = False) -> None:
        body = self.meta.objects.pop((SUPER_CLUSTERS, "", super_id))
        self.term.pool.observe(Change(parse(json.dumps(body).encode()), None, reported))

    async def look(self, tenant: str, namespace: str = "shop") -> float | None:
        return await self.term._handle(root(tenant), namespace)

    def release(self, clock: timedelta = timedelta()) -> None:
        metadata = self.meta.objects[NAMESPACES, "", names.SYSTEM_NAMESPACE]["metadata"]
        metadata["annotations"] = {names.BRAKE_RELEASED: (datetime.now(UTC) + clock).isoformat()}

    async def health(self, tenant: str) -> dict[str, Health]:
        views = await self.term._views(root(tenant), "shop")
        return {super_id: view.health for super_id, view in views.items()}


@pytest.mark.parametrize("lost", [TENANTS, TENANTS[:1]])
async def test_ledger_entries_of_missing_virtual_clusters_are_kept(lost: tuple[str, ...]) -> None:
    stage = Stage()
    for tenant in lost:
        stage.lose(tenant)
    for tenant in lost:
        assert await stage.look(tenant) is not None
    assert stage.meta.deleted == []
    (condition,) = stage.meta.patches[0]["status"]["conditions"]
    assert condition["type"] == "Braked"
    assert "vcsync brake release --all" in condition["message"]


async def test_a_recreated_virtual_cluster_does_not_replace_a_missing_one() -> None:
    stage = Stage()
    stage.lose("acme")
    stage.see(stage.meta.put(VIRTUAL_CLUSTERS, virtual_cluster("acme", "uid-restored")))
    assert await stage.look("acme") is not None
    assert stage.meta.deleted == []


async def test_an_operators_release_permits_the_removal() -> None:
    stage = Stage()
    stage.lose("acme")
    await stage.look("acme")
    stage.release()
    assert await stage.look("acme") is None
    assert stage.meta.deleted == [(root("acme"), "shop")]


async def test_a_release_is_valid_in_the_next_term_despite_wrong_clocks() -> None:
    meta = Meta()
    scheduler = NamespaceScheduler(meta, identity="me")  # type: ignore[arg-type]
    first = Stage(meta, scheduler._terms._begin(UNCONTESTED))
    first.lose("acme")
    assert await first.look("acme") is not None
    first.release(timedelta(hours=1))
    assert await first.look("acme") is None
    second = Stage(meta, scheduler._terms._begin(UNCONTESTED))
    second.lose("acme")
    assert await second.look("acme") is None


async def test_an_observed_deletion_of_a_virtual_cluster_removes_its_entries_and_its_root() -> None:
    stage = Stage()
    stage.lose("acme", reported=True)
    assert await stage.look("acme") is None
    assert await stage.look("acme", "") is None
    assert stage.meta.deleted == [(root("acme"), "shop"), ("", root("acme"))]


async def test_a_virtual_cluster_that_is_being_deleted_needs_no_observed_request() -> None:
    stage = Stage()
    body = stage.meta.objects[VIRTUAL_CLUSTERS, "vcsync", "acme"]
    body["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "9"}
    stage.see(parse(json.dumps(body).encode()))
    assert await stage.look("acme") is None
    assert stage.meta.deleted == [(root("acme"), "shop")]


async def test_the_root_namespace_of_a_missing_virtual_cluster_is_kept() -> None:
    stage = Stage()
    for tenant in TENANTS:
        stage.lose(tenant)
        del stage.meta.objects[NAMESPACE_PLACEMENTS, root(tenant), "shop"]
    for tenant in TENANTS:
        assert await stage.look(tenant, "") is not None
    assert stage.meta.deleted == []
    stage.release()
    assert await stage.look("acme", "") is None
    assert stage.meta.deleted == [("", root("acme"))]


async def test_the_brake_is_released_when_the_virtual_clusters_are_back() -> None:
    stage = Stage()
    stage.lose("acme")
    await stage.look("acme")
    assert stage.term.limiter.braked
    stage.see(stage.meta.put(VIRTUAL_CLUSTERS, virtual_cluster("acme")))
    await stage.look("acme")
    assert not stage.term.limiter.braked


async def test_slices_on_missing_super_clusters_are_kept() -> None:
    stage = Stage()
    stage.lose_super("r1")
    stage.lose_super("r2")
    assert await stage.health("acme") == {"r1": Health.UNKNOWN, "r2": Health.UNKNOWN}
    (brake,) = stage.term.limiter.braked.values()
    assert (brake.tenant, brake.wanted, brake.of) == (root("acme"), 1, 1)
    stage.put_super("r1")
    stage.put_super("r2")
    await stage.health("acme")
    assert not stage.term.limiter.braked


async def test_slices_on_a_removed_super_cluster_move() -> None:
    stage = Stage()
    stage.lose_super("r1", reported=True)
    assert list(await stage.health("acme")) == ["r2"]
    assert not stage.term.limiter.braked


async def test_few_namespaces_of_many_lose_their_slices() -> None:
    stage = Stage()
    for number in range(9):
        entry = stage.meta.put(NAMESPACE_PLACEMENTS, placement("acme", f"other-{number}", {"r2": 1}))
        stage.term.placements.cache.observe(entry)
        stage.term._count((root("acme"), entry.name))
    stage.lose_super("r1")
    assert list(await stage.health("acme")) == ["r2"]


def test_the_placements_of_the_test_are_placements() -> None:
    body = json.dumps(placement("acme", "shop", {"r1": 1})).encode()
    assert NamespacePlacement.from_envelope(parse(body)).status.placements == {"r1": 1}
