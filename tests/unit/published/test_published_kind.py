"""Published classes: what a super cluster publishes, the union that tenants see, and what follows a change."""

import json
from typing import Any

import msgspec
import pytest

from vcsync.api import names
from vcsync.api.specs import MAX_PUBLISHED, PublishedStorageClass, SuperClusterStatus
from vcsync.objects.envelope import Envelope, parse
from vcsync.published import kind as published
from vcsync.published.kind import described, is_ours
from vcsync.published.kinds import KINDS
from vcsync.published.storage_class import KIND
from vcsync.scheduling.snapshot import Health, SuperView


def view(super_id: str, *classes: PublishedStorageClass, health: Health = Health.READY) -> SuperView:
    return SuperView(super_id, health, {}, storage_classes=classes)


def cls(name: str = "fast", **fields: Any) -> PublishedStorageClass:
    return PublishedStorageClass(name=name, **fields)


def envelope(body: dict[str, Any]) -> Envelope:
    return parse(json.dumps(body).encode())


def test_the_union_names_the_super_clusters_that_have_a_class() -> None:
    found = published.wanted(
        KIND, [view("r2", cls(), cls("slow")), view("r1", cls(), health=Health.LOST), view("r3")]
    )
    by = {name: body["metadata"]["annotations"][names.PUBLISHED_BY] for name, body in found.items()}
    assert by == {"fast": "r1,r2", "slow": "r2"}
    assert found["fast"]["provisioner"] == names.PROVISIONER
    assert found["fast"]["volumeBindingMode"] == "WaitForFirstConsumer"
    assert "parameters" not in found["fast"]


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ({"reclaim_policy": "Retain"}, {"reclaim_policy": "Retain"}, ("Retain", False, None)),
        ({"reclaim_policy": "Retain"}, {}, ("Delete", False, None)),
        ({"allow_volume_expansion": True}, {"allow_volume_expansion": True}, ("Delete", True, None)),
        ({"allow_volume_expansion": True}, {}, ("Delete", False, None)),
        ({"default": True}, {}, ("Delete", False, "true")),
    ],
)
def test_the_cautious_value_counts_where_super_clusters_differ(
    one: dict[str, Any], other: dict[str, Any], shown: tuple[Any, ...]
) -> None:
    body = published.wanted(KIND, [view("r1", cls(**one)), view("r2", cls(**other))])["fast"]
    default = body["metadata"]["annotations"].get("storageclass.kubernetes.io/is-default-class")
    assert (body["reclaimPolicy"], body["allowVolumeExpansion"], default) == shown


def test_only_what_may_change_is_patched() -> None:
    body = published.wanted(KIND, [view("r1", cls(allow_volume_expansion=True))])["fast"]
    assert published.difference(KIND, envelope(body), body) == {}
    before = published.wanted(KIND, [view("r1", cls()), view("r2", cls())])["fast"]
    assert published.difference(KIND, envelope(before), body) == {
        "metadata": {"annotations": {names.PUBLISHED_BY: "r1"}},
        "allowVolumeExpansion": True,
    }
    retaining = published.wanted(KIND, [view("r1", cls(reclaim_policy="Retain"))])["fast"]
    assert published.difference(KIND, envelope(retaining), body) is None
    assert published.difference(KIND, envelope({**body, "parameters": {"a": "b"}}), body) is None


def test_the_default_class_is_the_tenants_choice() -> None:
    body = published.wanted(KIND, [view("r1", cls(default=True))])["fast"]
    metadata = {**body["metadata"], "annotations": {names.PUBLISHED_BY: "r1"}}
    assert published.difference(KIND, envelope({**body, "metadata": metadata}), body) == {}


def test_a_class_is_ours_by_label_and_provisioner() -> None:
    body = published.wanted(KIND, [view("r1", cls())])["fast"]
    assert is_ours(KIND, envelope(body))
    assert not is_ours(KIND, envelope({**body, "provisioner": "nfs.example.com"}))
    assert not is_ours(KIND, envelope({**body, "metadata": {"name": "fast"}}))


def storage_class(name: str, *, public: bool = True, **metadata: Any) -> Envelope:
    labels = {names.SUPER_PUBLIC: names.TRUE} if public else {}
    return envelope(
        {"metadata": {"name": name, "labels": labels, **metadata}, "provisioner": "csi.example.com"}
    )


def test_published_classes_are_in_order_and_limited() -> None:
    deleting = storage_class("a", deletionTimestamp="2026-05-01T12:00:00Z")
    many = [storage_class(f"c{number:03}") for number in reversed(range(MAX_PUBLISHED + 1))]
    found = [each.name for each in described(KIND, [*many, deleting, storage_class("b", public=False)])]
    assert found == [f"c{number:03}" for number in range(MAX_PUBLISHED)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.field)
def test_a_published_object_is_ours_and_needs_no_change(kind: published.PublishedKind) -> None:
    below = envelope({"metadata": {"name": "one", "labels": {names.SUPER_PUBLIC: names.TRUE}}})
    here = SuperView("r1", Health.READY, {}, **{kind.field: described(kind, [below])})
    status = msgspec.convert(
        msgspec.to_builtins({kind.status_field: described(kind, [below])}), SuperClusterStatus
    )
    assert getattr(status, kind.field) == getattr(here, kind.field)
    body = published.wanted(kind, [here])["one"]
    assert is_ours(kind, envelope(body))
    assert published.difference(kind, envelope(body), body) == {}


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.field)
def test_the_status_and_the_view_have_a_field_for_each_kind(kind: published.PublishedKind) -> None:
    fields = {each.name: each.encode_name for each in msgspec.structs.fields(SuperClusterStatus)}
    assert fields[kind.field] == kind.status_field
    assert getattr(SuperView("r1", Health.READY, {}), kind.field) == ()
