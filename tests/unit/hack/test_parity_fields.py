"""The parity corpus covers nearly every field of the built-in types, with deterministic requests."""

import json

import pytest

from hack.parity import corpus, coverage, fields
from hack.parity.__main__ import LEAST_SHARE, separate_known, summary
from hack.parity.ask import Answer
from hack.parity.compare import Difference, differences
from hack.parity.corpus import Step
from hack.parity.replaying import _not_varying
from vcsync.apimachinery.schema import builtin

POD = "io.k8s.api.core.v1.Pod"


@pytest.fixture(scope="module")
def scenarios():
    return corpus.load()


def _step(path, body=None, raw=None):
    return Step("s", "POST", path, body, raw)


def test_nearly_every_field_is_set(scenarios):
    steps = [step for each in scenarios for step in each.steps]
    written = frozenset().union(*(coverage.fields_set(step) for step in steps))
    assert len(written) >= LEAST_SHARE * len(coverage.fields())


def test_requests_are_the_same_each_time():
    assert json.dumps(list(fields.scenarios())) == json.dumps(list(fields.scenarios()))


def test_every_kind_that_can_be_created_has_requests(scenarios):
    made = {each.name for each in scenarios if each.group == corpus.FIELDS}
    served = {
        f"fields-{each.plural}.{each.api_version}".replace("/", "-").replace(".", "-")
        for each in builtin.resources()
        if "create" in each.verbs
    }
    assert made == served


def test_every_type_named_in_the_data_exists():
    data = fields._data()
    types = {fields._short(each) for each in builtin.data()["definitions"]}
    go_types = {fields._short(each) for each in builtin.data()["aliases"]}
    properties = {
        f"{fields._short(name)}.{key}"
        for name in builtin.data()["definitions"]
        for key in builtin.definition(name).properties
    }
    assert {*data["types"], *data["unions"]} <= types
    assert set(data["enums"]) <= go_types
    assert {each for each in data["values"] if not each.startswith(".")} <= properties


def test_members_of_an_enumeration_are_all_tried():
    schema = builtin.definition("io.k8s.api.core.v1.PodSpec")
    good, bad = fields.values(schema.definition, "restartPolicy", schema.properties["restartPolicy"])
    assert sorted(good) == ["Always", "Never", "OnFailure"]
    assert bad == ["Other", "", 7]


def test_siblings_of_a_union_member_include_no_other_member():
    base = {"initialDelaySeconds": 1, "exec": {"command": ["x"]}}
    assert fields._siblings("io.k8s.api.core.v1.Probe", "grpc", base) == {"initialDelaySeconds": 1}
    assert fields._siblings("io.k8s.api.core.v1.Probe", "exec", base) == base


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/api/v1/namespaces/x/pods", {"spec": {}}, {(POD, "spec")}),
        ("/api/v1/namespaces/x/pods?dryRun=All", {"spec": {"hostname": "a"}},
         {(POD, "spec"), ("io.k8s.api.core.v1.PodSpec", "hostname")}),
        ("/api/v1/namespaces/x/pods/p/status", {"status": {"phase": "Running"}},
         {(POD, "status"), ("io.k8s.api.core.v1.PodStatus", "phase")}),
        ("/api/v1/namespaces/x", {"spec": {}}, {("io.k8s.api.core.v1.Namespace", "spec")}),
        ("/api/v1/namespaces/x/pods", {"spec": 7, "nonsense": 1}, set()),
        ("/api/v1/namespaces/x/pods", {"spec": {"hostNetwork": 1, "priority": True}}, {(POD, "spec")}),
        ("/apis/example.com/v1/things", {"spec": {}}, set()),
        ("/version", {"spec": {}}, set()),
        ("/api", {"spec": {}}, set()),
    ],
)  # fmt: skip
def test_a_field_is_set_by_a_value_of_its_type(path, body, expected):
    assert coverage.fields_set(_step(path, body)) == expected
    assert coverage.fields_set(_step(path, raw=json.dumps(body))) == expected


def test_bodies_that_are_not_json_set_no_fields():
    assert coverage.fields_set(_step("/api/v1/namespaces/x/pods", raw="{")) == frozenset()


def _answer(body):
    return Answer(200, "application/json", (), body)


def test_values_that_differ_between_two_real_servers_may_differ_from_ours():
    step = _step("/api/v1/namespaces/x/services")
    real, twin = _answer({"ip": "1", "port": 1, "kept": "a"}), _answer({"ip": "2", "port": 2, "kept": "a"})
    ours = _answer({"ip": "3", "port": "1", "kept": "b"})
    found = differences(step, real, ours)
    assert _not_varying(found, real, ours, twin, step) == [
        Difference("port", 1, "1"),
        Difference("kept", "a", "b"),
    ]


def _events(*versions):
    objects = [{"metadata": {"name": "a", "uid": "u", "resourceVersion": str(each)}} for each in versions]
    types = ["ADDED", *["MODIFIED"] * (len(versions) - 2), "DELETED"]
    events = [{"type": kind, "object": each} for kind, each in zip(types, objects, strict=True)]
    return _answer({"events": events, "missing": [], "grouped": False})


@pytest.mark.parametrize(
    ("twin", "left"), [((4, 7), []), ((4, 5, 6, 7), ["events[1] MODIFIED a"])], ids=["like ours", "like real"]
)
def test_an_event_that_only_one_of_two_real_servers_sends_may_be_absent_from_ours(twin, left):
    step = Step("s", corpus.EVENTS, "/api/v1/namespaces/x/pods")
    real, ours, twin = _events(1, 2, 3), _events(4, 5), _events(*twin)
    found = differences(step, real, ours)
    assert [each.path for each in found] == ["events[1] MODIFIED a"]
    assert [each.path for each in _not_varying(found, real, ours, twin, step)] == left


def test_a_known_difference_that_no_longer_exists_is_reported():
    result = {"different": {"s a": ["x"], "s b": ["y"]}, "alike": ["s c", "s d"]}
    separate_known(result, frozenset({"s a", "s c", "not asked"}))
    assert result["different"] == {"s b": ["y"]}
    assert result["known"] == {"s a": ["x"]}
    assert result["vanished"] == ["s c"]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            ["code: real 422, ours 201", "kind: real 'Status', ours 'Pod'",
             "message: real 'Pod \"p\" is invalid: spec.x: Required value', ours absent"],
            "code: real 422, ours 201 message: real 'spec.x: Required value'",
        ),
        (["spec.x: real absent, ours {}"], "spec.x: ours {}"),
    ],
)  # fmt: skip
def test_a_summary_names_code_and_message_or_the_first_difference(found, expected):
    assert summary(found) == expected
