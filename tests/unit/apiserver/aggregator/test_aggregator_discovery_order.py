"""The place of aggregated API servers in discovery documents."""

import msgspec
import pytest

from vcsync.apimachinery.resources import Resource
from vcsync.apiserver.discovery import documents
from vcsync.apiserver.discovery.remote_versions import RemoteVersion, merged
from vcsync.apiserver.tenants.builtin_resources import every_resource

LOCAL = {
    "": {"v1": "core"},
    "apiregistration.k8s.io": {"v1": 1},
    "apps": {"v1": 2},
    "z.io": {"v1": 3, "v1beta1": 4},
}


def remote(group, version="v1", group_priority=100, version_priority=10, **parts):
    return RemoteVersion(group, version, group_priority, version_priority, **parts)


@pytest.mark.parametrize(
    ("versions", "order"),
    [
        ([remote("m.io")], ["apiregistration.k8s.io", "apps", "z.io", "m.io"]),
        ([remote("m.io", group_priority=1000)], ["apiregistration.k8s.io", "apps", "m.io", "z.io"]),
        ([remote("m.io", group_priority=20000)], ["apiregistration.k8s.io", "m.io", "apps", "z.io"]),
        ([remote("b.io"), remote("a.io")], ["apiregistration.k8s.io", "apps", "z.io", "a.io", "b.io"]),
        (
            [remote("a.io"), remote("b.io"), remote("b.io", "v2", 101)],
            ["apiregistration.k8s.io", "apps", "z.io", "b.io", "a.io"],
        ),
        ([remote("z.io", "v2", 18000)], ["apiregistration.k8s.io", "z.io", "apps"]),
    ],
)
def test_groups_are_ordered_by_priority_and_then_by_name(versions, order):
    assert list(merged(LOCAL, versions)) == ["", *order]


@pytest.mark.parametrize(
    ("versions", "order"),
    [
        ([("v1", 10), ("v2", 10), ("v2beta1", 10)], ["v2", "v1", "v2beta1"]),
        ([("v1", 20), ("v2", 10)], ["v1", "v2"]),
    ],
)
def test_versions_are_ordered_by_priority_and_then_as_versions(versions, order):
    found = merged({}, [remote("m.io", version, version_priority=rank) for version, rank in versions])
    assert list(found["m.io"]) == order


def test_a_version_joins_a_group_of_this_server():
    found = merged(
        LOCAL, [remote("z.io", "v2", version_priority=101), remote("z.io", "v3", version_priority=9)]
    )
    assert list(found["z.io"]) == ["v2", "v1", "v1beta1", "v3"]


def test_builtin_groups_are_already_in_the_order_of_their_priorities():
    names = [each["name"] for each in msgspec.json.decode(documents.group_list())["groups"]]
    with_another = documents.group_list(remote=[remote("m.io", group_priority=1)])
    assert [each["name"] for each in msgspec.json.decode(with_another)["groups"]] == [*names, "m.io"]


def test_documents_list_the_resources_and_whether_they_are_current():
    entry = {"resource": "nodes", "scope": "Cluster"}
    versions = [
        remote("m.io", "v1", resources=msgspec.json.encode([entry]), current=True),
        remote("m.io", "v1beta1", version_priority=5),
    ]
    document = documents.aggregated((), every_resource(), versions)
    found = next(
        each for each in msgspec.json.decode(document.body)["items"] if each["metadata"] == {"name": "m.io"}
    )
    assert found["versions"] == [
        {"version": "v1", "resources": [entry], "freshness": "Current"},
        {"version": "v1beta1", "resources": [], "freshness": "Stale"},
    ]
    assert document.etag != documents.aggregated().etag
    group = msgspec.json.decode(documents.group("m.io", remote=versions))
    assert group["preferredVersion"] == {"groupVersion": "m.io/v1", "version": "v1"}
    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta1"]


def test_the_core_document_has_no_aggregated_versions():
    assert documents.aggregated((), None, [remote("m.io")], core=True) == documents.aggregated(core=True)


def test_custom_resources_keep_their_place():
    custom = Resource(
        group="c.io",
        version="v1",
        plural="cs",
        singular="c",
        kind="C",
        namespaced=True,
        verbs=(),
        custom=True,
    )
    body = documents.group_list(
        [custom], None, [remote("d.io", group_priority=1000), remote("b.io", group_priority=1000)]
    )
    assert [each["name"] for each in msgspec.json.decode(body)["groups"]][-3:] == ["b.io", "c.io", "d.io"]
