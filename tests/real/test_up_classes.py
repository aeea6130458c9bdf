"""`vcsync up`: an embedded tenant sees the classes of hollow super clusters, and its Ingresses get addresses, with kubectl."""

import json
from typing import Any

import pytest

from tests.real.up_kit import Up
from tests.real.waiting import eventually
from vcsync.api import names

QUOTA = """
kubectl apply -f - <<END
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota}
spec: {hard: {cpu: "4", memory: 8Gi}}
END
"""
INGRESS = """
kubectl apply -f - <<END
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  rules:
  - host: shop.example.com
    http:
      paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]
END
"""


@pytest.mark.timeout(390)
def test_an_ingress_gets_the_default_class_and_addresses(up: Up) -> None:
    up.start("--tenants", "acme")
    environment = {"KUBECONFIG": str(up.data / "acme.kubeconfig")}

    def get(what: str) -> Any:
        return json.loads(up.kubectl(f"get {what} -o json"))

    def published() -> bool:
        found = [each["metadata"] for each in get("ingressclass")["items"]]
        assert [(each["name"], each["annotations"][names.PUBLISHED_BY]) for each in found] == [
            ("standard", "r1,r2")
        ]
        return True

    eventually(published)
    up.type(QUOTA, **environment)
    up.type(INGRESS, **environment)
    assert get("ingress web")["spec"]["ingressClassName"] == "standard"

    def addresses() -> list[str]:
        entries = get("ingress web")["status"].get("loadBalancer", {}).get("ingress", [])
        return [each["ip"] for each in entries]

    eventually(addresses)
    placements = json.loads(get("namespace default")["metadata"]["annotations"][names.PLACEMENTS])
    eventually(lambda: len(set(addresses())) == len(placements))
    up.kubectl('patch ingress web --type=merge -p \'{"spec":{"ingressClassName":"nginx"}}\'')
    eventually(lambda: "ClassNotOffered" in up.kubectl("get events --field-selector involvedObject.name=web"))
    up.kubectl("delete ingress web")
