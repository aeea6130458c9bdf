"""A hollow super cluster of `vcsync up`: kubectl logs, exec, attach and port-forward; nodes that fail and recover."""

import json
import os
import signal
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.up_kit import Up
from tests.real.waiting import eventually

SPDY = "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false KUBECTL_PORT_FORWARD_WEBSOCKETS=false "
POD = """
kubectl apply -f - <<END
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec: {spec}
END
"""


class Super(Up):
    """`vcsync up`, and kubectl as the administrator of its super cluster r1."""

    def start(self, *options: str, **further: Any) -> None:
        super().start(*options, **further)
        eventually(lambda: "default" in self.r1("kubectl get serviceaccounts -o name"))

    @property
    def kubeconfig(self) -> Path:
        return self.data / "r1.kubeconfig"

    def r1(self, script: str) -> str:
        return self.type(script, KUBECONFIG=str(self.kubeconfig))

    def pod(self, name: str, **spec: Any) -> None:
        whole = {"containers": [{"name": "c", "image": "i"}], **spec}
        self.r1(POD.format(name=name, spec=json.dumps(whole)))

    def phase(self, name: str, phase: str) -> None:
        eventually(lambda: self.r1(f"kubectl get pod {name} -o jsonpath={{.status.phase}}") == phase)

    def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.r1(f"kubectl get node {name} -o json"))
        return found

    def code(self, script: str) -> int:
        return int(self.r1(f"code=0; {{ {script}; }} >/dev/null 2>&1 || code=$?; echo $code"))


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Super]:
    made = Super(tmp_path_factory.mktemp("hollow"))
    made.start("--nodes", "2", "--hollow", "r1")
    made.pod("web")
    made.phase("web", "Running")
    yield made
    if made.alive:
        made.end(signal.SIGTERM)


@pytest.mark.core
@pytest.mark.timeout(240)
def test_logs_return_the_output_of_a_container(up: Super) -> None:
    up.pod("said", restartPolicy="Never", containers=[
        {"name": "c", "image": "i", "command": ["sh", "-c", "echo one; echo two; exit 3"]},
    ])  # fmt: skip
    up.phase("said", "Failed")
    assert up.r1("kubectl logs said") == "one\ntwo\n"
    assert up.r1("kubectl logs said --tail 1 --timestamps").endswith("Z two\n")
    assert up.r1("kubectl logs said --limit-bytes 2") == "on"
    code = "-o jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"
    assert up.r1(f"kubectl get pod said {code}") == "3"
    followed = up.r1("kubectl logs web -f | head -3").splitlines()
    assert [each.partition(": ")[0] for each in followed] == ["web c"] * 3
    assert up.code("kubectl logs web -c nobody") == 1
    assert up.code("kubectl logs web --previous") == 1


@pytest.mark.timeout(240)
@pytest.mark.parametrize("protocol", ["", SPDY], ids=["websocket", "spdy"])
def test_exec_attach_and_port_forward(up: Super, protocol: str) -> None:
    assert up.r1(f"{protocol}kubectl exec web -- hostname") == "web\n"
    assert up.r1(f"{protocol}kubectl exec web -- sh -c 'echo a; echo b >&2' 2>/dev/null") == "a\n"
    assert up.code(f"{protocol}kubectl exec web -- sh -c 'exit 3'") == 3
    assert up.r1(f"echo hello | {protocol}kubectl exec -i web -- cat") == "hello\n"
    assert up.code(f"echo exit 4 | {protocol}kubectl exec -i web -- sh") == 4
    assert "web c: line" in up.r1(f"{protocol}kubectl attach web 2>/dev/null | head -1")
    assert _forwarded(up, protocol) == "default/web port 80\n"


def _forwarded(up: Super, protocol: str, pod: str = "web", space: str = "r1") -> str:
    log = up.folder / f"forward-{pod}-{len(protocol)}.log"
    script = f"exec env {protocol} kubectl port-forward pod/{pod} :80"
    path = f"{up.folder / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(up.data / f"{space}.kubeconfig")}
    with log.open("wb") as sink:
        forwarding = subprocess.Popen(["/bin/bash", "-c", script], stdout=sink, stderr=sink, env=environment)
    try:
        eventually(lambda: "Forwarding from 127.0.0.1:" in log.read_text() or forwarding.poll() is not None)
        port = log.read_text().partition("127.0.0.1:")[2].partition(" ")[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
            return str(answer.read().decode())
    finally:
        forwarding.terminate()
        forwarding.wait(30)


@pytest.mark.timeout(240)
@pytest.mark.timeout(240)
def test_a_deleted_pod_ends_before_it_is_gone_and_events_tell_of_its_containers(up: Super) -> None:
    up.pod("ends")
    up.phase("ends", "Running")
    ready = '{.object.status.conditions[?(@.type=="Ready")].status}'
    columns = f"{{.type}} {{.object.status.phase}} {ready}"
    template = f"-o jsonpath='{columns}{{\"\\n\"}}'"
    watched = up.r1(
        f"timeout 30 kubectl get pod ends --watch --output-watch-events {template} & "
        "sleep 2; kubectl delete pod ends --grace-period=10 >/dev/null; sleep 2; kill %1; wait"
    ).splitlines()
    assert watched[0] == "ADDED Running True"
    assert watched[-2:] == ["MODIFIED Failed False", "DELETED Failed False"]

    def told() -> list[str]:
        field = "--field-selector involvedObject.name=ends,source=kubelet"
        return sorted(up.r1(f"kubectl get events {field} -o jsonpath='{{.items[*].reason}}'").split())

    eventually(lambda: told() == ["Created", "Killing", "Pulled", "Started"])


def test_a_user_who_may_only_read_may_not_exec(up: Super) -> None:
    """A WebSocket starts with a GET, for which the right to get is not sufficient, as in Kubernetes 1.36."""
    up.r1("kubectl create role reader --verb=get --resource=pods,pods/log,pods/exec")
    up.r1("kubectl create rolebinding reader --role=reader --user=reader")
    eventually(lambda: up.code("kubectl logs web --tail 1 --as reader") == 0)
    output = up.r1("kubectl exec web --as reader -- true 2>&1 || true")
    assert 'cannot create resource "pods/exec"' in output


@pytest.mark.timeout(240)
def test_a_node_fails_and_recovers(up: Super) -> None:
    up.pod("there", nodeName="node-1")
    up.phase("there", "Running")
    bears_little = [
        {
            "key": "node.kubernetes.io/unreachable",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 0,
        }
    ]
    up.pod("impatient", nodeName="node-1", tolerations=bears_little, terminationGracePeriodSeconds=0)
    up.phase("impatient", "Running")
    ready = "-o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status}'"

    up.type(f"vcsync hollow fail r1 node-1 --data {up.data}")
    eventually(lambda: up.r1(f"kubectl get node node-1 {ready}") == "Unknown")
    eventually(lambda: up.r1(f"kubectl get pod there {ready}") == "False")
    eventually(lambda: "unreachable" in json.dumps(up.node("node-1")["spec"].get("taints")))
    assert up.code("kubectl logs there") == 1
    eventually(
        lambda: (
            "impatient" not in up.r1("kubectl get pods -o name --field-selector metadata.name=impatient")
            or up.r1("kubectl get pod impatient -o jsonpath={.metadata.deletionTimestamp}")
        )
    )

    up.type(f"vcsync hollow restore r1 node-1 --data {up.data}")
    eventually(lambda: up.r1(f"kubectl get node node-1 {ready}") == "True")
    eventually(lambda: up.r1(f"kubectl get pod there {ready}") == "True")
    eventually(lambda: not up.node("node-1")["spec"].get("taints"))
    eventually(lambda: "impatient" not in up.r1("kubectl get pods -o name"))


@pytest.mark.timeout(240)
def test_a_node_under_pressure_evicts_pods_and_accepts_no_new_ones(up: Super) -> None:
    up.pod("modest", nodeName="node-0")
    up.phase("modest", "Running")
    up.type(f"vcsync hollow press r1 node-0 --data {up.data}")
    up.phase("modest", "Failed")
    assert up.r1("kubectl get pod modest -o jsonpath={.status.reason}") == "Evicted"
    up.type(f"vcsync hollow restore r1 node-0 --data {up.data}")
    eventually(lambda: not up.node("node-0")["spec"].get("taints"))


@pytest.mark.timeout(240)
def test_tenants_get_a_clear_answer_whatever_their_nodes_contain(up: Super) -> None:
    """No kubelet is called for the Nodes of a tenant, not even one at an allowed address.

    The syncer writes these Nodes, by an account whose token the tenant's administrator can read. The operator does so here.
    """
    port = up.node("node-0")["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "mine"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "mine"},
        "spec": {"nodeName": "mine", "containers": [{"name": "c", "image": "i"}]},
    }
    environment = {"KUBECONFIG": str(up.data / "acme.kubeconfig")}
    operator = {"KUBECONFIG": str(up.data / "admin.kubeconfig")}
    there = f"--server https://{up.options[1]}/tenants/acme"
    up.type(f"kubectl {there} create -f - <<'END'\n{json.dumps(node)}\nEND", **operator)
    up.type(f"kubectl create -f - <<'END'\n{json.dumps(pod)}\nEND", **environment)
    forward = "get --raw /api/v1/namespaces/default/pods/mine/portforward"
    for command in ("logs mine", "exec mine -- true", "attach mine"):
        output = up.type(f"kubectl {command} 2>&1 || true", **environment)
        assert 'pod "mine" does not exist on its node' in output, output
    assert "Upgrade request required" in up.type(f"kubectl {forward} 2>&1 || true", **environment)


@pytest.mark.core
@pytest.mark.timeout(240)
def test_tenants_reach_their_pods(up: Super) -> None:
    environment = {"KUBECONFIG": str(up.data / "acme.kubeconfig")}
    up.type("kubectl run own --image=i", **environment)
    running = "kubectl get pod own -o jsonpath={.status.phase}"
    eventually(lambda: up.type(running, **environment) == "Running")
    eventually(lambda: "own own: line" in up.type("kubectl logs own", **environment))
    for protocol in ("", SPDY):
        assert up.type(f"{protocol}kubectl exec own -- echo hello", **environment) == "hello\n"
        assert _forwarded(up, protocol, "own", "acme") == "default/own port 80\n"


@pytest.mark.timeout(240)
def test_only_kubelets_of_the_cluster_are_called(up: Super) -> None:
    """Addresses outside the operator's networks are not called; a server without a certificate of the CA gets no data."""
    with _Listener() as listener:
        for address, heard in (("127.0.0.2", False), ("127.0.0.1", True)):
            name = f"odd-{address.replace('.', '-')}"
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
            up.r1(f"kubectl create -f - <<'END'\n{json.dumps(node)}\nEND")
            status = {
                "addresses": [{"type": "InternalIP", "address": address}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": listener.port}},
            }
            up.r1(f"kubectl patch node {name} --subresource status -p '{json.dumps({'status': status})}'")
            up.pod(name, nodeName=name)
            output = up.r1(f"kubectl logs {name} 2>&1 || true")
            assert ("error dialing backend" if heard else "does not allow") in output, output
            assert bool(listener.came) == heard
            up.r1(f"kubectl delete node {name}; kubectl delete pod {name} --force --grace-period=0")


class _Listener:
    """A server that is not a kubelet, at all loopback addresses."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self._socket = socket.create_server(("0.0.0.0", 0))
        self.port = int(self._socket.getsockname()[1])

    def __enter__(self) -> "_Listener":
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, peer = self._socket.accept()
            except OSError:
                return
            self.came.append(str(peer))
            connection.close()
