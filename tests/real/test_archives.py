"""Export and import of tenants with kubectl, by an embedded control plane in `vcsync up`."""

import json

import pytest

from tests.real.up_kit import Up, operator
from tests.real.waiting import eventually

OBJECTS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: lamps, singular: lamp, kind: Lamp, listKind: LampList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: red}}
---
apiVersion: v1
kind: Secret
metadata: {name: password, namespace: shop}
stringData: {word: xyzzy-secret}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: plain, namespace: shop}
data: {a: b}
---
apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: shop}
spec: {containers: [{name: c, image: nginx}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota, namespace: shop}
spec: {hard: {pods: "9"}}
"""
LAMP = """
apiVersion: example.com/v1
kind: Lamp
metadata: {name: red, namespace: shop, finalizers: [example.com/keep]}
spec: {bulbs: 2}
"""


def as_tenant(up: Up, tenant: str, script: str) -> str:
    """Type kubectl commands as a tenant's administrator."""
    operator(up, f"test -s {tenant}.kubeconfig || vcsync tenant kubeconfig {tenant} > {tenant}.kubeconfig")
    return up.type(script, KUBECONFIG=f"{up.folder}/{tenant}.kubeconfig")


def uid(up: Up, tenant: str, what: str) -> str:
    return as_tenant(up, tenant, f"kubectl get {what} -n shop -o jsonpath='{{.metadata.uid}}'")


@pytest.mark.core
@pytest.mark.timeout(390)
def test_a_tenant_moves_in_one_file_with_owners_and_without_what_is_made_anew(up: Up) -> None:
    up.start("--tenants", "")
    operator(up, "vcsync tenant create acme")
    as_tenant(up, "acme", f"kubectl apply -f - <<< '{OBJECTS}'")
    as_tenant(up, "acme", "kubectl wait --for=condition=Established crd/lamps.example.com --timeout=60s")
    as_tenant(up, "acme", f"kubectl apply -f - <<< '{LAMP}'")
    as_tenant(
        up,
        "acme",
        'kubectl patch lamp red -n shop --subresource=status --type=merge -p \'{"status":{"lit":true}}\'',
    )
    as_tenant(up, "acme", "kubectl create deployment web -n shop --image=nginx --replicas=2")
    eventually(lambda: "web" in as_tenant(up, "acme", "kubectl get rs -n shop -o name"))
    owner = {
        "apiVersion": "example.com/v1",
        "kind": "Lamp",
        "name": "red",
        "uid": uid(up, "acme", "lamp/red"),
    }
    patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
    as_tenant(up, "acme", f"kubectl patch configmap plain -n shop --type=merge -p '{patch}'")

    operator(up, "vcsync tenant export acme -o plain.tenant")
    assert "xyzzy" not in operator(
        up, "zcat plain.tenant; zcat plain.tenant | grep -o 'eHl6enktc2VjcmV0' || true"
    )
    warned = operator(up, "vcsync tenant export acme -o acme.tenant --with-keys 2>&1")
    assert "warning" in warned
    assert operator(up, "stat -c %a acme.tenant").strip() == "600"
    assert "web-" not in operator(up, 'zcat acme.tenant | grep \'"kind":"Pod"\'')

    # Cut in the middle by a crash of the program, of the server, and then complete.
    operator(up, "head -c 3000 acme.tenant > cut.tenant")
    assert "the file is cut" in operator(
        up, "vcsync tenant import cut.tenant --name copy 2>&1 && exit 1 || true"
    )
    assert "copy" not in operator(up, "vcsync tenant list --all -o name --data " + str(up.data))
    operator(up, "timeout -s KILL 4 vcsync tenant import acme.tenant --name copy || true")
    operator(
        up,
        "(sleep 3; echo) & vcsync tenant import acme.tenant --name copy & sleep 2.5; kill -9 $! || true; wait || true",
    )
    done = operator(up, "vcsync tenant import acme.tenant --name copy 2>&1")
    assert " 0 skipped" in done
    again = operator(up, "vcsync tenant import acme.tenant --name copy 2>&1")
    assert ": 0 objects created" in again

    kinds = "deploy,secret,service,configmap,lamp,rolebinding,resourcequota"
    get = f"kubectl get -n shop -o name {kinds}; kubectl get -n shop -o name pod bare"
    assert as_tenant(up, "copy", get) == as_tenant(up, "acme", get)
    assert as_tenant(up, "copy", "kubectl get ns shop -o jsonpath='{.metadata.labels.team}'") == "red"
    assert as_tenant(up, "copy", "kubectl get lamp red -n shop -o jsonpath='{.status.lit}'") == "true"
    words = "kubectl get secret password -n shop -o jsonpath='{.data.word}' | base64 -d"
    assert as_tenant(up, "copy", words) == "xyzzy-secret"
    reference = "kubectl get configmap plain -n shop -o jsonpath='{.metadata.ownerReferences[0].uid}'"
    assert as_tenant(up, "copy", reference) == uid(up, "copy", "lamp/red") != uid(up, "acme", "lamp/red")
    # The new control plane has one ReplicaSet of the Deployment, and makes its Pods.
    eventually(lambda: len(as_tenant(up, "copy", "kubectl get pods -n shop -l app=web -o name").split()) == 2)
    assert as_tenant(up, "copy", "kubectl get rs -n shop -o name") == as_tenant(
        up, "acme", "kubectl get rs -n shop -o name"
    )
