"""Repairs as data: fields, values, hashes, and who changed a field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.syncer.drift.managers import ManagedFields, Manager, last_manager, managed_fields
from vcsync.syncer.drift.repairs import (
    MAX_CHANGES,
    MAX_VALUE,
    FieldChange,
    Shown,
    field_changes,
    field_name,
    field_paths,
)

SHOWN = Shown(b"salt")
EDITED = {
    "manager": "kubectl-edit",
    "time": "2026-11-27T10:00:00Z",
    "fieldsV1": {
        "f:metadata": {"f:labels": {"f:example.org/team": {}}},
        "f:spec": {"f:ports": {'k:{"port":80}': {}}},
    },
}
OURS = {"manager": "vcsync/syncer", "time": "2026-11-26T10:00:00Z", "fieldsV1": {"f:spec": {"f:type": {}}}}


def live(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"example.org/team": "b"}, "managedFields": [OURS, EDITED]}, **fields}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param(
            {"metadata": {"uid": "u", "resourceVersion": "1", "labels": {"example.org/team": "a"}}},
            FieldChange(
                "metadata.labels[example.org/team]", "b", "a", "kubectl-edit", "2026-11-27T10:00:00Z"
            ),
            id="a label that was changed",
        ),
        pytest.param(
            {"spec": {"ports": [{"port": 80}]}},
            FieldChange(
                "spec.ports", '[{"port":81}]', '[{"port":80}]', "kubectl-edit", "2026-11-27T10:00:00Z"
            ),
            id="a list, part of which somebody owns",
        ),
        pytest.param(
            {"spec": {"type": None}},
            FieldChange("spec.type", "NodePort", "", "vcsync/syncer", "2026-11-26T10:00:00Z"),
            id="a field to remove",
        ),
        pytest.param({"spec": {"gone": 1}}, FieldChange("spec.gone", "", "1"), id="a field that was removed"),
    ],
)
def test_a_change_says_what_was_found_and_restored_and_who_wrote_it(
    patch: dict[str, Any], expected: FieldChange
) -> None:
    found = live(spec={"type": "NodePort", "ports": [{"port": 81}]})
    assert field_changes(patch, found, SHOWN, secret=False) == ((expected,), 0)


def test_values_of_secrets_are_hashes_and_their_labels_are_not() -> None:
    patch = {"data": {"key": "c2VjcmV0"}, "metadata": {"labels": {"a": "b"}}}
    found = live(data={"key": "d3Jvbmc="})
    (key, label), _ = field_changes(patch, found, SHOWN, secret=True)
    assert (key.field, label.restored) == ("data.key", "b")
    for text in (key.found, key.restored):
        assert text.startswith("hash ")
        assert "d3Jvbmc" not in text
        assert "c2VjcmV0" not in text
    assert key.found != key.restored
    assert Shown(b"other").text("d3Jvbmc=", secret=True) != key.found, "a hash cannot be found by trying"


def test_an_unknown_object_leaves_what_the_repair_restored() -> None:
    assert field_changes({"data": {"a": "1"}}, None, SHOWN, secret=False) == (
        (FieldChange("data.a", "", "1"),),
        0,
    )


def test_a_repair_of_many_fields_records_some_of_them_and_their_number() -> None:
    patch = {"data": {f"key-{number:03}": "x" for number in range(MAX_CHANGES + 5)}}
    changes, more = field_changes(patch, None, SHOWN, secret=False)
    assert (len(changes), more) == (MAX_CHANGES, 5)


@given(st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.integers()))
def test_a_value_has_a_bounded_length(value: Any) -> None:
    assert len(SHOWN.text(value, secret=False)) <= MAX_VALUE
    assert len(SHOWN.text(value, secret=True)) <= MAX_VALUE


_patches = st.recursive(
    st.none() | st.integers(),
    lambda inner: st.dictionaries(st.text("ab./", min_size=1, max_size=3), inner, max_size=3),
)


@given(st.dictionaries(st.text("ab./", min_size=1, max_size=3), _patches, max_size=3))
def test_every_leaf_of_a_patch_is_named_once(patch: dict[str, Any]) -> None:
    paths = list(field_paths(patch))
    assert len(paths) == len(set(paths)) == _leaves(patch)


def _leaves(value: Any) -> int:
    return sum(_leaves(each) if isinstance(each, dict) and each else 1 for each in value.values())


def test_keys_with_dots_are_in_brackets() -> None:
    assert field_name(("metadata", "annotations", "a.b/c")) == "metadata.annotations[a.b/c]"


def test_the_last_manager_is_the_latest_that_owns_the_field() -> None:
    entries = [
        ManagedFields("early", "2026-11-27T09:00:00Z", {"f:data": {"f:a": {}}}),
        ManagedFields("late", "2026-11-27T11:00:00Z", {"f:data": {"f:a": {}}}),
        ManagedFields("other", "2026-11-27T12:00:00Z", {"f:data": {"f:b": {}}}),
    ]
    assert last_manager(entries, ("data", "a")) == Manager("late", "2026-11-27T11:00:00Z")
    assert last_manager(entries, ("data", "c")) == Manager()


@pytest.mark.parametrize(
    "metadata", [{}, {"managedFields": None}, {"managedFields": [1]}, {"managedFields": "x"}, 1]
)
def test_malformed_managed_fields_name_nobody(metadata: Any) -> None:
    assert not managed_fields({"metadata": metadata})
