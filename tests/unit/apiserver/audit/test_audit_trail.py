"""Annotations of audit events: the first value is kept, and size and number are limited."""

from vcsync.apiserver.request.audit_trail import CUT, MAX_ANNOTATIONS, MAX_VALUE, SILENT, Level, Trail


def test_the_first_value_of_an_annotation_is_kept() -> None:
    trail = Trail(Level.METADATA)
    trail.annotate("a.example/key", "one")
    trail.annotate("a.example/key", "two")
    assert trail.annotations == {"a.example/key": "one"}


def test_requests_that_are_not_recorded_take_no_annotations() -> None:
    SILENT.annotate("a.example/key", "one")
    assert SILENT.annotations == {}


def test_annotations_are_limited_in_size_and_number() -> None:
    trail = Trail(Level.METADATA)
    for number in range(MAX_ANNOTATIONS + 5):
        trail.annotate(f"key-{number}", "v" * (MAX_VALUE + 5))
    assert len(trail.annotations) == MAX_ANNOTATIONS
    assert trail.annotations["key-0"] == "v" * MAX_VALUE + CUT
