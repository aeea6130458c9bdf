"""A tenant's range of cluster IPs is its own."""

import json

import pytest

from vcsync.api.objects import VirtualCluster
from vcsync.cli.tenant.service_cidr import has_range, manifest, owner_of, ranges_of
from vcsync.objects.envelope import parse
from vcsync.registration.manifests import resource_of


def tenant(name: str, cidr: str) -> VirtualCluster:
    body = {"metadata": {"name": name, "namespace": "vcsync"}, "spec": {"tenant": name, "serviceCidr": cidr}}
    return VirtualCluster.from_envelope(parse(json.dumps(body).encode()))


POOL = [tenant("acme", "10.64.0.0/20"), tenant("six", "fd00::/108"), tenant("none", ""), tenant("bad", "x")]


@pytest.mark.parametrize(
    ("cidr", "owner"),
    [
        ("10.64.0.0/16", "tenant acme has 10.64.0.0/20"),
        ("10.64.1.0/24", "tenant acme has 10.64.0.0/20"),
        ("10.64.16.0/20", ""),
        ("fd00::/120", "tenant six has fd00::/108"),
        ("10.64.16.0/20,fd00::/120", "tenant six has fd00::/108"),
    ],
)
def test_a_range_that_another_tenant_has_addresses_of_is_found(cidr: str, owner: str) -> None:
    assert owner_of(cidr, "umbrella", POOL) == owner


def test_a_tenant_may_change_its_own_range() -> None:
    assert owner_of("10.64.0.0/16", "acme", POOL) == ""


@pytest.mark.parametrize("cidr", ["10.64.0.0/20", "fd00::/108", "10.64.0.0/20,fd00::/108"])
def test_the_service_cidr_of_a_range_contains_it(cidr: str) -> None:
    body = manifest(cidr)
    assert resource_of(body).plural == "servicecidrs"
    assert body["metadata"]["name"].replace("-", "").isalnum()
    found = parse(json.dumps(body).encode())
    assert ranges_of(found) == tuple(cidr.split(","))
    assert has_range([found], cidr)
    assert not has_range([found], "10.0.0.0/8")
    assert not has_range([found], "10.64.0.0/24")
    assert not has_range([], cidr)
