"""Tenants with kubectl: their templates over a crash of the controller, and Arktos' path to them."""

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.real.up_kit import Up, operator
from tests.real.waiting import eventually

OBJECTS = """
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: TenantTemplate
metadata: {name: small}
spec:
  weight: 3
  quota: {cpu: "20", memory: 64Gi}
  defaultQuota: {cpu: "4", memory: 8Gi}
  resourceQuota: {hard: {configmaps: 5}}
  limits: {watches: 500, user: {watches: 100}}
---
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: Tenant
metadata: {name: umbrella}
spec: {template: small}
---
apiVersion: tenancy.x-k8s.io/v1alpha1
kind: Tenant
metadata: {name: globex}
spec: {template: small, weight: 1, quota: {cpu: "30"}}
"""


ARKTOS = {
    "apiVersion": "v1",
    "kind": "Tenant",
    "metadata": {"name": "initech"},
    "spec": {"storageClusterId": "0", "finalizers": ["arktos"], "weight": 2},
}
CORE, OWN = "/api/v1/tenants", "/apis/tenancy.x-k8s.io/v1alpha1/tenants"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One process for all tests of the module. A test may restart it."""
    made = Up(tmp_path_factory.mktemp("tenants") / "up")
    made.start("--tenants", "")
    yield made
    if made.alive:
        made.end(signal.SIGKILL)


def tenant(up: Up, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(operator(up, f"kubectl get te {name} -o json"))
    return found


def condition(up: Up, name: str, kind: str = "TemplateApplied") -> dict[str, Any]:
    conditions = tenant(up, name).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def shares(up: Up, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(operator(up, f"kubectl get vc -n vcsync {name} -o json"))["spec"]
    return {field: found.get(field) for field in ("weight", "quota", "defaultQuota")}


def change(up: Up, patch: dict[str, Any]) -> None:
    operator(up, f"kubectl patch tt small --type=merge -p '{json.dumps({'spec': patch})}'")


@pytest.mark.timeout(390)
def test_a_template_makes_tenants_alike_and_its_change_reaches_them(served: Up) -> None:
    up = served
    for field, wrong in (
        ("weight", {"weight": 0}),
        ("quota", {"quota": {"gpus": "1"}}),
        ("resourceQuota", {"resourceQuota": {"hard": {"gpu s": "1"}}}),
    ):
        body = {
            "apiVersion": "tenancy.x-k8s.io/v1alpha1",
            "kind": "TenantTemplate",
            "metadata": {"name": "wrong"},
            "spec": wrong,
        }
        refused = operator(up, f"kubectl create -f - 2>&1 <<< '{json.dumps(body)}' || true")
        assert f"spec.{field}" in refused

    # The template comes last: its Tenants wait for it.
    operator(up, f"kubectl apply -f - <<< '{OBJECTS[OBJECTS.index('---') :]}'")
    eventually(lambda: condition(up, "umbrella", "Ready").get("reason") == "NoTemplate")
    assert (
        "spec.template: there is no TenantTemplate small: create it" in condition(up, "umbrella")["message"]
    )
    operator(up, f"kubectl apply -f - <<< '{OBJECTS}'")
    operator(up, "kubectl wait --for=condition=TemplateApplied te/umbrella te/globex --timeout=90s")
    operator(up, "kubectl wait --for=condition=Ready te/umbrella te/globex --timeout=60s")
    shown = operator(up, "kubectl get tenanttemplates").splitlines()
    assert shown[0].split() == ["NAME", "GENERATION", "WEIGHT", "CPU", "MEMORY", "PODS", "AGE"]
    assert shown[1].split()[:5] == ["small", "1", "3", "20", "64Gi"]
    assert operator(up, "kubectl get te umbrella").splitlines()[1].split()[4] == "3"
    assert shares(up, "umbrella") == {
        "weight": 3,
        "quota": {"cpu": "20", "memory": "64Gi"},
        "defaultQuota": {"cpu": "4", "memory": "8Gi"},
    }
    assert shares(up, "globex") == {
        "weight": 1,
        "quota": {"cpu": "30", "memory": "64Gi"},
        "defaultQuota": {"cpu": "4", "memory": "8Gi"},
    }
    for name in ("umbrella", "globex"):
        status = tenant(up, name)["status"]
        assert (status["template"]["name"], status["template"]["generation"]) == ("small", 1)
        assert status["limits"] == {"watches": 500, "user": {"watches": 100}}
        assert status["resourceQuota"]["hard"] == {"configmaps": "5"}

    # A change that nobody has applied yet survives a crash.
    change(up, {"weight": 5, "quota": {"memory": None}, "limits": {"watches": 400}})
    up.end(signal.SIGKILL)
    up.start()
    for name in ("umbrella", "globex"):
        operator(
            up, f"kubectl wait te/{name} --for=jsonpath='{{.status.template.generation}}'=2 --timeout=90s"
        )
    assert shares(up, "umbrella")["weight"] == 5
    assert shares(up, "umbrella")["quota"] == {"cpu": "20"}
    assert shares(up, "globex")["weight"] == 1
    assert tenant(up, "globex")["status"]["limits"] == {"watches": 400, "user": {"watches": 100}}

    # The API server of the tenant enforces what the template says, too.
    operator(up, f"vcsync tenant kubeconfig umbrella > {up.data}/umbrella.kubeconfig")
    refused = up.kubectl("create configmap a 2>&1 || true", "umbrella")
    assert "exceeded quota: tenant quota of umbrella" in refused

    # Without the template, everything stays, and the Tenant itself can still change.
    operator(up, "kubectl delete tt small")
    eventually(lambda: condition(up, "umbrella").get("reason") == "NoTemplate")
    assert "generation 2 of TenantTemplate small stays" in condition(up, "umbrella")["message"]
    assert condition(up, "umbrella", "Ready")["status"] == "True"
    refused = operator(up, "vcsync tenant set umbrella --template smaller 2>&1 || true")
    assert "--template 'smaller': there is no such TenantTemplate" in refused
    operator(up, "vcsync tenant set umbrella --weight 7")
    eventually(lambda: shares(up, "umbrella")["weight"] == 7)
    assert shares(up, "umbrella")["quota"] == {"cpu": "20"}
    operator(up, "vcsync tenant set umbrella --template ''")
    eventually(lambda: shares(up, "umbrella")["quota"] is None)
    eventually(lambda: condition(up, "umbrella") == {})


@pytest.mark.timeout(390)
def test_arktos_clients_manage_tenants_by_the_core_group_and_nobody_else_does(served: Up) -> None:
    def raw(arguments: str, body: Any = None) -> Any:
        return json.loads(operator(served, f"kubectl {arguments} <<< '{json.dumps(body)}'"))

    made = raw(f"create --raw {CORE} -f -", ARKTOS)
    assert (made["apiVersion"], made["kind"], made["spec"]["weight"]) == ("v1", "Tenant", 2)
    assert not {"storageClusterId", "finalizers"} & made["spec"].keys()
    operator(served, "kubectl wait --for=condition=Ready te/initech --timeout=90s")
    core, own = raw(f"get --raw {CORE}/initech"), raw(f"get --raw {OWN}/initech")
    assert (core["metadata"]["uid"], core["spec"]) == (own["metadata"]["uid"], own["spec"])
    # Discovery does not list it, so plain kubectl means vcsync's own group.
    assert operator(served, "kubectl get tenants initech -o name") == "tenant.tenancy.x-k8s.io/initech\n"
    assert "tenancy.x-k8s.io" in operator(served, "kubectl get te initech -o jsonpath='{.apiVersion}'")

    merge = json.dumps({"spec": {"weight": 3}})
    operator(served, f"kubectl patch te initech --type=merge -p '{merge}'")
    stale = json.dumps(core | {"spec": {"weight": 9}})
    assert "the object has been modified" in operator(
        served, f"kubectl replace --raw {CORE}/initech -f - 2>&1 <<< '{stale}' || true"
    )
    since = core["metadata"]["resourceVersion"]
    query = f"watch=1&resourceVersion={since}&fieldSelector=metadata.name=initech&timeoutSeconds=2"
    lines = [
        [json.loads(line) for line in operator(served, f"kubectl get --raw '{path}?{query}'").splitlines()]
        for path in (CORE, OWN)
    ]
    versions = [{each["object"]["metadata"]["resourceVersion"]: each for each in events} for events in lines]
    assert versions[0]
    assert versions[0].keys() <= versions[1].keys()  # the controller may have written in between
    assert {each["object"]["apiVersion"] for each in lines[0]} == {"v1"}
    assert any(each["object"]["spec"]["weight"] == 3 for each in lines[0])

    asked = f"kubectl get --raw {CORE} --as=reader"
    assert 'cannot list resource "tenants" in API group "tenancy.x-k8s.io"' in operator(
        served, f"{asked} 2>&1 || true"
    )
    operator(
        served,
        "kubectl create clusterrole reader --verb=list --resource=tenants.tenancy.x-k8s.io; "
        "kubectl create clusterrolebinding reader --clusterrole=reader --user=reader",
    )
    eventually(lambda: '"TenantList"' in operator(served, f"{asked} 2>&1 || true"))

    operator(served, f"vcsync tenant kubeconfig initech > {served.data}/initech.kubeconfig")
    for path in (CORE, f"{CORE}/initech", f"/tenants/initech{CORE}", f"{CORE}/system/tenants"):
        for verb in ("get", "delete"):
            refused = served.kubectl(f"{verb} --raw {path} 2>&1 || true", "initech")
            assert "NotFound" in refused or "orbidden" in refused
            assert "weight" not in refused

    assert raw(f"delete --raw {CORE}/initech")["metadata"]["deletionTimestamp"]
    operator(served, "kubectl wait --for=delete te/initech --timeout=120s")
