"""Every kind of credential, against a real API server, which reports the authenticated user."""

import base64
import stat
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from hack.testbed import Cluster, TestBed
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.kube.errors import CredentialsError, Forbidden, Unauthorized, Unreachable
from vcsync.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Resource
from vcsync.objects import envelope

REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)

Connect = Callable[[Connection], Client]


@pytest.fixture
def cluster(testbed: TestBed) -> Cluster:
    return testbed.tenants["acme"]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:
        made: list[Client] = []

        def start(connection: Connection) -> Client:
            client = Client(connection, name="real")
            stack.push_async_callback(client.close)
            made.append(client)
            return client

        yield start


async def who(client: Client) -> str:
    """Return the authenticated user name."""
    answer = await client.create(REVIEWS, {})
    return str(envelope.untyped(answer.status)["userInfo"]["username"])


@pytest.fixture
async def account(cluster: Cluster, connect: Connect) -> AsyncIterator[Callable[[str], Any]]:
    """Create ServiceAccounts and return a token for each."""
    admin = connect(Connection.from_kubeconfig_file(cluster.kubeconfig))
    namespace = f"connection-{uuid.uuid4().hex[:8]}"
    await admin.create(NAMESPACES, {"metadata": {"name": namespace}})

    async def make(name: str) -> str:
        await admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, namespace)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        raw = await admin.create_raw(SERVICE_ACCOUNTS, request, namespace, name=name, subresource="token")
        return str(msgspec.json.decode(raw)["status"]["token"])

    yield make
    await admin.delete(NAMESPACES, namespace)


def kubeconfig(cluster: Cluster, user: Mapping[str, Any], **more: Any) -> bytes:
    ca = base64.b64encode(cluster.ca_pem.encode()).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "c", "cluster": {"server": cluster.url, "certificate-authority-data": ca, **more}}
            ],
            "users": [{"name": "u", "user": dict(user)}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    ).encode()


async def test_a_token_in_a_kubeconfig_file(cluster: Cluster, connect: Connect) -> None:
    assert await who(connect(Connection.from_kubeconfig_file(cluster.kubeconfig)))


async def test_a_token_in_a_kubeconfig_from_a_secret(cluster: Cluster, connect: Connect) -> None:
    data = cluster.kubeconfig.read_bytes()
    assert await who(connect(Connection.from_kubeconfig_bytes(data)))


async def test_a_client_certificate_and_a_ca_in_files(cluster: Cluster, connect: Connect) -> None:
    text = cluster.certificate_kubeconfig.read_text()
    assert '"client-key"' in text
    assert await who(connect(Connection.from_kubeconfig_file(cluster.certificate_kubeconfig)))


async def test_a_client_certificate_as_data(cluster: Cluster, connect: Connect) -> None:
    folder = cluster.certificate_kubeconfig.parent
    user = yaml.safe_load(cluster.certificate_kubeconfig.read_text())["users"][0]["user"]
    data = {
        f"{field}-data": base64.b64encode((folder / user[field]).read_bytes()).decode()
        for field in ("client-certificate", "client-key")
    }
    by_data = connect(Connection.from_kubeconfig_bytes(kubeconfig(cluster, data)))
    by_file = connect(Connection.from_kubeconfig_file(cluster.certificate_kubeconfig))
    assert await who(by_data) == await who(by_file)


async def test_a_kubeconfig_from_a_secret_cannot_name_our_files(cluster: Cluster, connect: Connect) -> None:
    data = cluster.certificate_kubeconfig.read_bytes()
    with pytest.raises(CredentialsError, match="names a file"):
        await who(connect(Connection.from_kubeconfig_bytes(data)))


async def test_a_rewritten_token_file_is_used_by_the_next_call(
    cluster: Cluster, connect: Connect, account: Callable[[str], Any], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(await account("one") + "\n")
    file = tmp_path / "kubeconfig"
    file.write_bytes(kubeconfig(cluster, {"tokenFile": "token"}))
    client = connect(Connection.from_kubeconfig_file(file, recheck=0.0))
    assert (await who(client)).endswith(":one")
    token.write_text(await account("two"))
    assert (await who(client)).endswith(":two")


async def test_a_refused_token_is_read_again_immediately(
    cluster: Cluster, connect: Connect, account: Callable[[str], Any], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("revoked")
    file = tmp_path / "kubeconfig"
    file.write_bytes(kubeconfig(cluster, {"tokenFile": str(token)}))
    client = connect(Connection.from_kubeconfig_file(file, recheck=3600.0))
    with pytest.raises(Unauthorized):
        await who(client)
    token.write_text(await account("one"))
    assert (await who(client)).endswith(":one")


async def test_a_rewritten_kubeconfig_changes_the_server(
    testbed: TestBed, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(testbed.tenants["acme"].kubeconfig.read_bytes())
    client = connect(Connection.from_kubeconfig_file(file, recheck=0.0))
    acme = await client.get(NAMESPACES, "kube-system")
    file.write_bytes(testbed.meta.kubeconfig.read_bytes())
    meta = await client.get(NAMESPACES, "kube-system")
    assert acme.uid != meta.uid


async def test_a_malformed_rewritten_kubeconfig_keeps_the_previous_one(
    cluster: Cluster, connect: Connect, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(cluster.kubeconfig.read_bytes())
    connection = Connection.from_kubeconfig_file(file, recheck=0.0)
    client = connect(connection)
    await who(client)
    file.write_text("clusters: [")
    assert await who(client)
    assert "not YAML" in (connection.last_error or "")


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def exec_user(command: str, **more: Any) -> dict[str, Any]:
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command, **more}}


async def test_a_credential_plug_in_is_run_once_and_again_when_its_token_is_refused(
    cluster: Cluster, connect: Connect, account: Callable[[str], Any], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("stale")
    script(
        tmp_path / "plugin.sh",
        'echo run >> "$1/runs"\n'
        'token=$(cat "$1/$NAME")\n'
        'printf \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"%s","expirationTimestamp":"2099-01-01T00:00:00Z"}}\' "$token"',
    )
    file = tmp_path / "kubeconfig"
    env = [{"name": "NAME", "value": "token"}]
    file.write_bytes(kubeconfig(cluster, exec_user("./plugin.sh", args=[str(tmp_path)], env=env)))
    client = connect(Connection.from_kubeconfig_file(file))
    with pytest.raises(Unauthorized):
        await who(client)
    (tmp_path / "token").write_text(await account("plug"))
    assert (await who(client)).endswith(":plug")
    assert (await who(client)).endswith(":plug")
    assert len((tmp_path / "runs").read_text().split()) == 3


async def test_the_error_names_a_failing_plug_in_and_omits_its_output(
    cluster: Cluster, connect: Connect, tmp_path: Path
) -> None:
    script(tmp_path / "plugin.sh", "echo hunter2; echo hunter2 >&2; exit 1")
    file = tmp_path / "kubeconfig"
    file.write_bytes(kubeconfig(cluster, exec_user("./plugin.sh")))
    with pytest.raises(CredentialsError, match=r"plugin\.sh") as caught:
        await who(connect(Connection.from_kubeconfig_file(file)))
    assert "hunter2" not in str(caught.value)


async def test_in_a_pod_the_service_account_is_used(
    cluster: Cluster,
    connect: Connect,
    account: Callable[[str], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host, port = cluster.url.removeprefix("https://").rsplit(":", 1)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    (tmp_path / "token").write_text(await account("pod"))
    (tmp_path / "ca.crt").write_text(cluster.ca_pem)
    client = connect(Connection.in_cluster(tmp_path, recheck=0.0))
    assert (await who(client)).endswith(":pod")
    (tmp_path / "token").write_text(await account("rotated"))
    assert (await who(client)).endswith(":rotated")
    with pytest.raises(Forbidden):
        await client.list(CONFIG_MAPS)


async def test_another_authority_is_not_trusted(testbed: TestBed, connect: Connect) -> None:
    acme, meta = testbed.tenants["acme"], testbed.meta
    foreign = base64.b64encode(meta.ca_pem.encode()).decode()
    data = kubeconfig(acme, {"token": acme.admin_token}, **{"certificate-authority-data": foreign})
    with pytest.raises(Unreachable, match="TLS"):
        await who(connect(Connection.from_kubeconfig_bytes(data)))


async def test_another_server_name_is_not_trusted(cluster: Cluster, connect: Connect) -> None:
    data = kubeconfig(cluster, {"token": cluster.admin_token}, **{"tls-server-name": "elsewhere.example"})
    with pytest.raises(Unreachable, match="TLS"):
        await who(connect(Connection.from_kubeconfig_bytes(data)))


async def test_the_server_name_of_the_kubeconfig_is_the_one_verified(
    cluster: Cluster, connect: Connect
) -> None:
    data = kubeconfig(cluster, {"token": cluster.admin_token}, **{"tls-server-name": "localhost"})
    assert await who(connect(Connection.from_kubeconfig_bytes(data)))


async def test_impersonation_is_passed_on(cluster: Cluster, connect: Connect) -> None:
    user = {"token": cluster.admin_token, "as": "somebody", "as-groups": ["system:authenticated"]}
    assert await who(connect(Connection.from_kubeconfig_bytes(kubeconfig(cluster, user)))) == "somebody"
