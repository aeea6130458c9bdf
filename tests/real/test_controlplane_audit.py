"""The audit log of a running control plane after requests of kubectl."""

import json
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.embedded import ControlPlane, ControlPlaneError
from hack.testbed import ensure

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/openapi*", "/api*", "/version"]
- level: RequestResponse
  resources: [{group: "", resources: [secrets, pods, serviceaccounts/token]}]
- level: Metadata
"""
HIDDEN, ENCODED = "hunter2-very-hidden", "aHVudGVyMi12ZXJ5LWhpZGRlbg=="
SECRET = f"""
apiVersion: v1
kind: Secret
metadata: {{name: applied}}
stringData: {{password: {HIDDEN}}}
"""
NAMESPACE = """
apiVersion: v1
kind: Namespace
metadata:
  name: held
  labels: {pod-security.kubernetes.io/enforce: baseline, pod-security.kubernetes.io/audit: restricted}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: held}
spec: {automountServiceAccountToken: false, containers: [{name: c, image: i}]}
"""


class Audited:
    """A control plane with one tenant, kubectl, and the log after the end of the process."""

    def __init__(self, plane: ControlPlane, logs: Path) -> None:
        self._plane, self._logs = plane, logs
        self._kubectl = ensure(["kubectl"])["kubectl"]
        self._kubeconfig = plane.create("acme")

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        command = [str(self._kubectl), "--kubeconfig", str(self._kubeconfig), *arguments]
        run = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
        return run.stdout + run.stderr

    def ask(self, path: str, headers: dict[str, str]) -> tuple[int, str]:
        """Return the code and the audit id of an answer to a caller without a certificate."""
        context = ssl._create_unverified_context()
        try:
            asked = urllib.request.Request(self._plane.url + path, headers=headers)
            with urllib.request.urlopen(asked, timeout=10, context=context) as answer:
                return answer.status, answer.headers["Audit-Id"]
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Audit-Id"]

    def events(self, log: str = "acme") -> list[dict[str, Any]]:
        self._plane.stop()
        return [json.loads(line) for line in (self._logs / f"{log}.log").read_text().splitlines()]

    def everything(self) -> str:
        self._plane.stop()
        return "".join(path.read_text() for path in self._logs.iterdir())


@pytest.fixture
def audited(tmp_path: Path) -> Iterator[Audited]:
    policy, logs = tmp_path / "policy.yaml", tmp_path / "logs"
    policy.write_text(POLICY)
    options = ("--audit-policy-file", str(policy), "--audit-log-path", str(logs))
    with ControlPlane(tmp_path / "plane", arguments=options) as plane:
        yield Audited(plane, logs)


def about(events: list[dict[str, Any]], verb: str, resource: str) -> list[dict[str, Any]]:
    return [
        each
        for each in events
        if each["verb"] == verb and each.get("objectRef", {}).get("resource") == resource
    ]


def test_the_log_contains_kubectls_requests_and_no_secret(audited: Audited) -> None:
    audited.kubectl("apply", "-f", "-", text=SECRET)
    audited.kubectl("apply", "--server-side", "-f", "-", text=SECRET.replace("applied", "served"))
    audited.kubectl("create", "secret", "generic", "made", f"--from-literal=k={HIDDEN}")
    patch = json.dumps([{"op": "add", "path": "/data/more", "value": ENCODED}])
    audited.kubectl("patch", "secret", "made", "--type=json", "-p", patch)
    audited.kubectl("patch", "secret", "made", "-p", json.dumps({"data": {"k": "not base64 " + HIDDEN}}))
    assert ENCODED in audited.kubectl("get", "secrets", "-o", "json")
    audited.kubectl("get", "secrets")
    audited.kubectl("create", "serviceaccount", "robot")
    token = audited.kubectl("create", "token", "robot").strip()
    assert token.count(".") == 2

    everything = audited.everything()
    assert not [each for each in (HIDDEN, ENCODED, token) if each in everything]
    events = audited.events()
    created = about(events, "create", "secrets")
    assert {each["objectRef"]["name"] for each in created} == {"applied", "made"}
    assert all(each["requestObject"]["kind"] == "Secret" for each in created)
    (asked,) = about(events, "create", "serviceaccounts")[1:]
    assert asked["objectRef"]["subresource"] == "token"
    assert asked["annotations"]["authentication.kubernetes.io/issued-credential-id"].startswith("JTI=")


def test_pod_security_and_authorization_annotate(audited: Audited) -> None:
    audited.kubectl("apply", "-f", "-", text=NAMESPACE)
    audited.kubectl("create", "serviceaccount", "default", "-n", "held")
    audited.kubectl("apply", "-f", "-", text=POD)
    assert "forbidden" in audited.kubectl("get", "pods", "-n", "held", "--as", "jane")
    events = audited.events()
    (created,) = about(events, "create", "pods")
    annotations = created["annotations"]
    assert annotations["authorization.k8s.io/decision"] == "allow"
    assert annotations["pod-security.kubernetes.io/enforce-policy"] == "baseline:latest"
    assert (
        'would violate PodSecurity "restricted:latest"'
        in annotations["pod-security.kubernetes.io/audit-violations"]
    )
    (refused,) = [each for each in events if each.get("impersonatedUser", {}).get("username") == "jane"]
    assert refused["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert refused["responseStatus"]["code"] == 403
    assert refused["level"] == "RequestResponse"


def test_a_tenant_has_its_own_log_and_strangers_write_to_none(audited: Audited, tmp_path: Path) -> None:
    audited.kubectl("get", "configmaps", "-n", "default")
    for path in ("/tenants/acme/api/v1/secrets", "/tenants/nobody/api/v1/secrets"):
        for headers in (
            {"Authorization": "Bearer rubbish", "Audit-Id": "stranger"},
            {"Audit-Id": "anonymous"},
        ):
            assert audited.ask(path, headers) in ((401, "stranger"), (403, "anonymous"))
    own, others = audited.events(), about(audited.events("_others"), "list", "secrets")
    assert {each["auditID"] for each in others} == {"stranger", "anonymous"}
    assert {each["requestURI"] for each in others if each["auditID"] == "anonymous"} == {
        "/tenants/nobody/api/v1/secrets"
    }
    assert all(each["user"] == {} for each in others if each["auditID"] == "stranger")
    assert "stranger" not in {each["auditID"] for each in own}
    assert about(own, "list", "configmaps")
    files = list((tmp_path / "logs").iterdir())
    assert {path.name for path in files} == {"acme.log", "system.log", "_others.log"}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_an_invalid_policy_prevents_the_start(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("kind: Policy\nrulez: []")
    options = ("--audit-policy-file", str(file), "--audit-log-path", str(tmp_path / "logs"))
    said = "rulez: unknown field; did you mean rules?"
    with (
        pytest.raises(ControlPlaneError, match=re.escape(said)),
        ControlPlane(tmp_path / "plane", arguments=options),
    ):
        pass
