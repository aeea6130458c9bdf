"""Envelopes lose nothing but managedFields."""

import msgspec
import pytest

from vcsync.kube import envelope
from vcsync.kube.envelope import Envelope, ErrorEvent
from vcsync.kube.lines import LineSplitter, LineTooLong
from vcsync.kube.resources import DEPLOYMENTS, NAMESPACES, PODS, Resource

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "generateName": "p-",
        "namespace": "a",
        "uid": "u",
        "resourceVersion": "12",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "labels": {"l": "1"},
        "annotations": {"a": "2"},
        "finalizers": ["f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "ou", "controller": True}],
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {"big": 12345678901234567890, "null": None, "float": 1.0},
    "status": {"phase": "Running"},
    "data": {'odd "key"': "v"},
    "immutable": True,
}


def test_everything_but_managed_fields_comes_back() -> None:
    parsed = envelope.parse(msgspec.json.encode(POD))
    expected = {**POD, "metadata": {k: v for k, v in POD["metadata"].items() if k != "managedFields"}}  # type: ignore[attr-defined]
    assert envelope.to_dict(parsed, api_version="v1", kind="Pod") == expected


def test_fields_keep_their_very_bytes() -> None:
    raw = b'{"metadata":{"name":"n"},"spec":{ "a" : 1.50 },"status":null}'
    parsed = envelope.parse(raw)
    assert (parsed.spec, parsed.status) == (b'{ "a" : 1.50 }', b"null")


@pytest.mark.parametrize(
    "metadata",
    [
        b"{}",
        b'{"labels":null,"annotations":null,"ownerReferences":null,"finalizers":null,"creationTimestamp":null}',
    ],
)
def test_absent_and_null_metadata_are_empty_and_shared(metadata: bytes) -> None:
    parsed = envelope.parse(b'{"metadata":' + metadata + b"}")
    assert parsed.labels is parsed.annotations
    assert (parsed.owners, parsed.finalizers, parsed.creation_timestamp, parsed.deleting) == (
        (),
        (),
        "",
        False,
    )


@pytest.mark.parametrize(("text", "version"), [("12", 12), ("", 0), ("abc", 0), ("1.5", 0), ("-1", 0)])
def test_versions_are_numbers_or_nothing(text: str, version: int) -> None:
    assert Envelope(name="n", resource_version=text).version == version


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"metadata":[]}', b'{"metadata":{"name":5}}', b"<html>"])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        envelope.parse(raw)


def test_a_list_says_where_it_goes_on() -> None:
    page = envelope.parse_list(
        b'{"metadata":{"resourceVersion":"9","continue":"c","remainingItemCount":4},"items":[{"metadata":{"name":"n"}}]}'
    )
    assert [item.name for item in page.items] == ["n"]
    assert (page.resource_version, page.continue_token, page.remaining) == ("9", "c", 4)
    assert envelope.parse_list(b'{"metadata":{},"items":null}').items == []


def test_an_error_event_is_raised_with_its_status() -> None:
    with pytest.raises(ErrorEvent) as caught:
        envelope.parse_event(b'{"type":"ERROR","object":{"kind":"Status","code":410}}')
    assert caught.value.status == b'{"kind":"Status","code":410}'


def test_fields_are_decoded_into_what_is_asked_for() -> None:
    class Spec(msgspec.Struct):
        replicas: int = 1

    assert envelope.decode(b'{"replicas":3,"other":1}', Spec).replicas == 3
    assert envelope.decode(b"", Spec).replicas == 1
    assert envelope.decode(b"null", Spec).replicas == 1
    assert envelope.untyped(b"") == {}


def test_stripping_takes_only_what_is_named() -> None:
    parsed = envelope.parse(msgspec.json.encode(POD))
    assert envelope.strip(parsed, status=False).spec == b""
    assert envelope.strip(parsed, status=False).status == parsed.status


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_however_they_arrive(size: int) -> None:
    text = b"one\ntwo\n\nthree" + b"x" * 50 + b"\nfour"
    splitter = LineSplitter()
    lines = [
        line for start in range(0, len(text), size) for line in splitter.feed(text[start : start + size])
    ]
    assert lines == [b"one", b"two", b"three" + b"x" * 50]
    assert splitter.pending == 4


def test_a_line_without_end_is_given_up() -> None:
    splitter = LineSplitter(longest=10)
    splitter.feed(b"12345\n1234567890")
    with pytest.raises(LineTooLong):
        splitter.feed(b"1")


@pytest.mark.parametrize(
    ("resource", "where", "path"),
    [
        (PODS, {}, "/api/v1/pods"),
        (PODS, {"namespace": "a"}, "/api/v1/namespaces/a/pods"),
        (
            PODS,
            {"namespace": "a", "name": "p", "subresource": "status"},
            "/api/v1/namespaces/a/pods/p/status",
        ),
        (NAMESPACES, {"name": "a"}, "/api/v1/namespaces/a"),
        (
            DEPLOYMENTS,
            {"namespace": "a", "name": "d/e%?"},
            "/apis/apps/v1/namespaces/a/deployments/d%2Fe%25%3F",
        ),
    ],
)
def test_paths(resource: Resource, where: dict[str, str], path: str) -> None:
    assert resource.path(**where) == path


@pytest.mark.parametrize(
    ("resource", "where"),
    [
        (PODS, {"name": "p"}),
        (NAMESPACES, {"namespace": "a"}),
        (PODS, {"namespace": "..", "name": "p"}),
        (PODS, {"namespace": "a", "name": "."}),
        (PODS, {"namespace": "a", "subresource": "status"}),
    ],
)
def test_addresses_that_lead_elsewhere_are_refused(resource: Resource, where: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"need|not"):
        resource.path(**where)
