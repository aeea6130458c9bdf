"""The parity run compares the events that watchers of two servers receive, without waiting for a fixed time."""

import pytest

from hack.parity import sequences, watched
from hack.parity.ask import Answer
from hack.parity.compare import differences
from hack.parity.corpus import EVENTS, Step
from hack.parity.watched import Target, Written

DEFINITION = {"versions": []}


def _event(kind, name, uid="u", version=1, **members):
    metadata = {"name": name, "uid": uid, "resourceVersion": str(version)}
    return {"type": kind, "object": {"metadata": metadata, **members}}


def _object(name, uid="u", version=1, **members):
    return _event("", name, uid, version, **members)["object"]


@pytest.mark.parametrize(
    ("verb", "path", "body", "expected"),
    [
        ("POST", "/api/v1/namespaces/{ns}/pods?dryRun=All", {"metadata": {"name": "p"}},
         Target("/api/v1/namespaces/{ns}/pods", "p")),
        ("PATCH", "/api/v1/namespaces/{ns}/pods/p/status", {"metadata": {"name": "q"}},
         Target("/api/v1/namespaces/{ns}/pods", "p")),
        ("POST", "/api/v1/namespaces/{ns}/bindings", {"metadata": {"name": "p"}},
         Target("/api/v1/namespaces/{ns}/pods", "p")),
        ("PUT", "/api/v1/namespaces/default/finalize", None, Target("/api/v1/namespaces", "default")),
        ("PATCH", "/api/v1/namespaces/{ns}", None, Target("/api/v1/namespaces", "{ns}")),
        ("DELETE", "/apis/example.com/v1/namespaces/{ns}/things", None,
         Target("/apis/example.com/v1/namespaces/{ns}/things", "")),
        ("DELETE", "/apis/storage.k8s.io/v1/storageclasses/fast", None,
         Target("/apis/storage.k8s.io/v1/storageclasses", "fast")),
        ("POST", "/api/v1/namespaces/{ns}/pods", [{"metadata": 7}], Target("/api/v1/namespaces/{ns}/pods", "")),
        ("POST", "/api/v1/namespaces/{ns}/pods", {"metadata": 7}, Target("/api/v1/namespaces/{ns}/pods", "")),
        ("GET", "/api/v1/namespaces/{ns}/pods/p", None, None),
        ("POST", "/version", None, None),
        ("POST", "/apis/apps", None, None),
        ("POST", "/apis/apps/v1/Nonsense:/x", None, None),
    ],
)  # fmt: skip
def test_a_write_concerns_the_collection_and_name_of_its_object(verb, path, body, expected):
    assert watched.target(Step("s", verb, path, body)) == expected


@pytest.mark.parametrize(
    ("collection", "expected"),
    [("/api/v1/pods", ""), ("/apis/example.com/v1/namespaces/{ns}/things", "example.com")],
)
def test_the_group_of_a_collection_is_in_its_path(collection, expected):
    assert watched.group(collection) == expected


def test_a_scenario_owns_the_objects_that_its_requests_and_their_answers_name():
    written = Written()
    written.note(Step("s", "POST", "/api/v1/nodes"), "", 201, _object("made-x1", "1"))
    written.note(Step("s", "DELETE", "/api/v1/nodes/b"), "b", 200, {"details": {"name": "b", "uid": "2"}})
    written.note(Step("s", "POST", "/api/v1/nodes?dryRun=All"), "dry", 201, _object("dry", "3"))
    written.note(
        Step("s", "POST", "/api/v1/nodes"), "refused", 422, {"details": {"name": "refused", "uid": "4"}}
    )
    assert written.uids == {"1", "2"}
    assert [name for name in ("made-x1", "b", "dry", "other") if written.concerns(_object(name))] == [
        "made-x1", "b", "dry",
    ]  # fmt: skip
    assert not written.collected


def test_the_deletion_of_a_collection_concerns_every_object():
    written = Written()
    items = {"items": [_object("a", "1"), _object("b", "2")]}
    written.note(Step("s", "DELETE", "/api/v1/nodes"), "", 200, items)
    assert written.concerns(_object("other"))
    assert written.collected
    assert written.uids == {"1", "2"}


@pytest.mark.parametrize(
    ("events", "listed", "expected"),
    [
        ([], [], "the deletion of the object with uid made"),
        ([_event("ADDED", "a", "made", 6)], [], "the deletion of the object with uid made"),
        ([_event("ADDED", "a", "made", 6)], [_object("a", "made", 7)], "version 7 of a"),
        ([_event("ADDED", "a", "made", 6)], [_object("a", "made", 6)], ""),
        ([_event("ADDED", "a", "made", 6), _event("DELETED", "a", "made", 8)], [], ""),
        ([_event("DELETED", "a", "made", 8)], [_object("b", "old", 5)], ""),
        ([_event("DELETED", "a", "made", 8), {"type": "ERROR", "object": {"metadata": {}}}], [], ""),
        ([_event("DELETED", "a", "made", 8)], [_object("b", "new", 9)], "version 9 of b"),
        ([_event("DELETED", "a", "made", 8), _event("ADDED", "b", "new", 9)], [],
         "the deletion of the object with uid new"),
    ],
)  # fmt: skip
def test_a_watcher_has_everything_once_its_events_lead_to_the_listed_objects(events, listed, expected):
    written = Written(uids={"made"}, every=True)
    assert watched.pending(written, 5, events, listed) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, True),
        ({"kind": "Pod", "spec": DEFINITION}, True),
        ({"spec": DEFINITION}, False),
        ({"spec": DEFINITION, "status": {"conditions": [{"type": "Established", "status": "True"}]}}, True),
        ({"spec": DEFINITION, "status": {"conditions": [{"type": "Established", "status": "False"}]}}, False),
        (
            {"spec": DEFINITION, "status": {"conditions": [{"type": "NamesAccepted", "status": "False"}]}},
            True,
        ),
        (
            {"spec": DEFINITION, "metadata": {"deletionTimestamp": "t", "finalizers": [watched.CLEANUP]}},
            False,
        ),
        ({"spec": DEFINITION, "metadata": {"deletionTimestamp": "t", "finalizers": ["example.com/x"]}}, True),
    ],
)
def test_a_definition_is_settled_once_the_server_stops_changing_it(members, expected):
    assert watched.settled({"metadata": {}, **members}) is expected


def _pairs(real, ours):
    return [(name, one is not None, other is not None) for name, one, other in sequences.pairs(real, ours)]


def test_equal_events_are_paired_first():
    started, ended = _event("MODIFIED", "a", x=1), _event("MODIFIED", "a", x=2)
    assert _pairs([started, ended], [ended]) == [
        ("events[0] MODIFIED a", True, False),
        ("events[1] MODIFIED a", True, True),
    ]


def test_events_of_the_same_type_and_object_are_compared():
    real, ours = _event("MODIFIED", "a", x=1), _event("MODIFIED", "a", x=2)
    assert list(sequences.pairs([real], [ours])) == [("events[0] MODIFIED a", real, ours)]


@pytest.mark.parametrize(
    ("real", "ours", "expected"),
    [
        ([], [_event("ADDED", "a")], [("events[0] ADDED a", False, True)]),
        ([_event("ADDED", "a")], [_event("ADDED", "b")],
         [("events[0] ADDED a", True, False), ("events[1] ADDED b", False, True)]),
        ([_event("MODIFIED", "a"), _event("DELETED", "a")], [_event("DELETED", "a")],
         [("events[0] MODIFIED a", True, False), ("events[1] DELETED a", True, True)]),
    ],
)  # fmt: skip
def test_an_event_without_a_partner_is_a_difference(real, ours, expected):
    assert _pairs(real, ours) == expected


def test_objects_with_generated_names_are_paired_by_their_prefix():
    made = [
        {"type": "ADDED", "object": {"metadata": {"generateName": "a-", "name": f"a-{each}"}}}
        for each in "xy"
    ]
    assert list(sequences.pairs(made[:1], made[1:])) == [("events[0] ADDED a-", made[0], made[1])]


def _watched(*events, missing=(), grouped=False):
    body = {"events": list(events), "missing": list(missing), "grouped": grouped}
    return Answer(200, "", (), body)


def _found(real, ours):
    return [str(each) for each in differences(Step("s", EVENTS, "/api/v1/pods"), real, ours)]


def test_events_differ_by_the_fields_of_their_objects():
    real = _watched(_event("ADDED", "a", "1", 5), _event("DELETED", "a", "1", 6, spec={"x": 1}))
    ours = _watched(_event("ADDED", "a", "2", 7), _event("DELETED", "a", "2", 8, spec={"x": 2}))
    assert _found(real, ours) == ["events[1] DELETED a: spec.x: real 1, ours 2"]


def test_a_deletion_has_a_newer_version_than_the_event_before():
    real = _watched(_event("ADDED", "a", version=5), _event("DELETED", "a", version=6))
    ours = _watched(_event("ADDED", "a", version=5), _event("DELETED", "a", version=5))
    assert _found(real, ours) == ["events[1] DELETED a: newer: real True, ours False"]


def test_the_order_of_a_deleted_collection_does_not_matter():
    one, other = _event("DELETED", "a", "1"), _event("DELETED", "b", "2")
    assert _found(_watched(one, other, grouped=True), _watched(other, one, grouped=True)) == []
    assert _found(_watched(one, other), _watched(other, one))


@pytest.mark.parametrize("sides", [(["x"], []), ([], ["x"]), (["x"], ["x"])])
def test_events_that_never_came_are_a_difference_even_if_both_sides_lack_them(sides):
    real, ours = (_watched(missing=each) for each in sides)
    assert _found(real, ours)
