"""Untrusted discovery documents of aggregated API servers."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apiserver.aggregator.resource_lists import MOST_RESOURCES, UNREADABLE, openapi_query, resources_of

PATH = "apis/m.io/v1"


def read(*resources):
    return json.loads(resources_of(json.dumps({"resources": resources}).encode(), "m.io", "v1"))


def test_resources_have_the_form_of_aggregated_discovery():
    found = read(
        {"name": "nodes", "singularName": "node", "kind": "NodeMetrics", "verbs": ["get", "list"], "categories": ["all"]},
        {"name": "pods", "namespaced": True, "kind": "PodMetrics", "verbs": ["get"], "shortNames": ["po"]},
        {"name": "pods/scale", "namespaced": True, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]},
    )  # fmt: skip
    assert found == [
        {
            "resource": "nodes", "responseKind": {"group": "m.io", "version": "v1", "kind": "NodeMetrics"}, "scope": "Cluster",
            "singularResource": "node", "verbs": ["get", "list"], "categories": ["all"],
        },
        {
            "resource": "pods", "responseKind": {"group": "m.io", "version": "v1", "kind": "PodMetrics"}, "scope": "Namespaced",
            "singularResource": "", "verbs": ["get"], "shortNames": ["po"],
            "subresources": [
                {"subresource": "scale", "verbs": ["get"],
                 "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}},
            ],
        },
    ]  # fmt: skip


def test_subresources_may_come_without_or_before_their_resource():
    found = read(
        {"name": "jobs/http_requests", "namespaced": True, "kind": "MetricValueList", "verbs": ["get"]}
    )
    assert (found[0]["resource"], found[0]["scope"], found[0]["verbs"]) == ("jobs", "Namespaced", [])
    assert found[0]["subresources"][0]["subresource"] == "http_requests"
    found = read({"name": "jobs/a", "kind": "A"}, {"name": "jobs", "kind": "Job", "verbs": ["get"]})
    assert (found[0]["responseKind"]["kind"], found[0]["verbs"]) == ("Job", ["get"])
    assert len(found[0]["subresources"]) == 1


@pytest.mark.parametrize(
    "resource",
    [
        {"name": ""},
        {"name": ".."},
        {"name": "../../api/v1/secrets"},
        {"name": "a%2fb"},
        {"name": "a?watch=1"},
        {"name": "a b"},
        {"name": "a\n"},
        {"name": "a" * 254},
        {"name": "a/"},
        {"name": "a/b?c"},
        {"name": "a/b/../c%"},
        {"name": "a", "kind": "A\u2028"},
        {"name": "a", "group": "x/y"},
        {"name": "a", "verbs": ["get", "<b>"]},
        {"name": "a", "shortNames": ["p o"]},
        {"name": "a", "categories": ["\x1b[31m"]},
    ],
)
def test_names_that_are_not_well_formed_are_left_out(resource):
    found = read({"name": "good", "kind": "Good"}, resource)
    assert [each["resource"] for each in found if "subresources" not in each] == ["good"]
    assert [each for each in found if "subresources" in each] == []


def test_only_so_many_resources_are_read():
    assert len(read(*({"name": f"r{number}"} for number in range(MOST_RESOURCES + 5)))) == MOST_RESOURCES


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{",
        b"[]",
        b'{"resources":7}',
        b'{"resources":[7]}',
        b'{"resources":[{}]}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_other_documents_are_unreadable(document):
    with pytest.raises(UNREADABLE):
        resources_of(document, "m.io", "v1")


@pytest.mark.parametrize(
    ("url", "query"),
    [
        ("/openapi/v3/apis/m.io/v1?hash=AB12", "hash=AB12"),
        ("/openapi/v3/apis/m.io/v1", ""),
        ("/openapi/v3/apis/m.io/v2?hash=AB12", None),
        ("https://192.0.2.7/openapi/v3/apis/m.io/v1?hash=AB12", None),
        ("//192.0.2.7/openapi/v3/apis/m.io/v1?hash=AB12", None),
        ("/openapi/v3/apis/m.io/v1?hash=A B", None),
        ("/openapi/v3/apis/m.io/v1?hash=" + "a" * 300, None),
        ("//[/openapi", None),
        ("", None),
    ],
)
def test_only_the_own_document_of_openapi_is_listed(url, query):
    assert openapi_query(json.dumps({"paths": {PATH: {"serverRelativeURL": url}}}).encode(), PATH) == query


@pytest.mark.parametrize("document", [b"{}", b'{"paths":null}', b'{"paths":{"apis/n.io/v1":{}}}'])
def test_a_document_that_is_not_listed_is_none(document):
    assert openapi_query(document, PATH) is None


_KEYS = st.sampled_from(
    ["resources", "name", "kind", "verbs", "namespaced", "paths", PATH, "serverRelativeURL"]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES)
def test_any_document_is_read_or_unreadable(value):
    document = msgspec.json.encode(value)
    for read_it in (lambda: resources_of(document, "m.io", "v1"), lambda: openapi_query(document, PATH)):
        try:
            found = read_it()
        except UNREADABLE:
            continue
        assert found is None or isinstance(found, str | bytes)
