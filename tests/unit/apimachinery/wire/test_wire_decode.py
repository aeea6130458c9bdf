"""Decodes bodies, and compares errors with those of a real API server for the same bodies (`real_bodies.jsonl`)."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery import numbers
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.wire import decode, gojson, goyaml, negotiation, protobuf
from vcsync.apimachinery.wire.decode import Expected

BODIES = [json.loads(line) for line in (Path(__file__).parent / "real_bodies.jsonl").read_text().splitlines()]
POD, CONFIG_MAP = Expected("", "v1", "Pod"), Expected("", "v1", "ConfigMap")


@pytest.mark.parametrize("row", BODIES, ids=lambda row: f"{row[0][:40]!r}")
def test_bodies_have_the_results_of_kube_apiserver(row: Any) -> None:
    body, content_type, kind, validation, code, warnings, message = row
    try:
        form = negotiation.body_format(content_type)
        found = decode.read(body.encode("latin-1"), form, Expected("", "v1", kind), validation=validation)
        answer = (201, list(found.findings), "")
    except StatusError as error:
        answer = (error.code, [], error.message)
    assert answer == (code, warnings, message)


def test_decoded_objects_have_the_form_of_go() -> None:
    body = b'{"metadata":{"name":"a","labels":{},"uid":""},"spec":{"x":1,"replicas":0,"paused":false}}'
    found = decode.read(body, "json", Expected("apps", "v1", "Deployment"))
    assert list(found.object)[:3] == ["kind", "apiVersion", "metadata"]
    assert found.object == {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": "a"},
        "spec": {
            "replicas": 0,
            "selector": None,
            "strategy": {},
            "template": {"metadata": {}, "spec": {"containers": None}},
        },
        "status": {},
    }
    assert found.findings == ('unknown field "spec.x"',)


def test_ignored_findings_are_not_searched() -> None:
    assert decode.read(b'{"x":1,"x":2}', "json", CONFIG_MAP, validation="Ignore").findings == ()


def test_times_are_converted_to_utc_and_whole_seconds() -> None:
    body = b'{"metadata":{"name":"a","creationTimestamp":"2020-02-20T01:00:00.5+01:00"}}'
    assert (
        decode.read(body, "json", CONFIG_MAP).object["metadata"]["creationTimestamp"]
        == "2020-02-20T00:00:00Z"
    )


def test_large_numbers_and_free_form_parts_are_unchanged() -> None:
    body = b'{"metadata":{"name":"a","generation":9007199254740993},"data":{"n":[1.5,123456789012345678],"z":null}}'
    found = decode.read(body, "json", Expected("apps", "v1", "ControllerRevision")).object
    assert found["metadata"]["generation"] == 9007199254740993
    assert found["data"] == {"n": [1.5, 123456789012345678], "z": None}


def test_nothing_of_a_custom_resource_is_pruned() -> None:
    expected = Expected("x.example", "v1", "Foo", custom=True)
    body = b'{"apiVersion":"x.example/v1","kind":"Foo","spec":{"a":null,"a":1},"metadata":{}}'
    found = decode.read(body, "json", expected)
    assert found.object == {"kind": "Foo", "apiVersion": "x.example/v1", "metadata": {}, "spec": {"a": 1}}
    assert found.findings == ('duplicate field "spec.a"',)


def test_a_custom_resource_must_have_a_kind() -> None:
    why = r"must be of type Foo\): Object 'Kind' is missing in .* \({\"metadata\":{}}\)"
    with pytest.raises(StatusError, match=why):
        decode.read(b'{"metadata":{}}', "json", Expected("x.example", "v1", "Foo", custom=True))


def test_protobuf_and_json_bodies_decode_to_the_same_object() -> None:
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"b": "c"}}
    assert decode.read(protobuf.encode(obj), "protobuf", CONFIG_MAP).object == obj
    with pytest.raises(
        StatusError, match=r"ConfigMap in version \"v1\" cannot be handled as a Pod: converting"
    ):
        decode.read(protobuf.encode(obj), "protobuf", POD)


EVICTION = Expected("policy", "v1", "Eviction", also=("policy/v1beta1",))


@pytest.mark.parametrize("form", ["json", "protobuf"])
@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
def test_a_path_may_accept_further_versions_of_a_kind(version: str, form: negotiation.Format) -> None:
    members = {"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 7}}
    body = json.dumps({"kind": "Eviction", "apiVersion": version, **members}).encode()
    if form == "protobuf":
        message = protobuf.message("policy", "v1", "Eviction", members)
        body = protobuf.envelope(version, "Eviction", message)
    found = decode.read(body, form, EVICTION).object
    assert (found["apiVersion"], found["deleteOptions"]) == ("policy/v1", {"gracePeriodSeconds": 7})


def test_a_version_that_kubernetes_knows_but_a_path_refuses_is_named() -> None:
    scale = Expected("autoscaling", "v1", "Scale", refused=("extensions/v1beta1",))
    why = r"in the data \(extensions/v1beta1\) does not match the expected API version \(autoscaling/v1\)"
    with pytest.raises(StatusError, match=why):
        decode.read(b'{"kind":"Scale","apiVersion":"extensions/v1beta1"}', "json", scale)


def test_another_version_of_the_kind_is_refused() -> None:
    body = b'{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1"}'
    with pytest.raises(StatusError) as refusal:
        decode.read(body, "json", Expected("autoscaling", "v2", "HorizontalPodAutoscaler"))
    assert refusal.value.message == (
        "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        (
            b'{"kind":"Foo"}',
            'no kind "Foo" is registered for version "meta.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
        (
            b'{"kind":"Pod","apiVersion":"v1"}',
            'no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
        (
            b'{"kind":"List","apiVersion":"meta.k8s.io/v1"}',
            'no kind "List" is registered for version "meta.k8s.io/v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
        (b'{"apiVersion":"a/b/c"}', "unexpected GroupVersion string: a/b/c"),
        (
            b'{"kind":"Status","apiVersion":"karpenter.sh/v9"}',
            "converting (v1.Status) to (v1.DeleteOptions): unknown conversion",
        ),
        (
            b'{"kind":"CreateOptions","apiVersion":"karpenter.sh/v1"}',
            "converting (v1.CreateOptions) to (v1.DeleteOptions): unknown conversion",
        ),
        (
            b'{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":"x"}',
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
    ],
)
def test_wrong_options_are_refused(body: bytes, message: str) -> None:
    with pytest.raises(StatusError) as refusal:
        decode.read_options(body, "application/json")
    assert (refusal.value.code, refusal.value.message) == (400, message)


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"kind": "DeleteOptions"},
        {"apiVersion": "other.example.org/v1"},
        *(
            {"kind": "DeleteOptions", "apiVersion": version}
            for version in ("v1", "apps/v1", "meta.k8s.io/v1", "karpenter.sh/v1", "karpenter.sh/v9", "nope")
        ),
    ],
)
@pytest.mark.parametrize(
    "form", ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
)
def test_options_of_any_api_version_are_accepted(header: dict[str, str], form: str) -> None:
    body = json.dumps({**header, "gracePeriodSeconds": 7}).encode()
    if form == "application/vnd.kubernetes.protobuf":
        message = protobuf.message("", "v1", "DeleteOptions", {"gracePeriodSeconds": 7})
        body = protobuf.envelope(header.get("apiVersion", ""), header.get("kind", ""), message)
    assert decode.read_options(body, form)["gracePeriodSeconds"] == 7


def test_a_deletion_without_a_body_has_no_options() -> None:
    assert decode.read_options(b"", "") == {}


def test_a_status_of_any_api_version_is_no_object_of_the_path() -> None:
    body = b'{"kind":"Status","apiVersion":"karpenter.sh/v9"}'
    with pytest.raises(StatusError, match=r"converting \(v1.Status\) to \(core.Pod\): unknown conversion"):
        decode.read(body, "json", POD)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (negotiation.MERGE_PATCH, "error decoding patch: unexpected end of JSON input"),
        (negotiation.JSON_PATCH, "error decoding patch: unexpected end of JSON input"),
        (negotiation.STRATEGIC_PATCH, "unexpected end of JSON input"),
    ],
)
def test_an_invalid_patch_is_refused(kind: str, message: str) -> None:
    with pytest.raises(StatusError) as refusal:
        decode.read_patch(b"{", kind)
    assert refusal.value.message == message


def test_repeated_keys_of_patches_are_reported() -> None:
    assert decode.read_patch(b'{"a":1,"a":2}', negotiation.MERGE_PATCH) == (
        {"a": 2},
        ('duplicate field "a"',),
    )
    assert decode.read_patch(b"{a: 1, b: [x]}", negotiation.APPLY_PATCH) == ({"a": 1, "b": ["x"]}, ())
    repeated = ('line 1: key "a" already set in map',)
    assert decode.read_patch(b'{"a": 1, "a": 2}', negotiation.APPLY_PATCH) == ({"a": 2}, repeated)
    assert decode.read_patch(b"a: 1\nb: [x]", negotiation.APPLY_PATCH) == ({"a": 1, "b": ["x"]}, ())


def test_a_patched_object_is_fitted_to_its_kind() -> None:
    obj = {"metadata": {"name": "a"}, "data": {}, "foo": 1}
    assert decode.conform("", "v1", "ConfigMap", obj) == (
        {"metadata": {"name": "a"}},
        ('unknown field "foo"',),
    )
    with pytest.raises(StatusError, match="cannot be handled as a ConfigMap"):
        decode.conform("", "v1", "ConfigMap", {"data": {"a": 1}})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True),
        ("off", False),
        ("~", None),
        ("", None),
        ("010", 8),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("-5", -5),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("2020-01-01", "2020-01-01"),
        ("'010'", "010"),
        ('"y"', "y"),
        ("!!str 5", "5"),
        ("1.2.3", "1.2.3"),
        ("{1: a, true: b}", {"1": "a", "true": "b"}),
        ("[a, {b: c}]", ["a", {"b": "c"}]),
        (
            "x: &a {b: c}\np: *a\nz: {<<: *a, d: e}",
            {"x": {"b": "c"}, "p": {"b": "c"}, "z": {"b": "c", "d": "e"}},
        ),
        ("a\n---\nb", "a"),
    ],
)
def test_yaml_is_parsed_as_in_go(text: str, value: Any) -> None:
    assert goyaml.loads(text.encode()).value == value


def test_repeated_keys_of_yaml_are_reported() -> None:
    assert goyaml.loads(b"a: 1\nb: 2\na: 3").duplicates == ['line 3: key "a" already set in map']


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "\n".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [" + ",".join([f"*{chr(97 + i)}"] * 10) + "]" for i in range(9)
        ),
        "[" * 5000,
        "a: *b",
        "{a: b",
        "? [a]\n: b",
        "a: !!binary x",
        "\x00",
    ],
    ids=["bomb", "deep", "unknown alias", "open", "key", "binary", "control"],
)
def test_too_large_or_invalid_yaml_is_refused(text: str) -> None:
    with pytest.raises(goyaml.NotYAML, match="yaml: "):
        goyaml.loads(text.encode())


@given(st.text(max_size=60) | st.text(alphabet="[]{}:,-&*a \n'\"|>!%", max_size=60))
def test_random_yaml_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(goyaml.NotYAML):
        goyaml.loads(text.encode())


@given(st.binary(max_size=60) | st.text(alphabet='[]{}:,"\\u0129eE.-tfn', max_size=40).map(str.encode))
def test_random_json_is_parsed_or_refused(data: bytes) -> None:
    with contextlib.suppress(gojson.NotJSON):
        gojson.loads(data)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 1]))
def test_json_is_parsed_as_in_python_without_repeated_keys(value: Any, indent: int | None) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=indent is None).encode()
    assert gojson.loads(data) == numbers.settled(json.loads(data, parse_float=numbers.number))
    assert gojson.duplicates(data, gojson.loads(data)) == []


@given(st.dictionaries(st.text(max_size=6), VALUES, min_size=1, max_size=4), st.data())
def test_a_repeated_key_is_always_found(value: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(value)))
    text = json.dumps(value)[:-1] + f",{json.dumps(key)}:{json.dumps(value[key])}}}"
    assert gojson.duplicates(text.encode(), value) == [key] if "." not in key else True


@given(st.sampled_from(BODIES), st.integers(0, 400), st.binary(max_size=2))
def test_a_damaged_body_is_decoded_or_refused(row: Any, at: int, noise: bytes) -> None:
    body = row[0].encode("latin-1")
    body = body[:at] + noise + body[at + 1 :]
    for form in negotiation.MEDIA_TYPES:
        with contextlib.suppress(StatusError):
            decode.read(body, form, Expected("", "v1", row[2]))


def test_depth_is_limited() -> None:
    for body in (b"[" * 300 + b"]" * 300, b'{"a":' * 300 + b"1" + b"}" * 300):
        with pytest.raises(gojson.NotJSON, match="exceeded max depth"):
            gojson.loads(body)
    assert gojson.loads(b"[" * 256 + b"]" * 256)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("!!binary aGk=", "hi"),
        ("1e400", "1e400"),
        ("0.1_0", 0.1),
        ("685_230.15", 685230.15),
        ("!", ""),
        ("! 5", "5"),
        ("!own 5", "5"),
        ("!!str 5", "5"),
        ("!!float 5", 5),
        ('!!int "5"', 5),
        ("!!timestamp 2020-01-01", "2020-01-01"),
        ("9223372036854775808", 9223372036854776000),
        ("0x10", 16),
        ("3.0", 3),
    ],
)
def test_scalars_of_yaml_are_those_of_go(text: str, wanted: Any) -> None:
    found = goyaml.loads(f"v: {text}".encode()).value["v"]
    assert (found, type(found)) == (wanted, type(wanted))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (".inf", "json: unsupported value: +Inf"),
        ("-.INF", "json: unsupported value: -Inf"),
        (".nan", "json: unsupported value: NaN"),
        ("!!binary a", "yaml: !!binary value contains invalid base64 data"),
        ("!!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("\x7f", "yaml: control characters are not allowed"),
    ],
)
def test_scalars_without_equivalent_in_json_are_refused(text: str, told: str) -> None:
    with pytest.raises(goyaml.NotYAML) as error:
        goyaml.loads(f"v: {text}".encode())
    assert str(error.value) == told
