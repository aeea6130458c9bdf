"""The running time of Pods is measured in super clusters, over a crash, whatever the tenant writes."""

from __future__ import annotations

import json
import signal
import time
from decimal import Decimal

import pytest

from tests.real.up_kit import Up
from tests.real.waiting import eventually

MIB = 2**20
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "nginx",
                "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
            }
        ]
    },
}
LIE = {"status": {"startTime": "2020-01-01T00:00:00Z"}}
"""What a tenant writes into the status of its own Pod."""


def used(up: Up) -> dict[str, Decimal]:
    """Return what the Pods of acme took, over all super clusters."""
    meta = up.data / "admin.kubeconfig"
    shown = up.type(f"vcsync usage --pods --tenant acme -o json --meta {meta}")
    items = json.loads(shown, parse_float=Decimal)["items"]
    names = ("podSeconds", "cpuCoreSeconds", "memoryByteSeconds")
    assert {each["class"] for each in items} <= {"Burstable"}
    return {name: sum((Decimal(each[name]) for each in items), Decimal()) for name in names}


@pytest.mark.timeout(390)
def test_the_time_of_a_pod_is_counted_once_over_a_crash_whatever_the_tenant_writes(up: Up) -> None:
    up.start("--tenants", "acme")
    began = time.monotonic()
    up.type(f"kubectl apply -f - <<< '{json.dumps(POD)}'", KUBECONFIG=str(up.data / "acme.kubeconfig"))
    up.running(1)
    runs = time.monotonic()
    up.kubectl(f"patch pod web --subresource=status --type=merge -p '{json.dumps(LIE)}'")
    eventually(lambda: used(up)["podSeconds"] > 1)
    up.end(signal.SIGKILL)
    up.start("--tenants", "acme")
    up.running(1)
    least = time.monotonic() - runs
    up.kubectl("delete pod web --wait=true --grace-period=1")
    most = time.monotonic() - began
    # Nothing is lost, not even the time of the crash.
    eventually(lambda: used(up)["podSeconds"] >= least)
    after = used(up)
    # Nothing is counted twice. The times of Pods are in whole seconds.
    assert after["podSeconds"] <= most + 2
    assert after["cpuCoreSeconds"] == after["podSeconds"] / 4
    assert after["memoryByteSeconds"] == after["podSeconds"] * 64 * MIB
