"""Fields that a write of a subresource restores. Pure."""

from typing import Any

import pytest

from vcsync.apimachinery.kinds.common.partial_writes import keep_all_but, keep_metadata, reset_metadata
from vcsync.apiserver.registry.eviction import set_condition


def test_all_fields_except_the_named_ones_and_metadata_are_restored() -> None:
    old = {"kind": "K", "metadata": {"a": 1}, "spec": {"x": [1]}, "status": {"y": 1}, "gone": 1}
    new: dict[str, Any] = {
        "kind": "L",
        "metadata": {"a": 2},
        "spec": {"x": [2]},
        "status": {"y": 2},
        "new": 1,
    }
    keep_all_but(new, old, "status")
    assert new == {"kind": "L", "metadata": {"a": 2}, "spec": {"x": [1]}, "status": {"y": 2}, "gone": 1}
    new["spec"]["x"].append(3)
    assert old["spec"] == {"x": [1]}, "what is put back is a copy"


@pytest.mark.parametrize("managed", [[{"manager": "m"}], None])
def test_metadata_except_managed_fields_is_restored(managed: Any) -> None:
    old = {"metadata": {"name": "n", "labels": {"a": "b"}, "managedFields": [{"manager": "old"}]}}
    new: dict[str, Any] = {"metadata": {"name": "n", "labels": {"c": "d"}, "annotations": {"e": "f"}}}
    if managed:
        new["metadata"]["managedFields"] = managed
    keep_metadata(new, old)
    kept_metadata = {"managedFields": managed} if managed else {}
    assert new["metadata"] == {"name": "n", "labels": {"a": "b"}, **kept_metadata}
    assert old["metadata"]["managedFields"] == [{"manager": "old"}]


def test_metadata_that_clients_set_is_restored() -> None:
    old = {"metadata": {"labels": {"a": "b"}, "finalizers": ["f"], "uid": "u"}}
    new: dict[str, Any] = {
        "metadata": {
            "labels": {"c": "d"},
            "annotations": {"e": "f"},
            "ownerReferences": [{}],
            "deletionTimestamp": "t",
            "uid": "u",
            "generation": 2,
        }
    }
    reset_metadata(new, old)
    assert new["metadata"] == {"labels": {"a": "b"}, "finalizers": ["f"], "uid": "u", "generation": 2}


def test_a_condition_replaces_the_one_of_its_type() -> None:
    status: dict[str, Any] = {
        "conditions": [
            {"type": "A", "status": "True", "lastTransitionTime": "1"},
            {"type": "B", "status": "True", "lastTransitionTime": "1"},
        ]
    }
    set_condition(status, {"type": "B", "status": "False", "lastTransitionTime": "2"})
    set_condition(status, {"type": "A", "status": "True", "reason": "R", "lastTransitionTime": "2"})
    set_condition(status, {"type": "C", "status": "True", "lastTransitionTime": "2"})
    assert status["conditions"] == [
        {"type": "A", "status": "True", "reason": "R", "lastTransitionTime": "1"},
        {"type": "B", "status": "False", "lastTransitionTime": "2"},
        {"type": "C", "status": "True", "lastTransitionTime": "2"},
    ]
    empty: dict[str, Any] = {}
    set_condition(empty, {"type": "A", "status": "True"})
    assert empty["conditions"] == [{"type": "A", "status": "True"}]
