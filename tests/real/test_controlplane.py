"""`vcsync run controlplane` as a process, used by the command line, real kubectl and a real controller manager."""

import base64
import json
import signal
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hack.testbed import ensure, servers
from hack.testbed.processes import Process, Spawner, free_ports, stop
from tests.real.waiting import eventually

READY_SECONDS = 60
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
"""


class ControlPlane:
    """One process, its data folder, and clients of it."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.data, self._options = folder, folder / "data", options
        (self.port,) = free_ports(1)
        self.url = f"https://127.0.0.1:{self.port}"
        self._kubectl = ensure(["kubectl"])["kubectl"]
        self._spawner = Spawner(die_with_us=True)
        self._process: Process | None = None

    def start(self) -> None:
        log = self.folder / "controlplane.log"
        command = [sys.executable, "-m", "vcsync", "run", "controlplane", "--data", str(self.data)]
        command += ["--listen", f"127.0.0.1:{self.port}", *self._options]
        process = self._spawner.start(command, log, self.folder)
        self._process = process
        eventually(lambda: not process.alive or self.call("/readyz", anonymous=True)[0] == 200)
        assert process.alive, log.read_text()[-2000:]

    def end(self) -> int | None:
        """Send SIGTERM and return the exit code."""
        process = self._process
        assert process is not None
        process.send(signal.SIGTERM)
        eventually(lambda: not process.alive)
        return self._spawner.reap(process)

    def vcsync(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "vcsync", *arguments, "--data", str(self.data)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def tenant(self, name: str) -> str:
        """Create a tenant and return the path of its admin's kubeconfig."""
        made = self.vcsync("tenant", "create", name)
        assert made.returncode == 0, made.stderr
        assert f"vcsync tenant add {name} --kubeconfig {name}.kubeconfig" in made.stdout
        return self.kubeconfig(name)

    def kubeconfig(self, tenant: str, *arguments: str) -> str:
        got = self.vcsync("tenant", "kubeconfig", tenant, *arguments)
        assert got.returncode == 0, got.stderr
        path = self.folder / f"{tenant}{'-'.join(arguments).replace('/', '-')}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(got.stdout)
        return str(path)

    def kubectl(self, kubeconfig: str, *arguments: str, input: str | None = None) -> str:  # noqa: A002
        done = self.try_kubectl(kubeconfig, *arguments, input=input)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def try_kubectl(
        self,
        kubeconfig: str,
        *arguments: str,
        input: str | None = None,  # noqa: A002
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                str(self._kubectl),
                "--kubeconfig",
                kubeconfig,
                "--cache-dir",
                str(self.folder / "cache"),
                *arguments,
            ],
            input=input,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def call(
        self,
        path: str,
        *,
        anonymous: bool = False,
        kubeconfig: str = "",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """GET a path with the certificate of a kubeconfig; return code and body, code 0 for no answer."""
        context = ssl.create_default_context()
        try:
            context.load_verify_locations(self.data / "ca.crt")
            if not anonymous:
                load_certificate(context, Path(kubeconfig))
            request = urllib.request.Request(f"{self.url}{path}", headers=headers or {})
            with urllib.request.urlopen(request, context=context, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError:
            return 0, b""


REPLICATION_CONTROLLER = """
apiVersion: v1
kind: ReplicationController
metadata:
  name: old
spec:
  selector: {app: old}
  template:
    metadata:
      labels: {app: old}
    spec:
      containers: [{name: main, image: registry.example/main:1}]
"""
HELD = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: held
  finalizers: [example.com/keep]
"""


def load_certificate(context: ssl.SSLContext, kubeconfig: Path) -> None:
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    pem = kubeconfig.with_suffix(".pem")
    pem.touch(mode=0o600)
    pem.write_bytes(
        base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"])
    )
    context.load_cert_chain(pem)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A running control plane."""
    found = ControlPlane(tmp_path_factory.mktemp("controlplane"))
    found.start()
    yield found
    found.end()


@pytest.mark.core
def test_a_tenants_admin_uses_kubectl_as_with_any_cluster(plane: ControlPlane) -> None:
    admin = plane.tenant("usual")
    assert "Username admin" in " ".join(plane.kubectl(admin, "auth", "whoami").split())
    plane.kubectl(admin, "create", "namespace", "team")
    plane.kubectl(admin, "apply", "-n", "team", "-f", "-", input=DEPLOYMENT)
    found = json.loads(plane.kubectl(admin, "get", "deployment", "web", "-n", "team", "-o", "json"))
    assert found["spec"]["replicas"] == 2
    assert plane.kubectl(admin, "auth", "can-i", "*", "*").strip() == "yes"
    assert "default/kubernetes" in plane.kubectl(
        admin,
        "get",
        "services",
        "-A",
        "-o",
        "jsonpath={.items[*].metadata.namespace}/{.items[*].metadata.name}",
    )


def test_a_replication_controller_is_autoscaled_and_other_core_kinds_are_not(plane: ControlPlane) -> None:
    admin = plane.tenant("autoscaled")
    plane.kubectl(admin, "apply", "-f", "-", input=REPLICATION_CONTROLLER)
    plane.kubectl(admin, "autoscale", "rc/old", "--max=3")
    target = plane.kubectl(admin, "get", "hpa", "old", "-o", "jsonpath={.spec.scaleTargetRef}")
    assert json.loads(target) == {"apiVersion": "v1", "kind": "ReplicationController", "name": "old"}
    pods = '{"spec": {"scaleTargetRef": {"kind": "Pod"}}}'
    refused = plane.try_kubectl(admin, "patch", "hpa", "old", "--type=merge", "-p", pods)
    assert (
        'spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group'
        in refused.stderr
    )


def test_the_service_kubernetes_and_its_endpoints_are_restored(plane: ControlPlane) -> None:
    admin = plane.tenant("restored")
    three = ["service/kubernetes", "endpoints/kubernetes", "endpointslice/kubernetes"]
    output_format = "-o=jsonpath={range .items[*]}{.spec.clusterIP}{.spec.ports}{.subsets}{.endpoints}{.ports}{'\\n'}{end}"
    before = plane.kubectl(admin, "get", *three, output_format)
    assert "10.0.0.1" in before
    uids = plane.kubectl(admin, "get", *three, "-o=jsonpath={.items[*].metadata.uid}").split()
    plane.kubectl(admin, "delete", "--wait=false", *three)
    eventually(lambda: plane.try_kubectl(admin, "get", *three).returncode == 0)
    assert plane.kubectl(admin, "get", *three, output_format) == before
    now = plane.kubectl(admin, "get", *three, "-o=jsonpath={.items[*].metadata.uid}").split()
    assert len(now) == 3
    assert not set(now) & set(uids)
    plane.kubectl(admin, "patch", "endpoints", "kubernetes", "--type=merge", "-p", '{"subsets": []}')
    eventually(lambda: plane.kubectl(admin, "get", *three, output_format) == before)


def test_requests_to_kubelets_are_refused_immediately_with_a_reason(plane: ControlPlane) -> None:
    admin = plane.tenant("streams")
    # No controllers run in this test.
    plane.kubectl(admin, "create", "serviceaccount", "default")
    plane.kubectl(admin, "run", "one", "--image=nginx")
    # kubectl itself refuses to forward ports of a Pod that does not run.
    runs = '{"status": {"phase": "Running"}}'
    plane.kubectl(admin, "patch", "pod", "one", "--subresource=status", "--type=merge", "-p", runs)
    streams = (
        ["logs", "one"],
        ["exec", "one", "--", "true"],
        ["attach", "one"],
        ["port-forward", "one", "1:1"],
    )
    for command in streams:
        refused = plane.try_kubectl(admin, *command)
        assert refused.returncode != 0
        assert "which logs, exec, attach and port-forward do not reach" in refused.stderr, command
    refused = plane.try_kubectl(admin, "top", "pod")
    assert (refused.returncode, "Metrics API not available" in refused.stderr) == (1, True)


def test_rights_begin_and_end_with_bindings(plane: ControlPlane) -> None:
    admin = plane.tenant("rights")
    alice = plane.kubeconfig("rights", "--user", "alice", "--group", "devs")
    may = ("auth", "can-i", "list", "pods", "-n", "default")
    assert plane.try_kubectl(alice, *may).stdout.strip() == "no"
    refused = plane.try_kubectl(alice, "get", "pods")
    assert (
        'User "alice" cannot list resource "pods" in API group "" in the namespace "default"'
        in refused.stderr
    )
    plane.kubectl(admin, "create", "rolebinding", "viewers", "--clusterrole=view", "--group=devs")
    eventually(lambda: plane.try_kubectl(alice, *may).stdout.strip() == "yes")
    refused = plane.try_kubectl(alice, "create", "rolebinding", "x", "--clusterrole=edit", "--user=alice")
    assert refused.returncode == 1
    assert plane.kubectl(admin, "get", "pods", "--as", "alice", "--as-group", "devs") == ""
    plane.kubectl(admin, "delete", "rolebinding", "viewers")
    eventually(lambda: plane.try_kubectl(alice, *may).stdout.strip() == "no")


def test_service_account_tokens_are_valid_only_in_their_tenant(plane: ControlPlane) -> None:
    admin = plane.tenant("tokens")
    plane.tenant("others")
    plane.kubectl(admin, "create", "serviceaccount", "robot")
    token = plane.kubectl(admin, "create", "token", "robot").strip()
    headers = {"Authorization": f"Bearer {token}"}
    assert plane.call("/tenants/tokens/api", anonymous=True, headers=headers)[0] == 200
    answers = {
        plane.call(f"/tenants/{name}/api", anonymous=True, headers=headers) for name in ("others", "no-such")
    }
    assert len(answers) == 1
    assert answers.pop()[0] == 403
    plane.kubectl(admin, "delete", "serviceaccount", "robot")
    assert plane.call("/tenants/tokens/api", anonymous=True, headers=headers)[0] == 401


def test_no_credential_reveals_whether_another_tenant_exists(plane: ControlPlane) -> None:
    admin = plane.tenant("curious")
    plane.tenant("secretive")
    forged = {
        "X-Remote-User": "admin",
        "X-Remote-Group": "system:masters",
        "X-Tenant": "secretive",
        "X-Forwarded-Client-Cert": "By=x",
    }
    for path in (
        "/api/v1/namespaces",
        "/api/v1/namespaces/default",
        "/version",
        "/apis/apps/v1/deployments",
        "/nonsense",
    ):
        for headers in ({}, forged):
            answers = {
                plane.call(f"/tenants/{name}{path}", kubeconfig=admin, headers=headers)
                for name in ("secretive", "no-such", "system", "all")
            }
            assert len(answers) == 1, path
            code, body = answers.pop()
            assert code == 403
            assert b"secretive" not in body
    for path in ("/api/v1/namespaces", "/version", "/healthz", "/api", "/nonsense"):
        answers = {
            plane.call(f"/tenants/{name}{path}", anonymous=True, headers=forged)
            for name in ("secretive", "no-such")
        }
        assert len(answers) == 1, path
    assert plane.call("/vcsync/v1/tenants", kubeconfig=admin)[0] == 403
    assert plane.call("/vcsync/v1/tenants", anonymous=True, headers=forged)[0] == 403


def test_the_operator_has_access_to_every_tenant(plane: ControlPlane) -> None:
    plane.tenant("visited")
    operator = str(plane.data / "admin.kubeconfig")
    assert stat.S_IMODE(Path(operator).stat().st_mode) == 0o600
    assert plane.call("/tenants/visited/api/v1/namespaces", kubeconfig=operator)[0] == 200
    code, body = plane.call("/tenants/no-such/api/v1/namespaces", kubeconfig=operator)
    assert (code, json.loads(body)["message"]) == (404, 'tenants "no-such" not found')


def test_rotated_and_deleted_credentials_are_invalid(plane: ControlPlane) -> None:
    admin = plane.tenant("changing")
    assert plane.vcsync("tenant", "rotate", "changing").returncode == 0
    assert plane.call("/tenants/changing/api", kubeconfig=admin)[0] == 401
    admin = plane.kubeconfig("changing")
    plane.kubectl(admin, "get", "namespaces")
    assert plane.vcsync("tenant", "delete", "changing").returncode == 0
    assert plane.call("/tenants/changing/api", kubeconfig=admin)[0] == 401
    again = plane.vcsync("tenant", "delete", "changing")
    assert (again.returncode, again.stderr) == (1, "vcsync: tenant changing does not exist\n")


def test_a_deleted_tenant_is_refused_immediately_and_waits_for_its_finalizers(plane: ControlPlane) -> None:
    admin = plane.tenant("leaving")
    plane.kubectl(admin, "create", "namespace", "shop")
    plane.kubectl(admin, "-n", "shop", "create", "-f", "-", input=HELD)
    waiting = plane.vcsync("tenant", "delete", "leaving", "--timeout", "5")
    assert waiting.returncode == 1
    assert "example.com/keep (1)" in waiting.stderr
    assert plane.call("/tenants/leaving/api", kubeconfig=admin)[0] == 401
    assert plane.vcsync("tenant", "create", "leaving").returncode == 1
    operator = str(plane.data / "admin.kubeconfig")
    release = ["--server", f"{plane.url}/tenants/leaving", "-n", "shop", "patch", "configmap", "held"]
    plane.kubectl(operator, *release, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    eventually(lambda: plane.vcsync("tenant", "show", "leaving").returncode == 1)
    admin = plane.tenant("leaving")
    assert "shop" not in plane.kubectl(admin, "get", "namespaces", "-o", "name")


def test_a_deletion_can_be_forced_after_a_restart(tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path)
    plane.start()
    admin = plane.tenant("leaving")
    plane.kubectl(admin, "create", "-f", "-", input=HELD)
    assert plane.vcsync("tenant", "delete", "leaving", "--no-wait").returncode == 0
    assert plane.end() == 0
    plane.start()
    assert "Draining" in plane.vcsync("tenant", "show", "leaving").stdout
    forced = plane.vcsync("tenant", "delete", "leaving", "--force")
    assert forced.returncode == 0, forced.stderr
    assert "leaving" not in plane.vcsync("tenant", "list").stdout
    assert plane.end() == 0


def test_everything_exists_after_a_restart(tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path)
    plane.start()
    admin = plane.tenant("lasting")
    plane.kubectl(admin, "create", "configmap", "kept", "--from-literal=a=b")
    assert plane.end() == 0
    plane.start()
    assert plane.kubectl(admin, "get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"
    assert plane.end() == 0


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[str]:
    """The URL of a separate etcd."""
    port, peer_port = free_ports(2)
    url = f"http://127.0.0.1:{port}"
    spawner = Spawner(die_with_us=True)
    command = [
        str(ensure(["etcd"])["etcd"]),
        *servers.etcd(tmp_path / "etcd", url, f"http://127.0.0.1:{peer_port}"),
    ]
    process = spawner.start(command, tmp_path / "etcd.log", tmp_path)
    yield url
    stop([process], spawner.reap)


def test_two_processes_on_one_etcd_serve_the_same_tenants(tmp_path: Path, etcd: str) -> None:
    one, two = (ControlPlane(tmp_path / name, "--etcd", etcd) for name in ("one", "two"))
    try:
        one.start()
        two.start()
        admin = one.tenant("shared")
        elsewhere = ("--server", f"{two.url}/tenants/shared")
        eventually(lambda: two.call("/tenants/shared/api/v1/namespaces", kubeconfig=admin)[0] == 200)
        one.kubectl(admin, "create", "configmap", "c", "--from-literal=a=b")
        assert one.kubectl(admin, *elsewhere, "get", "configmap", "c", "-o", "jsonpath={.data.a}") == "b"
        alice = one.kubeconfig("shared", "--user", "alice")
        assert two.call("/tenants/shared/api/v1/pods", kubeconfig=alice)[0] == 403
        one.kubectl(admin, "create", "clusterrolebinding", "v", "--clusterrole=view", "--user=alice")
        eventually(lambda: two.call("/tenants/shared/api/v1/pods", kubeconfig=alice)[0] == 200)
        assert two.vcsync("tenant", "delete", "shared").returncode == 0
        eventually(lambda: one.call("/tenants/shared/api", kubeconfig=admin)[0] == 401)
    finally:
        one.end()
        two.end()


def test_a_controller_manager_signs_certificates_and_fills_token_secrets(
    plane: ControlPlane, tmp_path: Path
) -> None:
    admin = plane.tenant("managed")
    spawner = Spawner(die_with_us=True)
    manager = start_manager(plane, "managed", tmp_path, spawner)
    try:
        eventually(lambda: plane.try_kubectl(admin, "get", "serviceaccount", "default").returncode == 0)
        plane.kubectl(admin, "apply", "-f", "-", input=DEPLOYMENT)
        eventually(lambda: plane.kubectl(admin, "get", "pods", "-o", "name").count("pod/") == 2)
        plane.kubectl(admin, "apply", "--validate=false", "-f", "-", input=TOKEN_SECRET)
        eventually(lambda: bool(plane.kubectl(admin, "get", "secret", "tok", "-o", "jsonpath={.data.token}")))
        token = base64.b64decode(
            plane.kubectl(admin, "get", "secret", "tok", "-o", "jsonpath={.data.token}")
        ).decode()
        headers = {"Authorization": f"Bearer {token}"}
        assert plane.call("/tenants/managed/api", anonymous=True, headers=headers)[0] == 200
        certificate, key = signed(plane, admin)
        (tmp_path / "zoe.pem").write_bytes(certificate + key)
        context = ssl.create_default_context(cafile=str(plane.data / "ca.crt"))
        context.load_cert_chain(tmp_path / "zoe.pem")
        with urllib.request.urlopen(
            f"{plane.url}/tenants/managed/api", context=context, timeout=10
        ) as answer:
            assert answer.status == 200
    finally:
        stop([manager], spawner.reap)


TOKEN_SECRET = """
apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata: {name: tok, annotations: {kubernetes.io/service-account.name: default}}
"""


def start_manager(plane: ControlPlane, tenant: str, folder: Path, spawner: Spawner) -> Process:
    """Start a kube-controller-manager with the files of `vcsync tenant`."""
    kubeconfig = plane.kubeconfig(tenant, "--user", "system:kube-controller-manager")
    keys = folder / "keys"
    assert plane.vcsync("tenant", "export", tenant, "--dir", str(keys)).returncode == 0
    command = [
        str(ensure(["kube-controller-manager"])["kube-controller-manager"]),
        *(
            "--kubeconfig",
            kubeconfig,
            "--use-service-account-credentials",
            "--secure-port=0",
            "--leader-elect=false",
        ),
        *(
            "--cluster-signing-cert-file",
            str(keys / "ca.crt"),
            "--cluster-signing-key-file",
            str(keys / "ca.key"),
        ),
        *(
            "--service-account-private-key-file",
            str(keys / "sa.key"),
            "--root-ca-file",
            str(keys / "server-ca.crt"),
        ),
    ]
    return spawner.start(command, folder / "manager.log", folder)


def signed(plane: ControlPlane, admin: str) -> tuple[bytes, bytes]:
    """Have a certificate signed for the user zoe; return it and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "zoe")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    document = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "zoe"},
        "spec": {
            "request": base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    }
    plane.kubectl(admin, "apply", "--validate=false", "-f", "-", input=json.dumps(document))
    plane.kubectl(admin, "certificate", "approve", "zoe")

    def issued() -> str:
        return plane.kubectl(admin, "get", "csr", "zoe", "-o", "jsonpath={.status.certificate}")

    eventually(lambda: bool(issued()))
    form = serialization.PrivateFormat.TraditionalOpenSSL
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return base64.b64decode(issued()), private
