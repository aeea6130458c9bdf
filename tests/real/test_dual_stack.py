"""Services with two IP families, on super clusters of which one has both."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

import pytest

from hack.system import System
from hack.testbed import TestBed
from tests.real.pool.pool_kit import Json, Pool, Space
from tests.real.waiting import eventually
from vcsync.syncer.kinds.ip_families import ONE_FAMILY

BOTH, ONE = "r1", "r2"
FAMILIES = ["IPv4", "IPv6"]

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A super cluster and a tenant of two families, and a super cluster of one."""
    directory = tmp_path_factory.mktemp("dual-stack")
    bed = TestBed(
        supers=2, nodes=1, tenants=("acme",), directory=directory / "bed", dual_stack=(BOTH, "acme")
    )
    with bed, System(bed, directory / "system") as system:
        yield Pool(bed, system)


@pytest.fixture
def space(pool: Pool) -> Iterator[Space]:
    """A namespace with a slice on each super cluster."""
    with pool.space() as space:
        yield space


def service(policy: str, name: str = "web", **spec: object) -> Json:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    fields = {"selector": {"app": name}, "ports": ports, "ipFamilyPolicy": policy, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": fields}


def below(space: Space, cluster: str, name: str = "web") -> Json:
    """Return the spec of the copy in a super cluster; empty while there is none."""
    return dict((space.there(cluster, "services", name) or {}).get("spec") or {})


def families_of(spec: Json) -> list[str]:
    """Return the families of a Service's cluster IPs, in order, and check that they are those that it names."""
    found = [f"IPv{ipaddress.ip_address(each).version}" for each in spec.get("clusterIPs") or ()]
    assert found in ([], spec.get("ipFamilies"))
    return found


def told(space: Space, name: str = "web") -> list[str]:
    """Return the messages of the Events that say that a family is missing."""
    return [each["message"] for each in space.events(name, ONE_FAMILY)]


@pytest.mark.parametrize(
    ("policy", "own", "there"),
    [
        ("SingleStack", FAMILIES[:1], FAMILIES[:1]),
        ("PreferDualStack", FAMILIES, FAMILIES),
        ("RequireDualStack", FAMILIES, FAMILIES),
    ],
)
def test_a_copy_has_as_many_families_as_its_super_cluster(
    space: Space, policy: str, own: list[str], there: list[str]
) -> None:
    space.apply(service(policy))
    assert families_of((space.get("services", "web") or {})["spec"]) == own
    eventually(lambda: families_of(below(space, BOTH)) == there)
    eventually(lambda: families_of(below(space, ONE)) == FAMILIES[:1])


def test_a_tenant_is_told_once_where_a_required_family_is_missing(pool: Pool, space: Space) -> None:
    space.apply(service("RequireDualStack"), service("PreferDualStack", "content"))
    [message] = eventually(lambda: told(space))
    assert f"super cluster {ONE} has IPv4 addresses only" in message
    assert "set PreferDualStack or SingleStack" in message
    assert families_of(below(space, BOTH)) == FAMILIES
    # A change of the Service and a restart of the syncer do not repeat it.
    space.kubectl("patch", "service", "web", "-p", '{"spec": {"sessionAffinity": "ClientIP"}}')
    eventually(lambda: below(space, ONE).get("sessionAffinity") == "ClientIP")
    pool.system.kill(f"syncer-{ONE}")
    pool.system.start(f"syncer-{ONE}")
    space.kubectl("patch", "service", "web", "-p", '{"spec": {"sessionAffinity": "None"}}')
    eventually(lambda: below(space, ONE).get("sessionAffinity") == "None")
    assert [each.get("count", 1) for each in space.events("web", ONE_FAMILY)] == [1]
    assert told(space, "content") == []


def test_a_policy_changes_in_both_directions(space: Space) -> None:
    space.apply(service("SingleStack"))
    eventually(lambda: families_of(below(space, ONE)) == families_of(below(space, BOTH)) == FAMILIES[:1])
    first = below(space, BOTH)["clusterIP"]

    space.apply(service("RequireDualStack"))
    eventually(lambda: families_of(below(space, BOTH)) == FAMILIES)
    assert below(space, BOTH)["clusterIP"] == first
    assert len(eventually(lambda: told(space))) == 1

    space.apply(service("SingleStack"))
    eventually(lambda: families_of(below(space, BOTH)) == FAMILIES[:1])
    assert below(space, BOTH)["clusterIP"] == first


def test_a_headless_service_has_both_families_where_there_are_both(space: Space) -> None:
    space.apply(service("RequireDualStack", clusterIP="None"))
    eventually(lambda: below(space, BOTH).get("ipFamilies") == FAMILIES)
    eventually(lambda: below(space, ONE).get("ipFamilies") == FAMILIES[:1])
    [message] = eventually(lambda: told(space))
    assert f"super cluster {ONE} " in message
