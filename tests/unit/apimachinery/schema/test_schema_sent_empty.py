"""Empty lists and maps that are visible in a request and not stored."""

import pytest

from vcsync.apimachinery.schema import builtin, sent_empty

CLAIM = "io.k8s.api.resource.v1.ResourceClaim"


def test_every_type_of_the_table_is_reached_from_a_kind():
    schemas = (builtin.schema(each.group, each.version, each.kind) for each in builtin.resources())
    reached = {place.name for schema in schemas if schema for place in sent_empty.places(schema.definition)}
    assert reached == {
        "allocatable",
        "currentMetrics",
        "drivers",
        "endpoints",
        "limits",
        "ports",
        "requests",
        "rules",
    }


@pytest.mark.parametrize(
    "definition", ["io.k8s.api.core.v1.Pod", "io.k8s.api.apps.v1.Deployment", "", "com.example.Unknown"]
)
def test_most_kinds_have_no_visible_empty_values(definition):
    assert sent_empty.places(definition) == ()


def test_sent_empty_values_are_kept_until_they_are_shown():
    sent = {"spec": {"devices": {"requests": []}}}
    fitted = {"spec": {"devices": {"requests": None}}}
    sent_empty.keep(sent, fitted, CLAIM)
    assert fitted == sent
    shown = {"spec": {"devices": {"requests": None}}}
    sent_empty.show(shown, sent_empty.empty_places(fitted, CLAIM))
    assert shown == sent


@pytest.mark.parametrize("sent", [{}, {"spec": None}, {"spec": 7}, {"spec": {"devices": []}}, [], "text"])
def test_malformed_objects_have_no_empty_places(sent):
    assert sent_empty.empty_places(sent, CLAIM) == []


def test_an_empty_map_with_omitempty_is_omitted():
    definition = "io.k8s.api.core.v1.Node"
    empty = sent_empty.empty_places({"status": {"allocatable": {}}}, definition)
    node = {"status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1"}}}
    sent_empty.show(node, empty)
    assert node == {"status": {"capacity": {"cpu": "1"}}}
