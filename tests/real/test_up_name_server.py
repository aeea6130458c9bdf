"""`vcsync tenant create --dns` in `vcsync up`: the name server of a new tenant, with kubectl."""

import json
from typing import Any

import pytest

from tests.real.up_kit import Up, operator
from tests.real.waiting import eventually
from vcsync.registration import name_server

SYSTEM = "kubectl -n kube-system"
POD = """
kubectl apply -f - <<END
apiVersion: v1
kind: Pod
metadata: {name: asks}
spec: {containers: [{name: c, image: nginx}]}
END
"""
IMAGE = "registry.example.com/coredns:v9"


def as_tenant(up: Up, script: str, tenant: str = "acme") -> str:
    """Type commands as the administrator of a tenant."""
    return up.type(script, KUBECONFIG=f"{up.folder}/{tenant}.kubeconfig")


def refused(up: Up, command: str) -> str:
    """Type a command of the operator that must fail, and return what it prints."""
    return operator(up, f"{command} 2>&1 && exit 1 || true")


def get(up: Up, what: str) -> Any:
    return json.loads(as_tenant(up, f"kubectl get {what} -o json"))


def nameserver_below(up: Up) -> str:
    """Return the name server of the copy of the tenant's Pod; "" while there is no copy."""
    for each in ("r1", "r2"):
        pods = json.loads(up.type("kubectl get pods -A -o json", KUBECONFIG=f"{up.folder}/{each}.kubeconfig"))
        for pod in pods["items"]:
            if pod["metadata"]["name"] == "asks":
                config = pod["spec"]["dnsConfig"]
                assert "default.svc.cluster.local" in config["searches"]
                return str(config["nameservers"][0])
    return ""


@pytest.mark.timeout(600)
def test_a_tenant_made_with_dns_has_a_name_server_once_it_is_in_the_pool(up: Up) -> None:
    up.start("--tenants", "")
    assert "give --dns, too" in refused(up, f"vcsync tenant create acme --dns-image {IMAGE}")
    for each in ("r1", "r2"):
        operator(up, f"vcsync tenant kubeconfig {each} > {each}.kubeconfig")
    made = operator(up, "vcsync tenant create acme --dns")
    assert f"tenant acme has the name server {name_server.DEFAULT_IMAGE} for cluster.local" in made
    assert "tenant acme exists already" in refused(up, "vcsync tenant create acme")
    operator(up, "vcsync tenant kubeconfig acme > acme.kubeconfig")

    # Run again, it continues, and gives the image that is asked for.
    operator(up, f"vcsync tenant create acme --dns --dns-image {IMAGE}")
    spec = get(up, "deployment coredns -n kube-system")["spec"]
    assert spec["template"]["spec"]["containers"][0]["image"] == IMAGE

    operator(up, "vcsync tenant add acme --kubeconfig acme.kubeconfig --default-quota cpu=4,memory=4Gi")
    as_tenant(up, f"{SYSTEM} rollout status deployment coredns --timeout=100s")
    as_tenant(up, POD)
    assert eventually(lambda: nameserver_below(up))

    # The tenant's own objects stay when it leaves the pool, and work when it is back.
    operator(up, "vcsync tenant remove acme")
    assert get(up, "service kube-dns -n kube-system")["spec"]["selector"] == {"k8s-app": "kube-dns"}
    eventually(lambda: nameserver_below(up) == "")
    operator(up, "vcsync tenant add acme --kubeconfig acme.kubeconfig --default-quota cpu=4,memory=4Gi")
    as_tenant(up, "kubectl delete pod asks --ignore-not-found --force")
    as_tenant(up, POD)
    assert eventually(lambda: nameserver_below(up))


@pytest.mark.timeout(600)
def test_a_name_server_of_the_tenants_own_and_one_without_pool(up: Up) -> None:
    up.start("--tenants", "")
    operator(up, "vcsync tenant create acme")
    operator(up, "vcsync tenant kubeconfig acme > acme.kubeconfig")
    as_tenant(up, f"{SYSTEM} create configmap coredns --from-literal=Corefile=own")
    said = refused(up, "vcsync tenant create acme --dns")
    assert "has a name server of its own, which stays: ConfigMap coredns" in said
    assert "NotFound" in as_tenant(up, f"{SYSTEM} get deployment coredns 2>&1 || true")

    # A Tenant object takes the control plane over, with its name server and the domain of that.
    operator(up, "vcsync tenant create umbrella --dns")
    tenant = "{apiVersion: tenancy.x-k8s.io/v1alpha1, kind: Tenant, metadata: {name: umbrella}, spec: {}}"
    operator(
        up,
        f"kubectl apply -f - <<< '{tenant}'; kubectl wait --for=condition=Ready te/umbrella --timeout=100s",
    )
    domain = "kubectl get virtualcluster umbrella -n vcsync -o jsonpath='{.spec.clusterDomain}'"
    assert operator(up, domain) == "cluster.local"
    operator(up, "vcsync tenant kubeconfig umbrella > umbrella.kubeconfig")
    as_tenant(up, f"{SYSTEM} rollout status deployment coredns --timeout=100s", "umbrella")
