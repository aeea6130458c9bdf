"""Objects encoded as JSON, YAML and protobuf, and reduced to their metadata."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.wire import encode, jsonpath, partial, protobuf, values
from vcsync.apimachinery.wire.negotiation import Representation
from vcsync.objects.budget import Budget, BudgetExceeded

OBJ = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"x": "1", "b": "ü"}}
STORED = b'{"metadata":{"name":"a","labels":{"x":"}{"}},"data":{"b":"c"}}'


def test_json_ends_in_a_newline_unless_it_is_indented() -> None:
    assert encode.document(OBJ, Representation("json")).endswith(b"}\n")
    pretty = encode.document(OBJ, Representation("json", pretty=True))
    assert pretty.startswith(b'{\n  "kind": "ConfigMap"')
    assert pretty.endswith(b"}")


def test_every_format_has_the_same_content() -> None:
    data = json.dumps(OBJ).encode()
    for how in (Representation("json"), Representation("json", pretty=True)):
        assert json.loads(encode.written(data, how)) == OBJ
    assert yaml.safe_load(encode.written(data, Representation("yaml"))) == OBJ
    assert protobuf.decode(encode.written(data, Representation("protobuf"))) == OBJ


def test_a_list_is_joined_from_its_items() -> None:
    metadata = encode.list_metadata(7, "c", 0)
    data = encode.json_list("FooList", "x/v1", metadata, [b'{"a":1}', b"{}"])
    assert json.loads(data) == {
        "kind": "FooList",
        "apiVersion": "x/v1",
        "metadata": {"resourceVersion": "7", "continue": "c", "remainingItemCount": 0},
        "items": [{"a": 1}, {}],
    }
    assert encode.list_metadata(0) == {}


def test_an_event_is_one_line() -> None:
    assert encode.watch_event("ADDED", b"{}") == b'{"type":"ADDED","object":{}}\n'


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_partial_object_has_only_metadata(version: str) -> None:
    metadata = {"name": "a", "labels": {"x": "}{"}, "resourceVersion": "5"}
    wanted = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": metadata}
    assert json.loads(partial.partial_object(STORED, 5, version=version)) == wanted
    raw = partial.partial_message(STORED, 5)
    assert (
        protobuf.decode(protobuf.envelope(f"meta.k8s.io/{version}", "PartialObjectMetadata", raw)) == wanted
    )


def test_an_empty_partial_list_has_null_items() -> None:
    assert json.loads(partial.partial_list([], {"resourceVersion": "1"}))["items"] is None
    one = partial.partial_object(STORED, 5)
    assert json.loads(partial.partial_list([one], {}))["items"] == [json.loads(one)]


def test_partial_objects_of_lists_and_partial_lists_of_objects_are_refused() -> None:
    assert partial.no_list("core.PodList").message == (
        "you requested PartialObjectMetadata, but the requested object is a list (*core.PodList)"
    )
    assert partial.no_object("core.Pod").code == 406


ITEMS = {
    "items": [
        {"type": "Ready", "status": "True", "n": 1},
        {"type": "Other", "status": "False", "n": 2},
        {"type": "Third", "n": 3},
    ],
    "labels": {"a.b/c": "L"},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".items[0].type", ["Ready"]),
        (".items[-1].type", ["Third"]),
        (".items[9].type", []),
        (".items[1:3].n", [2, 3]),
        (".items[::2].n", [1, 3]),
        (".items[0,2].n", [1, 3]),
        (".items[*].n", [1, 2, 3]),
        (".labels.a\\.b/c", ["L"]),
        (".labels['a.b/c']", ["L"]),
        ('$.items[?(@.type=="Ready")].status', ["True"]),
        (".items[?(@.type!='Ready')].n", [2, 3]),
        (".items[?(@.n>=2)].n", [2, 3]),
        (".items[?(@.status)].n", [1, 2]),
        ("..type", ["Ready", "Other", "Third"]),
        (".labels.*", ["L"]),
        (".missing.more", []),
    ],
)
def test_a_path_has_the_results_of_kubectl(path: str, found: list[object]) -> None:
    assert list(jsonpath.find(jsonpath.parse(path), ITEMS, Budget("the path", 1000))) == found


@pytest.mark.parametrize(
    "path", [".a[", ".a[x]", ".a[?(b)]", "a b", ".a[::0]", "." + "a" * 2000, ".a[?(@.b==c)]"]
)
def test_an_invalid_path_is_refused(path: str) -> None:
    with pytest.raises(jsonpath.BadPath):
        jsonpath.parse(path)


@given(st.text(alphabet=".[]()?@*:'\"abc\\=<>!12-", max_size=20))
def test_any_text_is_a_path_or_refused(path: str) -> None:
    try:
        list(jsonpath.find(jsonpath.parse(path), ITEMS, Budget("the path", 1000)))
    except (jsonpath.BadPath, BudgetExceeded):
        return


@given(st.integers(-62135596799, 253402300799))
def test_formatted_times_parse_to_the_same_time(seconds: int) -> None:
    text = values.time_text(seconds)
    assert text is not None
    assert values.seconds_of(text) == (seconds, 0)


@given(st.integers(-(10**18), 10**18))
def test_formatted_durations_parse_to_the_same_duration(nanos: int) -> None:
    assert values.duration_of(values.duration_text(nanos)) == nanos


@pytest.mark.parametrize(
    ("nanos", "text"), [(0, "0s"), (1500, "1.5µs"), (-90 * 10**9, "-1m30s"), (3600 * 10**9, "1h0m0s")]
)
def test_durations_are_formatted_as_in_go(nanos: int, text: str) -> None:
    assert values.duration_text(nanos) == text


@pytest.mark.parametrize("text", ["1", "-1.5", "+.5", "1Ki", "1e3", "1E", "100n", "5u", 7, 0.5])
def test_quantities_are_accepted(text: object) -> None:
    assert values.quantity(text) == str(text)


@pytest.mark.parametrize("text", ["", "1x", "Ki", "1KiB", "1.2.3", True, [], "1" * 300])
def test_an_invalid_quantity_is_refused(text: object) -> None:
    with pytest.raises(values.BadValue):
        values.quantity(text)
