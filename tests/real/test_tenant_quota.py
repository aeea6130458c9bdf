"""Quotas of whole tenants: with kubectl in `vcsync up`, and with two processes on one real etcd of which one is killed."""

import base64
import json
import signal
import ssl
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.embedded import ControlPlane
from hack.etcd import Etcd
from tests.real.up_kit import Up, operator
from tests.real.waiting import eventually

LIMIT, WRITES, AT_ONCE = 30, 90, 8
MERGE = "application/merge-patch+json"
TENANT = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: Tenant
metadata: {name: umbrella}
spec:
  resourceQuota: {hard: %s}
"""
LIMITS = '{namespaces: 6, pods: 2, requests.cpu: "1", count/deployments.apps: 1, webhookconfigurations: 0}'
HOOK = (
    "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w}"
)


def quota(up: Up) -> dict[str, Any]:
    """Return the quota in the status of the Tenant."""
    found: dict[str, Any] = json.loads(operator(up, "kubectl get te umbrella -o json"))["status"]
    return found.get("resourceQuota", {})


@pytest.mark.core
@pytest.mark.timeout(390)
def test_a_quota_over_all_namespaces_by_kubectl_alone(up: Up) -> None:
    up.start("--tenants", "")
    invalid = operator(up, f"kubectl apply -f - <<< '{TENANT % '{podz: 1}'}' 2>&1 || true")
    assert "spec.resourceQuota.hard: Invalid value" in invalid
    assert "correct or remove other names" in invalid
    operator(up, f"kubectl apply -f - <<< '{TENANT % LIMITS}'")
    operator(up, "kubectl wait --for=condition=Ready te/umbrella --timeout=60s")
    operator(up, f"vcsync tenant kubeconfig umbrella > {up.data}/umbrella.kubeconfig")

    def tenant(script: str) -> str:
        return up.kubectl(f"{script} 2>&1 || true", "umbrella")

    assert "created" in tenant("create namespace shop")
    refused = tenant("create namespace more")
    assert 'namespaces "more" is forbidden: exceeded quota: tenant quota of umbrella' in refused
    assert "requested: namespaces=1, used: namespaces=6, limited: namespaces=6" in refused
    assert "webhookconfigurations=1" in tenant(f"apply -f - <<< '{HOOK}'")
    assert "created" in tenant("create deployment web --image=nginx --replicas=0")
    assert "count/deployments.apps=1" in tenant("create deployment web -n shop --image=nginx --replicas=0")
    assert "must specify requests.cpu for: web" in tenant("run web --image=nginx")
    eventually(lambda: quota(up).get("free", {}).get("namespaces") == "0")
    assert quota(up)["used"]["count/deployments.apps"] == "1"
    described = operator(up, "kubectl describe te umbrella")
    assert all(each in described for each in ("Resource Quota", "Fullest", "Free"))
    assert "count/deployments.apps: 1/1" in operator(up, "kubectl get te -o wide")

    change = json.dumps({"spec": {"resourceQuota": {"hard": {"namespaces": "7", "pods": "half"}}}})
    assert "half" in operator(up, f"kubectl patch te umbrella --type=merge -p '{change}' 2>&1 || true")
    change = json.dumps({"spec": {"resourceQuota": {"hard": {"namespaces": "1500m"}}}})
    operator(up, f"kubectl patch te umbrella --type=merge -p '{change}'")
    eventually(lambda: "InvalidQuota" in operator(up, "kubectl get te -o wide"))
    described = operator(up, "kubectl describe te umbrella")
    assert "spec.resourceQuota.hard[namespaces]: 1500m is not a whole number" in described
    assert "is forbidden: exceeded quota" in tenant("create namespace more")
    change = json.dumps({"spec": {"resourceQuota": {"hard": {"namespaces": "7"}}}})
    operator(up, f"kubectl patch te umbrella --type=merge -p '{change}'")
    eventually(lambda: quota(up).get("hard", {}).get("namespaces") == "7")
    assert "created" in tenant("create namespace more")
    operator(
        up, 'kubectl patch te umbrella --type=json -p \'[{"op":"remove","path":"/spec/resourceQuota"}]\''
    )
    eventually(lambda: not quota(up))
    assert "created" in tenant("create namespace yet-more")
    operator(up, "kubectl delete te umbrella --timeout=90s")


class Asker:
    """One process, used with a kubeconfig."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path, path: str) -> None:
        content = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
        pair = kubeconfig.with_suffix(".pem")
        pair.touch(mode=0o600)
        pair.write_bytes(
            base64.b64decode(content["client-certificate-data"])
            + base64.b64decode(content["client-key-data"])
        )
        self._tls = ssl._create_unverified_context()
        self._tls.load_cert_chain(pair)
        self._url = plane.url + path

    def __call__(
        self, method: str, path: str, body: object = None, form: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(
            self._url + path, data, {"Content-Type": form, "Accept": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(asked, timeout=60, context=self._tls) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except OSError:
            return 0, {}


@pytest.mark.timeout(390)
def test_two_processes_keep_a_quota_and_one_counts_what_a_killed_one_left(tmp_path: Path) -> None:
    etcd = Etcd(tmp_path / "etcd")
    etcd.start()
    try:
        with ControlPlane(tmp_path / "one", etcd=etcd.url) as one:
            kubeconfig = one.create("acme")
            with ControlPlane(tmp_path / "two", etcd=etcd.url) as two:
                _keep_a_quota(one, two, kubeconfig)
    finally:
        etcd.close()


def _keep_a_quota(one: ControlPlane, two: ControlPlane, kubeconfig: Path) -> None:
    both = [Asker(each, kubeconfig, "/tenants/acme") for each in (one, two)]
    admin = Asker(one, one.data / "admin.kubeconfig", "/vcsync/v1/tenants/acme")

    def used() -> int:
        return int(admin("GET", "")[1]["quota"]["used"].get("configmaps", -1))

    def existing() -> int:
        return len(both[0]("GET", "/api/v1/configmaps")[1]["items"])

    def create(number: int) -> int:
        namespace = ("default", "shop")[number % 2]
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        return both[number // 2 % 2]("POST", path, {"metadata": {"name": f"m{number}"}})[0]

    assert both[0]("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})[0] == 201
    code, answer = both[0]("PATCH", "/vcsync/v1/tenants/acme", {"quota": None})
    assert code in (401, 403, 404), answer
    code, answer = admin("PATCH", "", {"quota": {"configmaps": "-1"}})
    assert (code, answer["message"]) == (400, "quota[configmaps]: -1 is negative: use 0 to allow none")
    assert admin("PATCH", "", {"quota": {"configmaps": str(LIMIT)}})[0] == 200
    with ThreadPoolExecutor(AT_ONCE) as workers:
        answers = Counter(workers.map(create, range(WRITES)))
    eventually(lambda: used() == LIMIT)
    assert existing() == LIMIT
    assert set(answers) == {201, 403}

    # One process is killed in the middle of deletions; the other one counts what is left.
    def delete(number: int) -> int:
        namespace = ("default", "shop")[number % 2]
        return both[1]("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/m{number}")[0]

    with ThreadPoolExecutor(AT_ONCE) as workers:
        deleting = [workers.submit(delete, number) for number in range(WRITES)]
        deleting[WRITES // 4].result()
        two.stop(signal.SIGKILL)
        assert any(each.result() == 200 for each in deleting)
    eventually(lambda: used() == existing())
    two.start()
    with ThreadPoolExecutor(AT_ONCE) as workers:
        answers = Counter(workers.map(create, range(WRITES, 2 * WRITES)))
    eventually(lambda: used() == LIMIT)
    assert existing() == LIMIT
    assert set(answers) == {201, 403}
