"""Published DeviceClasses: tenants learn the name, and nothing of the operator's drivers."""

import json
from typing import Any

import pytest

from vcsync.api import names
from vcsync.api.specs import PublishedDeviceClass
from vcsync.objects.envelope import Envelope, parse
from vcsync.published.device_class import KIND, describe
from vcsync.published.kind import difference, is_ours, wanted
from vcsync.scheduling.snapshot import Health, SuperView


def envelope(body: dict[str, Any]) -> Envelope:
    return parse(json.dumps(body).encode())


SELECTORS = [{"cel": {"expression": 'device.driver == "gpus.example.com"'}}]


@pytest.fixture
def body() -> dict[str, Any]:
    pool = [
        SuperView(each, Health.READY, {}, device_classes=(PublishedDeviceClass(name="gpu"),))
        for each in ("r2", "r1")
    ]
    return wanted(KIND, pool)["gpu"]


def test_only_the_name_is_read() -> None:
    found = envelope({"metadata": {"name": "gpu"}, "spec": {"selectors": SELECTORS, "config": [{}]}})
    assert describe(found) == PublishedDeviceClass(name="gpu")


def test_a_tenants_class_selects_nothing_and_names_its_super_clusters(body: dict[str, Any]) -> None:
    assert body["spec"] == {}
    assert body["metadata"]["annotations"] == {names.PUBLISHED_BY: "r1,r2"}
    assert difference(KIND, envelope(body), body) == {}


def test_a_class_that_the_tenant_gave_selectors_is_made_again(body: dict[str, Any]) -> None:
    changed = envelope({**body, "spec": {"selectors": SELECTORS}})
    assert is_ours(KIND, changed)
    assert difference(KIND, changed, body) is None


def test_a_class_without_vcsyncs_annotation_is_the_tenants_own(body: dict[str, Any]) -> None:
    labels = {names.SUPER_PUBLIC: names.TRUE}
    assert not is_ours(KIND, envelope({**body, "metadata": {"name": "gpu", "labels": labels}}))
