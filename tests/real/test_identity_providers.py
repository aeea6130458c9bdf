"""Users of identity providers at the door of an embedded and of an external tenant: logins, and tokens of an IAM service."""

import contextlib
import hashlib
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from issuer_kit import CLIENT, DEVICE_GRANT, Issuer

from hack.embedded import ControlPlane
from hack.testbed import TestBed, ensure
from hack.testbed.processes import free_ports
from tests.real.waiting import eventually
from vcsync.apiserver.tenants import pki

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "config" / "samples"
BROWSER = """\
#!{python}
import ssl, sys, urllib.request
tls = ssl.create_default_context(cafile="{authority}")
urllib.request.urlopen(sys.argv[1], context=tls, timeout=20).read()
"""
"""A browser whose user is logged in at the issuer: it follows the redirects."""


class Place:
    """A control plane with the tenants acme (embedded) and umbrella (external), an issuer and an IAM service."""

    def __init__(self, plane: ControlPlane, issuer: Issuer, users: Path) -> None:
        self.plane, self.issuer, self.users = plane, issuer, users
        self._kubectl = str(ensure(["kubectl"])["kubectl"])

    def login_kubeconfig(self, tenant: str, folder: Path, *arguments: str) -> Path:
        """Write the kubeconfig of a tenant's users, who log in at the issuer."""
        options = [
            f"--certificate-authority={self.issuer.authority}",
            f"--token-cache-dir={folder / 'tokens'}",
        ]
        made = self.plane.vcsync(
            "tenant", "kubeconfig", tenant, f"--issuer={self.issuer.url}", f"--client-id={CLIENT}",
            *(f"--login-arg={each}" for each in (*options, *arguments)),
        )  # fmt: skip
        path = folder / f"{tenant}.kubeconfig"
        path.write_text(made)
        return path

    def token_kubeconfig(self, tenant: str, token: str, folder: Path) -> Path:
        content = yaml.safe_load(self.login_kubeconfig(tenant, folder).read_text())
        content["users"][0]["user"] = {"token": token}
        path = folder / "token.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path

    def command(self, kubeconfig: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return [self._kubectl, f"--kubeconfig={kubeconfig}", *arguments], {**os.environ, "PATH": path}

    def run(self, kubeconfig: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl without a terminal."""
        command, variables = self.command(kubeconfig, *arguments)
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60, env=variables | environment,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    @contextlib.contextmanager
    def at_a_terminal(
        self, kubeconfig: Path, *arguments: str, **environment: str
    ) -> Iterator[subprocess.Popen[str]]:
        """Run kubectl whose standard input is a terminal."""
        command, variables = self.command(kubeconfig, *arguments)
        terminal, end = pty.openpty()
        try:
            with subprocess.Popen(
                command, stdin=end, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=variables | environment,
            ) as process:  # fmt: skip
                try:
                    yield process
                finally:
                    process.kill()
        finally:
            os.close(terminal)
            os.close(end)

    def whoami(self, kubeconfig: Path) -> dict[str, Any]:
        done = self.run(kubeconfig, "auth", "whoami", "-o", "json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)["status"]["userInfo"]
        return found


@pytest.fixture(scope="module")
def place(testbed: TestBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("providers")
    issuer = Issuer(folder)
    configuration = yaml.safe_load((SAMPLES / "authentication-keycloak.yaml").read_text())
    configuration["jwt"][0]["issuer"] |= {
        "url": issuer.url,
        "certificateAuthority": issuer.authority.read_text(),
    }
    (folder / "authentication.yaml").write_text(yaml.safe_dump(configuration))
    users = folder / "users.yaml"
    users.write_text(yaml.safe_dump({"users": []}))
    with (
        iam_service(folder, users) as kubeconfig,
        ControlPlane(
            folder / "plane",
            arguments=(
                "--authentication-config", str(folder / "authentication.yaml"),
                "--authentication-token-webhook-config-file", str(kubeconfig),
                "--authentication-token-webhook-cache-ttl", "0s",
            ),
        ) as plane,
    ):  # fmt: skip
        plane.create("acme")
        plane.vcsync(
            "tenant", "connect", "umbrella", "--kubeconfig", str(testbed.tenants["umbrella"].kubeconfig),
            "--group", "sso:developers", "--group", "developers",
        )  # fmt: skip
        yield Place(plane, issuer, users)
        assert "Traceback" not in plane.log.read_text()
    issuer.stop()


@contextlib.contextmanager
def iam_service(folder: Path, users: Path) -> Iterator[Path]:
    """Run the sample IAM service, and yield the kubeconfig of its webhook."""
    authority = pki.new_authority("iam", time.time())
    serving = pki.issue_serving(authority, ["127.0.0.1"], time.time())
    client = pki.issue_client(authority, "control-plane", (), time.time())
    content = {
        "iam-ca.crt": authority.certificate,
        "iam.crt": serving.certificate,
        "iam.key": serving.key,
        "client.crt": client.certificate,
        "client.key": client.key,
    }
    for name, text in content.items():
        (folder / name).write_text(text)
    (port,) = free_ports(1)
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "iam",
                "cluster": {
                    "server": f"https://127.0.0.1:{port}/review",
                    "certificate-authority": str(folder / "iam-ca.crt"),
                },
            }
        ],
        "users": [
            {
                "name": "iam",
                "user": {
                    "client-certificate": str(folder / "client.crt"),
                    "client-key": str(folder / "client.key"),
                },
            }
        ],
        "contexts": [{"name": "iam", "context": {"cluster": "iam", "user": "iam"}}],
        "current-context": "iam",
    }
    path = folder / "iam.kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig))
    command = [
        sys.executable, str(SAMPLES / "iam_webhook.py"), str(users), "--port", str(port),
        "--certificate", str(folder / "iam.crt"), "--key", str(folder / "iam.key"),
        "--client-ca", str(folder / "iam-ca.crt"),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "serving" in process.stdout.readline()
            yield path
        finally:
            process.terminate()


@pytest.fixture(params=["acme", "umbrella"])
def tenant(request: pytest.FixtureRequest, place: Place) -> str:
    """An embedded and an external tenant, of whose developers the issuer's user is one."""
    name: str = request.param
    place.issuer.groups = [f"/{name}/developers"]
    place.issuer.logins.clear()
    return name


def test_kubectl_logs_in_by_device_code_and_renews_the_login_without_the_user(
    place: Place, tenant: str, tmp_path: Path
) -> None:
    kubeconfig = place.login_kubeconfig(tenant, tmp_path, "--grant=device")

    with place.at_a_terminal(kubeconfig, "auth", "whoami", "-o", "json") as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert "/device and enter the code ABCD-EFGH" in process.stderr.readline()
        place.issuer.confirm()
        user = json.loads(process.stdout.read())["status"]["userInfo"]
    assert user["username"] == "sso:alice"
    assert user["groups"] == ["sso:developers", "system:authenticated"]

    assert place.whoami(kubeconfig) == user
    assert place.issuer.logins == [DEVICE_GRANT], "the second command uses the same token"

    (kept,) = (tmp_path / "tokens").glob("*.json")
    assert kept.stat().st_mode & 0o077 == 0
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "expires": time.time()}))
    assert place.whoami(kubeconfig)["username"] == "sso:alice"
    assert place.issuer.logins == [DEVICE_GRANT, "refresh_token"]

    kept.write_text(json.dumps({**json.loads(kept.read_text()), "expires": time.time()}))
    place.issuer.end_sessions()
    refused = place.run(kubeconfig, "get", "pods")
    assert refused.returncode != 0
    assert "you are not logged in, and kubectl has no terminal here" in refused.stderr


def test_kubectl_logs_in_by_browser(place: Place, tenant: str, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(BROWSER.format(python=sys.executable, authority=place.issuer.authority))
    browser.chmod(0o755)
    kubeconfig = place.login_kubeconfig(tenant, tmp_path)
    environment = {"BROWSER": str(browser), "DISPLAY": ":0", "SSH_CONNECTION": ""}

    with place.at_a_terminal(kubeconfig, "auth", "whoami", "-o", "json", **environment) as process:
        assert process.stdout is not None
        user = json.loads(process.stdout.read())["status"]["userInfo"]
    assert user["username"] == "sso:alice"
    assert place.issuer.logins == ["authorization_code"]

    _, variables = place.command(kubeconfig)
    logout = ["kubectl-vcsync", "logout", f"--token-cache-dir={tmp_path / 'tokens'}"]
    done = subprocess.run(logout, capture_output=True, text=True, check=False, timeout=60, env=variables)
    assert done.stderr == "1 login forgotten\n"
    assert not list((tmp_path / "tokens").glob("*.json"))


def test_a_login_has_no_rights_in_another_tenant(place: Place, tenant: str, tmp_path: Path) -> None:
    other = "umbrella" if tenant == "acme" else "acme"
    kubeconfig = place.token_kubeconfig(tenant, place.issuer.id_token(), tmp_path)
    assert place.whoami(kubeconfig)["username"] == "sso:alice"
    content = yaml.safe_load(kubeconfig.read_text())
    content["clusters"][0]["cluster"]["server"] += f"/tenants/{other}"
    crossed = tmp_path / "crossed.kubeconfig"
    crossed.write_text(yaml.safe_dump(content))
    assert "Forbidden" in place.run(crossed, "get", "pods").stderr


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param([], id="no tenant"),
        pytest.param(["/acme/developers", "/umbrella/developers"], id="two tenants"),
        pytest.param(["/system/admins"], id="the operator's space"),
        pytest.param(["/nobody/developers"], id="a tenant that does not exist"),
        pytest.param(["acme"], id="no path"),
    ],
)
def test_tokens_of_nobodys_users_are_refused(place: Place, groups: list[str], tmp_path: Path) -> None:
    kubeconfig = place.token_kubeconfig("acme", place.issuer.id_token(groups=groups), tmp_path)
    assert "You must be logged in" in place.run(kubeconfig, "get", "pods").stderr


def test_administrators_of_a_tenant_come_from_a_group_of_the_issuer(place: Place, tmp_path: Path) -> None:
    kubeconfig = place.token_kubeconfig("acme", place.issuer.id_token(groups=["/acme/admins"]), tmp_path)
    assert place.run(kubeconfig, "auth", "can-i", "*", "*", "-A").stdout.strip() == "yes"


def test_users_of_the_iam_service_reach_their_tenant_until_they_are_removed(
    place: Place, tenant: str, tmp_path: Path
) -> None:
    token = f"{tenant}-secret"
    digest = hashlib.sha256(token.encode()).hexdigest()
    user = {"name": "iam:bob", "tenant": tenant, "groups": ["developers"], "token": digest}
    place.users.write_text(yaml.safe_dump({"users": [user]}))
    kubeconfig = place.token_kubeconfig(tenant, token, tmp_path)

    found = place.whoami(kubeconfig)
    assert (found["username"], found["groups"]) == ("iam:bob", ["developers", "system:authenticated"])

    place.users.write_text(yaml.safe_dump({"users": []}))
    assert eventually(lambda: "You must be logged in" in place.run(kubeconfig, "get", "pods").stderr)
