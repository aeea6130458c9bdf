"""Kubeconfigs, credentials and TLS contexts. Errors name the field and contain no secret."""

import base64
import json
import os
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from vcsync.apiserver.tenants import pki
from vcsync.kube import kubeconfig, local, proxies, tls
from vcsync.kube.connection import Connection
from vcsync.kube.errors import CredentialsError

NOW = time.time()
AUTHORITY = pki.new_authority("acme", NOW)


def config(user: dict[str, Any] | None = None, **cluster: Any) -> bytes:
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": "https://h:6443", **cluster}}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    ).encode()


NO_COMMANDS = r"^kubeconfig: field user\.exec: commands run only from a kubeconfig file; use a token$"


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("https://h:6443", "https://h:6443"),
        ("https://h", "https://h"),
        ("https://h:6443/base/", "https://h:6443/base"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://[::1]:6443", "https://[::1]:6443"),
        ("https://[fd00::1%25eth0]:6443", "https://[fd00::1%25eth0]:6443"),
        ("https://[apiserver-svc.tenant-1]:6443", "https://apiserver-svc.tenant-1:6443"),
    ],
)
def test_server_urls(server: str, url: str) -> None:
    assert kubeconfig.server_url(server) == url


@pytest.mark.parametrize(
    "server", ["", "h:6443", "ftp://h", "https://", "https://u:p@h", "https://h:6443?x", "https://h#f"]
)
def test_invalid_server_urls_are_refused(server: str) -> None:
    with pytest.raises(CredentialsError, match=r"cluster\.server"):
        Connection.from_kubeconfig_bytes(config(server=server))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: [", "not YAML in line"),
        (b"\xff\xfe\xff", "not YAML"),
        (b"[]", "it is not a kubeconfig: it has no clusters, users and contexts"),
        (b"just a word", "it is not a kubeconfig: it has no clusters"),
        (b"clusters: 5", r"\$\.clusters"),
        (b"{}", "field contexts: it is missing or empty; is this a kubeconfig"),
        (b"{apiVersion: v1, kind: Pod}", "field contexts: it is missing or empty"),
        (
            b"contexts: [{name: b, context: {cluster: c}}, {name: a, context: {cluster: c}}]",
            "field current-context: it is missing; set it to one of a, b",
        ),
        (b"x" * (1024 * 1024 + 1), "long"),
        (config({"token": "hunter2", "tokenFile": 5}), r"tokenFile"),
        (config({"username": "u", "password": "hunter2"}), "does not accept passwords"),
        (
            config().replace(b"current-context: x", b"current-context: y"),
            "field current-context: there is no context 'y'; set it to one of x",
        ),
        (config().replace(b"cluster: c", b"cluster: d"), "is not in clusters"),
        (config().replace(b"user: u", b"user: d"), "is not in users"),
        (b'users: [{name: u, user: {token: "hunter2}}]', "not YAML"),
    ],
)
def test_invalid_kubeconfigs_are_refused_without_quoting_them(data: bytes, message: str) -> None:
    with pytest.raises(CredentialsError, match=message) as caught:
        Connection.from_kubeconfig_bytes(data)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("user", "cluster", "message"),
    [
        ({"tokenFile": "/etc/shadow"}, {}, "user.tokenFile.*names a file"),
        ({"client-certificate": "c", "client-key": "k"}, {}, "user.client-certificate.*names a file"),
        ({}, {"certificate-authority": "/etc/ca"}, "certificate-authority.*names a file"),
        ({"exec": {"command": "/bin/sh"}}, {}, NO_COMMANDS),
        ({"auth-provider": {"name": "oidc"}}, {}, NO_COMMANDS),
        ({"client-certificate-data": "aGk="}, {}, "user.client-key is missing"),
        ({"client-key-data": "aGk="}, {}, "user.client-certificate is missing"),
        ({"client-key-data": "aGk=", "client-certificate-data": "aGk="}, {}, "give a PEM certificate"),
        ({"client-key-data": "%%"}, {}, "user.client-key-data is not base64"),
        ({}, {"certificate-authority-data": "aGk="}, "not a PEM certificate"),
        ({"token": "two words"}, {}, "not a bearer token"),
        ({"token": "line\nbreak"}, {}, "not a bearer token"),
        ({"as-groups": ["system:masters"]}, {}, "user.as is missing"),
        ({}, {"proxy-url": "socks5://h"}, "proxy-url"),
    ],
)
async def test_unusable_fields_are_named(user: dict[str, Any], cluster: dict[str, Any], message: str) -> None:
    with pytest.raises(CredentialsError, match=message):
        await Connection.from_kubeconfig_bytes(config(user, **cluster)).credentials()


async def test_credentials_do_not_show_their_secrets() -> None:
    connection = Connection.from_kubeconfig_bytes(
        config({"token": "hunter2"}, **{"proxy-url": "http://u:hunter2@p:1"})
    )
    assert "hunter2" not in repr(await connection.credentials())


async def test_impersonation_is_not_lost() -> None:
    user = {"token": "t", "as": "me", "as-uid": "1", "as-groups": ["g"]}
    credentials = await Connection.from_kubeconfig_bytes(config(user)).credentials()
    assert credentials.headers == {
        "Authorization": "Bearer t",
        "Impersonate-User": "me",
        "Impersonate-Uid": "1",
        "Impersonate-Group": "g",
    }


async def test_a_token_file_comes_before_a_token(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("from-file\n")
    file = tmp_path / "config"
    file.write_bytes(config({"token": "inline", "tokenFile": "t"}))
    credentials = await Connection.from_kubeconfig_file(file).credentials()
    assert credentials.headers == {"Authorization": "Bearer from-file"}


@pytest.mark.parametrize(("content", "field"), [("", "user.tokenFile"), ("two words", "user.tokenFile")])
async def test_a_token_file_without_a_token_is_named(tmp_path: Path, content: str, field: str) -> None:
    (tmp_path / "t").write_text(content)
    (tmp_path / "config").write_bytes(config({"tokenFile": "t"}))
    with pytest.raises(CredentialsError, match=f"{field}: empty or not a bearer token"):
        await Connection.from_kubeconfig_file(tmp_path / "config").credentials()


async def test_a_plug_in_returns_credentials_with_their_expiry(tmp_path: Path) -> None:
    ends = int(time.time()) + 3600
    expiry = datetime.fromtimestamp(ends, UTC).isoformat()
    status = {"token": "fetched", "expirationTimestamp": expiry}
    printed = {"apiVersion": "client.authentication.k8s.io/v1", "status": status}
    program = tmp_path / "login"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(printed)}'\n")
    program.chmod(0o700)
    user = {"token": "inline", "exec": {"command": "./login"}}
    (tmp_path / "config").write_bytes(config(user))
    credentials = await Connection.from_kubeconfig_file(tmp_path / "config").credentials()
    assert credentials.headers == {"Authorization": "Bearer fetched"}
    assert credentials.expires == ends


def two_contexts() -> bytes:
    return yaml.safe_dump(
        {
            "clusters": [
                {"name": name, "cluster": {"server": f"http://{name}"}} for name in ("one", "other")
            ],
            "users": [{"name": name, "user": {"token": name}} for name in ("one", "other")],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": name}} for name in ("one", "other")
            ],
            "current-context": "one",
        }
    ).encode()


@pytest.mark.parametrize(("context", "used"), [(None, "one"), ("one", "one"), ("other", "other")])
async def test_a_context_names_the_cluster_and_the_user(
    tmp_path: Path, context: str | None, used: str
) -> None:
    (tmp_path / "config").write_bytes(two_contexts())
    for connection in (
        Connection.from_kubeconfig_bytes(two_contexts(), context=context),
        Connection.from_kubeconfig_file(tmp_path / "config", context),
        Connection.load(str(tmp_path / "config"), context),
    ):
        credentials = await connection.credentials()
        assert (credentials.url, credentials.headers) == (
            f"http://{used}",
            {"Authorization": f"Bearer {used}"},
        )


def test_an_unknown_context_is_named_with_the_known_ones() -> None:
    with pytest.raises(
        CredentialsError, match=r"^kubeconfig: there is no context 'third'; known ones are one, other$"
    ):
        Connection.from_kubeconfig_bytes(two_contexts(), context="third")


async def test_the_only_context_needs_no_name_and_a_context_needs_no_user() -> None:
    whole = yaml.safe_load(config())
    del whole["current-context"], whole["users"], whole["contexts"][0]["context"]["user"]
    credentials = await Connection.from_kubeconfig_bytes(yaml.safe_dump(whole).encode()).credentials()
    assert (credentials.url, credentials.headers) == ("https://h:6443", {})


async def test_files_are_checked_at_intervals(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(config({"token": "one"}))
    connection = Connection.from_kubeconfig_file(file, recheck=3600)
    first = await connection.credentials()
    file.write_bytes(config({"token": "twotwo"}))
    assert connection.current() is first
    connection._next_check = 0.0
    assert connection.current() is None
    assert (await connection.credentials()).headers["Authorization"] == "Bearer twotwo"


async def test_concurrent_refused_calls_fetch_new_credentials_once(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(config({"token": "one"}))
    connection = Connection.from_kubeconfig_file(file)
    old = await connection.credentials()
    new = await connection.credentials(refused=old)
    assert new is not old
    assert await connection.credentials(refused=old) is new


async def test_credentials_are_fetched_again_before_they_expire(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(config())
    connection = Connection.from_kubeconfig_file(file)
    loads = 0
    load = connection._load

    async def counted(files: Any) -> Any:
        nonlocal loads
        loads += 1
        made = await load(files)
        return type(made)(made.url, made.tls, expires=time.time() + (10 if loads == 1 else 3600))

    connection._load = counted
    for _ in range(3):
        await connection.credentials()
    assert loads == 2


@pytest.mark.parametrize("path", [None, ""])
def test_without_a_file_and_outside_a_pod_the_remedy_is_named(
    path: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsError, match="give a kubeconfig"):
        Connection.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="nowhere"):
        Connection.load(str(tmp_path / "nowhere"))


async def test_in_a_pod_an_ipv6_server_gets_brackets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(b"")
    assert (await Connection.in_cluster(tmp_path).credentials()).url == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
async def test_missing_files_of_a_service_account_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    for name in {"token", "ca.crt"} - {missing}:
        (tmp_path / name).write_text("t")
    with pytest.raises(
        CredentialsError, match=rf"^ServiceAccount {missing}: cannot read {tmp_path}/{missing}: "
    ):
        await Connection.in_cluster(tmp_path).credentials()


async def test_in_a_pod_the_mounted_token_and_ca_are_used_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text(AUTHORITY.certificate)
    connection = Connection.in_cluster(tmp_path, recheck=0.0)
    credentials = await connection.credentials()
    assert (credentials.url, credentials.headers) == (
        "https://10.0.0.1:6443",
        {"Authorization": "Bearer first"},
    )
    assert credentials.tls is not None
    assert len(credentials.tls.get_ca_certs()) == 1
    (tmp_path / "token").write_text("second one"[:6])
    assert (await connection.credentials()).headers == {"Authorization": "Bearer second"}


@pytest.mark.parametrize(("host", "port"), [("", "443"), ("10.0.0.1", "")])
def test_an_incomplete_environment_is_not_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, port: str
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    (tmp_path / "token").write_text("t")
    with pytest.raises(CredentialsError, match="give a kubeconfig file"):
        Connection.in_cluster(tmp_path)


@pytest.mark.parametrize("form", ["PEM", "DER"])
async def test_a_ca_can_be_pem_or_der(form: str) -> None:
    pem = AUTHORITY.certificate
    ca = pem.encode() if form == "PEM" else ssl.PEM_cert_to_DER_cert(pem)
    cluster = {"certificate-authority-data": base64.b64encode(ca).decode(), "tls-server-name": "cp.example"}
    credentials = await Connection.from_kubeconfig_bytes(config(None, **cluster)).credentials()
    assert credentials.server_name == "cp.example"
    assert credentials.tls is not None
    assert credentials.tls.get_ca_certs(binary_form=True) == [ssl.PEM_cert_to_DER_cert(pem)]
    assert credentials.tls.verify_mode is ssl.CERT_REQUIRED


async def test_insecure_contexts_trust_any_server() -> None:
    cluster = {"insecure-skip-tls-verify": True}
    credentials = await Connection.from_kubeconfig_bytes(config(None, **cluster)).credentials()
    assert credentials.tls is not None
    assert (credentials.tls.verify_mode, credentials.tls.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize("newline", ["", "\n", "\n\n"])
async def test_a_client_certificate_is_sent_with_its_chain(newline: str) -> None:
    pair = pki.issue_client(AUTHORITY, "alice", (), NOW)
    texts = {"client-certificate-data": pair.certificate.rstrip() + newline, "client-key-data": pair.key}
    user = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
    ca = base64.b64encode(AUTHORITY.certificate.encode()).decode()
    asking = await Connection.from_kubeconfig_bytes(
        config(user, **{"certificate-authority-data": ca})
    ).credentials()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_verify_locations(cadata=AUTHORITY.certificate)
    serving.verify_mode = ssl.CERT_REQUIRED
    tls.load_identity(serving, b"".join(_encoded(pki.issue_serving(AUTHORITY, ["cp.example"], NOW))))
    assert asking.tls is not None
    shown = local.handshake(asking.tls, serving, "cp.example")
    assert shown == ssl.PEM_cert_to_DER_cert(pair.certificate)


def _encoded(pair: pki.Pair) -> tuple[bytes, bytes]:
    return pair.certificate.encode(), pair.key.encode()


def test_a_certificate_with_another_key_is_refused_with_the_reason() -> None:
    one, other = (_encoded(pki.issue_client(AUTHORITY, name, (), NOW)) for name in ("alice", "bob"))
    with pytest.raises(
        CredentialsError,
        match=r"^client-certificate, client-key: KEY_VALUES_MISMATCH; give a PEM certificate",
    ):
        tls.client_context(certificate=one[0], key=other[1])


def test_equal_identities_share_one_tls_context() -> None:
    first, second = tls.client_context(), tls.client_context()
    assert first is second
    assert tls.client_context(insecure=True) is not first
    assert first.verify_mode is ssl.CERT_REQUIRED
    assert first.check_hostname


def test_an_encrypted_key_is_refused_without_a_prompt() -> None:
    from cryptography.hazmat.primitives import serialization as s  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"secret")
    )
    with pytest.raises(CredentialsError, match="without a password"):
        tls.client_context(certificate=b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", key=key)


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"https_proxy": "http://p:3128"}, "http://p:3128"),
        ({"HTTPS_PROXY": "p:3128"}, "http://p:3128"),
        ({"https_proxy": "http://p:3128", "no_proxy": "h"}, None),
        ({"https_proxy": "http://p:3128", "no_proxy": "other"}, "http://p:3128"),
        ({"http_proxy": "http://p:3128"}, None),
    ],
)
def test_proxies_of_the_environment(
    environment: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxies.from_environment("https://h:6443") == proxy


def test_data_fields_can_have_line_breaks() -> None:
    wrapped = base64.encodebytes(b"x" * 100).decode()
    assert "\n" in wrapped.strip()
    assert kubeconfig.parse(config({"client-key-data": wrapped})).user.client_key_data == wrapped
