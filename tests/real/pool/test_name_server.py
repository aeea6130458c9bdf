"""A tenant's own name server reaches its Pods in every super cluster, whether or not its namespace has slices there."""

from __future__ import annotations

import pytest
from pool_kit import TWO_SLICES, Json, Pool, Space, deployment, pod, quota

from tests.real.waiting import eventually

SERVICE: Json = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "kube-dns"},
    "spec": {
        "selector": {"app": "kube-dns"},
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}],
    },
}


@pytest.mark.timeout(300)
def test_pods_use_a_name_server_whose_pods_are_in_another_super_cluster(pool: Pool) -> None:
    system = pool.new_space(name="kube-system")
    with pool.space() as space:
        try:
            system.apply(quota(TWO_SLICES, "dns"))
            eventually(system.placements)
            system.pin(r2=1)
            eventually(lambda: set(system.placements()) == {"r2"})
            system.apply(SERVICE, deployment("kube-dns", 1, nodeSelector={"kubernetes.io/os": "linux"}))
            [server] = system.all_running("kube-dns", 1)
            found = eventually(lambda: system.there("r1", "services", "kube-dns"))
            assert not found["spec"].get("selector")
            addresses = eventually(lambda: endpoint_addresses(system, "r1", "kube-dns"))
            assert addresses == [server["status"]["podIP"]]
            assert system.there("r1", "pods", server["metadata"]["name"]) is None

            space.apply(pod("asks", on="r1"))
            space.running("asks")
            spec = (space.there("r1", "pods", "asks") or {})["spec"]
            assert (spec["dnsPolicy"], spec["dnsConfig"]["nameservers"]) == (
                "None",
                [found["spec"]["clusterIP"]],
            )
        finally:
            system.kubectl("delete", "deployment,service", "kube-dns", "--ignore-not-found")
            system.kubectl("delete", "resourcequota", "dns", "--ignore-not-found")


def endpoint_addresses(space: Space, cluster: str, name: str) -> list[str]:
    """Return the ready addresses of the Endpoints of a name in a super cluster. Empty: it has none yet."""
    endpoints = space.there(cluster, "endpoints", name) or {}
    subsets = endpoints.get("subsets") or []
    return [each["ip"] for subset in subsets for each in subset.get("addresses") or []]
