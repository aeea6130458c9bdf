"""The records of the pool: who a control plane is, where its namespaces are, and how super clusters are reached."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from api_server_kit import ApiServer, api_server

from vcsync.api import names
from vcsync.apiserver.kubelets.pool import ABSENT_SECONDS, NotInPool, Pool
from vcsync.kube.connection import Connection
from vcsync.kube.errors import CredentialsError, KubeError

KEY = "vcsync-abcdef-acme"
TENANCY = "/apis/tenancy.x-k8s.io/v1alpha1"
RECORD = f"{TENANCY}/namespaces/vcsync/virtualclusters/acme"
ALL = f"{TENANCY}/virtualclusters"
SHOP = f"{TENANCY}/namespaces/{KEY}/namespaceplacements/shop"
SECRET = "/api/v1/namespaces/vcsync-system/secrets/streams-r1"


def record(uid: str = "cp-1", name: str = "acme", **status: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "vcsync",
        "uid": "v",
        "annotations": {names.CONTROL_PLANE_UID: uid},
    }
    return {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": metadata,
        "spec": {},
        "status": {"clusterNamespace": KEY, **status},
    }


def placement(placements: dict[str, int], *finalizers: str) -> dict[str, Any]:
    return {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "NamespacePlacement",
        "metadata": {"name": "shop", "namespace": KEY, "uid": "p", "finalizers": list(finalizers)},
        "spec": {
            "virtualCluster": {"name": "acme", "namespace": "vcsync", "uid": "v"},
            "tenant": KEY,
            "namespace": "shop",
            "namespaceUID": "n",
        },
        "status": {"placements": placements},
    }


@pytest.fixture
async def meta() -> AsyncIterator[ApiServer]:
    async with api_server() as server:
        yield server


@pytest.fixture
async def pool(meta: ApiServer) -> AsyncIterator[Pool]:
    made = Pool(meta.connection)
    yield made
    await made.close()


async def test_a_tenant_is_recognised_by_the_uid_of_its_control_plane(meta: ApiServer, pool: Pool) -> None:
    meta.objects[RECORD] = record()
    assert await pool.key_of("acme", "cp-1") == KEY
    assert len(meta.heads) == 1
    assert "Authorization: Bearer secret-token" in meta.heads[0]


async def test_a_record_of_another_name_is_found(meta: ApiServer, pool: Pool) -> None:
    meta.objects[RECORD] = record("other")
    meta.objects[ALL] = {"kind": "List", "metadata": {}, "items": [record("other"), record("cp-1", "big")]}
    meta.objects[RECORD.replace("acme", "big")] = record("cp-1", "big")
    assert await pool.key_of("acme", "cp-1") == KEY
    meta.heads.clear()
    assert await pool.key_of("acme", "cp-1") == KEY
    assert [line.split(" ")[1] for line in meta.lines()] == [RECORD.replace("acme", "big")]


@pytest.mark.parametrize(
    "stored", [None, record("other"), record(""), record("cp-1", clusterNamespace="../x")]
)
@pytest.mark.parametrize("uid", ["cp-1", ""])
async def test_a_control_plane_without_a_record_is_not_in_the_pool(
    meta: ApiServer, pool: Pool, stored: Any, uid: str
) -> None:
    if stored is not None:
        meta.objects[RECORD] = stored
    meta.objects[ALL] = {"kind": "List", "metadata": {}, "items": []}
    with pytest.raises(NotInPool):
        await pool.key_of("acme", uid)


async def test_absence_is_remembered_for_a_while(meta: ApiServer) -> None:
    now = 100.0
    pool = Pool(meta.connection, lambda: now)
    meta.objects[ALL] = {"kind": "List", "metadata": {}, "items": []}
    for _ in range(3):
        with pytest.raises(NotInPool):
            await pool.key_of("acme", "cp-1")
    assert len([line for line in meta.lines() if ALL + " " in line or ALL + "?" in line]) == 1
    now += ABSENT_SECONDS + 1
    meta.objects[ALL]["items"] = [record(name="big")]
    assert await pool.key_of("acme", "cp-1") == KEY
    await pool.close()


@pytest.mark.parametrize(
    ("stored", "placed"),
    [
        (None, False),
        (placement({}), False),
        (placement({"r2": 3}), False),
        (placement({"r1": 0}), False),
        (placement({"r1": 1}), True),
        (placement({}, names.drain_finalizer("r1")), True),
        (placement({}, names.drain_finalizer("r2")), False),
    ],
)
async def test_the_ledger_says_where_a_namespace_is(
    meta: ApiServer, pool: Pool, stored: Any, placed: bool
) -> None:
    if stored is not None:
        meta.objects[SHOP] = stored
    assert await pool.is_placed(KEY, "shop", "r1") is placed


async def test_credentials_are_read_from_the_secret(meta: ApiServer, pool: Pool) -> None:
    assert await pool.kubeconfig("r1") is None
    meta.objects[SECRET] = 403
    assert await pool.kubeconfig("r1") is None
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "streams-r1", "uid": "s"}}
    meta.objects[SECRET] = secret
    assert await pool.kubeconfig("r1") is None
    meta.objects[SECRET] = secret | {"data": {"kubeconfig": base64.b64encode(b"config").decode()}}
    assert await pool.kubeconfig("r1") == b"config"
    meta.objects[SECRET] = secret | {"data": {"kubeconfig": "*"}}
    with pytest.raises(CredentialsError, match="not base64"):
        await pool.kubeconfig("r1")


async def test_the_kubeconfig_of_the_meta_cluster_may_be_written_later(
    meta: ApiServer, tmp_path: Path
) -> None:
    path = tmp_path / "streams.kubeconfig"
    pool = Pool(lambda: Connection.from_kubeconfig_file(path))
    with pytest.raises(KubeError):
        await pool.key_of("acme", "cp-1")
    path.write_bytes(meta.kubeconfig())
    meta.objects[RECORD] = record()
    assert await pool.key_of("acme", "cp-1") == KEY
    await pool.close()
