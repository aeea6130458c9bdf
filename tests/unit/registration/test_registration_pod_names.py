"""Pods of a tenant that has left the pool keep no names."""

from typing import Any

from memory_cluster import MemoryCluster

from vcsync.api.names import COPY_FINALIZER, SUPER_CLUSTER
from vcsync.kube.errors import Conflict, Status
from vcsync.kube.resources import PODS
from vcsync.registration.pod_names import free_names

HERE = {SUPER_CLUSTER: "r1"}


def pod(cluster: MemoryCluster, name: str, *finalizers: str) -> None:
    cluster.put(PODS, name, "shop", metadata={"labels": HERE, "finalizers": list(finalizers)})


def finalizers(cluster: MemoryCluster, name: str) -> Any:
    found = cluster.found(PODS, name, "shop")
    assert found is not None
    return found["metadata"].get("finalizers", [])


async def test_only_vcsyncs_finalizer_is_removed() -> None:
    cluster = MemoryCluster("acme")
    pod(cluster, "web-0", COPY_FINALIZER)
    pod(cluster, "db-0", "example.com/held", COPY_FINALIZER)
    pod(cluster, "other", "example.com/held")
    assert await free_names(cluster) == 2  # type: ignore[arg-type]
    assert [finalizers(cluster, name) for name in ("web-0", "db-0", "other")] == [
        [],
        ["example.com/held"],
        ["example.com/held"],
    ]


async def test_a_pod_that_changes_meanwhile_is_read_again() -> None:
    class Busy(MemoryCluster):
        refusals = 2

        async def patch(self, *args: Any, **options: Any) -> Any:
            if self.refusals:
                self.refusals -= 1
                raise Conflict(Status(409))
            return await super().patch(*args, **options)

    cluster = Busy("acme")
    pod(cluster, "web-0", COPY_FINALIZER)
    assert await free_names(cluster) == 1  # type: ignore[arg-type]
    assert finalizers(cluster, "web-0") == []
