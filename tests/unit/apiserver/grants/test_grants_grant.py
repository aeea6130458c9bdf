"""Grants: their rules, their digest, and whom they mean."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.api import served
from vcsync.api.grants import GrantRole, GrantSubject, TenantGrantSpec
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.grants.grant import (
    Grant,
    findings,
    grant_key,
    offer_key,
    place_of,
    read_grant,
    read_offer,
    seconds_of,
)
from vcsync.apiserver.request.caller import Granted

ALICE = GrantSubject(kind="User", name="alice")
DEVS = GrantSubject(kind="Group", name="devs")
VIEW = GrantRole(kind="ClusterRole", name="view")
UIDS = {"umbrella": "1", "acme": "2"}


def spec(**changed):
    parts = {"tenant": "acme", "subjects": (ALICE,), "roles": (VIEW,), "namespaces": ("shop",), **changed}
    return TenantGrantSpec(**parts)


def grant(name="support", uid="u", expires=None, **changed):
    return Grant("umbrella", name, uid, 1, spec(**changed), expires)


def fields(name="support", **changed):
    return [each.field for each in findings("umbrella", name, spec(**changed))]


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, []),
        ({"namespaces": (), "cluster_wide": True}, []),
        ({"roles": (GrantRole(kind="Role", name="reader"),)}, []),
        ({"expires": "2027-01-31T12:00:00+02:00"}, []),
        ({"tenant": "umbrella"}, ["spec.tenant"]),
        ({"tenant": "all"}, ["spec.tenant"]),
        ({"tenant": "system"}, ["spec.tenant"]),
        ({"subjects": (ALICE, DEVS, ALICE)}, ["spec.subjects[2]"]),
        ({"roles": (VIEW, VIEW)}, ["spec.roles[1]"]),
        ({"namespaces": ()}, ["spec.namespaces"]),
        ({"cluster_wide": True}, ["spec.namespaces"]),
        (
            {"namespaces": (), "cluster_wide": True, "roles": (GrantRole(kind="Role", name="x"),)},
            ["spec.roles[0].kind"],
        ),
        ({"expires": "tomorrow"}, ["spec.expires"]),
        ({"expires": "2027-01-31T12:00:00"}, ["spec.expires"]),
    ],
)
def test_a_grant_names_another_tenant_and_where_its_roles_hold(changed, wrong):
    assert fields(**changed) == wrong


@pytest.mark.parametrize("kind", ["User", "Group"])
@pytest.mark.parametrize(
    "name",
    [
        "system:masters",
        "system:serviceaccount:a:b",
        "system:",
        "SYSTEM:node:n",
        "vcsync:tenant-admins",
        "Vcsync:x",
    ],
)
def test_a_grant_names_no_users_and_groups_of_kubernetes_and_vcsync(kind, name):
    assert fields(subjects=(ALICE, GrantSubject(kind=kind, name=name))) == ["spec.subjects[1].name"]


@pytest.mark.parametrize("name", ["a.b", "A", "", "x" * 64])
def test_the_name_of_a_grant_has_no_dots(name):
    assert fields(name) == ["metadata.name"]


def test_a_grant_means_the_named_users_and_members_of_the_named_groups():
    found = grant(subjects=(ALICE, DEVS))
    assert found.means(User("alice"))
    assert found.means(User("bob", groups=("x", "devs")))
    assert not found.means(User("bob", groups=("alice",)))
    assert not found.means(User("devs"))
    assert not found.means(User("Alice"))


@pytest.mark.parametrize("name", ["system:serviceaccount:a:b", "system:node:n", "System:x", "vcsync:x"])
def test_users_of_kubernetes_are_never_meant_even_in_a_named_group(name):
    assert not grant(subjects=(DEVS,)).means(User(name, groups=("devs",)))


def test_the_digest_covers_the_grant_and_the_identity_of_both_tenants():
    others = [
        grant(uid="v"),
        grant(name="other"),
        grant(subjects=(ALICE, DEVS)),
        grant(subjects=(GrantSubject(kind="Group", name="alice"),)),
        grant(roles=(GrantRole(kind="ClusterRole", name="edit"),)),
        grant(roles=(GrantRole(kind="Role", name="view"),)),
        grant(namespaces=("shop", "web")),
        grant(namespaces=(), cluster_wide=True),
        Grant("umbrella", "support", "u", 1, spec(expires="2027-01-31T12:00:00Z")),
    ]
    digests = [each.digest(UIDS.get) for each in (grant(), *others)]
    changed = [{"umbrella": "3", "acme": "2"}, {"umbrella": "1", "acme": "3"}, {"umbrella": "2", "acme": "1"}]
    digests += [grant().digest(uids.get) for uids in changed]
    assert len(set(digests)) == len(digests)
    assert all(len(each) == 32 for each in digests)
    assert grant().digest(UIDS.get) == grant().digest(UIDS.get)


@pytest.mark.parametrize("missing", ["umbrella", "acme"])
def test_nothing_can_be_accepted_while_a_tenant_is_missing(missing):
    assert grant().digest(lambda tenant: "" if tenant == missing else "1") == ""


def test_the_parts_of_a_digest_cannot_be_shifted():
    one = grant(namespaces=("a", "b"), subjects=(GrantSubject(kind="User", name='x"],["y'),))
    other = grant(namespaces=("a",), subjects=(GrantSubject(kind="User", name='x"],["y","b'),))
    assert one.digest(UIDS.get) != other.digest(UIDS.get)


def test_expiry_is_the_first_moment_without_the_grant():
    found = grant(expires=100.0)
    assert [found.expired(now) for now in (99.9, 100.0, 101.0)] == [False, True, True]
    assert not grant().expired(1e12)


def test_a_caller_carries_roles_and_extent_of_a_grant():
    found = grant(expires=5.0, roles=(VIEW, GrantRole(kind="Role", name="r"))).granted("d")
    assert found == Granted("support", "d", (("ClusterRole", "view"), ("Role", "r")), ("shop",), False, 5.0)
    assert grant(namespaces=(), cluster_wide=True).granted("d").cluster_wide


def stored(**metadata):
    body = {"metadata": {"name": "support", "uid": "u", "generation": 3, **metadata}}
    return {**body, "spec": msgspec.to_builtins(spec(expires="2027-01-31T12:00:00Z"))}


def test_a_stored_grant_is_read():
    found = read_grant("umbrella", msgspec.json.encode(stored()))
    assert found == Grant("umbrella", "support", "u", 3, spec(expires="2027-01-31T12:00:00Z"), 1801396800.0)
    assert (found.home, found.offer) == ("acme", "umbrella.support")


def test_a_deleted_or_invalid_grant_grants_nothing():
    assert (
        read_grant("umbrella", msgspec.json.encode(stored(deletionTimestamp="2026-01-01T00:00:00Z"))) is None
    )
    assert read_grant("acme", msgspec.json.encode(stored())) is None
    with pytest.raises(msgspec.MsgspecError):
        read_grant("umbrella", b'{"metadata":{"name":"x"},"spec":{}}')


def test_a_deleted_offer_accepts_nothing():
    body = {"metadata": {"name": "umbrella.support"}, "spec": {"accept": "a" * 32}}
    assert read_offer(msgspec.json.encode(body)).accept == "a" * 32
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read_offer(msgspec.json.encode(body)) is None


@pytest.mark.parametrize(
    ("key", "place"),
    [
        (grant_key("umbrella", "support"), ("umbrella", "tenantgrants", "support")),
        (offer_key("acme", "umbrella.support"), ("acme", "tenantgrantoffers", "umbrella.support")),
        ("system/custom:tenancy.x-k8s.io/tenantgrants/x", None),
        ("a/tenancy.x-k8s.io/tenantgrants/x", None),
        ("a/custom:tenancy.x-k8s.io/tenants/x", None),
        ("a/custom:tenancy.x-k8s.io/tenantgrants/ns/x", None),
        ("~vcsync/tenants/a", None),
        ("a", None),
    ],
)
def test_keys_of_grants_and_offers_are_recognized(key, place):
    assert place_of(key) == place


@given(st.text())
def test_any_text_is_a_time_or_none(text):
    assert seconds_of(text) is None or isinstance(seconds_of(text), float)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_the_first_and_last_times_have_seconds(text):
    assert seconds_of(text) is not None


def test_both_kinds_are_served_by_their_definitions():
    found = {each["spec"]["names"]["kind"]: each for each in served.established(served.GRANTS)}
    assert found.keys() == {"TenantGrant", "TenantGrantOffer"}
    for each in found.values():
        assert {one["type"] for one in each["status"]["conditions"]} == {"NamesAccepted", "Established"}
