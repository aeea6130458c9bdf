"""The cached fields of a Namespace, and the patches of its mirror."""

from __future__ import annotations

import pytest

from vcsync.api import names
from vcsync.nsscheduler.mirror import mirror_patch, slim
from vcsync.objects.envelope import Envelope, OwnerReference

OURS = {names.SLICE: '{"cpu":"1"}', names.PLACEMENTS: '{"r1":1}', names.DEFAULT_QUOTA: '{"cpu":"1"}'}
LABEL = names.placement_label("r1")


def namespace(annotations: dict[str, str], labels: dict[str, str]) -> Envelope:
    return Envelope("shop", "", "uid-shop", "7", annotations=annotations, labels=labels)


def test_a_cached_namespace_has_only_the_fields_that_the_scheduler_reads() -> None:
    whole = Envelope(
        "shop",
        "",
        "uid-shop",
        "7",
        generation=2,
        labels={LABEL: "1", "team": "blue"},
        annotations=OURS | {"example.com/note": "long"},
        owners=(OwnerReference("v1", "ConfigMap", "owner", "uid-owner"),),
        finalizers=("example.com/theirs",),
        creation_timestamp="2026-01-01T00:00:00Z",
        deletion_timestamp="2026-01-02T00:00:00Z",
        spec=b'{"finalizers":["kubernetes"]}',
        status=b'{"phase":"Active"}',
        rest=b'{"extra":1}',
    )
    assert slim(whole) == Envelope(
        "shop",
        "",
        "uid-shop",
        "7",
        generation=2,
        labels={LABEL: "1"},
        annotations=OURS,
        creation_timestamp="2026-01-01T00:00:00Z",
        deletion_timestamp="2026-01-02T00:00:00Z",
    )


@pytest.mark.parametrize("kept", list(OURS))
def test_missing_annotations_are_not_added(kept: str) -> None:
    assert slim(namespace({kept: OURS[kept]}, {})).annotations == {kept: OURS[kept]}


def test_an_up_to_date_mirror_needs_no_patch() -> None:
    found = namespace({names.PLACEMENTS: '{"r1":1}', names.DEFAULT_QUOTA: '{"cpu":"1"}'}, {LABEL: "1"})
    assert mirror_patch(found, {"r1": 1}, {"cpu": "1"}) is None


def test_a_patch_of_the_mirror_has_the_uid_and_only_the_differences() -> None:
    annotations = {names.PLACEMENTS: '{"r1":1}'}
    assert mirror_patch(namespace(annotations, {}), {"r1": 1}, {}) == {
        "metadata": {"uid": "uid-shop", "labels": {LABEL: "1"}}
    }
    assert mirror_patch(namespace({}, {LABEL: "1"}), {"r1": 1}, {}) == {
        "metadata": {"uid": "uid-shop", "annotations": annotations}
    }


def test_a_mirror_without_placements_is_emptied_and_other_labels_stay() -> None:
    found = namespace(
        {names.PLACEMENTS: '{"r1":1}', names.DEFAULT_QUOTA: '{"cpu":"1"}'}, {LABEL: "1", "team": "blue"}
    )
    assert mirror_patch(found, {}, {"cpu": "1"}) == {
        "metadata": {
            "uid": "uid-shop",
            "annotations": {names.PLACEMENTS: None, names.DEFAULT_QUOTA: None},
            "labels": {LABEL: None},
        }
    }


def test_placements_and_assumed_quotas_are_written_in_the_order_of_their_names() -> None:
    patch = mirror_patch(namespace({}, {}), {"r2": 1, "r1": 2}, {"memory": "1Gi", "cpu": "1"})
    assert patch is not None
    assert patch["metadata"]["annotations"] == {
        names.PLACEMENTS: '{"r1":2,"r2":1}',
        names.DEFAULT_QUOTA: '{"cpu":"1","memory":"1Gi"}',
    }
