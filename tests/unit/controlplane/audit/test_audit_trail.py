"""Annotations of audit events: first come, bounded, and none where nothing is told."""

from vcsync.controlplane.audit.trail import CUT, MAX_ANNOTATIONS, MAX_VALUE, SILENT, Level, Trail


def test_an_annotation_stands_as_it_was_set_first() -> None:
    trail = Trail(Level.METADATA)
    trail.annotate("a.example/key", "one")
    trail.annotate("a.example/key", "two")
    assert trail.annotations == {"a.example/key": "one"}


def test_what_is_not_told_takes_no_annotations() -> None:
    SILENT.annotate("a.example/key", "one")
    assert SILENT.annotations == {}


def test_annotations_are_bounded_in_size_and_number() -> None:
    trail = Trail(Level.METADATA)
    for number in range(MAX_ANNOTATIONS + 5):
        trail.annotate(f"key-{number}", "v" * (MAX_VALUE + 5))
    assert len(trail.annotations) == MAX_ANNOTATIONS
    assert trail.annotations["key-0"] == "v" * MAX_VALUE + CUT
