"""A tenant's own name server reaches its Pods in every super cluster, whether or not its namespace has slices there."""

from __future__ import annotations

from functools import partial

import pytest
from pool_kit import TWO_SLICES, Json, Pool, Space, deployment, pod, quota

from hack.system import SystemFailed
from tests.real.waiting import eventually

SUPERS = ("r1", "r2")
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


@pytest.mark.timeout(300)
def test_the_operator_gives_a_tenant_a_name_server_and_removes_it(pool: Pool) -> None:
    system = pool.new_space("umbrella", name="kube-system")
    install = ("tenant", "dns", "umbrella", "--kubeconfig", str(pool.cluster("umbrella").kubeconfig))
    with pool.configured("umbrella", clusterDomain=None), pool.space("umbrella") as space:
        try:
            assert "has the name server" in pool.system.vcsync(*install, "--replicas", "1")
            eventually(lambda: ready_replicas(system) == 1)
            below = {each: eventually(partial(cluster_ip, system, each)) for each in SUPERS}
            for each in SUPERS:
                space.apply(pod(f"asks-{each}", on=each))
                space.running(f"asks-{each}")
                config = (space.there(each, "pods", f"asks-{each}") or {})["spec"]["dnsConfig"]
                assert config["nameservers"] == [below[each]]
                assert config["searches"][0] == f"{space.name}.svc.cluster.local"

            newer = "registry.example.com/coredns:v9"
            pool.system.vcsync(*install, "--image", newer)
            eventually(lambda: images(system) == {newer} and ready_replicas(system) == 2)
            assert {each: cluster_ip(system, each) for each in SUPERS} == below

            assert "is removed" in pool.system.vcsync(*install, "--off")
            left = system.kubectl(
                "get", "deployment,service,resourcequota,serviceaccount,configmap", "-o", "name"
            )
            assert "coredns" not in left
            assert "/kube-dns\n" not in left
        finally:
            pool.system.vcsync(*install, "--off", check=False)


def test_a_name_server_of_the_tenants_own_stays(pool: Pool) -> None:
    system = pool.new_space("umbrella", name="kube-system")
    install = ("tenant", "dns", "umbrella", "--kubeconfig", str(pool.cluster("umbrella").kubeconfig))
    system.apply(SERVICE)
    try:
        with pytest.raises(SystemFailed, match="has a name server of its own, which stays: Service kube-dns"):
            pool.system.vcsync(*install)
        assert system.get("deployments", "coredns", "apps/v1") is None
        pool.system.vcsync(*install, "--off", check=False)
        assert system.get("services", "kube-dns") is not None
    finally:
        system.kubectl("delete", "service", "kube-dns")


def test_the_kubeconfig_must_lead_to_the_tenant(pool: Pool) -> None:
    other = ("tenant", "dns", "umbrella", "--kubeconfig", str(pool.cluster("acme").kubeconfig))
    with pytest.raises(SystemFailed, match="does not lead to the control plane of tenant umbrella"):
        pool.system.vcsync(*other)


def ready_replicas(system: Space) -> int:
    found = system.get("deployments", "coredns", "apps/v1") or {}
    status = found.get("status") or {}
    updated = status.get("observedGeneration") == found.get("metadata", {}).get("generation")
    same = status.get("readyReplicas") == status.get("replicas") == status.get("updatedReplicas")
    return int(status.get("readyReplicas") or 0) if updated and same else 0


def images(system: Space) -> set[str]:
    return {
        each["spec"]["containers"][0]["image"]
        for each in system.pods()
        if "coredns" in each["metadata"]["name"]
    }


def cluster_ip(system: Space, cluster: str) -> str:
    return str((system.there(cluster, "services", "kube-dns") or {}).get("spec", {}).get("clusterIP", ""))
