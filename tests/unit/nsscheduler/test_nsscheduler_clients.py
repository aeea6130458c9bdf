"""Writes of the ledger and of Namespaces by real clients, and the objects that are observed after each answer."""

from __future__ import annotations

from typing import Any

import pytest
from memory_cluster import MemoryCluster, endless_pages

from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.kube.errors import Conflict, KubeError, NotFound
from vcsync.kube.resources import NAMESPACES, RESOURCE_QUOTAS
from vcsync.nsscheduler.clients import LedgerClient, TenantClient
from vcsync.objects.envelope import Envelope

ROOT = "root-acme"


class Heard:
    """Records the calls about objects in answers."""

    def __init__(self) -> None:
        self.seen: list[Envelope] = []
        self.gone: list[tuple[str, str, str]] = []

    def leave(self, namespace: str, name: str, uid: str) -> None:
        self.gone.append((namespace, name, uid))


@pytest.fixture
async def meta() -> MemoryCluster:
    return MemoryCluster("meta")


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def ledger(meta: MemoryCluster, heard: Heard) -> LedgerClient:
    client: Any = meta
    return LedgerClient(client, heard.seen.append, heard.leave)


async def test_created_and_patched_objects_are_observed_when_the_call_returns(
    meta: MemoryCluster, heard: Heard, ledger: LedgerClient
) -> None:
    body = {"metadata": {"name": "shop", "uid": "u"}, "spec": {"slices": 1}}
    created = await ledger.create(ROOT, body)
    patched = await ledger.patch(ROOT, "shop", {"spec": {"slices": 2}}, "")
    updated = await ledger.patch(ROOT, "shop", {"status": {"slices": 2}}, "status")
    assert heard.seen == [created, patched, updated]
    stored = meta.found(NAMESPACE_PLACEMENTS, "shop", ROOT)
    assert stored is not None
    assert (stored["spec"], stored["status"]) == ({"slices": 2}, {"slices": 2})
    assert stored["metadata"]["resourceVersion"] == updated.resource_version
    assert "annotations" not in stored["metadata"], "without an election there are no terms"


@pytest.mark.parametrize(
    ("finalizers", "there", "gone"),
    [
        pytest.param([], True, True, id="without finalizers it is gone"),
        pytest.param(["example.com/x"], True, False, id="with one it is on its way"),
        pytest.param([], False, True, id="somebody else was faster"),
    ],
)
async def test_the_result_of_a_deletion_is_observed_when_the_call_returns(
    meta: MemoryCluster, heard: Heard, ledger: LedgerClient, finalizers: list[str], there: bool, gone: bool
) -> None:
    if there:
        meta.put(NAMESPACE_PLACEMENTS, "shop", ROOT, metadata={"uid": "u", "finalizers": finalizers})
    await ledger.delete(ROOT, "shop", "u", "1")
    assert heard.gone == ([(ROOT, "shop", "u")] if gone else [])
    assert [each.deleting for each in heard.seen] == ([] if gone else [True])


@pytest.mark.parametrize(("uid", "version"), [("another", "1"), ("u", "9")])
async def test_only_the_entry_that_was_read_is_deleted(
    meta: MemoryCluster, heard: Heard, ledger: LedgerClient, uid: str, version: str
) -> None:
    meta.put(NAMESPACE_PLACEMENTS, "shop", ROOT, metadata={"uid": "u"})
    with pytest.raises(Conflict):
        await ledger.delete(ROOT, "shop", uid, version)
    assert (heard.seen, heard.gone) == ([], [])
    assert meta.found(NAMESPACE_PLACEMENTS, "shop", ROOT) is not None


# A tenant's control plane


async def unused(*_: object) -> None:
    raise AssertionError("not asked for")


@pytest.fixture
def control_plane(meta: MemoryCluster, heard: Heard) -> TenantClient:
    client: Any = meta
    return TenantClient(client, heard.seen.append, lambda *_: None, unused)


async def test_a_namespace_is_read_live(meta: MemoryCluster, control_plane: TenantClient) -> None:
    assert await control_plane.live_namespace("shop") is None
    meta.put(NAMESPACES, "shop")
    found = await control_plane.live_namespace("shop")
    assert found is not None
    assert (found.name, found.uid) == ("shop", "uid-shop")


async def test_quotas_of_one_namespace_that_count_are_read_live(
    meta: MemoryCluster, control_plane: TenantClient
) -> None:
    meta.put(RESOURCE_QUOTAS, "all", "shop", spec={"hard": {"cpu": "1"}})
    meta.put(RESOURCE_QUOTAS, "best", "shop", spec={"hard": {"pods": "1"}, "scopes": ["BestEffort"]})
    meta.put(RESOURCE_QUOTAS, "all", "other", spec={"hard": {"cpu": "2"}})
    assert await control_plane.live_hards("shop") == [{"cpu": "1"}]
    assert await control_plane.live_hards("nowhere") == []


async def test_a_list_of_quotas_without_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch, meta: MemoryCluster, control_plane: TenantClient
) -> None:
    monkeypatch.setattr(meta, "pages", endless_pages)
    with pytest.raises(KubeError, match="more than 20 pages"):
        await control_plane.live_hards("shop")


async def test_a_patched_namespace_is_observed_when_the_call_returns(
    meta: MemoryCluster, heard: Heard, control_plane: TenantClient
) -> None:
    meta.put(NAMESPACES, "shop")
    answer = await control_plane.patch_namespace("shop", {"metadata": {"labels": {"a": "b"}}})
    assert answer.labels == {"a": "b"}
    assert heard.seen == [answer]
    with pytest.raises(NotFound):
        await control_plane.patch_namespace("nowhere", {})
    assert heard.seen == [answer]
