"""`vcsync up`: claims of an embedded tenant on hollow super clusters, with kubectl."""

import json
from typing import Any

import pytest

from tests.real.up_kit import Up
from tests.real.waiting import eventually
from vcsync.api import names

STATEFUL_SET = """
kubectl apply -f - <<END
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - {name: c, image: i, volumeMounts: [{name: data, mountPath: /data}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
END
"""
"""Its claims name no class: they get the default one, which the hollow super clusters publish."""
POD = """
kubectl apply -f - <<END
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  containers:
  - {name: c, image: i, volumeMounts: [{name: scratch, mountPath: /scratch}]}
  volumes:
  - name: scratch
    ephemeral:
      volumeClaimTemplate:
        spec:
          accessModes: [ReadWriteOnce]
          resources: {requests: {storage: 1Gi}}
END
"""
"""A Pod with an ephemeral volume."""


@pytest.mark.timeout(390)
def test_a_stateful_set_gets_volumes_and_gives_them_back(up: Up) -> None:
    up.start("--tenants", "acme")
    environment = {"KUBECONFIG": str(up.data / "acme.kubeconfig")}

    def get(what: str) -> Any:
        return json.loads(up.kubectl(f"get {what} -o json"))

    def published() -> bool:
        found = [each["metadata"] for each in get("storageclass")["items"]]
        return [(each["name"], each["annotations"][names.PUBLISHED_BY]) for each in found] == [
            ("standard", "r1,r2")
        ]

    eventually(published)
    up.type(STATEFUL_SET, **environment)
    up.kubectl("rollout status statefulset/db --timeout=90s")
    claims = get("pvc")["items"]
    assert [each["status"]["phase"] for each in claims] == ["Bound", "Bound"]
    homes = {
        each["metadata"]["name"].removeprefix("data-"): each["metadata"]["labels"][names.SUPER_CLUSTER]
        for each in claims
    }
    pods = get("pods")["items"]
    assert {
        each["metadata"]["name"]: each["metadata"]["labels"][names.SUPER_CLUSTER] for each in pods
    } == homes
    volumes = get("pv")["items"]
    assert {each["spec"]["csi"]["driver"] for each in volumes} == {names.CSI_DRIVER}
    up.type(POD, **environment)
    up.kubectl("wait --for=condition=Ready pod/job --timeout=60s")
    assert get("pvc job-scratch")["status"]["phase"] == "Bound"
    up.kubectl("delete pod job")
    eventually(lambda: "job-scratch" not in up.kubectl("get pvc -o name"))
    up.kubectl("delete statefulset db")
    up.kubectl("delete pvc --all --timeout=60s")
    eventually(lambda: get("pv")["items"] == [])
    for super_id in ("r1", "r2"):
        up.type(f"vcsync tenant kubeconfig {super_id} --data {up.data} > {up.data / super_id}.kubeconfig")
        there = {"KUBECONFIG": f"{up.data / super_id}.kubeconfig"}
        eventually(lambda there=there: json.loads(up.type("kubectl get pv -o json", **there))["items"] == [])
