"""Kubeconfigs: what is read, and what is refused with the field and without the secret."""

import base64
import os
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from vcsync.kube import kubeconfig, proxies, tls
from vcsync.kube.connection import Connection
from vcsync.kube.errors import CredentialsError


def config(user: dict[str, Any] | None = None, **cluster: Any) -> bytes:
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": "https://h:6443", **cluster}}],
            "users": [{"name": "u", "user": user or {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    ).encode()


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
def test_what_is_no_server_url_is_refused(server: str) -> None:
    with pytest.raises(CredentialsError, match=r"cluster\.server"):
        Connection.from_kubeconfig_bytes(config(server=server))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: [", "not YAML in line"),
        (b"\xff\xfe\xff", "not YAML"),
        (b"[]", "Expected `object`"),
        (b"clusters: 5", r"\$\.clusters"),
        (b"{}", "no context"),
        (b"x" * (1024 * 1024 + 1), "long"),
        (config({"token": "hunter2", "tokenFile": 5}), r"tokenFile"),
        (config({"username": "u", "password": "hunter2"}), "takes no passwords"),
        (config().replace(b"current-context: x", b"current-context: y"), "no context 'y'"),
        (config().replace(b"cluster: c", b"cluster: d"), "clusters lacks"),
        (config().replace(b"user: u", b"user: d"), "users lacks"),
        (b'users: [{name: u, user: {token: "hunter2}}]', "not YAML"),
    ],
)
def test_what_is_no_kubeconfig_is_refused_without_repeating_it(data: bytes, message: str) -> None:
    with pytest.raises(CredentialsError, match=message) as caught:
        Connection.from_kubeconfig_bytes(data)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("user", "cluster", "message"),
    [
        ({"tokenFile": "/etc/shadow"}, {}, "user.tokenFile.*names a file"),
        ({"client-certificate": "c", "client-key": "k"}, {}, "user.client-certificate.*names a file"),
        ({}, {"certificate-authority": "/etc/ca"}, "certificate-authority.*names a file"),
        ({"exec": {"command": "/bin/sh"}}, {}, "only from a kubeconfig file"),
        ({"auth-provider": {"name": "oidc"}}, {}, "only from a kubeconfig file"),
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
async def test_what_cannot_be_used_is_named(
    user: dict[str, Any], cluster: dict[str, Any], message: str
) -> None:
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


async def test_files_are_looked_at_only_now_and_then(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(config({"token": "one"}))
    connection = Connection.from_kubeconfig_file(file, recheck=3600)
    first = await connection.credentials()
    file.write_bytes(config({"token": "twotwo"}))
    assert connection.current() is first
    connection._next_check = 0.0
    assert connection.current() is None
    assert (await connection.credentials()).headers["Authorization"] == "Bearer twotwo"


async def test_many_calls_refused_at_once_fetch_new_credentials_once(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(config({"token": "one"}))
    connection = Connection.from_kubeconfig_file(file)
    old = await connection.credentials()
    new = await connection.credentials(refused=old)
    assert new is not old
    assert await connection.credentials(refused=old) is new


async def test_credentials_are_fetched_anew_before_they_expire(tmp_path: Path) -> None:
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


def test_equal_identities_share_one_tls_context() -> None:
    first, second = tls.client_context(), tls.client_context()
    assert first is second
    assert tls.client_context(insecure=True) is not first
    assert first.verify_mode is ssl.CERT_REQUIRED
    assert first.check_hostname


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password() -> None:
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


def test_data_may_be_wrapped() -> None:
    wrapped = base64.encodebytes(b"x" * 100).decode()
    assert "\n" in wrapped.strip()
    assert kubeconfig.parse(config({"client-key-data": wrapped})).user.client_key_data == wrapped
