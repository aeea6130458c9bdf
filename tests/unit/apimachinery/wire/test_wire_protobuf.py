"""The protobuf codec, compared with bytes of a real API server and with itself.

`go_made.jsonl`: objects posted to kube-apiserver 1.36, as it answers in JSON and in protobuf (base64).
"""

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.schema import builtin, walk
from vcsync.apimachinery.wire import protobuf, protobuf_decode, types, values, zeros

SAMPLES = [json.loads(line) for line in (Path(__file__).parent / "go_made.jsonl").read_text().splitlines()]
NAMES = [f"{obj['apiVersion']}.{obj['kind']}" for obj, _ in SAMPLES]


@pytest.mark.parametrize(("obj", "data"), SAMPLES, ids=NAMES)
def test_protobuf_of_go_decodes_to_the_json_of_go(obj: dict[str, Any], data: str) -> None:
    assert protobuf.decode(base64.b64decode(data)) == obj


@pytest.mark.parametrize(("obj", "data"), SAMPLES, ids=NAMES)
def test_encoded_objects_decode_to_the_same_object(obj: dict[str, Any], data: str) -> None:
    assert protobuf.decode(protobuf.encode(obj)) == obj


@pytest.mark.parametrize(("obj", "data"), SAMPLES, ids=NAMES)
def test_decoded_protobuf_of_go_is_normalized(obj: dict[str, Any], data: str) -> None:
    group, _, version = obj["apiVersion"].rpartition("/")
    schema = builtin.schema(group, version, obj["kind"])
    if obj["kind"] == "PartialObjectMetadata":
        assert schema is None, "only ever answered"
        return
    assert schema is not None
    assert walk.decode(obj, schema, complete=True) == (obj, [])


def test_every_type_has_plans_for_both_directions() -> None:
    names = types._table().messages
    assert len(names) > 700
    for name in names:
        zeros.always(name)
        protobuf.write_message(name, {})
        protobuf.read_message(name, b"")


def test_an_envelope_without_kind_has_the_expected_type() -> None:
    assert protobuf.decode(b"k8s\x00\x0a\x00", "", "v1", "ConfigMap") == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {},
    }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty data"),
        (b"k8s\x00", "empty body"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (b"k8s\x00\xff\xff", "unexpected EOF"),
        (b"k8s\x00\x0a\x00\x12\x03abc", "unexpected EOF"),
    ],
)
def test_invalid_bytes_are_refused_with_upstreams_messages(data: bytes, message: str) -> None:
    with pytest.raises(protobuf.ProtobufError) as refusal:
        protobuf.decode(data, "", "v1", "ConfigMap")
    assert str(refusal.value) == message


def test_a_list_is_joined_from_messages() -> None:
    messages = [protobuf.message("", "v1", "ConfigMap", {"metadata": {"name": name}}) for name in ("a", "b")]
    items = b"".join(map(protobuf.list_item, messages))
    head, tail = protobuf.list_frame("v1", "ConfigMapList", 7, len(items), continuation="c", remaining=3)
    found = protobuf.decode(head + items + tail)
    assert found == {
        "kind": "ConfigMapList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "7", "continue": "c", "remainingItemCount": 3},
        "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}],
    }


def test_a_watch_frame_has_its_length_and_an_object_in_its_envelope() -> None:
    inner = protobuf.encode({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}})
    frame = protobuf.watch_frame("ADDED", inner)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    event = protobuf.read_message("meta/v1.WatchEvent", frame[4:])
    assert event["type"] == "ADDED"
    assert event["object"] == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}


def test_custom_resources_have_no_protobuf_form() -> None:
    assert not protobuf.supports("example.com", "v1", "Foo")
    with pytest.raises(protobuf.ProtobufError):
        protobuf.encode({"kind": "Foo", "apiVersion": "example.com/v1"})


def test_a_value_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(protobuf.ProtobufError):
        protobuf.encode({"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": 1}})


def test_unknown_fields_are_dropped() -> None:
    unknown = b"\xf8\x3f\x05" + b"\xfa\x3f\x01x" + b"\xf9\x3f" + b"\0" * 8 + b"\xfd\x3f" + b"\0" * 4
    raw = protobuf.message("", "v1", "ConfigMap", {"data": {"a": "b"}}) + unknown
    assert protobuf.decode(protobuf.envelope("v1", "ConfigMap", raw))["data"] == {"a": "b"}


def test_depth_is_limited() -> None:
    name = "apiextensions/v1.JSONSchemaProps"
    data = b""
    for _ in range(500):
        data = protobuf.member(b"\xd2\x01", data)  # `not`, a schema in a schema
    with pytest.raises(protobuf.ProtobufError):
        protobuf.read_message(name, data)


@given(st.binary(max_size=200), st.sampled_from(["Pod", "Service", "Event", "Secret", "PodList", "Status"]))
def test_random_bytes_are_decoded_or_refused(data: bytes, kind: str) -> None:
    for body in (protobuf.MAGIC + data, protobuf.envelope("v1", kind, data)):
        try:
            found = protobuf.decode(body, "", "v1", kind)
        except protobuf.ProtobufError:
            continue
        assert isinstance(found, dict)


@given(st.sampled_from(SAMPLES), st.integers(0, 10_000), st.binary(min_size=1, max_size=3))
def test_damaged_bytes_are_decoded_or_refused(sample: Any, at: int, noise: bytes) -> None:
    data = base64.b64decode(sample[1])
    at = len(protobuf.MAGIC) + at % (len(data) - len(protobuf.MAGIC))
    with contextlib.suppress(protobuf.ProtobufError):
        protobuf.decode(data[:at] + noise + data[at + len(noise) :])


def _scalar(base: str) -> st.SearchStrategy[Any]:
    texts = st.text(max_size=5)
    seconds = st.integers(-62135596799, 253402300799)
    return {
        "string": texts,
        "bool": st.booleans(),
        "int32": st.integers(-(1 << 31), (1 << 31) - 1),
        "int64": st.integers(-(1 << 63), (1 << 63) - 1),
        "double": st.integers(-1000, 1000)
        | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x % 1),
        "bytes": st.binary(max_size=5).map(lambda data: base64.b64encode(data).decode()),
        "meta/v1.Time": seconds.map(values.time_text),
        "meta/v1.MicroTime": st.builds(
            lambda s, n: values.micro_time_text(s, n * 1000), seconds, st.integers(0, 999_999)
        ),
        "meta/v1.Duration": st.integers(-(10**15), 10**15).map(values.duration_text),
        "resource.Quantity": st.from_regex(r"\A[1-9][0-9]{0,5}(m|k|Mi|)\Z"),
        "intstr.IntOrString": st.integers(-(1 << 31), (1 << 31) - 1) | texts,
    }.get(base, st.dictionaries(texts, st.integers(0, 9) | texts, max_size=2))


def _objects(name: str, depth: int) -> st.SearchStrategy[dict[str, Any]]:
    members: dict[str, st.SearchStrategy[Any]] = {}
    for field in types.message(name).fields:
        if field.inline:
            continue
        single: st.SearchStrategy[Any]
        if (
            "." in field.base
            and field.base not in protobuf_decode._SPECIAL
            and not types.message(field.base).bare
        ):
            if depth == 0:
                continue
            single = _objects(field.base, depth - 1)
        elif "." in field.base and field.base in protobuf_decode._SPECIAL:
            single = _scalar(field.base)
        else:
            single = (
                _scalar(field.base) if "." not in field.base else st.lists(st.text(max_size=3), max_size=2)
            )
        if field.many:
            single = st.lists(single, max_size=2)
        elif field.key:
            least = int((name, field.name) in REFUSED_EMPTY)
            single = st.dictionaries(st.text(max_size=4), single, min_size=least, max_size=2)
        members[field.name] = single
    return st.fixed_dictionaries({}, optional=members)


REFUSED_EMPTY = {("core/v1.PodSpec", "overhead")}
"""Maps that validation refuses if they are empty. Normalized objects keep them, but protobuf cannot represent them."""

KINDS = {
    "core/v1.Pod": "",
    "core/v1.Service": "",
    "core/v1.Event": "",
    "apps/v1.Deployment": "apps",
    "coordination/v1.Lease": "coordination.k8s.io",
    "meta/v1.Status": "",
}
"""Groups by message."""


@given(st.data(), st.sampled_from([*KINDS]))
def test_normalized_objects_survive_encoding_and_decoding(data: st.DataObject, name: str) -> None:
    schema = builtin.schema(KINDS[name], "v1", types.message(name).short)
    assert schema is not None
    obj, unknown = walk.decode(data.draw(_objects(name, 2)), schema, complete=True)
    assert unknown == []
    obj = without_refused_empty_values(obj)
    assert protobuf.read_message(name, protobuf.write_message(name, obj)) == obj


def without_refused_empty_values(value: Any) -> Any:
    """Return a value without the empty fields that only JSON carries: rules refuse them, so decoding keeps them."""
    if isinstance(value, list):
        return [without_refused_empty_values(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {
        name: each for name, each in value.items() if (name, each) not in (("overhead", {}), ("claims", []))
    }
    return {name: without_refused_empty_values(each) for name, each in kept.items()}
