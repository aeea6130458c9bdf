"""JSON patches and merge patches."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.numbers import Written
from vcsync.apimachinery.patch import documents, jsonpatch

DOCUMENT = {"a": {"b": [1, 2, 3], "c": None}, "x/y~z": 1}


@pytest.mark.parametrize(
    ("operation", "changed"),
    [
        ({"op": "add", "path": "/a/b/-", "value": 4}, {"b": [1, 2, 3, 4], "c": None}),
        ({"op": "add", "path": "/a/b/1", "value": 4}, {"b": [1, 4, 2, 3], "c": None}),
        ({"op": "add", "path": "/a/b/3", "value": 4}, {"b": [1, 2, 3, 4], "c": None}),
        ({"op": "add", "path": "/a/b/-1", "value": 4}, {"b": [1, 2, 3, 4], "c": None}),
        ({"op": "add", "path": "/a/d"}, {"b": [1, 2, 3], "c": None, "d": None}),
        ({"op": "remove", "path": "/a/b/-1"}, {"b": [1, 2], "c": None}),
        ({"op": "replace", "path": "/a/new", "value": 1}, {"b": [1, 2, 3], "c": None, "new": 1}),
        ({"op": "replace", "path": "/a/b/0", "value": 9}, {"b": [9, 2, 3], "c": None}),
        ({"op": "move", "from": "/a/b/0", "path": "/a/b/-"}, {"b": [2, 3, 1], "c": None}),
        ({"op": "copy", "from": "/a/b", "path": "/a/c"}, {"b": [1, 2, 3], "c": [1, 2, 3]}),
        ({"op": "test", "path": "/a/none"}, {"b": [1, 2, 3], "c": None}),
        ({"op": "test", "path": "/a/c", "value": None}, {"b": [1, 2, 3], "c": None}),
        ({"op": "test", "path": "/x~1y~0z", "value": 1}, {"b": [1, 2, 3], "c": None}),
    ],
)
def test_operations_have_the_results_of_kube_apiserver(operation: dict[str, Any], changed: object) -> None:
    assert jsonpatch.apply(DOCUMENT, [operation])["a"] == changed


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "/none/x", "value": 1},
        {"op": "add", "path": "/a/b/5", "value": 1},
        {"op": "add", "path": "/a/c/x", "value": 1},
        {"op": "add", "path": "/a/b/ 1", "value": 1},
        {"op": "add", "path": "/a/b/0/x", "value": 1},
        {"op": "remove", "path": "/a/none"},
        {"op": "remove", "path": "/a/b/3"},
        {"op": "replace", "path": "", "value": 3},
        {"op": "replace", "path": "/a/b/3", "value": 3},
        {"op": "move", "from": "/a/none", "path": "/a/x"},
        {"op": "copy", "path": "/a/x"},
        {"op": "test", "path": "/a/b/0", "value": True},
        {"op": "test", "path": "/a/b/0", "value": Written("1.0")},
        {"op": "test", "path": "/a", "value": {"b": [1, 2, 3]}},
        {"op": "other", "path": "/a"},
        {"path": "/a"},
        {"op": "remove"},
        {"op": "remove", "path": 3},
        None,
    ],
)
def test_a_patch_that_does_not_apply_is_refused_without_a_reason(operation: dict[str, Any] | None) -> None:
    with pytest.raises(jsonpatch.DoesNotApply):
        jsonpatch.apply(DOCUMENT, [operation])
    status = documents.unprocessable().status()
    assert status["code"] == 422
    assert status["details"] == {}


def test_copied_bytes_are_limited() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": "/a/x"} for _ in range(100)]
    with pytest.raises(jsonpatch.DoesNotApply, match="accumulated size increase of copy"):
        jsonpatch.apply({"a": {"text": "y" * 1000}}, [*doubling])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=8,
)
pointers = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "-1"]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": pointers},
    optional={"from": pointers, "value": json_values},
)


@given(st.dictionaries(st.sampled_from("ab"), json_values), st.lists(operations, max_size=5))
def test_any_patch_applies_or_is_refused_and_leaves_the_document_alone(
    document: dict[str, Any], patch: list[dict[str, Any] | None]
) -> None:
    before = jsonpatch.copied(document)
    with contextlib.suppress(jsonpatch.DoesNotApply):
        jsonpatch.apply(document, patch)
    assert document == before


@pytest.mark.parametrize(
    ("content_type", "body", "code", "message"),
    [
        (
            documents.JSON,
            b"{}",
            400,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            documents.JSON,
            b"[1]",
            400,
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (documents.JSON, b"{", 400, "error decoding patch: unexpected end of JSON input"),
        (documents.JSON, b"[null]", 422, "the server rejected our request due to an error in our request"),
        (
            documents.JSON,
            b'[{"op":"test","path":"/a","value":1}]',
            422,
            "the server rejected our request due to an error in our request",
        ),
        (
            documents.MERGE,
            b"[]",
            400,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (documents.MERGE, b"null", 400, "Invalid JSON Patch"),
        (
            documents.STRATEGIC,
            b'"x"',
            400,
            "json: cannot unmarshal string into Go value of type map[string]interface {}",
        ),
        (
            documents.MERGE,
            b'{"a":' * 300 + b"1" + b"}" * 300,
            400,
            "error decoding patch: invalid character '{' exceeded max depth",
        ),
    ],
)
def test_malformed_patches_are_refused_with_upstreams_messages(
    content_type: str, body: bytes, code: int, message: str
) -> None:
    with pytest.raises(StatusError) as refusal:
        documents.apply_patch(content_type, {}, body)
    assert (refusal.value.code, refusal.value.message) == (code, message)


def test_a_patch_of_too_many_operations_is_too_large() -> None:
    body = b"[" + b",".join([b'{"op":"test","path":"/none"}'] * 10_001) + b"]"
    with pytest.raises(StatusError) as refusal:
        documents.apply_patch(documents.JSON, {}, body)
    assert refusal.value.code == 413
    assert refusal.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_a_result_that_is_not_an_object_is_invalid() -> None:
    with pytest.raises(StatusError) as refusal:
        documents.apply_patch(documents.JSON, {}, b'[{"op":"replace","path":"","value":[]}]')
    assert refusal.value.code == 422
    assert refusal.value.message.startswith(
        ' "" is invalid: patch: Invalid value: "[]": couldn\'t get version/kind'
    )


def test_the_json_patch_null_changes_nothing() -> None:
    assert documents.apply_patch(documents.JSON, {"a": 1}, b"null") == {"a": 1}


@pytest.mark.parametrize(
    ("patch", "merged"),
    [
        (b'{"b":{"c":null},"d":{"e":null,"f":[null]}}', {"a": 1, "b": {}, "d": {"f": [None]}}),
        (b'{"a":[{"x":null,"y":[{"z":null}]}]}', {"a": [{"y": [{}]}], "b": {"c": 1}}),
        (b'{"b":[{"x":null}]}', {"a": 1, "b": [{"x": None}]}),
        (b'{"a":{"x":null}}', {"a": {}, "b": {"c": 1}}),
    ],
)
def test_merge_patches_drop_nulls_within_new_values(patch: bytes, merged: dict[str, Any]) -> None:
    assert documents.apply_patch(documents.MERGE, {"a": 1, "b": {"c": 1}}, patch) == merged


@pytest.mark.parametrize("form", [documents.JSON, documents.MERGE, documents.STRATEGIC])
def test_a_patch_that_is_not_json_is_refused_with_gos_message(form: str) -> None:
    with pytest.raises(StatusError, match="invalid character 'ÿ' looking for beginning of value") as refused:
        documents.apply_patch(form, {}, b"\xff{}")
    assert refused.value.code == 400


def test_bytes_that_are_not_utf8_become_the_replacement_character() -> None:
    patched = documents.apply_patch(documents.MERGE, {}, b'{"a":"x\xffy"}')
    assert patched == {"a": "x\ufffdy"}
