"""Which form an answer takes, and which a body has, as the real server decides."""

import pytest

from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.wire import negotiation
from vcsync.controlplane.wire.negotiation import Representation

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
def test_the_first_clause_that_can_be_met_decides(accept: str, wanted: Representation) -> None:
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
def test_what_cannot_be_given_is_refused_with_a_list_of_what_can(accept: str) -> None:
    with pytest.raises(StatusError) as refusal:
        negotiation.accepted(accept)
    assert (refusal.value.code, refusal.value.reason, refusal.value.message) == (
        406,
        "NotAcceptable",
        ONLY + ALL,
    )


@pytest.mark.parametrize("accept", ["application/cbor", "application/foo", "application/*", "nonsense"])
def test_a_type_that_no_route_gives_is_refused_by_the_router(accept: str) -> None:
    with pytest.raises(StatusError) as refusal:
        negotiation.accepted(accept, lists=False)
    assert refusal.value.message == f"406: Not Acceptable\n\nAvailable representations: {ALL}"
    assert refusal.value.status()["details"] == {}


def test_what_is_only_made_has_no_tables() -> None:
    with pytest.raises(StatusError, match="only the following media types"):
        negotiation.accepted(TABLE, tables=False)
    assert negotiation.accepted(f"{TABLE},application/json", tables=False) == JSON


def test_a_watch_is_not_to_be_had_in_yaml() -> None:
    with pytest.raises(StatusError) as refusal:
        negotiation.accepted("application/yaml", watch=True)
    assert refusal.value.message == f"{ONLY}application/json;stream=watch, {PROTO_TYPE};stream=watch"
    assert (
        negotiation.accepted(f"{PROTO_TYPE};stream=watch", watch=True).stream_type
        == f"{PROTO_TYPE};stream=watch"
    )
    assert negotiation.accepted("application/json;stream=watch", watch=True).stream_type == "application/json"


def test_custom_resources_have_no_protobuf_but_their_metadata_does() -> None:
    assert negotiation.accepted(f"{PROTO_TYPE},application/json", custom=True) == JSON
    partial = f"{PROTO_TYPE};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert negotiation.accepted(partial, custom=True).format == "protobuf"
    with pytest.raises(StatusError) as refusal:
        negotiation.accepted(PROTO_TYPE, custom=True)
    assert refusal.value.message == ONLY + ALL


def test_discovery_is_aggregated_for_who_asks() -> None:
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
def test_a_body_has_the_format_that_its_content_type_says(content_type: str, wanted: str) -> None:
    assert negotiation.body_format(content_type) == wanted


@pytest.mark.parametrize("content_type", ["application/cbor", "text/plain"])
def test_other_bodies_are_refused(content_type: str) -> None:
    with pytest.raises(StatusError) as refusal:
        negotiation.body_format(content_type)
    assert refusal.value.code == 415
    assert refusal.value.message.endswith(f"accepted media types include: {ALL}")


def test_a_patch_says_what_it_is() -> None:
    assert negotiation.patch_type("application/merge-patch+json; charset=utf-8") == negotiation.MERGE_PATCH
    with pytest.raises(StatusError, match="415: Unsupported Media Type"):
        negotiation.patch_type("application/json")
    with pytest.raises(StatusError, match="accepted media types include: application/json-patch"):
        negotiation.patch_type(negotiation.STRATEGIC_PATCH, custom=True)
