"""The forms of answers and the formats of bodies are those of kube-apiserver."""

import pytest

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.wire import negotiation
from vcsync.apimachinery.wire.negotiation import Representation

JSON, YAML, PROTOBUF = Representation("json"), Representation("yaml"), Representation("protobuf")
PROTO_TYPE = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ONLY = "only the following media types are accepted: "
ALL = f"application/json, application/yaml, {PROTO_TYPE}"


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/json", JSON),
        ("application/yaml", YAML),
        (PROTO_TYPE, PROTOBUF),
        (f"{PROTO_TYPE},application/json", PROTOBUF),
        (f"application/json,{PROTO_TYPE}", JSON),
        ("application/yaml;q=0.5,application/json;q=0.6", JSON),
        ("text/html,*/*;q=0.1", JSON),
        ("*/*,application/yaml", YAML),
        ("application/json;pretty=1", Representation("json", pretty=True)),
        ("application/json;stream=watch", JSON),
        ("application/json;sv=v1", JSON),
        ("application/cbor,application/json", JSON),
        (f"{TABLE},application/json", Representation("json", "Table", "v1")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Representation("json", "Table", "v1beta1")),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", JSON),
        (f"{PROTO_TYPE};as=Table;v=v1;g=meta.k8s.io,application/json", JSON),
        (
            f"{PROTO_TYPE};as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Representation("protobuf", "PartialObjectMetadata", "v1"),
        ),
    ],
)
def test_the_first_available_clause_decides(accept: str, wanted: Representation) -> None:
    assert negotiation.accepted(accept) == wanted


@pytest.mark.parametrize(
    "accept",
    [
        "application/json;stream=foo",
        "application/json;sv=v2",
        "application/json;as=Foo;g=meta.k8s.io;v=v1",
        f"{PROTO_TYPE};as=Table;g=meta.k8s.io;v=v1",
    ],
)
def test_unavailable_types_are_refused_with_a_list_of_available_ones(accept: str) -> None:
    with pytest.raises(StatusError) as refusal:
        negotiation.accepted(accept)
    assert (refusal.value.code, refusal.value.reason, refusal.value.message) == (
        406,
        "NotAcceptable",
        ONLY + ALL,
    )


@pytest.mark.parametrize("accept", ["application/cbor", "application/foo", "application/*", "nonsense"])
def test_a_type_without_a_route_is_refused_by_the_router(accept: str) -> None:
    with pytest.raises(StatusError) as refusal:
        negotiation.accepted(accept, lists=False)
    assert refusal.value.message == f"406: Not Acceptable\n\nAvailable representations: {ALL}"
    assert refusal.value.status()["details"] == {}


def test_create_only_resources_have_no_tables() -> None:
    with pytest.raises(StatusError, match="only the following media types"):
        negotiation.accepted(TABLE, tables=False)
    assert negotiation.accepted(f"{TABLE},application/json", tables=False) == JSON


def test_a_watch_in_yaml_is_refused() -> None:
    with pytest.raises(StatusError) as refusal:
        negotiation.accepted("application/yaml", watch=True)
    assert refusal.value.message == f"{ONLY}application/json;stream=watch, {PROTO_TYPE};stream=watch"
    assert (
        negotiation.accepted(f"{PROTO_TYPE};stream=watch", watch=True).stream_type
        == f"{PROTO_TYPE};stream=watch"
    )
    assert negotiation.accepted("application/json;stream=watch", watch=True).stream_type == "application/json"


def test_only_metadata_of_custom_resources_has_protobuf() -> None:
    assert negotiation.accepted(f"{PROTO_TYPE},application/json", custom=True) == JSON
    partial = f"{PROTO_TYPE};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert negotiation.accepted(partial, custom=True).format == "protobuf"
    with pytest.raises(StatusError) as refusal:
        negotiation.accepted(PROTO_TYPE, custom=True)
    assert refusal.value.message == ONLY + ALL


def test_discovery_is_aggregated_on_request() -> None:
    kubectl = (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
    )
    assert negotiation.discovery(kubectl) == (JSON, "v2")
    assert negotiation.discovery("application/json") == (JSON, "")
    assert negotiation.discovery(
        "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,*/*"
    ) == (JSON, "")


@pytest.mark.parametrize(
    ("query", "agent", "wanted"),
    [(None, "kubectl/v1.36", False), ("true", "x", True), ("0", "curl/8", False), (None, "curl/8.1", True)],
)
def test_people_get_indented_json(query: str | None, agent: str, wanted: bool) -> None:
    assert negotiation.wants_pretty(query, agent) is wanted


@pytest.mark.parametrize(
    ("content_type", "wanted"),
    [
        ("", "json"),
        ("application/json; charset=utf-8", "json"),
        ("APPLICATION/JSON", "json"),
        ("application/yaml", "yaml"),
        (PROTO_TYPE, "protobuf"),
    ],
)
def test_a_body_has_the_format_of_its_content_type(content_type: str, wanted: str) -> None:
    assert negotiation.body_format(content_type) == wanted


@pytest.mark.parametrize("content_type", ["application/cbor", "text/plain"])
def test_other_bodies_are_refused(content_type: str) -> None:
    with pytest.raises(StatusError) as refusal:
        negotiation.body_format(content_type)
    assert refusal.value.code == 415
    assert refusal.value.message.endswith(f"accepted media types include: {ALL}")


def test_the_content_type_names_the_type_of_a_patch() -> None:
    assert negotiation.patch_type("application/merge-patch+json; charset=utf-8") == negotiation.MERGE_PATCH
    with pytest.raises(StatusError, match="415: Unsupported Media Type"):
        negotiation.patch_type("application/json")
    with pytest.raises(StatusError, match="accepted media types include: application/json-patch"):
        negotiation.patch_type(negotiation.STRATEGIC_PATCH, custom=True)
