"""Envelopes lose nothing but managedFields."""

import msgspec
import pytest

from vcsync.objects import envelope
from vcsync.objects.envelope import Envelope, ErrorEvent

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


def test_only_managed_fields_are_lost() -> None:
    parsed = envelope.parse(msgspec.json.encode(POD))
    expected = {**POD, "metadata": {k: v for k, v in POD["metadata"].items() if k != "managedFields"}}  # type: ignore[attr-defined]
    assert envelope.to_dict(parsed, api_version="v1", kind="Pod") == expected


def test_fields_keep_their_original_bytes() -> None:
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
def test_a_version_is_a_number_or_zero(text: str, version: int) -> None:
    assert Envelope(name="n", resource_version=text).version == version


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"metadata":[]}', b'{"metadata":{"name":5}}', b"<html>"])
def test_invalid_objects_are_refused(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        envelope.parse(raw)


def test_a_list_has_its_continue_token() -> None:
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


def test_fields_are_decoded_into_the_requested_type() -> None:
    class Spec(msgspec.Struct):
        replicas: int = 1

    assert envelope.decode(b'{"replicas":3,"other":1}', Spec).replicas == 3
    assert envelope.decode(b"", Spec).replicas == 1
    assert envelope.decode(b"null", Spec).replicas == 1
    assert envelope.untyped(b"") == {}


def test_stripping_removes_only_the_named_fields() -> None:
    parsed = envelope.parse(msgspec.json.encode(POD))
    assert envelope.strip(parsed, status=False).spec == b""
    assert envelope.strip(parsed, status=False).status == parsed.status
    assert envelope.strip(parsed, spec=False).spec == parsed.spec
    assert envelope.strip(parsed, spec=False).status == b""
    assert (envelope.strip(parsed).spec, envelope.strip(parsed).status) == (b"", b"")
