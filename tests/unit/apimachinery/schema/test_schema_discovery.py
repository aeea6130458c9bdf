"""Discovery documents are those of kube-apiserver, plus the custom resources of a tenant."""

import json
from typing import Any

import pytest

from vcsync.apimachinery.resources import Resource, Subresource
from vcsync.apimachinery.schema.builtin import resources
from vcsync.apiserver.discovery import documents as discovery

CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


def custom(group: str, version: str, plural: str = "foos") -> Resource:
    return Resource(
        group, version, plural, "foo", "Foo", True, CUSTOM_VERBS, list_kind="FooList", custom=True,
        subresources={"status": Subresource("status", ("get", "patch", "update"), group, version, "Foo")},
        storage="v1",
    )  # fmt: skip


def read(document: bytes | None) -> Any:
    assert document is not None
    return json.loads(document)


def test_groups_are_in_the_order_of_their_priority() -> None:
    names = [each["name"] for each in read(discovery.group_list())["groups"]]
    assert names[:4] == ["apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io"]
    assert names[-1] == "flowcontrol.apiserver.k8s.io"
    assert len(names) == 20


def test_a_group_names_its_versions_and_prefers_the_first() -> None:
    assert read(discovery.group("autoscaling")) == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "autoscaling",
        "versions": [
            {"groupVersion": "autoscaling/v2", "version": "v2"},
            {"groupVersion": "autoscaling/v1", "version": "v1"},
        ],
        "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"},
    }


@pytest.mark.parametrize("name", ["", "core", "example.com", "apps/v1"])
def test_an_unknown_group_does_not_exist(name: str) -> None:
    assert discovery.group(name) is None


def test_the_core_group_has_one_version() -> None:
    assert read(discovery.api_versions("10.0.0.1:443")) == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:443"}],
    }


def test_a_version_lists_resources_and_subresources() -> None:
    listed = read(discovery.resource_list("", "v1"))
    assert {key: listed[key] for key in listed if key != "resources"} == {
        "kind": "APIResourceList",
        "groupVersion": "v1",
    }
    by_name = {each["name"]: each for each in listed["resources"]}
    assert by_name["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
        "storageVersionHash": "xPOwRZ+Yhw8=",
    }
    assert by_name["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert "group" not in by_name["pods/exec"]


@pytest.mark.parametrize(("group", "version"), [("", "v2"), ("apps", "v1beta1"), ("example.com", "v1")])
def test_an_unknown_version_does_not_exist(group: str, version: str) -> None:
    assert discovery.resource_list(group, version) is None


def test_aggregated_documents_contain_every_resource_once() -> None:
    core, groups = read(discovery.aggregated(core=True).body), read(discovery.aggregated().body)
    found = [
        (item["metadata"].get("name", ""), version["version"], each["resource"])
        for item in (*core["items"], *groups["items"])
        for version in item["versions"]
        for each in version["resources"]
    ]
    assert found == [(each.group, each.version, each.plural) for each in resources()]
    assert (core["apiVersion"], core["kind"]) == ("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList")


def test_the_etag_is_that_of_a_kube_apiserver() -> None:
    etag = discovery.aggregated().etag
    assert etag.startswith(
        '"A74552DF419C4697E3A22F67B8FE55FD8F2CC33F6134FF206B16341598294CDE9896C7F67B2819217E6BB70E74F97FCC'
    )


def test_a_response_kind_names_its_group_if_it_differs() -> None:
    pods = next(
        each
        for each in read(discovery.aggregated(core=True).body)["items"][0]["versions"][0]["resources"]
        if each["resource"] == "pods"
    )
    assert pods["responseKind"] == {"group": "", "version": "", "kind": "Pod"}
    kinds = {each["subresource"]: each["responseKind"] for each in pods["subresources"]}
    assert kinds["eviction"] == {"group": "policy", "version": "v1", "kind": "Eviction"}
    assert kinds["exec"] == {"group": "", "version": "", "kind": "PodExecOptions"}


def test_custom_groups_follow_sorted_by_name() -> None:
    added = [
        custom("z.example.com", "v1"),
        custom("a.example.com", "v1"),
        custom("a.example.com", "v1alpha1"),
    ]
    groups = read(discovery.group_list(added))["groups"]
    assert [each["name"] for each in groups[-2:]] == ["a.example.com", "z.example.com"]
    assert [each["version"] for each in groups[-2]["versions"]] == ["v1", "v1alpha1"]
    assert read(discovery.group("a.example.com", added))["preferredVersion"]["version"] == "v1"


def test_custom_resources_are_listed_like_others() -> None:
    added = [custom("example.com", "v1"), custom("example.com", "v2", "bars")]
    listed = read(discovery.resource_list("example.com", "v1", added))
    assert listed["groupVersion"] == "example.com/v1"
    assert [each["name"] for each in listed["resources"]] == ["foos", "foos/status"]
    assert listed["resources"][0]["storageVersionHash"] == "4XyhoHMtUhg="
    last = read(discovery.aggregated(added).body)["items"][-1]
    assert last["metadata"] == {"name": "example.com"}
    entry = last["versions"][0]["resources"][0]
    assert entry["responseKind"] == {"group": "example.com", "version": "v1", "kind": "Foo"}
    assert discovery.aggregated(added).etag != discovery.aggregated().etag


def test_tenants_without_custom_resources_share_the_bytes() -> None:
    assert discovery.group_list() is discovery.group_list([])
    assert discovery.aggregated() is discovery.aggregated([])
    assert discovery.resource_list("apps", "v1") is discovery.resource_list(
        "apps", "v1", [custom("example.com", "v1")]
    )
