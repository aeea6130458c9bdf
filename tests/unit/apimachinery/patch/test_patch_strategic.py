"""Strategic merge patches, as kubectl sends them."""

import json
from typing import Any

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.patch import documents
from vcsync.apimachinery.schema import builtin

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "x", "labels": {"a": "1", "b": "2"}, "finalizers": ["x/a", "x/b"]},
    "spec": {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "template": {
            "spec": {
                "containers": [
                    {"name": "a", "image": "1", "args": ["x"], "env": [{"name": "A", "value": "1"}]},
                    {"name": "b", "image": "2"},
                    {"name": "c", "image": "3"},
                ]
            }
        },
    },
}


def patched(patch: dict[str, Any]) -> dict[str, Any]:
    return documents.apply_patch(
        documents.STRATEGIC,
        DEPLOYMENT,
        json.dumps(patch).encode(),
        builtin.schema("apps", "v1", "Deployment"),
    )


def containers(*patches: dict[str, Any], **directives: Any) -> list[str]:
    """Return the containers after a patch of them, as `name:image`."""
    spec = {"containers": list(patches), **{f"${key}/containers": value for key, value in directives.items()}}
    found = patched({"spec": {"template": {"spec": spec}}})["spec"]["template"]["spec"]["containers"]
    return [f"{each['name']}:{each.get('image', '')}" for each in found]


def test_items_of_lists_merge_by_key_and_other_values_are_replaced() -> None:
    patch = {
        "spec": {"template": {"spec": {"containers": [{"name": "a", "args": ["y"], "env": [{"name": "B"}]}]}}}
    }
    changed = patched(patch)["spec"]["template"]["spec"]["containers"][0]
    assert changed == {
        "name": "a",
        "image": "1",
        "args": ["y"],
        "env": [{"name": "B"}, {"name": "A", "value": "1"}],
    }


@pytest.mark.parametrize(
    ("patches", "directives", "expected"),
    [
        ([{"name": "b", "image": "9"}], {}, ["a:1", "b:9", "c:3"]),
        ([{"name": "n", "image": "9"}], {}, ["n:9", "a:1", "b:2", "c:3"]),
        ([{"name": "b", "$patch": "delete"}], {}, ["a:1", "c:3"]),
        ([{"name": "none", "$patch": "delete"}], {}, ["a:1", "b:2", "c:3"]),
        ([{"name": "n", "image": "9"}, {"$patch": "replace"}], {}, ["n:9"]),
        ([], {"setElementOrder": [{"name": "c"}, {"name": "a"}, {"name": "b"}]}, ["c:3", "a:1", "b:2"]),
        (
            [{"name": "n", "image": "9"}],
            {"setElementOrder": [{"name": "c"}, {"name": "n"}, {"name": "a"}]},
            ["b:2", "c:3", "n:9", "a:1"],
        ),
    ],
)
def test_directives_on_lists(patches: list[Any], directives: dict[str, Any], expected: list[str]) -> None:
    assert containers(*patches, **directives) == expected


def test_directives_on_objects() -> None:
    assert patched({"metadata": {"labels": {"$patch": "replace", "c": "3"}}})["metadata"]["labels"] == {
        "c": "3"
    }
    assert patched({"metadata": {"labels": {"$patch": "delete", "c": "3"}}})["metadata"]["labels"] == {}
    assert patched({"metadata": {"labels": {"a": None, "none": None}}})["metadata"]["labels"] == {"b": "2"}
    kept = patched({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}})["spec"]["strategy"]
    assert kept == {"type": "Recreate"}


def test_lists_of_plain_values_merge() -> None:
    merged = patched({"metadata": {"finalizers": ["x/c", "x/a"]}})
    assert merged["metadata"]["finalizers"] == ["x/c", "x/a", "x/b"]
    less = patched({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}})
    assert less["metadata"]["finalizers"] == ["x/b"]


def test_directives_are_removed_from_new_values() -> None:
    patch = {"metadata": {"annotations": {"a": "1", "b": None}}, "spec": {"selector": {"$patch": "delete"}}}
    changed = patched(patch)
    assert changed["metadata"]["annotations"] == {"a": "1"}
    assert "selector" not in changed["spec"]


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        (
            {"spec": {"template": {"spec": {"containers": [{"image": "9"}]}}}},
            500,
            "map: map[image:9] does not contain declared merge key: name",
        ),
        ({"metadata": {"labels": {"$patch": "odd"}}}, 500, "unknown patch type: odd in map: map[$patch:odd]"),
        (
            {"$setElementOrder/foo": ["x"]},
            500,
            'unable to find api field in struct Deployment for the json field "foo"',
        ),
        (
            {"$setElementOrder/metadata": ["x"]},
            500,
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        ({"metadata": {"$deleteFromPrimitiveList": ["x"]}}, 400, "invalid patch format of primitive list"),
        ({"metadata": {"$retainKeys": ["name"], "uid": "1"}}, 400, "invalid patch format of retainKeys"),
        ({"metadata": {"$retainKeys": 1}}, 400, "invalid patch format of retainKeys"),
        (
            {"metadata": {"finalizers": [["x"]]}},
            500,
            "list element types are not identical: [[x/a x/b] [[x]]]",
        ),
        (
            {"spec": {"template": {"spec": {"containers": [{"name": "a", "$patch": "merge"}]}}}},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            {"metadata": {"finalizers": ["x/b", "x/a"], "$setElementOrder/finalizers": ["x/a", "x/b"]}},
            500,
            "The order in patch list:\n[x/b x/a]\n doesn't match $setElementOrder list:\n[x/a x/b]\n",
        ),
    ],
)
def test_patches_that_cannot_be_merged_are_refused_with_upstreams_messages(
    patch: dict[str, Any], code: int, message: str
) -> None:
    with pytest.raises(StatusError) as refusal:
        patched(patch)
    assert (refusal.value.code, refusal.value.message) == (code, message)


def test_long_lists_merge_in_reasonable_time() -> None:
    many = [{"name": f"n{index}", "value": "x"} for index in range(20_000)]
    live = {"spec": {"template": {"spec": {"containers": [{"name": "a", "env": many}]}}}}
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "a", "env": list(reversed(many))}]}}}}
    schema = builtin.schema("apps", "v1", "Deployment")
    changed = documents.apply_patch(documents.STRATEGIC, live, json.dumps(patch).encode(), schema)
    assert len(changed["spec"]["template"]["spec"]["containers"][0]["env"]) == 20_000
