"""Sets of field paths in the form of managedFields."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.patch import fields, owners

ELEMENTS = st.sampled_from(["f:a", "f:b", "f:c", 'k:{"name":"x"}', 'v:"x"'])
PATHS = st.sets(st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple), max_size=12)


def of(paths: set[tuple[str, ...]]) -> fields.Set:
    found: fields.Set = {}
    for path in paths:
        found = fields.union(found, fields.single(path))
    return found


@given(PATHS, PATHS)
def test_sets_behave_like_sets_of_paths(left: set[tuple[str, ...]], right: set[tuple[str, ...]]) -> None:
    one, other = of(left), of(right)
    assert set(fields.paths(fields.union(one, other))) == left | right
    assert set(fields.paths(fields.intersection(one, other))) == left & right
    assert set(fields.paths(fields.difference(one, other))) == left - right
    below = {path for path in left if any(path[: len(cut)] == cut for cut in right)}
    assert set(fields.paths(fields.without(one, other))) == left - below
    assert all(fields.has(one, path) == (path in left) for path in left | right)


@given(PATHS, PATHS)
def test_operations_leave_their_arguments_alone(
    left: set[tuple[str, ...]], right: set[tuple[str, ...]]
) -> None:
    one, other = of(left), of(right)
    before = json.dumps([one, other])
    for operation in (fields.union, fields.intersection, fields.difference, fields.without):
        operation(one, other)
    assert json.dumps([one, other]) == before


@given(PATHS)
def test_parsing_a_formatted_set_returns_the_same_set(paths: set[tuple[str, ...]]) -> None:
    assert fields.parse(json.loads(json.dumps(fields.ordered(of(paths))))) == of(paths)


def test_order_is_self_fields_keys_values_indexes() -> None:
    mixed: fields.Set = {
        'v:"b"': {},
        "i:10": {},
        "i:9": {},
        'k:{"p":80}': {},
        'k:{"p":9}': {},
        "f:z": {},
        ".": {},
        "v:5": {},
    }
    assert list(fields.ordered(mixed)) == [
        ".",
        "f:z",
        'k:{"p":9}',
        'k:{"p":80}',
        "v:5",
        'v:"b"',
        "i:9",
        "i:10",
    ]


def test_elements_have_the_form_of_go() -> None:
    assert fields.key({"protocol": "TCP", "port": 80.0}) == 'k:{"port":80,"protocol":"TCP"}'
    assert fields.value("a<b>&c\u2028") == 'v:"a\\u003cb\\u003e\\u0026c\\u2028"'


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:containers", 'k:{"name":"x"}', "f:image"), '.spec.containers[name="x"].image'),
        (("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}'), '.spec.ports[port=80,protocol="TCP"]'),
        (("f:metadata", "f:finalizers", 'v:"a\\u003cb"'), '.metadata.finalizers[="a<b"]'),
        (("f:a", "i:3"), ".a[3]"),
        (("f:a", "v:true"), ".a[=true]"),
    ],
)
def test_paths_are_formatted_as_in_conflicts(path: tuple[str, ...], text: str) -> None:
    assert fields.shown(path) == text


def test_unknown_kinds_of_elements_are_ignored() -> None:
    assert fields.parse({"f:a": {"x:b": {}}, "q:z": {"f:a": {}}}) == {"f:a": {}}


@pytest.mark.parametrize(
    "raw",
    [[], {"a": {}}, {"": {}}, {"f:a": 3}, {"i:x": {}}, {"k:3": {}}, {"k:{": {}}, {"v:": {}}],
)
def test_invalid_fields_are_refused(raw: object) -> None:
    with pytest.raises(ValueError, match=r"object|colon|Expecting|invalid literal"):
        fields.parse(raw)


def test_nesting_is_limited() -> None:
    raw: fields.Set = {}
    for _ in range(100):
        raw = {"f:a": raw}
    with pytest.raises(ValueError, match="too deep"):
        fields.parse(raw)


@pytest.mark.parametrize("version", [{}, {"apiVersion": None}, {"apiVersion": ""}, {"apiVersion": 1}])
def test_entries_without_a_version_are_invalid(version: dict[str, Any]) -> None:
    entry = {"manager": "a", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {}, **version}
    assert owners.read_from_client([entry]) is None
