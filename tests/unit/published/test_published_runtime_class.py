"""Published RuntimeClasses: the overhead comes up, the handler and the nodes that have it do not."""

import json
from typing import Any

import pytest

from vcsync.api import names
from vcsync.api.specs import PublishedRuntimeClass
from vcsync.objects.envelope import Envelope, parse
from vcsync.published.kind import difference, is_ours, wanted
from vcsync.published.runtime_class import KIND, describe
from vcsync.scheduling.snapshot import Health, SuperView


def runtime_class(**fields: Any) -> Envelope:
    return parse(json.dumps({"metadata": {"name": "gvisor"}, "handler": "runsc", **fields}).encode())


def view(super_id: str, **overhead: str) -> SuperView:
    published = PublishedRuntimeClass(name="gvisor", overhead=overhead)
    return SuperView(super_id, Health.READY, {}, runtime_classes=(published,))


@pytest.mark.parametrize(
    ("fields", "overhead"),
    [
        ({}, {}),
        ({"overhead": {"podFixed": {"memory": "64Mi", "cpu": "250m"}}}, {"cpu": "250m", "memory": "64Mi"}),
        ({"overhead": {}}, {}),
        ({"overhead": {"podFixed": {"cpu": "0.1", "memory": "many"}}}, {"cpu": "100m"}),
        ({"scheduling": {"nodeSelector": {"pool": "sandboxed"}}}, {}),
    ],
)
def test_only_the_overhead_is_read(fields: dict[str, Any], overhead: dict[str, str]) -> None:
    assert describe(runtime_class(**fields)) == PublishedRuntimeClass(name="gvisor", overhead=overhead)


def test_the_largest_overhead_counts_where_super_clusters_differ() -> None:
    pool = [view("r1", cpu="250m", memory="64Mi"), view("r2", cpu="100m", memory="1Gi"), view("r3")]
    body = wanted(KIND, pool)["gvisor"]
    assert body["overhead"] == {"podFixed": {"cpu": "250m", "memory": "1Gi"}}
    assert body["handler"] == names.RUNTIME_HANDLER
    assert "overhead" not in wanted(KIND, [view("r1")])["gvisor"]


def test_another_overhead_makes_the_class_again() -> None:
    before, after = (wanted(KIND, [view("r1", cpu=cpu)])["gvisor"] for cpu in ("100m", "200m"))
    here = parse(json.dumps(before).encode())
    assert is_ours(KIND, here)
    assert difference(KIND, here, before) == {}
    assert difference(KIND, here, after) is None
    assert not is_ours(
        KIND, runtime_class(metadata={"name": "gvisor", "labels": {names.SUPER_PUBLIC: "true"}})
    )
