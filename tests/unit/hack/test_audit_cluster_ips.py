"""The audit finds copies without the cluster IP that they must keep, and addresses that two tenants have."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hack.audit import Cluster, Finding, Tenant, World
from hack.audit.cluster_ips import kept_addresses, shared_addresses
from hack.audit.world import super_namespace

Json = dict[str, Any]

RANGES = {"acme": "10.64.0.0/20", "umbrella": "10.64.16.0/20"}
PUBLISHED = ("tenants", ("10.64.0.0/10",))


def key(tenant: str) -> str:
    return f"vcsync-aaaaaa-{tenant}"


def service(tenant: str, *addresses: str, name: str = "web", **spec: Any) -> Json:
    about = {"name": name, "namespace": "shop", "uid": f"{tenant}-{name}"}
    return {"metadata": about, "spec": {"clusterIPs": list(addresses), **spec}}


def copied(tenant: str, *addresses: str, name: str = "web") -> Json:
    about = {
        "name": name,
        "namespace": super_namespace(key(tenant), "shop"),
        "uid": f"copy-{tenant}-{name}",
        "annotations": {"tenancy.x-k8s.io/uid": f"{tenant}-{name}"},
    }
    return {"metadata": about, "spec": {"clusterIPs": list(addresses)}}


def service_cidr(name: str, *cidrs: str, public: bool = True, ready: str = "True") -> Json:
    labels = {"tenancy.x-k8s.io/super.public": "true"} if public else {}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"cidrs": list(cidrs)},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def tenant(name: str, own: list[Json], cidr: str, created: str, place: str) -> Tenant:
    about = {"name": name, "namespace": "vcsync", "creationTimestamp": created}
    namespace = {"metadata": {"name": place}}
    cluster = Cluster({"namespaces": [namespace], "services": own})
    return Tenant(key(name), {"metadata": about, "spec": {"serviceCidr": cidr}}, cluster)


def line(name: str, namespace: str) -> Json:
    return {
        "metadata": {"name": namespace, "namespace": key(name)},
        "spec": {"tenant": key(name), "namespace": namespace, "sliceSize": {}},
        "status": {"placements": {"r1": 1}},
    }


def world(
    own: dict[str, list[Json]],
    there: list[Json],
    *,
    ranges: dict[str, str] | None = None,
    published: Json | None = None,
    namespace: str = "shop",
) -> World:
    """A super cluster r1, and tenants in the order of their age."""
    granted = RANGES if ranges is None else ranges
    tenants = [
        tenant(name, found, granted.get(name, ""), f"2026-01-0{day}T00:00:00Z", namespace)
        for day, (name, found) in enumerate(own.items(), 1)
    ]
    cidrs = [published or service_cidr(PUBLISHED[0], *PUBLISHED[1])]
    return World(
        meta=Cluster({"namespaceplacements": [line(name, namespace) for name in own]}),
        supers={"r1": Cluster({"services": there, "servicecidrs": cidrs})},
        tenants={each.key: each for each in tenants},
        now=datetime(2026, 1, 2, tzinfo=UTC),
        markers={},
    )


def fields(found: list[Finding]) -> list[tuple[str, str, str]]:
    return [(each.rule, each.name, each.field) for each in found]


STALE = [("stale", "web", "spec.clusterIPs")]


@pytest.mark.parametrize(
    ("own", "there", "found"),
    [
        (["10.64.0.5"], ["10.64.0.5"], []),
        (["10.64.0.5"], ["10.64.0.6"], STALE),
        (["10.64.0.5"], ["None"], STALE),
        (["10.96.0.5"], ["10.64.0.6"], []),
        (["None"], ["None"], []),
        (["10.64.0.5", "fd00::5"], ["10.64.0.5"], []),
        (["fd00::5", "10.64.0.5"], ["fd00::9", "10.64.0.5"], []),
        (["fd00::5", "10.64.0.5"], ["fd00::5", "10.64.0.9"], STALE),
    ],
)
def test_a_copy_keeps_the_addresses_of_the_tenants_range(
    own: list[str], there: list[str], found: list[tuple[str, str, str]]
) -> None:
    made = world({"acme": [service("acme", *own)]}, [copied("acme", *there)])
    assert fields(list(kept_addresses(made))) == found


@pytest.mark.parametrize(
    ("published", "found"),
    [
        (service_cidr("tenants", "10.64.0.0/20"), STALE),
        (service_cidr("tenants", "10.64.0.0/20", public=False), []),
        (service_cidr("tenants", "10.64.0.0/20", ready="False"), []),
        (service_cidr("tenants", "10.64.0.0/21"), []),
        (service_cidr("tenants", "fd00::/64"), []),
        (service_cidr("kubernetes", "10.64.0.0/16"), []),
        (service_cidr("kubernetes", "10.0.0.0/8"), STALE),
    ],
    ids=["published", "not published", "not ready", "smaller", "other family", "lower part", "own range"],
)
def test_an_address_is_kept_only_where_the_operator_publishes_the_range(
    published: Json, found: list[tuple[str, str, str]]
) -> None:
    made = world({"acme": [service("acme", "10.64.0.5")]}, [copied("acme", "10.64.0.6")], published=published)
    assert fields(list(kept_addresses(made))) == found


@pytest.mark.parametrize("cidr", ["", "x", "10.64.0.1/20"])
def test_a_tenant_without_a_valid_range_keeps_nothing(cidr: str) -> None:
    made = world(
        {"acme": [service("acme", "10.64.0.5")]}, [copied("acme", "10.64.0.6")], ranges={"acme": cidr}
    )
    assert list(kept_addresses(made)) == []


def test_of_ranges_that_overlap_that_of_the_older_tenant_counts() -> None:
    made = world(
        {name: [service(name, "10.64.0.5")] for name in ("acme", "umbrella")},
        [copied("acme", "10.64.0.6"), copied("umbrella", "10.64.0.7")],
        ranges={"acme": "10.64.0.0/20", "umbrella": "10.64.0.0/16"},
    )
    assert [each.tenant for each in kept_addresses(made)] == [key("acme")]


def test_the_copy_of_the_name_server_keeps_the_address_that_running_pods_have() -> None:
    name_server, copy = (
        service("acme", "10.64.0.5", name="kube-dns"),
        copied("acme", "10.96.0.9", name="kube-dns"),
    )
    made = world({"acme": [name_server]}, [copy])
    assert fields(list(kept_addresses(made))) == [("stale", "kube-dns", "spec.clusterIPs")]
    name_server["metadata"]["namespace"] = "kube-system"
    copy["metadata"]["namespace"] = super_namespace(key("acme"), "kube-system")
    assert list(kept_addresses(world({"acme": [name_server]}, [copy], namespace="kube-system"))) == []


def test_copies_of_other_objects_and_services_without_address_are_left_out() -> None:
    stranger = copied("acme", "10.64.0.6")
    stranger["metadata"]["annotations"]["tenancy.x-k8s.io/uid"] = "somebody"
    made = world({"acme": [service("acme", "10.64.0.5")]}, [stranger])
    assert list(kept_addresses(made)) == []
    outside = service("acme", "10.64.0.5", type="ExternalName")
    assert list(kept_addresses(world({"acme": [outside]}, [copied("acme")]))) == []


def test_no_two_tenants_have_an_address() -> None:
    both = {name: [service(name, "10.64.0.5")] for name in ("acme", "umbrella")}
    made = world(both, [copied("acme", "10.64.0.5"), copied("umbrella", "10.64.0.5")])
    [found] = shared_addresses(made)
    assert (found.rule, found.tenant, found.field) == ("shared", key("umbrella"), "spec.clusterIPs 10.64.0.5")
    alone = world(both, [copied("acme", "10.64.0.5"), copied("umbrella", "10.64.16.5")])
    assert list(shared_addresses(alone)) == []


def test_addresses_that_super_clusters_choose_may_be_equal_by_chance() -> None:
    both = {name: [service(name, "10.96.0.5")] for name in ("acme", "umbrella")}
    made = world(both, [copied("acme", "10.96.0.5"), copied("umbrella", "10.96.0.5")])
    assert list(shared_addresses(made)) == []
    chosen = {"acme": [service("acme", "10.64.0.5")], "umbrella": [service("umbrella", "10.96.0.5")]}
    made = world(chosen, [copied("acme", "10.64.0.5"), copied("umbrella", "10.64.0.5")])
    assert list(shared_addresses(made)) == []
