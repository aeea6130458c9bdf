"""Each tenant has its range of cluster IPs for itself."""

import ipaddress
import json
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from vcsync.api.objects import VirtualCluster
from vcsync.kube.cache import Change
from vcsync.objects.envelope import Envelope, parse
from vcsync.tenancy.service_ranges import Claim, ServiceRanges, granted


def virtual_cluster(name: str, cidr: Any = "", *, created: int = 0) -> Envelope:
    metadata = {
        "name": name,
        "namespace": "vcsync",
        "creationTimestamp": f"2026-01-01T00:00:{created:02}Z",
    }
    return parse(json.dumps({"metadata": metadata, "spec": {"serviceCidr": cidr}}).encode())


def claim(name: str, cidr: str, created: int = 0) -> Claim:
    return Claim(f"{created:02}", ("vcsync", name), cidr)


class Ranges:
    """The ranges of a pool whose VirtualClusters change."""

    def __init__(self) -> None:
        self.ranges = ServiceRanges()
        self.stored: dict[str, Envelope] = {}

    def put(self, found: Envelope) -> bool:
        changed = self.ranges.observe(Change(self.stored.get(found.name), found))
        self.stored[found.name] = found
        return changed

    def delete(self, name: str) -> bool:
        return self.ranges.observe(Change(self.stored.pop(name), None))

    def of(self, name: str) -> str:
        return self.ranges.range_of(VirtualCluster.from_envelope(self.stored[name]))


def test_a_range_that_overlaps_an_older_one_has_no_effect_until_that_is_gone() -> None:
    pool = Ranges()
    assert pool.put(virtual_cluster("late", "10.64.0.0/16", created=9))
    assert pool.of("late") == "10.64.0.0/16"
    assert pool.put(virtual_cluster("early", "10.64.128.0/20", created=1))
    assert (pool.of("early"), pool.of("late")) == ("10.64.128.0/20", "")
    assert pool.ranges.refused() == {("vcsync", "late"): "10.64.0.0/16"}
    assert pool.delete("early")
    assert pool.of("late") == "10.64.0.0/16"
    assert pool.ranges.refused() == {}


def test_the_ranges_of_both_families_count_together_or_not_at_all() -> None:
    pool = Ranges()
    pool.put(virtual_cluster("acme", "10.64.0.0/20,fd00::/116"))
    pool.put(virtual_cluster("six", "fd00::/120", created=1))
    pool.put(virtual_cluster("both", "10.65.0.0/20,fd00::/108", created=2))
    pool.put(virtual_cluster("four", "10.65.0.0/16", created=3))
    assert {name: pool.of(name) for name in ("acme", "six", "both", "four")} == {
        "acme": "10.64.0.0/20,fd00::/116",
        "six": "",
        "both": "",
        "four": "10.65.0.0/16",
    }


def test_only_changes_of_ranges_count() -> None:
    pool = Ranges()
    assert not pool.put(virtual_cluster("acme"))
    assert pool.of("acme") == ""
    assert pool.put(virtual_cluster("acme", "10.64.0.0/20"))
    assert not pool.put(virtual_cluster("acme", "10.64.0.0/20"))
    assert not pool.put(virtual_cluster("other", "10.64.0.0/24", created=5))
    assert pool.put(virtual_cluster("acme"))
    assert pool.of("other") == "10.64.0.0/24"


def test_what_is_no_range_has_no_effect() -> None:
    pool = Ranges()
    assert not pool.put(virtual_cluster("acme", "10.64.0.0"))
    assert pool.of("acme") == ""
    assert pool.ranges.refused() == {("vcsync", "acme"): "10.64.0.0"}


def test_a_virtual_cluster_that_cannot_be_read_keeps_its_range() -> None:
    pool = Ranges()
    pool.put(virtual_cluster("acme", "10.64.0.0/20"))
    before = pool.stored["acme"]
    assert not pool.put(virtual_cluster("acme", 7))
    assert pool.ranges.range_of(VirtualCluster.from_envelope(before)) == "10.64.0.0/20"


CIDRS = st.builds(
    lambda first, bits: str(ipaddress.ip_network((f"10.0.{first}.0", 32 - bits), strict=False)),
    st.integers(0, 255),
    st.integers(0, 16),
)


@given(st.lists(st.tuples(CIDRS, st.integers(0, 9)), max_size=20))
def test_no_two_tenants_share_an_address_and_a_refused_one_overlaps_an_older_one(
    wanted: list[tuple[str, int]],
) -> None:
    claims = [claim(f"t{number}", *each) for number, each in enumerate(wanted)]
    found = granted(claims)
    networks = {name: ipaddress.ip_network(cidr) for name, cidr in found.items()}
    assert not any(one.overlaps(other) for one, other in combinations(networks.values(), 2))
    order = sorted(claims)
    for place, each in enumerate(order):
        if each.name not in found:
            older = (networks[one.name] for one in order[:place] if one.name in networks)
            assert any(ipaddress.ip_network(each.cidr).overlaps(one) for one in older)
