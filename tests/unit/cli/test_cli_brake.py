"""The deletions that `vcsync brake status` shows as waiting."""

from typing import Any

from memory_cluster import MemoryCluster

from vcsync.api.resources import NAMESPACE_PLACEMENTS
from vcsync.cli.brake.commands import waiting

BRAKED = {
    "type": "Braked",
    "status": "True",
    "reason": "TooManyDeletions",
    "message": "8 of 9",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def placement(**metadata: Any) -> dict[str, Any]:
    spec = {
        "virtualCluster": {"namespace": "vcsync", "name": "acme", "uid": "u"},
        "tenant": "root",
        "namespace": "shop",
        "namespaceUID": "n",
        "quota": {},
        "sliceSize": {},
        "slices": 1,
    }
    return {"metadata": metadata, "spec": spec, "status": {"conditions": [BRAKED]}}


async def test_a_placement_being_deleted_does_not_wait_for_an_operator() -> None:
    meta: Any = MemoryCluster("meta")
    meta.put(NAMESPACE_PLACEMENTS, "held", "root", **placement())
    gone = placement(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["tenancy.x-k8s.io/drain-r1"])
    meta.put(NAMESPACE_PLACEMENTS, "released", "root", **gone)
    assert [each["name"] for each in await waiting(meta)] == ["root/held"]
