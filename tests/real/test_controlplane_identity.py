"""Authentication and authorization of an embedded control plane with real kubectl, token issuer and webhook."""

import base64
import http.server
import json
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from jwt.algorithms import RSAAlgorithm

from hack.embedded import ControlPlane
from hack.testbed import ensure
from hack.testbed.processes import free_ports
from tests.real.waiting import eventually
from vcsync.apiserver.tenants import pki

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
"""
DEADLINE = 60.0
LOGGED_OUT = "You must be logged in to the server"
"""kubectl's message for 401, whichever of its requests is refused first."""


class Provider:
    """An issuer of tokens and an authentication webhook, with TLS on loopback."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.url = f"https://127.0.0.1:{self.port}"
        authority = pki.new_authority("provider", time.time())
        self.authority = authority.certificate
        pair = pki.issue_serving(authority, ["127.0.0.1"], time.time())
        path = folder / "provider.pem"
        path.write_text(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def read(self, path: str) -> dict[str, Any]:
        if path.endswith("/openid-configuration"):
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        return {"keys": [{**RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "k", "use": "sig"}]}

    def review(self, token: str) -> dict[str, Any]:
        if not token.startswith("hook-"):
            return {"authenticated": False}
        extra = {"tenancy.x-k8s.io/tenant": [token.removeprefix("hook-")]}
        return {
            "authenticated": True,
            "user": {"username": "hooked", "groups": ["system:masters"], "extra": extra},
        }

    def token(self, **claims: Any) -> str:
        payload = {"iss": self.url, "aud": "vcsync", "sub": "carol", "exp": time.time() + 300, **claims}
        return jwt.encode(payload, KEY, "RS256", headers={"kid": "k"})


def _handler(provider: Provider) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(provider.read(self.path))

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer({**review, "status": provider.review(review["spec"]["token"])})

        def _answer(self, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class Place:
    """A control plane with the tenants acme and umbrella, and kubectl."""

    def __init__(self, plane: ControlPlane, provider: Provider) -> None:
        self.plane, self.provider = plane, provider
        self.admin = plane.create("acme")
        plane.create("umbrella")
        self._kubectl = ensure(["kubectl"])["kubectl"]

    def run(
        self,
        *arguments: str,
        config: Path | None = None,
        input: str | None = None,  # noqa: A002
    ) -> subprocess.CompletedProcess[str]:
        command = [str(self._kubectl), "--kubeconfig", str(config or self.admin), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, input=input)

    def kubectl(self, *arguments: str, config: Path | None = None, input: str | None = None) -> str:  # noqa: A002
        done = self.run(*arguments, config=config, input=input)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def proxy(self) -> Iterator[str]:
        """Run `kubectl proxy` and yield its URL."""
        command = [str(self._kubectl), "--kubeconfig", str(self.admin), "proxy", "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield f"http://{process.stdout.readline().split()[-1]}"
            finally:
                process.terminate()

    def with_token(self, token: str, tenant: str = "acme") -> Path:
        """Write a kubeconfig with a bearer token."""
        content = yaml.safe_load(self.admin.read_text())
        content["users"][0]["user"] = {"token": token}
        content["clusters"][0]["cluster"]["server"] = f"{self.plane.url}/tenants/{tenant}"
        path = self.plane.directory / "token.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path

    def whoami(self, config: Path) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.kubectl("auth", "whoami", "-o", "json", config=config))
        return answer["status"]["userInfo"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("identity")
    provider = Provider(folder)
    config = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [
            {
                "issuer": {
                    "url": provider.url,
                    "audiences": ["vcsync"],
                    "certificateAuthority": provider.authority,
                },
                "claimMappings": {
                    "username": {"claim": "sub", "prefix": "sso:"},
                    "groups": {"claim": "groups", "prefix": ""},
                },
                "tenant": {"claim": "org"},
            }
        ],
    }
    (folder / "auth.yaml").write_text(yaml.safe_dump(config))
    webhook = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hook", "cluster": {"server": f"{provider.url}/review"}}],
        "contexts": [{"name": "hook", "context": {"cluster": "hook", "user": "hook"}}],
        "current-context": "hook",
        "users": [{"name": "hook", "user": {}}],
    }
    (folder / "ca.crt").write_text(provider.authority)
    webhook["clusters"][0]["cluster"]["certificate-authority"] = str(folder / "ca.crt")  # type: ignore[index]
    (folder / "hook.yaml").write_text(yaml.safe_dump(webhook))
    arguments = (
        "--authentication-config",
        str(folder / "auth.yaml"),
        "--authentication-token-webhook-config-file",
        str(folder / "hook.yaml"),
        "--enable-bootstrap-token-auth",
    )
    with ControlPlane(folder / "plane", arguments=arguments) as plane:
        yield Place(plane, provider)
    provider.stop()


def refused_elsewhere(done: subprocess.CompletedProcess[str]) -> bool:
    """Return whether another tenant refuses a credential; kubectl does not print more."""
    return done.returncode != 0 and "Forbidden" in done.stderr


def test_the_admin_is_in_the_tenants_group_and_not_in_system_masters(place: Place) -> None:
    user = place.whoami(place.admin)
    assert user["groups"] == ["vcsync:tenant-admins", "system:authenticated"]
    assert place.kubectl("auth", "can-i", "*", "*", "-A").strip() == "yes"
    content = yaml.safe_load(place.admin.read_text())
    content["clusters"][0]["cluster"]["server"] = f"{place.plane.url}/tenants/umbrella"
    other = place.plane.directory / "crossed.kubeconfig"
    other.write_text(yaml.safe_dump(content))
    assert refused_elsewhere(place.run("get", "pods", config=other))
    assert refused_elsewhere(
        place.run("get", "pods", "--as", "x", "--as-group", "system:masters", config=other)
    )


def test_kubectl_proxy_serves_a_tenants_kubeconfig(place: Place) -> None:
    server = yaml.safe_load(place.admin.read_text())["clusters"][0]["cluster"]["server"]
    assert server == place.plane.url
    with (
        place.proxy() as url,
        urllib.request.urlopen(f"{url}/api/v1/namespaces/default", timeout=20) as answer,
    ):
        assert json.load(answer)["metadata"]["name"] == "default"


def test_impersonation_and_reconcile(place: Place) -> None:
    assert place.run("auth", "can-i", "list", "pods", "--as", "alice").stdout.strip() == "no"
    place.kubectl("auth", "reconcile", "-f", "-", input=ROLE)
    eventually(lambda: place.run("auth", "can-i", "list", "pods", "--as", "alice").stdout.strip() == "yes")
    place.kubectl("get", "pods", "--as", "alice")
    assert "cannot list" in place.run("get", "secrets", "--as", "alice").stderr
    assert "cannot create" in place.run("create", "-f", "-", "--as", "alice", input=ROLE).stderr
    assert place.kubectl("auth", "can-i", "--list", "--as", "alice").count("pods")


def test_system_masters_of_a_tenant_have_no_rights_elsewhere(place: Place) -> None:
    done = place.run("get", "--raw", "/vcsync/v1/tenants", "--as", "x", "--as-group", "system:masters")
    assert done.returncode != 0
    mine = place.plane.directory / "masters.kubeconfig"
    made = place.plane.vcsync("tenant", "kubeconfig", "acme", "--user", "m", "--group", "system:masters")
    mine.write_text(made)
    assert place.whoami(mine)["groups"] == ["system:authenticated"]


def test_created_tokens_are_valid_in_their_tenant_and_verifiable_by_its_published_keys(place: Place) -> None:
    place.kubectl("create", "serviceaccount", "robot")
    token = place.kubectl("create", "token", "robot", "--duration", "10m", "--audience", "vault").strip()
    issuer = f"{place.plane.url}/tenants/acme"
    document = json.loads(place.kubectl("get", "--raw", "/.well-known/openid-configuration"))
    assert document["issuer"] == issuer
    authority = (place.plane.data / "ca.crt").read_text()
    client = jwt.PyJWKClient(document["jwks_uri"], ssl_context=ssl.create_default_context(cadata=authority))
    algorithms = document["id_token_signing_alg_values_supported"]
    try:
        key = client.get_signing_key_from_jwt(token)
    except jwt.PyJWKClientError:
        keys = jwt.PyJWKSet.from_json(place.kubectl("get", "--raw", "/openid/v1/jwks"))
        key = keys[jwt.get_unverified_header(token)["kid"]]
    claims = jwt.decode(token, key, algorithms=algorithms, audience="vault", issuer=issuer)
    assert claims["sub"] == "system:serviceaccount:default:robot"
    assert LOGGED_OUT in place.run("get", "pods", config=place.with_token(token)).stderr
    own = place.kubectl("create", "token", "robot").strip()
    assert place.whoami(place.with_token(own))["username"] == "system:serviceaccount:default:robot"
    assert refused_elsewhere(place.run("get", "pods", config=place.with_token(own, "umbrella")))


def test_certificates_are_approved_by_users_with_the_permission(place: Place) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dora")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    pem = request.public_bytes(serialization.Encoding.PEM)
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "dora"},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
            "request": base64.b64encode(pem).decode(),
        },
    }
    place.kubectl("create", "-f", "-", input=json.dumps(body))
    assert place.run("certificate", "approve", "dora", "--as", "alice").returncode != 0
    place.kubectl("certificate", "approve", "dora")
    assert "Approved" in place.kubectl("get", "csr", "dora")


def test_an_issuers_tokens_belong_to_the_tenant_that_they_claim(place: Place) -> None:
    mine = place.with_token(place.provider.token(org="acme", groups=["devs", "system:masters"]))
    user = place.whoami(mine)
    assert (user["username"], user["groups"]) == ("sso:carol", ["devs", "system:authenticated"])
    assert "cannot list" in place.run("get", "pods", config=mine).stderr
    theirs = place.with_token(place.provider.token(org="umbrella"))
    assert refused_elsewhere(place.run("get", "pods", config=theirs))
    for wrong in (
        {"org": "system"},
        {"org": "acme", "aud": "x"},
        {"org": "acme", "exp": time.time() - 400},
        {},
    ):
        config = place.with_token(place.provider.token(**wrong))
        assert LOGGED_OUT in place.run("get", "pods", config=config).stderr


def test_the_webhook_names_the_tenant_of_a_user(place: Place) -> None:
    user = place.whoami(place.with_token("hook-acme"))
    assert (user["username"], user["groups"], user.get("extra")) == ("hooked", ["system:authenticated"], None)
    assert refused_elsewhere(place.run("get", "pods", config=place.with_token("hook-umbrella")))
    for wrong in ("hook-system", "hook-nobody", "nonsense"):
        assert LOGGED_OUT in place.run("get", "pods", config=place.with_token(wrong)).stderr


def test_bootstrap_tokens_authenticate_in_their_own_tenant(place: Place) -> None:
    literals = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": literals,
    }
    place.kubectl("create", "-f", "-", input=json.dumps(secret))
    config = place.with_token("abcdef.0123456789abcdef")
    eventually(lambda: place.run("auth", "whoami", config=config).returncode == 0)
    assert place.whoami(config)["username"] == "system:bootstrap:abcdef"
    assert refused_elsewhere(
        place.run("get", "csr", config=place.with_token("abcdef.0123456789abcdef", "umbrella"))
    )


def test_a_revoked_certificate_is_invalid_immediately(place: Place) -> None:
    one = place.plane.kubeconfig("acme", user="eve")
    assert place.whoami(one)["username"] == "eve"
    place.plane.vcsync("tenant", "revoke", "acme", "--user", "eve")
    assert "logged in" in place.run("auth", "whoami", config=one).stderr
    assert place.whoami(place.plane.kubeconfig("acme", user="eve"))["username"] == "eve"


def test_a_syncer_has_the_rights_of_a_syncer(place: Place) -> None:
    config = place.plane.directory / "syncer.kubeconfig"
    config.write_text(place.plane.vcsync("tenant", "kubeconfig", "acme", "--role", "syncer"))
    eventually(lambda: place.run("get", "pods", "-A", config=config).returncode == 0)
    assert (
        place.run("auth", "can-i", "patch", "pods", "--subresource", "status", config=config).stdout.strip()
        == "yes"
    )
    for verb, resource in (("create", "pods"), ("get", "clusterroles"), ("delete", "secrets"), ("*", "*")):
        assert place.run("auth", "can-i", verb, resource, config=config).stdout.strip() == "no"
