"""No write that puts a value of a wrong type anywhere is answered with an internal error."""

import itertools
from typing import Any

import msgspec
import pytest
from served_definitions import DEFINITIONS, until

WRONG: tuple[Any, ...] = (
    7,
    1.5,
    True,
    "text",
    None,
    {},
    {"a": 1},
    [],
    [7],
    [None],
    [[1]],
    [{}],
    [{"key": 1}],
    [{"key": [1]}],
)
FORMS = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
UPSTREAMS = (
    "failed to create typed patch object",
    "failed to create typed live object",
    "failed to convert new object",
)
"""Beginnings of messages with which kube-apiserver answers 500 to an apply configuration that does not fit."""
STRATEGIC_UPSTREAMS = (
    "expected a ",
    "map: map[",
    "list element types are not identical",
    "no elements in any of the given slices",
    "unable to find api field in struct",
    "unknown patch type",
    "value for key",
    "cannot merge lists without merge key",
    "merging an object in json but data type is not struct",
    "merging lists cannot yet be specified in the patch",
    "The order in patch list",
)
"""The same for strategic merge patches."""

ROWS = "/apis/example.org/v1/namespaces/default/rows"
TEXT = {"type": "string"}
KEYED = {
    "type": "object",
    "required": ["key"],
    "properties": {"key": TEXT, "own": {"type": "array", "items": TEXT}},
}
LIST_MAP = {
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["key"],
    "type": "array",
    "items": KEYED,
}
LIST_SET = {"x-kubernetes-list-type": "set", "type": "array", "items": TEXT}
PLACES = {
    "keyed": LIST_MAP,
    "set": LIST_SET,
    "atomic": {"type": "array", "items": KEYED},
    "lists": {"type": "array", "items": {"type": "array", "items": TEXT}},
    "map": {"type": "object", "additionalProperties": LIST_MAP},
    "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"keyed": LIST_MAP}},
    "either": {"x-kubernetes-int-or-string": True},
    "free": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"keyed": LIST_MAP},
    },
    "inner": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
GOOD = {
    "keyed": [{"key": "a", "own": ["x"]}],
    "set": ["a", "b"],
    "atomic": [{"key": "a"}],
    "lists": [["a"]],
    "map": {"a": [{"key": "a"}]},
    "whole": {"keyed": [{"key": "a"}]},
    "either": 1,
    "free": {"keyed": [{"key": "a"}], "other": [1]},
    "inner": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
}
BELOW = (
    "keyed/0",
    "keyed/0/own",
    "set/0",
    "map/a",
    "map/a/0",
    "whole/keyed",
    "free/keyed",
    "free/other",
    "inner/metadata",
)


@pytest.fixture
async def rows(api: Any) -> str:
    spec = {"type": "object", "properties": PLACES}
    status = {"type": "object", "properties": {"keyed": LIST_MAP}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "rows", "singular": "row", "kind": "Row", "listKind": "RowList"}
    body = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]}
    made = await api("POST", DEFINITIONS, {"metadata": {"name": "rows.example.org"}, "spec": body})
    assert made.status == 201, made.body

    async def served() -> bool:
        return (await api("GET", ROWS)).status == 200

    await until(served)
    return ROWS


def placed(obj: Any, path: str, value: Any) -> Any:
    """Return a copy of an object with another value at a path such as `spec/list/0`."""
    first, _, rest = path.partition("/")
    new = [*obj] if isinstance(obj, list) else dict(obj)
    key: Any = int(first) if isinstance(new, list) else first
    new[key] = placed(new[key], rest, value) if rest else value
    return new


def alone(path: str, value: Any) -> Any:
    """Return the merge patch that sets a value at a path. Lists are replaced as a whole."""
    for name in reversed(path.split("/")):
        value = [value] if name.isdecimal() else {name: value}
    return value


def refused_well(form: str, found: Any) -> bool:
    if found.status != 500:
        return found.status < 500
    upstreams = UPSTREAMS if form == "apply" else STRATEGIC_UPSTREAMS if form == "strategic" else ()
    return found.body["message"].startswith(upstreams)


async def write(api: Any, form: str, path: str, live: dict[str, Any], place: str, value: Any) -> Any:
    """Write a value of a wrong type at a place of an object in one of the forms."""
    new = placed(live, place, value)
    if form == "post":
        return await api(
            "POST", path.rpartition("/")[0] + "?dryRun=All", {**new, "metadata": {"name": "new"}}
        )
    if form == "put":
        return await api("PUT", f"{path}?dryRun=All", new)
    body: Any = alone(place, value)
    if form == "json":
        body = [{"op": "replace", "path": f"/{place}", "value": value}]
    options = "dryRun=All"
    if form == "apply":
        options += "&force=true&fieldManager=me"
        body = {key: new[key] for key in new if key in ("apiVersion", "kind", "spec", "status")}
        body["metadata"] = {"name": live["metadata"]["name"]}
    return await api("PATCH", f"{path}?{options}", msgspec.json.encode(body), Content_Type=FORMS[form])


@pytest.mark.parametrize("form", ["post", "put", "merge", "json", "apply"])
async def test_a_value_of_a_wrong_type_in_a_custom_object_is_no_internal_error(api, rows, form):
    head = {"apiVersion": "example.org/v1", "kind": "Row", "metadata": {"name": "r"}}
    made = await api("POST", rows, {**head, "spec": GOOD})
    assert made.status == 201, made.body
    wrong = []
    for place, value in itertools.product((*PLACES, *BELOW), WRONG):
        found = await write(api, form, f"{rows}/r", made.body, f"spec/{place}", value)
        if not refused_well(form, found):
            wrong.append((place, value, found.body["message"]))
    assert not wrong


async def test_a_wrong_type_in_the_status_of_a_custom_object_is_no_internal_error(api, rows):
    head = {"apiVersion": "example.org/v1", "kind": "Row", "metadata": {"name": "r"}}
    await api("POST", rows, {**head, "spec": GOOD})
    live = await api(
        "PATCH", f"{rows}/r/status", {"status": {"keyed": [{"key": "a"}]}}, Content_Type=FORMS["merge"]
    )
    assert live.status == 200, live.body
    wrong = []
    for form, place, value in itertools.product(
        ("put", "merge", "json", "apply"), ("status", "status/keyed"), WRONG
    ):
        found = await write(api, form, f"{rows}/r/status", live.body, place, value)
        if not refused_well(form, found):
            wrong.append((form, place, value, found.body["message"]))
    assert not wrong


SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
BUILT_IN: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "/api/v1/namespaces/default/pods": (
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "finalizers": ["a.example/b"]},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "i",
                        "env": [{"name": "a", "value": "b"}],
                        "ports": [{"containerPort": 1}],
                        "args": ["a"],
                    }
                ],
                "imagePullSecrets": [{"name": "s"}],
                "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a"]}],
            },
        },
        (
            "metadata", "metadata/finalizers", "metadata/finalizers/0", "spec", "spec/containers", "spec/containers/0",
            "spec/containers/0/env", "spec/containers/0/env/0", "spec/containers/0/ports", "spec/containers/0/args",
            "spec/imagePullSecrets", "spec/hostAliases",
        ),
    ),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": (
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.net"},
            "spec": {
                "group": "example.net",
                "scope": "Cluster",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": SCHEMA}
                ],
            },
        },
        (
            "spec/names", "spec/versions", "spec/versions/0", "spec/versions/0/schema",
            "spec/versions/0/schema/openAPIV3Schema", "spec/versions/0/schema/openAPIV3Schema/properties",
            "spec/versions/0/schema/openAPIV3Schema/properties/a",
        ),
    ),
    "/api/v1/namespaces/default/services": (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s"},
            "spec": {"ports": [{"port": 1}], "externalIPs": ["1.2.3.4"], "selector": {"a": "b"}},
        },
        ("spec/ports", "spec/ports/0", "spec/externalIPs", "spec/selector", "spec/clusterIPs"),
    ),
}  # fmt: skip
"""Collection -> (an object, places in it)."""


@pytest.mark.parametrize("form", ["post", "put", *FORMS])
@pytest.mark.parametrize("path", BUILT_IN, ids=lambda path: path.rpartition("/")[2])
async def test_a_value_of_a_wrong_type_in_a_built_in_object_is_no_internal_error(api, path, form):
    sent, places = BUILT_IN[path]
    made = await api("POST", path, sent)
    assert made.status == 201, made.body
    wrong = []
    for place, value in itertools.product(places, WRONG):
        found = await write(api, form, f"{path}/{sent['metadata']['name']}", made.body, place, value)
        if not refused_well(form, found):
            wrong.append((place, value, found.body["message"]))
    assert not wrong


async def test_a_directive_of_a_wrong_type_is_no_internal_error(api):
    path = "/api/v1/namespaces/default/pods"
    sent, _ = BUILT_IN[path]
    assert (await api("POST", path, sent)).status == 201
    names = ("containers", "imagePullSecrets", "nodeSelector", "none")
    keys = (
        "$patch",
        "$retainKeys",
        *(f"${each}/{name}" for each in ("setElementOrder", "deleteFromPrimitiveList") for name in names),
    )
    beside: tuple[dict[str, Any], ...] = (
        {},
        {"containers": [{"name": "c", "image": "j"}]},
        {"containers": 7},
        {"imagePullSecrets": [7]},
    )
    wrong = []
    for key, value, more in itertools.product(
        keys, (*WRONG, "delete", "replace", "merge", [{"name": "c"}]), beside
    ):
        for patch in (
            {"spec": {key: value, **more}},
            {"spec": {"containers": [{"name": "c", key: value}]}},
            {key: value},
        ):
            found = await api("PATCH", f"{path}/p?dryRun=All", patch, Content_Type=FORMS["strategic"])
            if not refused_well("strategic", found):
                wrong.append((patch, found.body["message"]))
    assert not wrong


async def test_apply_accepts_undeclared_fields_below_an_object_that_preserves_unknown_fields(api, rows):
    spec = {"free": {"keyed": [{"key": "a", "extra": {"x": "y"}}]}, "map": {"a": [{"key": "a"}]}}
    body = {"apiVersion": "example.org/v1", "kind": "Row", "metadata": {"name": "r"}, "spec": spec}
    found = await api(
        "PATCH", f"{rows}/r?fieldManager=me", msgspec.json.encode(body), Content_Type=FORMS["apply"]
    )
    assert found.status == 201, found.body
    assert found["spec.free"] == {"keyed": [{"key": "a"}]}
    owned = found["metadata.managedFields.0.fieldsV1"]["f:spec"]["f:free"]["f:keyed"]
    assert "f:extra" in owned['k:{"key":"a"}']
    body["spec"] = {"map": {"a": [{"key": "a", "extra": 1}]}}
    refused = await api(
        "PATCH", f"{rows}/r?fieldManager=me", msgspec.json.encode(body), Content_Type=FORMS["apply"]
    )
    assert (refused.status, "field not declared in schema" in refused.body["message"]) == (500, True)
