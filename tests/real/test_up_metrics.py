"""`vcsync up`: `kubectl top` and autoscalers show the usage of Pods, which the super clusters report."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.real.up_kit import Up
from tests.real.waiting import eventually

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "pods.metrics.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    },
    "spec": {
        "group": "metrics.k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "pods", "singular": "pod", "kind": "PodMetrics", "listKind": "PodMetricsList"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
"""Stands for a metrics-server: what it would serve is stored."""


def metrics(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of a Pod like a metrics-server: 900m of CPU."""
    measured = datetime.now(UTC) + timedelta(minutes=1)
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "PodMetrics",
        "metadata": {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]},
        "timestamp": measured.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "window": "0s",
        "containers": [{"name": "nginx", "usage": {"cpu": "900m", "memory": "1Mi"}}],
    }


def top(up: Up, what: str) -> list[list[str]]:
    """Return the lines of `kubectl top`, which fails as long as there is no usage."""
    return [line.split() for line in up.kubectl(f"top {what} --no-headers").splitlines()]


def viewer_reads_usage(up: Up) -> None:
    """Check that a user who may view Pods reads their usage, and another one does not."""
    up.kubectl("create serviceaccount viewer")
    up.kubectl("create rolebinding viewer --clusterrole=view --serviceaccount=default:viewer")
    for account, answer in (("viewer", "yes"), ("default", "no")):
        asked = f"auth can-i list pods.metrics.k8s.io --as=system:serviceaccount:default:{account} || true"
        eventually(lambda asked=asked, answer=answer: up.kubectl(asked).strip() == answer)


@pytest.mark.timeout(390)
def test_metrics_come_from_the_super_clusters_of_pods(up: Up) -> None:
    up.start("--hollow", "r1")
    up.kubectl("create quota all --hard=cpu=8,memory=16Gi")
    up.kubectl("create deployment web --image=nginx")
    up.kubectl("set resources deployment web --requests=cpu=500m,memory=128Mi")
    names = set()

    def one_with_requests() -> bool:
        found = [each for each in up.pods() if each["spec"]["containers"][0]["resources"].get("requests")]
        names.update(each["metadata"]["name"] for each in found)
        return len(found) == len(up.pods()) == 1 and found[0]["status"]["phase"] == "Running"

    eventually(one_with_requests)
    [(name, cpu, memory)] = eventually(lambda: top(up, "pods"))
    assert name in names
    # Hollow containers use from 0.3 to 0.7 of their requests.
    assert 150 <= int(cpu.removesuffix("m")) <= 350
    assert 38 <= int(memory.removesuffix("Mi")) <= 90
    [(node, cpu_of_node, share, *_)] = top(up, "nodes")
    assert node.endswith(".r1")
    assert cpu_of_node == cpu
    assert share.endswith("%")
    assert json.loads(up.kubectl("get --raw /apis/metrics.k8s.io/v1beta1/nodes"))["kind"] == "NodeMetricsList"
    viewer_reads_usage(up)
    file = up.folder / "metrics.json"
    file.write_text(json.dumps(DEFINITION))
    up.kubectl(f"create -f {file}", "r1")
    up.kubectl("wait --for=condition=established crd/pods.metrics.k8s.io --timeout=60s", "r1")
    below = json.loads(up.kubectl("get pods -A -o json", "r1"))["items"]
    items = [metrics(each) for each in below if each["metadata"]["name"] in names]
    assert len(items) == 1
    file.write_text(json.dumps(items[0]))
    up.kubectl(f"create -f {file}", "r1")
    up.kubectl("autoscale deployment web --cpu=60% --min=1 --max=5")
    eventually(lambda: len(up.pods()) == 3)
    messages = up.kubectl("get events -o jsonpath='{.items[*].message}'")
    assert "New size: 3; reason: cpu resource utilization (percentage of request) above target" in messages
