"""Suspension of tenants with kubectl: embedded ones in `vcsync up`."""

import json
import signal

import pytest

from tests.real.up_kit import Up, operator
from tests.real.waiting import eventually

TENANT = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: Tenant
metadata: {name: umbrella}
spec: {defaultQuota: {cpu: "4", memory: 8Gi}}
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: never}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}
"""
BARE = "run bare --image=nginx --restart=Never"


def refused(up: Up, arguments: str, tenant: str = "umbrella") -> str:
    """Return what kubectl says about a refused request of the tenant's administrator."""
    return up.kubectl(f"{arguments} 2>&1 && exit 1 || true", tenant)


def copies(up: Up, tenant: str) -> str:
    """Return the names of the tenant's namespaces and Pods in the super clusters."""
    return "".join(
        line
        for super_id in ("r1", "r2")
        for line in operator(
            up,
            f"vcsync tenant kubeconfig {super_id} > {super_id}.kubeconfig; "
            f"kubectl --kubeconfig {super_id}.kubeconfig get pods -A -l tenancy.x-k8s.io/vcname={tenant} -o name",
        ).splitlines()
    )


def is_waiting(up: Up, count: int, tenant: str = "umbrella") -> bool:
    """Return whether `count` Pods wait because the tenant is suspended, and there are no others."""
    found = up.pods(tenant)
    messages = [
        condition["message"]
        for pod in found
        for condition in pod["status"].get("conditions", [])
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    ]
    return (
        len(found) == count
        and [each for each in messages if "suspended" in each] == messages
        and len(messages) == count
    )


@pytest.mark.timeout(390)
def test_a_suspended_tenant_only_reads_and_resumes_with_all_it_had(up: Up) -> None:
    up.start("--tenants", "")
    operator(up, f"kubectl apply -f - <<< '{TENANT}'")
    operator(up, "kubectl wait --for=condition=Ready te/umbrella --timeout=60s")
    operator(up, f"vcsync tenant kubeconfig umbrella > {up.data}/umbrella.kubeconfig")
    up.kubectl("create deployment web --image=nginx --replicas=3", "umbrella")
    up.kubectl(f"apply -f - <<< '{BUDGET}'", "umbrella")
    up.kubectl(BARE, "umbrella")
    up.running(4, "umbrella")

    # The budget allows no eviction, and there is a crash in the middle.
    operator(up, 'kubectl patch te umbrella --type=merge -p \'{"spec":{"suspended":true}}\'')
    eventually(
        lambda: operator(up, "kubectl get te umbrella -o jsonpath='{.status.phase}'").startswith("Suspend")
    )
    up.end(signal.SIGKILL)
    up.start()
    operator(up, "kubectl wait --for=condition=Suspended te/umbrella --timeout=90s")
    assert operator(up, "kubectl get te umbrella -o jsonpath='{.status.phase}'") == "Suspended"
    assert copies(up, "umbrella") == ""

    said = refused(up, "create configmap late --from-literal=a=b", "umbrella")
    assert "the tenant is suspended" in said
    assert "ask the operator" in said
    for write in (
        "delete deployment web",
        "label namespace default a=b",
        "get --raw /api/v1/namespaces/default/pods/bare/exec?command=true",
        "create token default",
        "scale deployment web --replicas=5",
        "delete pod bare --as=system:serviceaccount:vcsync-system:vcsync-syncer",
    ):
        assert "suspended" in refused(up, write), write
    assert up.kubectl("auth can-i create pods", "umbrella").strip() == "yes"
    assert "web" in up.kubectl("get deployments", "umbrella")
    eventually(lambda: is_waiting(up, 3))
    pod = up.pods("umbrella")[0]["metadata"]["name"]
    eventually(lambda: "suspended" in up.kubectl("get events", "umbrella"))
    told = operator(up, f"vcsync explain pod umbrella/default/{pod}")
    assert "the tenant is suspended" in told
    assert "Suspended" in operator(up, "vcsync tenant list")
    # The operator still writes.
    operator(
        up,
        "kubectl -s $(kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}')/tenants/umbrella "
        "create configmap notice --from-literal=a=b",
    )

    operator(up, "vcsync tenant resume umbrella")
    up.running(3, "umbrella")
    operator(up, "kubectl wait --for=condition=Ready te/umbrella --timeout=60s")
    shown = json.loads(operator(up, "kubectl get te umbrella -o json"))["status"]["conditions"]
    assert {each["type"]: each["status"] for each in shown}["Suspended"] == "False"
    up.kubectl("create configmap late --from-literal=a=b", "umbrella")
    assert up.kubectl("get configmap notice late -o name", "umbrella").split() == [
        "configmap/notice",
        "configmap/late",
    ]


@pytest.mark.core
@pytest.mark.timeout(390)
def test_a_tenant_that_a_command_registered_is_suspended_by_command(up: Up) -> None:
    up.start("--tenants", "acme")
    up.kubectl("create deployment web --image=nginx --replicas=2")
    up.running(2)
    operator(up, "vcsync tenant suspend acme")
    eventually(lambda: is_waiting(up, 2, "acme"))
    assert "suspended" in refused(up, "create configmap late --from-literal=a=b", "acme")
    eventually(
        lambda: (
            "True"
            in operator(
                up,
                """kubectl get te acme -o jsonpath='{.status.conditions[?(@.type=="Suspended")].status}'""",
            )
        )
    )
    operator(up, "vcsync tenant resume acme")
    up.running(2)
