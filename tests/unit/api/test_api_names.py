"""Names are stable, valid where they are used, and unique."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.api import names
from vcsync.api.objects import VirtualCluster, cluster_key
from vcsync.api.specs import VirtualClusterStatus

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
SHORT_LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
SUPER_IDS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,55}[a-z0-9])?", fullmatch=True)
UIDS = st.uuids().map(str)
QUALIFIED_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


@pytest.mark.parametrize(
    ("namespace", "name", "uid", "key"),
    [
        ("ns", "name", "d64ea0c0-91f8-46f5-8643-c0cab32ab0cd", "ns-fd1b34-name"),
        ("tenant-1", "test", "7374a172-c35d-45b1-9c8e-bf5c5b614937", "tenant-1-70b001-test"),
    ],
)
def test_cluster_keys_are_those_of_virtualcluster(namespace: str, name: str, uid: str, key: str) -> None:
    assert names.new_cluster_key(namespace, name, uid) == key
    assert cluster_key(VirtualCluster(name=name, namespace=namespace, uid=uid)) == key


def test_a_recorded_cluster_namespace_overrides_the_computed_key() -> None:
    vc = VirtualCluster(
        name="name", namespace="ns", uid="u", status=VirtualClusterStatus(cluster_namespace="elsewhere")
    )
    assert cluster_key(vc) == "elsewhere"


def test_a_recorded_cluster_namespace_that_is_not_a_namespace_name_is_refused() -> None:
    vc = VirtualCluster(
        name="name", namespace="ns", uid="u", status=VirtualClusterStatus(cluster_namespace="../etc")
    )
    with pytest.raises(names.InvalidName, match=r"ns/name: status\.clusterNamespace"):
        cluster_key(vc)


@given(SHORT_LABELS, SHORT_LABELS, UIDS)
def test_cluster_keys_are_namespace_names(namespace: str, name: str, uid: str) -> None:
    key = names.new_cluster_key(namespace, name, uid)
    assert names.is_dns_label(key)
    assert key == names.new_cluster_key(namespace, name, uid)


@given(SHORT_LABELS, UIDS)
def test_the_tenant_of_a_usual_cluster_key_is_found(name: str, uid: str) -> None:
    key = names.new_cluster_key(names.DEFAULT_VC_NAMESPACE, name, uid)
    assert names.tenant_of_cluster_key(key) == name


@pytest.mark.parametrize(
    "text", ["", "acme", "vcsync", "vcsync-acme", "vcsync-123456", "vcsync-12345g-acme", "other-123456-acme"]
)
def test_other_texts_are_not_taken_for_cluster_keys(text: str) -> None:
    assert names.tenant_of_cluster_key(text) == text


def test_the_longest_cluster_key_fits_and_one_more_is_refused_with_a_remedy() -> None:
    assert len(names.new_cluster_key("n" * 20, "v" * 35, "u")) == 63
    with pytest.raises(names.InvalidName, match=r"has 64 characters.*55 together; choose a shorter name"):
        names.new_cluster_key("n" * 20, "v" * 36, "u")


def test_a_name_with_a_dot_is_refused() -> None:
    with pytest.raises(names.InvalidName, match=r"metadata\.name must be a DNS label"):
        names.new_cluster_key("ns", "a.b", "u")


@pytest.mark.parametrize(
    ("key", "namespace", "expected"),
    [
        ("tenant-1-70b001-test", "default", "tenant-1-70b001-test-default"),
        ("k" * 31, "n" * 31, "k" * 31 + "-" + "n" * 31),
        ("k" * 32, "n" * 31, "k" * 32 + "-" + "n" * 24 + "-2a8b3"),
    ],
)
def test_super_namespaces_are_those_of_virtualcluster(key: str, namespace: str, expected: str) -> None:
    assert names.super_namespace(key, namespace) == expected


@given(LABELS, LABELS)
def test_super_namespaces_are_namespace_names(key: str, namespace: str) -> None:
    name = names.super_namespace(key, namespace)
    assert names.is_dns_label(name)
    assert name == names.super_namespace(key, namespace)
    full = f"{key}-{namespace}"
    assert name == full if len(full) <= 63 else (len(name) == 63 and name[:57] == full[:57])


@given(LABELS, st.lists(LABELS, min_size=2, max_size=6, unique=True))
def test_namespaces_of_a_tenant_do_not_share_a_super_namespace(key: str, namespaces: list[str]) -> None:
    assert len({names.super_namespace(key, namespace) for namespace in namespaces}) == len(namespaces)


@given(SUPER_IDS)
def test_every_super_id_makes_valid_keys(super_id: str) -> None:
    assert names.valid_super_id(super_id)
    for key in (names.drain_finalizer(super_id), names.placement_label(super_id)):
        prefix, part = key.split("/")
        assert len(prefix) <= 253
        assert len(part) <= 63
        assert QUALIFIED_NAME_PART.fullmatch(part)
    assert names.super_id_of_finalizer(names.drain_finalizer(super_id)) == super_id


@pytest.mark.parametrize("text", ["", "R1", "r.1", "-r", "r-", "r_1", "r1\n", "r" * 58, "ä"])
def test_a_super_id_must_be_a_short_dns_label(text: str) -> None:
    assert not names.valid_super_id(text)
    for build in (names.drain_finalizer, names.placement_label, names.super_secret, names.syncer_lease):
        with pytest.raises(names.InvalidName, match="cannot identify a super cluster"):
            build(text)


@pytest.mark.parametrize(
    "finalizer",
    ["", "foregroundDeletion", names.VIRTUAL_CLUSTER_DRAIN_FINALIZER, "tenancy.x-k8s.io/drain-", "drain-r1"],
)
def test_other_finalizers_do_not_name_a_super_cluster(finalizer: str) -> None:
    assert names.super_id_of_finalizer(finalizer) is None


@given(st.lists(SHORT_LABELS, min_size=1, max_size=4).map(".".join), SUPER_IDS)
def test_the_node_is_recovered_from_a_virtual_nodes_name(node: str, super_id: str) -> None:
    name = names.virtual_node_name(node, super_id)
    assert names.split_virtual_node(name, super_id) == node


@given(SHORT_LABELS, st.lists(SUPER_IDS, min_size=2, max_size=2, unique=True))
def test_nodes_of_the_same_name_in_two_super_clusters_get_different_names(
    node: str, super_ids: list[str]
) -> None:
    first, second = super_ids
    assert names.virtual_node_name(node, first) != names.virtual_node_name(node, second)
    assert names.split_virtual_node(names.virtual_node_name(node, first), second) is None


@pytest.mark.parametrize("name", ["r1", ".r1", "node", "node-r1", "r1.node", ""])
def test_other_nodes_are_not_virtual_nodes(name: str) -> None:
    assert names.split_virtual_node(name, "r1") is None


def test_a_virtual_node_name_too_long_for_a_node_is_refused() -> None:
    assert len(names.virtual_node_name("n" * 250, "r1")) == 253
    with pytest.raises(names.InvalidName, match="has 254 characters"):
        names.virtual_node_name("n" * 251, "r1")


def test_leases_of_shards_differ() -> None:
    assert names.syncer_lease("r1") == "vcsync-syncer-r1"
    assert names.syncer_lease("r1", "1-4") == "vcsync-syncer-r1-1-4"
    assert len({names.scheduler_lease(role) for role in names.ROLES}) == len(names.ROLES)


def test_every_key_is_a_qualified_name_in_one_of_vcsyncs_domains() -> None:
    keys = {
        value
        for name, value in vars(names).items()
        if name.isupper() and isinstance(value, str) and "/" in value
    }
    keys = {
        key for key in keys - {names.API_VERSION, names.STATUS_API_VERSION} if not key.endswith(("-", "/"))
    }
    assert len(keys) >= 20
    for key in keys:
        domain, part = key.split("/")
        assert domain in names.OWN_DOMAINS
        assert len(part) <= 63
        assert QUALIFIED_NAME_PART.fullmatch(part)
