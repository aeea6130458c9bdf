"""Two tenants never have overlapping hosts in one super cluster, in whatever order they ask, also after restarts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vcsync.kube.cache import Change
from vcsync.objects.envelope import Envelope, encode
from vcsync.syncer.host_index import HostIndex, HostTaken, Place
from vcsync.syncer.kinds.ingress_rules import Claims, overlap

ONE, TWO, OPERATOR = "one", "two", ""


def claims(*hosts: str, services: tuple[str, ...] = ()) -> Claims:
    return Claims(frozenset(hosts), frozenset(services))


def index(**standing: tuple[str, str]) -> HostIndex:
    """Return an index with an Ingress of each owner: name -> (owner, host)."""
    found = HostIndex()
    for number, (name, (owner, host)) in enumerate(standing.items()):
        found.put(Place("space", name), owner, (str(number), name), claims(host))
    return found


OVERLAPS = [
    ("shop.example.com", "shop.example.com"),
    ("*.example.com", "shop.example.com"),
    ("*.example.com", "a.shop.example.com"),
    ("*.example.com", "*.example.com"),
    ("*.example.com", "*.shop.example.com"),
    ("*.com", "shop.example.com"),
    ("", ""),
]
APART = [
    ("shop.example.com", "shop.example.org"),
    ("shop.example.com", "a.shop.example.com"),
    ("*.example.com", "example.com"),
    ("*.example.com", "shop-example.com"),
    ("*.example.com", "example.com.evil.org"),
    ("*.a.example.com", "*.b.example.com"),
    ("*.example.com", ""),
    ("", "shop.example.com"),
    ("*.ample.com", "shop.example.com"),
]


@pytest.mark.parametrize(("one", "other"), OVERLAPS)
def test_a_host_that_overlaps_belongs_to_the_first(one: str, other: str) -> None:
    for theirs, ours in ((one, other), (other, one)):
        assert overlap(theirs, ours)
        for owner in (TWO, OPERATOR):
            assert index(it=(owner, theirs)).holder(ONE, ours) == Place("space", "it")
        assert index(it=(ONE, theirs)).holder(ONE, ours) is None


@pytest.mark.parametrize(("one", "other"), APART)
def test_hosts_that_do_not_overlap_may_have_different_owners(one: str, other: str) -> None:
    for theirs, ours in ((one, other), (other, one)):
        assert not overlap(theirs, ours)
        assert index(it=(TWO, theirs)).holder(ONE, ours) is None


def test_only_older_holders_are_found_if_asked_for() -> None:
    found = index(old=(TWO, "*.example.com"), new=(TWO, "shop.example.com"))
    assert found.holder(ONE, "*.example.com", before=("0", "old")) is None
    assert found.holder(ONE, "*.example.com", before=("1", "")) == Place("space", "old")
    assert found.holder(ONE, "shop.example.com", before=("1", "new")) == Place("space", "old")


def test_a_reservation_keeps_others_out_until_it_is_released() -> None:
    freed: list[Place] = []
    hosts, place = HostIndex(freed.append), Place("space", "web")
    hosts.reserve(place, ONE, claims("shop.example.com"))
    with pytest.raises(HostTaken):
        hosts.reserve(Place("other", "web"), TWO, claims("*.example.com"))
    assert hosts.holder(TWO, "shop.example.com") == place
    hosts.release(place)
    assert freed == [place]
    hosts.reserve(Place("other", "web"), TWO, claims("*.example.com"))
    hosts.release_all(TWO)
    assert hosts.holder(ONE, "shop.example.com") is None
    assert len(hosts) == 0


def test_an_ingress_that_was_written_replaces_its_reservation_without_freeing_anything() -> None:
    freed: list[Place] = []
    hosts, place = HostIndex(freed.append), Place("space", "web")
    hosts.reserve(place, ONE, claims("shop.example.com"))
    hosts.put(place, ONE, ("1", "u"), claims("shop.example.com"))
    hosts.release(place)
    assert freed == []
    assert hosts.holder(TWO, "shop.example.com") == place
    hosts.put(place, ONE, ("1", "u"), claims("other.example.com"))
    assert freed == [place]


def test_an_ingress_that_changes_its_owner_takes_its_hosts_along() -> None:
    hosts, place = index(web=(ONE, "shop.example.com")), Place("space", "web")
    hosts.put(place, OPERATOR, ("0", "web"), claims("shop.example.com"))
    assert hosts.holder(ONE, "shop.example.com") == place
    assert hosts.holder(OPERATOR, "shop.example.com") is None


def test_backends_are_known_as_long_as_an_ingress_uses_them() -> None:
    hosts = HostIndex()
    for name in ("a", "b"):
        hosts.put(Place("space", name), ONE, ("1", name), claims(services=("web",)))
    hosts.remove(Place("space", "a"))
    assert hosts.is_backend("space", "web")
    assert not hosts.is_backend("other", "web")
    hosts.remove(Place("space", "b"))
    assert not hosts.is_backend("space", "web")


def envelope(*hosts: str, **fields: str) -> Envelope:
    spec = encode({"rules": [{"host": host} for host in hosts]})
    return Envelope("web", "space", "uid", spec=spec, creation_timestamp="1", **fields)


def test_it_follows_the_changes_of_a_super_cluster() -> None:
    hosts = HostIndex()
    first, second = envelope("a.example.com"), envelope("b.example.com")
    hosts.follow(Change(None, first), lambda _: TWO)
    assert hosts.holder(ONE, "a.example.com") is not None
    hosts.follow(Change(first, second), lambda _: TWO)
    assert hosts.holder(ONE, "a.example.com") is None
    assert hosts.holder(ONE, "b.example.com") is not None
    hosts.follow(Change(second, None), lambda _: TWO)
    assert len(hosts) == 0
    broken = Envelope("web", "space", "uid", spec=b'{"rules": "none"}')
    hosts.follow(Change(None, broken), lambda _: TWO)
    assert hosts.holder(ONE, "a.example.com") is None


LABELS = st.sampled_from(["a", "b", "a-b"])
NAMES = st.lists(LABELS, min_size=1, max_size=3).map(".".join)
HOSTS = st.one_of(NAMES, NAMES.map(lambda name: f"*.{name}"), st.just(""))


@dataclass
class Server:
    """A super cluster's Ingresses, and a syncer that may be restarted at any time."""

    standing: dict[Place, tuple[str, tuple[str, str], Claims]] = field(default_factory=dict)
    clock: itertools.count[int] = field(default_factory=itertools.count)
    hosts: HostIndex = field(default_factory=HostIndex)

    def write(self, place: Place, owner: str, wanted: Claims, *, lost: bool) -> None:
        has = self.standing.get(place, (owner, ("", ""), claims()))[2].hosts
        if any(self.hosts.holder(owner, host) is not None for host in wanted.hosts - has):
            return
        self.hosts.reserve(place, owner, wanted)
        _, age, _ = self.standing.get(place, ("", (f"{next(self.clock):04}", place.name), claims()))
        self.standing[place] = (owner, age, wanted)
        if not lost:
            self.hosts.put(place, owner, age, wanted)
            self.hosts.release(place)

    def remove(self, place: Place) -> None:
        if self.standing.pop(place, None) is not None:
            self.hosts.remove(place)
            self.hosts.release(place)

    def restart(self) -> None:
        self.hosts = HostIndex()
        for place, found in reversed(self.standing.items()):
            self.hosts.put(place, *found)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "lost", "remove", "restart"]),
        st.sampled_from([ONE, TWO, OPERATOR]),
        st.sampled_from(["x", "y"]),
        st.frozensets(HOSTS, max_size=3),
    ),
    max_size=30,
)


@settings(max_examples=300)
@given(STEPS)
def test_overlapping_hosts_never_have_two_owners(
    steps: list[tuple[str, str, str, frozenset[str]]],
) -> None:
    server = Server()
    for step, owner, name, hosts in steps:
        place = Place(owner or "default", name)
        if step in ("write", "lost"):
            server.write(place, owner, Claims(hosts), lost=step == "lost")
        elif step == "remove":
            server.remove(place)
        else:
            server.restart()
        pairs = itertools.combinations(server.standing.values(), 2)
        for (one, _, ours), (other, _, theirs) in pairs:
            if one != other:
                assert not any(overlap(*both) for both in itertools.product(ours.hosts, theirs.hosts))


@given(
    st.lists(st.tuples(st.sampled_from([ONE, TWO, OPERATOR]), st.frozensets(HOSTS, max_size=3)), max_size=6),
    HOSTS,
    st.lists(st.integers(0, 5), max_size=6),
)
def test_a_holder_is_found_exactly_if_a_scan_of_all_finds_one(
    ingresses: list[tuple[str, frozenset[str]]], host: str, removed: list[int]
) -> None:
    hosts = HostIndex()
    for number, (owner, theirs) in enumerate(ingresses):
        hosts.put(Place("space", str(number)), owner, (str(number), ""), Claims(theirs))
    for number in removed:
        hosts.remove(Place("space", str(number)))
    for before in (None, ("2", "")):
        expected = {
            Place("space", str(number))
            for number, (owner, theirs) in enumerate(ingresses)
            if number not in removed
            and owner != ONE
            and (before is None or (str(number), "") < before)
            and any(overlap(host, each) for each in theirs)
        }
        found = hosts.holder(ONE, host, before=before)
        assert found in expected if expected else found is None
