"""Tenant objects with kubectl in `vcsync up`: creation, crashes, removal."""

import json
import signal
import time

import pytest

from tests.real.up_kit import Up, operator
from tests.real.waiting import eventually

TENANT = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: Tenant
metadata: {name: umbrella}
spec:
  weight: 2
  quota: {cpu: "20", memory: 64Gi}
  defaultQuota: {cpu: "4", memory: 8Gi}
"""


def left(up: Up) -> str:
    """Return what there is of the tenant umbrella, in the meta cluster, the store and the super clusters."""
    everything = operator(up, "kubectl get tenants,virtualclusters,namespaces,namespaceplacements -A -o name")
    spaces = operator(up, "vcsync tenant list --all -o name --data " + str(up.data))
    copies = "".join(
        operator(
            up,
            f"vcsync tenant kubeconfig {super_id} > {super_id}.kubeconfig; "
            f"kubectl --kubeconfig {super_id}.kubeconfig get namespaces -o name",
        )
        for super_id in ("r1", "r2")
    )
    return "\n".join(line for line in (everything + spaces + copies).splitlines() if "umbrella" in line)


@pytest.mark.core
@pytest.mark.timeout(390)
def test_a_tenant_lives_and_ends_by_kubectl_alone(up: Up) -> None:
    up.start("--tenants", "")
    operator(up, f"kubectl apply -f - <<< '{TENANT}'")
    operator(up, "kubectl wait --for=condition=Ready te/umbrella --timeout=60s")
    header, shown = operator(up, "kubectl get te").splitlines()
    assert header.split() == ["NAME", "CONTROL", "PLANE", "PHASE", "READY", "WEIGHT", "AGE"]
    assert shown.split()[:5] == ["umbrella", "Embedded", "Running", "True", "2"]
    described = operator(up, "kubectl describe te umbrella")
    assert "the control plane answers, and the pool serves it" in described
    assert "vcsync-tenants" in described

    operator(up, f"vcsync tenant kubeconfig umbrella > {up.data}/umbrella.kubeconfig")
    up.kubectl("create deployment web --image=nginx --replicas=3", "umbrella")
    up.running(3, "umbrella")
    operator(up, "vcsync tenant set umbrella --weight 5 --quota ''")
    eventually(
        lambda: (
            operator(up, "kubectl get vc -n vcsync umbrella -o jsonpath='{.spec.weight}{.spec.quota}'") == "5"
        )
    )
    refused = operator(up, "vcsync tenant remove umbrella 2>&1 || true")
    assert "kubectl delete tenant umbrella" in refused

    operator(up, "kubectl delete te umbrella --timeout=90s")
    assert left(up) == ""
    operator(up, f"kubectl apply -f - <<< '{TENANT}'")
    operator(up, "kubectl wait --for=condition=Ready te/umbrella --timeout=60s")
    assert "tenant umbrella is deleted" in operator(up, "vcsync tenant delete umbrella")
    assert left(up) == ""


@pytest.mark.timeout(390)
def test_a_tenant_survives_crashes_in_the_middle_of_its_creation_and_deletion(up: Up) -> None:
    up.start("--tenants", "")
    for wait in (0.2, 0.8):
        operator(up, f"kubectl apply -f - <<< '{TENANT}'")
        time.sleep(wait)
        up.end(signal.SIGKILL)
        up.start()
        operator(up, "kubectl wait --for=condition=Ready te/umbrella --timeout=60s")
        operator(up, "kubectl delete te umbrella --wait=false")
        time.sleep(wait)
        up.end(signal.SIGKILL)
        up.start()
        operator(up, "kubectl wait --for=delete te/umbrella --timeout=60s")
        assert left(up) == ""


@pytest.mark.timeout(390)
def test_a_tenant_that_a_command_registered_is_handed_over(up: Up) -> None:
    up.start("--tenants", "umbrella")
    eventually(lambda: "Registered" in operator(up, "kubectl get te umbrella"))
    change = json.dumps({"spec": {"controlPlane": {"embedded": {}}}})
    operator(up, f"kubectl patch te umbrella --type=merge -p '{change}'")
    eventually(lambda: {"Embedded", "Running"} <= set(operator(up, "kubectl get te umbrella").split()))
    operator(up, "kubectl delete te umbrella --timeout=90s")
    assert left(up) == ""
    assert up.end(signal.SIGTERM) == 0
    up.start()
    assert "tenant umbrella was removed and stays removed" in up.log.read_text()
