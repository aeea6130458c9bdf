"""Releases of charts when something goes wrong: no room, killed roles, the same release of another tenant, large records."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from availability_kit import Availability
from charts_kit import (
    AFTER,
    BEFORE,
    SUPERS,
    Release,
    agreed,
    all_current,
    claims,
    everywhere,
    files_of,
    prepared,
    settings_of,
    with_storage,
)
from pool_kit import Json, Pool, Space, super_of

from tests.real.waiting import eventually

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def storage(pool: Pool) -> Iterator[Pool]:
    with with_storage(pool):
        yield pool


@pytest.fixture
def shop(storage: Pool) -> Iterator[Space]:
    """A namespace with a slice on each super cluster."""
    with storage.space() as space:
        prepared(space)
        yield space


def test_an_upgrade_without_room_is_rolled_back_and_keeps_what_runs(shop: Space, tmp_path: Path) -> None:
    release = Release(shop, "storefront", tmp_path)
    release.install(host=f"{shop.name}.example.com")
    eventually(lambda: all_current(release, 3, BEFORE, component="web"))

    with Availability(shop, {**release.labels, "component": "web"}) as web:
        # It is within the quota, but more than one slice.
        larger = {"requests": {"cpu": "600m", "memory": "16Mi"}, "limits": {"cpu": "700m", "memory": "32Mi"}}
        failed = release.try_helm(
            "upgrade", release.name, release.chart, "--reset-then-reuse-values", "--wait", "--timeout=15s",
            "--rollback-on-failure", values={"resources": larger, "greeting": "bye"},
        )  # fmt: skip
        assert failed.returncode == 1
        eventually(lambda: all_current(release, 3, BEFORE, component="web"))
    assert web.least == 3
    waiting = [each["message"] for each in shop.all("events") if each["reason"] == "FailedScheduling"]
    assert any("cpu" in each for each in waiting), waiting
    assert [state for _, state in release.history()] == ["superseded", "failed", "deployed"]
    assert {settings_of(shop, each)["GREETING"] for each in release.pods(component="web")} == {"hello"}
    release.uninstall()


def test_an_upgrade_goes_on_while_roles_are_killed(shop: Space, tmp_path: Path) -> None:
    release = Release(shop, "database", tmp_path)
    release.install()
    homes = {each["metadata"]["name"]: super_of(each) for each in all_current(release, 3, BEFORE)}
    with Availability(shop, release.labels) as members, ThreadPoolExecutor() as threads:
        upgraded = threads.submit(release.upgrade, image=AFTER)
        eventually(lambda: release.history()[-1][0] == 2)
        for role in ("syncer-r1", "podscheduler", "syncer-r2", "nsscheduler"):
            shop.pool.system.kill(role)
            shop.pool.system.start(role)
        upgraded.result()
    assert members.least == 2
    found = all_current(release, 3, AFTER)
    assert {each["metadata"]["name"]: super_of(each) for each in found} == homes
    eventually(lambda: agreed(shop))
    release.uninstall()


def test_two_tenants_with_the_same_release_do_not_meet(shop: Space, tmp_path: Path) -> None:
    """Six Pods on four nodes: the anti-affinity of a tenant does not count Pods of the other one."""
    with shop.pool.space("umbrella", shop.name) as other:
        prepared(other)
        mine, theirs = Release(shop, "database", tmp_path), Release(other, "database", tmp_path)
        mine.install(maxConnections=1)
        theirs.install(maxConnections=2)
        for release, connections in ((mine, 1), (theirs, 2)):
            found = all_current(release, 3, BEFORE)
            configured = {files_of(release.space, each)["/etc/db/db.conf"] for each in found}
            assert configured == {f"max_connections = {connections}\n"}
        mine.uninstall()
        shop.kubectl("delete", "pvc", "--all")
        all_current(theirs, 3, BEFORE)
        assert len(claims(other)) == 3
        theirs.uninstall()


def test_many_large_revisions_leave_room_for_a_large_configmap(shop: Space) -> None:
    """Helm keeps ten revisions of each release. Those of two large charts are more than the bytes of the slices."""
    for number in range(20):
        content = {"release": base64.b64encode(os.urandom(700_000)).decode()}
        metadata = {"name": f"sh.helm.release.v1.large.v{number}"}
        create(shop, "secrets", {"metadata": metadata, "type": "helm.sh/release.v1", "data": content})
    create(shop, "configmaps", {"metadata": {"name": "settings"}, "data": {"large": "x" * 900_000}})
    eventually(lambda: everywhere(shop, "configmaps", "settings"))
    for each in SUPERS:
        assert "helm" not in str([found["metadata"]["name"] for found in shop.all_there(each, "secrets")])


def create(space: Space, plural: str, body: Json) -> None:
    """Create a large object, which `kubectl apply` cannot."""
    code, answer = space.tenant.call("POST", f"/api/v1/namespaces/{space.name}/{plural}", body)
    assert code == 201, answer
