"""`vcsync what-if --pods`: Pods are read in the tenants, as far as they matter and as far as tenants answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from memory_cluster import MemoryCluster

from vcsync.api import names
from vcsync.api.objects import VirtualCluster, cluster_key
from vcsync.api.specs import VirtualClusterSpec, VirtualClusterStatus
from vcsync.cli.whatif import pods as module
from vcsync.cli.whatif.pods import read_pods, tenants_on
from vcsync.kube.errors import CredentialsError
from vcsync.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from vcsync.objects.envelope import ListPage
from vcsync.whatif.snapshot import NamespaceState, PodCounts, Snapshot


def tenant(name: str) -> VirtualCluster:
    return VirtualCluster(
        name=name,
        namespace="vcsync",
        uid=name,
        spec=VirtualClusterSpec(tenant=name),
        status=VirtualClusterStatus(cluster_namespace=f"k-{name}"),
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tenants that were asked. Tenant acme has a Pod and a claim on r2; tenant broken has no credentials."""
    cluster = MemoryCluster("acme")
    on = {"labels": {names.SUPER_CLUSTER: "r2"}}
    cluster.put(PODS, "web", "shop", metadata=on, spec={"containers": []})
    cluster.put(PODS, "new", "shop", metadata={}, spec={"containers": []})
    cluster.put(PERSISTENT_VOLUME_CLAIMS, "data", "shop", metadata=on)
    found: list[str] = []

    class Reader:
        def __init__(self, _meta: Any, role: str) -> None:
            assert role == names.ROLE_NSSCHEDULER

        async def read(self, vc: VirtualCluster) -> bytes:
            found.append(vc.name)
            if vc.name == "broken":
                raise CredentialsError("create one of the Secrets")
            return b""

    @asynccontextmanager
    async def client(_kubeconfig: bytes, _name: str) -> AsyncIterator[MemoryCluster]:
        yield cluster

    monkeypatch.setattr(module, "CredentialsReader", Reader)
    monkeypatch.setattr(module, "stored_client", client)
    return found


async def test_pods_and_claims_with_a_super_cluster_are_read(asked: list[str]) -> None:
    acme = tenant("acme")
    found = await read_pods(None, [acme, tenant("other")], {cluster_key(acme)})  # type: ignore[arg-type]
    [(key, there)] = found.items()
    assert key == cluster_key(acme)
    shop = NamespaceState(tenant=key, name="shop", slice_size={"cpu": "1"}, slices=1, placements={"r2": 1})
    assert there.counts(shop) == {"r2": PodCounts(pods=1, slices=1)}
    assert asked == ["acme"]


async def test_a_tenant_that_does_not_answer_is_named_and_left_out(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    acme, broken = tenant("acme"), tenant("broken")
    found = await read_pods(None, [broken, acme], {cluster_key(acme), cluster_key(broken)})  # type: ignore[arg-type]
    assert set(found) == {cluster_key(acme)}
    assert "Pods that cannot be read are left out: tenant broken (create" in capsys.readouterr().err


async def test_a_tenant_whose_list_does_not_end_is_named_and_left_out(
    asked: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def endless(*_: Any, **__: Any) -> AsyncIterator[ListPage]:
        while True:
            yield ListPage([], "1", "more", None)

    monkeypatch.setattr(MemoryCluster, "pages", endless)
    acme = tenant("acme")
    assert await read_pods(None, [acme], {cluster_key(acme)}) == {}  # type: ignore[arg-type]
    assert "tenant acme (a list has more than 200 pages)" in capsys.readouterr().err
    assert asked == ["acme"]


def test_tenants_matter_if_they_have_slices_there() -> None:
    def namespace(key: str, **placements: int) -> NamespaceState:
        return NamespaceState(tenant=key, name="n", slice_size={}, slices=0, placements=placements)

    snapshot = Snapshot(namespaces=(namespace("a", r1=1), namespace("b", r1=1, r2=0), namespace("c", r2=2)))
    assert tenants_on(snapshot, None) == {"a", "b", "c"}
    assert tenants_on(snapshot, {"r2"}) == {"c"}
    assert tenants_on(snapshot, set()) == set()
