"""Applications as Helm charts in a tenant over two super clusters: install, upgrade, rollback, uninstall."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from availability_kit import Availability
from charts_kit import (
    AFTER,
    BEFORE,
    CLAIMS,
    SUPERS,
    Release,
    Traces,
    agreed,
    all_current,
    claims,
    everywhere,
    files_of,
    left_nothing,
    prepared,
    settings_of,
    with_storage,
)
from operator_kit import OWNER, Operator
from pool_kit import Json, Pool, Space, condition, is_running, super_of

from hack.testbed import KubectlError
from tests.real.waiting import eventually
from vcsync.api import names

LIFE_SECONDS = 900
"""Time limit of a test with all steps of a release."""

pytestmark = pytest.mark.timeout(LIFE_SECONDS)


@pytest.fixture(scope="module")
def storage(pool: Pool) -> Iterator[Pool]:
    with with_storage(pool):
        yield pool


@pytest.fixture
def shop(storage: Pool) -> Iterator[Space]:
    """A namespace with a slice on each super cluster, where the class exists."""
    with storage.space() as space:
        prepared(space)
        yield space


@pytest.fixture
def wide(storage: Pool) -> Iterator[Space]:
    """A namespace with two slices on each super cluster. One slice would allow two claims only."""
    with storage.space(hard={"cpu": "2", "memory": "2Gi"}) as space:
        prepared(space)
        yield space


def balance(space: Space, service: str, **addresses: str) -> None:
    """Give a Service an address in each super cluster, as the operator's load balancers do."""
    eventually(lambda: everywhere(space, "services", service))
    for super_id, address in addresses.items():
        patch = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
        space.pool.supers[super_id].kubectl(
            "-n", space.super_name, "patch", "service", service, "--subresource=status", "--type=merge",
            "-p", json.dumps(patch),
        )  # fmt: skip


def test_a_web_application_with_its_database(shop: Space, tmp_path: Path) -> None:
    before = Traces(shop)
    release = Release(shop, "storefront", tmp_path)
    host = f"{shop.name}.example.com"

    release.install(host=host)
    assert "storefront-prepare" not in {
        each["metadata"]["name"] for each in shop.all("jobs", group="batch/v1")
    }
    eventually(lambda: all_current(release, 3, BEFORE, component="web"))
    [database] = all_current(release, 1, BEFORE, component="db")
    password = base64.b64decode((shop.get("secrets", "storefront-db") or {})["data"]["password"]).decode()
    for each in release.pods(component="web"):
        settings = settings_of(shop, each)
        assert (settings["GREETING"], settings["PASSWORD"]) == ("hello", password)
    eventually(lambda: everywhere(shop, "ingresses", "storefront", "networking.k8s.io/v1"))
    eventually(lambda: everywhere(shop, "networkpolicies", "storefront-db", "networking.k8s.io/v1"))
    eventually(lambda: agreed(shop))

    assert before.below().keys() == set(SUPERS)

    with Availability(shop, {**release.labels, "component": "web"}) as web:
        release.upgrade(greeting="bye", image=AFTER)
    assert web.least == 3
    for each in all_current(release, 3, AFTER, component="web"):
        settings = settings_of(shop, each)
        assert (settings["GREETING"], settings["PASSWORD"]) == ("bye", password)
    migration = shop.get("jobs", "storefront-migrate", "batch/v1")
    assert condition(migration, "Complete")["status"] == "True"
    [unchanged] = all_current(release, 1, BEFORE, component="db")
    assert unchanged["metadata"]["uid"] == database["metadata"]["uid"]

    with Availability(shop, {**release.labels, "component": "web"}) as web:
        release.rollback(1)
    assert web.least == 3
    found = all_current(release, 3, BEFORE, component="web")
    assert {settings_of(shop, each)["GREETING"] for each in found} == {"hello"}
    assert release.history() == [(1, "superseded"), (2, "superseded"), (3, "deployed")]
    eventually(lambda: agreed(shop))

    release.uninstall()
    assert claims(shop) == {"storefront-db-data"}
    # Helm leaves hooks to their deletion policy.
    shop.kubectl("delete", "job", "storefront-migrate")
    shop.kubectl("delete", "pvc", "storefront-db-data")
    left_nothing(before)


def test_a_database_of_three_replicas(shop: Space, tmp_path: Path) -> None:
    before = Traces(shop)
    release = Release(shop, "database", tmp_path)

    release.install()
    found = all_current(release, 3, BEFORE)
    assert len({each["spec"]["nodeName"] for each in found}) == 3, "no two of them share a node"
    homes = {each["metadata"]["name"]: super_of(each) for each in found}
    assert set(homes.values()) == set(SUPERS)
    assert claims(shop) == {"data-database-0", "data-database-1", "data-database-2"}
    for each in found:
        peers = f"{each['metadata']['name']}.database-members.{shop.name}.svc"
        assert settings_of(shop, each)["PEERS"] == peers
        assert files_of(shop, each)["/etc/db/db.conf"] == "max_connections = 100\n"
    eventually(lambda: agreed(shop))

    with Availability(shop, release.labels) as members:
        release.upgrade(image=AFTER, maxConnections=200)
    assert members.least == 2
    found = all_current(release, 3, AFTER)
    assert {each["metadata"]["name"]: super_of(each) for each in found} == homes, (
        "they stay with their volumes"
    )
    assert {files_of(shop, each)["/etc/db/db.conf"] for each in found} == {"max_connections = 200\n"}

    with Availability(shop, release.labels) as members:
        release.rollback(1)
    assert members.least == 2
    found = all_current(release, 3, BEFORE)
    assert {each["metadata"]["name"]: super_of(each) for each in found} == homes
    eventually(lambda: agreed(shop))

    release.uninstall()
    left = {f"{CLAIMS}/data-database-{number}" for number in range(3)}
    eventually(
        lambda: {each for each in before.in_tenant() if not each.startswith("persistentvolumes/")} == left
    )
    eventually(lambda: sum(len(shop.all_there(each, CLAIMS)) for each in SUPERS) == 3)

    # A new release of the same name finds its data where it is.
    release.install()
    found = all_current(release, 3, BEFORE)
    assert {each["metadata"]["name"]: super_of(each) for each in found} == homes
    release.uninstall()
    shop.kubectl("delete", "pvc", "--all")
    left_nothing(before)


def test_a_message_broker(shop: Space, tmp_path: Path) -> None:
    before = Traces(shop)
    release = Release(shop, "broker", tmp_path)

    release.install()
    found = all_current(release, 3, BEFORE)
    assert shop.get("jobs", "broker-topics", "batch/v1") is None
    for each in found:
        [configured] = each["status"]["initContainerStatuses"]
        assert configured["state"]["terminated"]["exitCode"] == 0
    balance(shop, "broker-outside", r1="192.0.2.11", r2="198.51.100.22")
    eventually(lambda: addresses(shop, "broker-outside") == {"192.0.2.11", "198.51.100.22"})
    eventually(lambda: all(is_behind_its_service(shop, each) for each in found))
    eventually(lambda: agreed(shop))

    with Availability(shop, release.labels) as members:
        release.upgrade(retentionHours=48)
    assert members.least == 2
    all_current(release, 3, BEFORE)
    for standing in everywhere(shop, "configmaps", "broker"):
        assert "retention.hours=48" in standing["data"]["broker.properties"]
    with Availability(shop, release.labels) as members:
        release.rollback(1)
    assert members.least == 2
    all_current(release, 3, BEFORE)
    eventually(lambda: agreed(shop))

    release.uninstall()
    # The StatefulSet deletes its claims with itself.
    left_nothing(before)


def test_members_on_one_super_cluster_are_behind_one_service(wide: Space, tmp_path: Path) -> None:
    """Services do not span super clusters, so members that talk to each other must be on the same one."""
    before = Traces(wide)
    release = Release(wide, "broker", tmp_path)
    release.install(nodeSelector={names.SUPER_CLUSTER_ID: "r2"})
    found = all_current(release, 3, BEFORE)
    assert {super_of(each) for each in found} == {"r2"}
    members = {each["status"]["podIP"] for each in found}
    for service in ("broker", "broker-members", "broker-outside"):
        eventually(lambda service=service: endpoints(wide, "r2", service) == members)  # type: ignore[misc]
        assert endpoints(wide, "r1", service) == set()
    release.uninstall()
    left_nothing(before)


def addresses(space: Space, service: str) -> set[str]:
    found = space.get("services", service) or {}
    return {each["ip"] for each in found["status"]["loadBalancer"].get("ingress", ())}


def endpoints(space: Space, super_id: str, service: str) -> set[str]:
    """Return the addresses behind a Service in a super cluster."""
    found = space.there(super_id, "endpoints", service) or {}
    return {each["ip"] for subset in found.get("subsets") or () for each in subset.get("addresses") or ()}


def is_behind_its_service(space: Space, pod: Json) -> bool:
    """Return whether a Pod is the only one behind the Service of its name, in its super cluster."""
    return endpoints(space, super_of(pod), pod["metadata"]["name"]) == {pod["status"]["podIP"]}


@pytest.fixture
def definitions(shop: Space) -> Iterator[None]:
    """Delete the chart's definitions at the end, which helm leaves."""
    yield
    with suppress(KubectlError):
        shop.tenant.kubectl("delete", "crd", "caches.operators.example.com")


@pytest.mark.usefixtures("definitions")
def test_an_operator_with_a_custom_resource(shop: Space, tmp_path: Path) -> None:
    before = Traces(shop)
    release = Release(shop, "operator", tmp_path)
    members = {OWNER: "operator"}

    with Operator(shop, "app.kubernetes.io/name%3Doperator") as operator:
        release.install()
        found = eventually(lambda: cache_members(shop, 3, BEFORE))
        assert {super_of(each) for each in found} == set(SUPERS)
        assert operator.api is not None
        secrets = f"/api/v1/namespaces/{shop.name}/secrets"
        assert operator.api.call("GET", secrets)[0] == 403, "its token has the rights of its role alone"
        assert operator.refusals == []
        eventually(lambda: agreed(shop))

        with Availability(shop, members) as available:
            release.upgrade(image=AFTER, cache={"image": AFTER})
            eventually(lambda: cache_members(shop, 3, AFTER))
        assert available.least == 2
        all_current(release, 1, AFTER)

        with Availability(shop, members) as available:
            release.rollback(1)
            eventually(lambda: cache_members(shop, 3, BEFORE))
        assert available.least == 2
        assert operator.refusals == []
        eventually(lambda: agreed(shop))

        release.uninstall()
    left_nothing(before)


def cache_members(space: Space, count: int, image: str) -> list[Json]:
    """Return the Pods that the operator made, if there are `count`, all run this image, and the Cache is ready."""
    cache = space.get("caches", "operator", "operators.example.com/v1")
    assert condition(cache, "Ready").get("status") == "True", cache
    found = [each for each in space.pods() if OWNER in each["metadata"].get("labels", {})]
    assert len(found) == count
    for each in found:
        assert is_running(each), each["status"]
        assert each["spec"]["containers"][0]["image"] == image
    return found
