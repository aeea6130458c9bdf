"""Published VolumeSnapshotClasses: tenants learn name and deletion policy, and nothing of driver and parameters."""

import json
from typing import Any

import pytest

from vcsync.api import names
from vcsync.api.specs import PublishedVolumeSnapshotClass
from vcsync.objects.envelope import Envelope, parse
from vcsync.published.kind import difference, is_ours, wanted
from vcsync.published.volume_snapshot_class import KIND, describe
from vcsync.scheduling.snapshot import Health, SuperView


def envelope(body: dict[str, Any]) -> Envelope:
    return parse(json.dumps(body).encode())


def view(super_id: str, *policies: Any) -> SuperView:
    classes = tuple(PublishedVolumeSnapshotClass(name="nightly", deletion_policy=each) for each in policies)
    return SuperView(super_id, Health.READY, {}, volume_snapshot_classes=classes)


def test_only_name_and_deletion_policy_are_read() -> None:
    found = {
        "metadata": {
            "name": "nightly",
            "annotations": {"snapshot.storage.kubernetes.io/is-default-class": "true"},
        },
        "driver": "csi.example.com",
        "deletionPolicy": "Retain",
        "parameters": {"csi.storage.k8s.io/snapshotter-secret-name": "of-the-operator"},
    }
    assert describe(envelope(found)) == PublishedVolumeSnapshotClass(name="nightly", deletion_policy="Retain")


@pytest.mark.parametrize(
    ("one", "other", "policy"),
    [("Retain", "Retain", "Retain"), ("Retain", "Delete", "Delete"), ("Delete", "Delete", "Delete")],
)
def test_a_tenants_class_promises_what_holds_on_every_super_cluster(
    one: str, other: str, policy: str
) -> None:
    body = wanted(KIND, [view("r1", one), view("r2", other)])["nightly"]
    assert (body["driver"], body["deletionPolicy"]) == (names.CSI_DRIVER, policy)
    assert body["metadata"]["annotations"] == {names.PUBLISHED_BY: "r1,r2"}
    assert difference(KIND, envelope(body), body) == {}


def test_a_class_that_the_tenant_gave_parameters_is_made_again() -> None:
    body = wanted(KIND, [view("r1", "Delete")])["nightly"]
    changed = {**body, "parameters": {"own": "true"}}
    assert is_ours(KIND, envelope(changed))
    assert difference(KIND, envelope(changed), body) is None
    assert not is_ours(KIND, envelope({**body, "driver": "csi.example.com"}))
