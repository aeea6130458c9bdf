"""Networks with kubectl: the default of each tenant, DNS Services in front of its name server, and what is refused."""

import json
from typing import Any

import pytest

from tests.real.up_kit import Up, operator
from tests.real.waiting import eventually

NAME_SERVER = """
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  selector: {app: names}
  ports:
  - {name: dns, port: 53, protocol: UDP, targetPort: 5353}
"""
TENANT = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: Tenant
metadata: {name: umbrella}
spec: {network: {type: VPC, vpcID: shared-vpc}}
"""
VPC = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: Network
metadata: {name: blue}
spec: {type: VPC, vpcID: shared-vpc}
"""


PATH = "/apis/tenancy.x-k8s.io/v1alpha1/networks"


def got(up: Up, what: str, tenant: str = "acme") -> Any:
    return json.loads(up.kubectl(f"get {what} -o json", tenant))


REFUSED = (
    ("delete network default", "", "this network may not be deleted: every tenant has it"),
    (f"delete --raw {PATH}/default", "", "this network may not be deleted"),
    (
        """patch ne default --type=merge -p '{"spec": {"type": "VPC", "vpcID": "x"}}'""",
        "",
        "spec.type cannot change: delete the network and create another one",
    ),
    (
        "create -f -",
        "spec: {type: VPC}",
        "spec.vpcID is required with type VPC: set it to the name of the VPC",
    ),
    ("create -f -", "spec: {vpcID: x}", "spec.vpcID has a meaning with type VPC only: remove it"),
    ("create -f -", "spec: {type: flat}", 'supported values: "Flat", "VPC"'),
)


@pytest.mark.core
@pytest.mark.timeout(390)
def test_networks_of_tenants(up: Up) -> None:
    up.start("--tenants", "acme", "--hollow", "r1", "--nodes", "1")
    said = operator(
        up, f"kubectl apply -f - <<< '{TENANT.replace('VPC', 'Flat')}' 2>&1 && echo UNEXPECTED; true"
    )
    assert "spec.network.vpcID is required with type VPC, and refused otherwise: add or remove it" in said
    operator(up, f"kubectl apply -f - <<< '{TENANT}'")
    eventually(lambda: "Ready" in up.kubectl("get network default --ignore-not-found"))
    header, shown = up.kubectl("get networks").splitlines()
    assert header.split() == ["NAME", "TYPE", "VPC", "PHASE", "DNS", "AGE"]
    service = got(up, "service -n kube-system kube-dns-default")
    assert shown.split()[:4] == ["default", "Flat", "Ready", service["spec"]["clusterIP"]]
    assert "isolates no Pods" in up.kubectl("describe ne default")
    assert "an address space of its own" in up.kubectl("explain net.spec.type")

    for arguments, spec, expected in REFUSED:
        stdin = VPC.partition("spec:")[0] + spec
        said = up.kubectl(f"{arguments} <<< '{stdin}' 2>&1 && echo UNEXPECTED; true")
        assert expected in said
        assert "UNEXPECTED" not in said

    # A network of the tenant's own, and a name server.
    up.kubectl(f"create -f - <<< '{VPC}'")
    up.kubectl(f"create -f - <<< '{NAME_SERVER}'")
    up.kubectl("wait --for=condition=NameServer network/blue network/default --timeout=90s")
    blue = got(up, "network blue")["status"]
    service = got(up, "service -n kube-system kube-dns-blue")
    assert blue["phase"] == "Ready"
    assert blue["dnsServiceIP"] == service["spec"]["clusterIP"]
    assert (service["spec"]["selector"], service["spec"]["ports"][0]["targetPort"]) == (
        {"app": "names"},
        5353,
    )
    assert {each["type"]: each["status"] for each in blue["conditions"]} == {
        "Enforced": "False",
        "NameServer": "True",
    }

    # What a tenant writes into a status does not last, and a VPC of the same name is another one.
    lie = json.dumps({"status": {"phase": "Failed", "dnsServiceIP": "192.0.2.1"}})
    up.kubectl(f"patch network blue --subresource=status --type=merge -p '{lie}'")
    eventually(lambda: got(up, "network blue")["status"] == blue)
    operator(up, "kubectl wait --for=condition=Ready te/umbrella --timeout=90s")
    operator(up, f"vcsync tenant kubeconfig umbrella > {up.data}/umbrella.kubeconfig")
    eventually(lambda: "shared-vpc" in (shown := up.kubectl("get networks", "umbrella")) and "Ready" in shown)
    change = json.dumps({"spec": {"network": {"type": "Flat", "vpcID": None}}})
    said = operator(up, f"kubectl patch te umbrella --type=merge -p '{change}' 2>&1 && echo UNEXPECTED; true")
    assert "spec.network is used once, when the control plane is made, and cannot change" in said
    every = json.loads(operator(up, f"kubectl get --raw /tenants/all{PATH}"))["items"]
    assert [each["metadata"]["name"] for each in every] == ["blue", "default", "default"]

    up.kubectl("delete network blue")
    eventually(lambda: "kube-dns-blue" not in up.kubectl("get services,endpoints -n kube-system -o name"))
    up.kubectl("get service -n kube-system kube-dns-default")
    for space in ("r1", "system"):  # A super cluster, and the operator's space.
        assert "NotFound" in operator(up, f"kubectl get --raw /tenants/{space}{PATH} 2>&1 || true")
