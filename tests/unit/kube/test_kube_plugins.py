"""Credentials of exec plug-ins and OIDC providers, and the errors of their failures."""

import asyncio
import base64
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from vcsync.kube import plugins
from vcsync.kube.errors import CredentialsError
from vcsync.kube.kubeconfig import Exec, User
from vcsync.kube.plugins import PluginCredentials, fetch

ENDS = "2030-01-02T03:04:05Z"


def program(folder: Path, text: str, name: str = "login") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def answer(**status: Any) -> str:
    """Return a shell command that prints an ExecCredential."""
    whole = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"echo '{json.dumps(whole)}'"


def printing(variable: str) -> str:
    """Return a shell command that prints an ExecCredential whose token is a variable in base64."""
    begins = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"'
    return f"""printf '{begins}%s"}}}}' "$(printf %s "{variable}" | base64 -w 0)\""""


def user(command: str, *arguments: str, **variables: str) -> User:
    """Return the user entry of a kubeconfig with an exec plug-in."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": command,
        "args": list(arguments),
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "interactiveMode": "Never",
    }
    return entry({"exec": plugin})


def entry(found: dict[str, Any]) -> User:
    return msgspec.convert(found, User)


async def test_a_plug_in_returns_a_token_with_its_expiry(tmp_path: Path) -> None:
    program(tmp_path, answer(token="t", expirationTimestamp=ENDS))
    assert await fetch(user("./login"), tmp_path) == PluginCredentials(token="t", expires=1893553445.0)


async def test_a_plug_in_returns_a_certificate_with_its_key(tmp_path: Path) -> None:
    program(tmp_path, answer(clientCertificateData="CERT", clientKeyData="KEY"))
    assert await fetch(user("./login"), tmp_path) == PluginCredentials(certificate=b"CERT", key=b"KEY")


async def test_a_plug_in_gets_its_arguments_and_variables(tmp_path: Path) -> None:
    script = 'printf \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
    script += '"status":{"token":"%s-%s-%s"}}\' "$1" "$2" "$WHO"'
    program(tmp_path, script)
    assert (await fetch(user("./login", "a", "b", WHO="me"), tmp_path)).token == "a-b-me"


async def test_a_plug_in_needs_no_arguments_and_is_not_interactive(
    tmp_path: Path,
) -> None:
    program(tmp_path, "[ -t 0 ] && exit 1; read line && exit 2; " + printing("$KUBERNETES_EXEC_INFO"))
    plugin = Exec("./login", "client.authentication.k8s.io/v1")
    info = json.loads(base64.b64decode((await fetch(User(exec_=plugin), tmp_path)).token))
    assert info == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }


async def test_a_plug_in_may_write_much_to_stderr(tmp_path: Path) -> None:
    program(tmp_path, f"head -c 1000000 /dev/zero >&2; {answer(token='t')}")
    assert (await fetch(user("./login"), tmp_path)).token == "t"


async def test_a_bare_command_is_looked_up_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, answer(token="t"), "vcsync-test-login")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert (await fetch(user("vcsync-test-login"), Path("/nowhere"))).token == "t"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("echo secret-word; exit 3", r"failed \(exit code 3\); run it by hand to see why$"),
        ("echo secret-word", "did not print a valid ExecCredential$"),
        (
            answer(token="secret-word").replace("/v1", "/v1beta1"),
            "of another version than client.+/v1; correct",
        ),
        (answer(token=7), "did not print a valid ExecCredential"),
        (answer(token="t", expirationTimestamp="soon"), "did not print a valid ExecCredential"),
        (
            answer(clientCertificateData="CERT"),
            "printed neither a token nor a client certificate with its key",
        ),
        (answer(), "printed neither a token nor a client certificate with its key"),
    ],
)
async def test_invalid_output_of_a_plug_in_is_refused_without_quoting_it(
    tmp_path: Path, text: str, problem: str
) -> None:
    program(tmp_path, text)
    with pytest.raises(CredentialsError, match=problem) as caught:
        await fetch(user("./login"), tmp_path)
    assert str(caught.value).startswith("kubeconfig: field user.exec: command './login' ")
    assert "secret-word" not in str(caught.value)


async def test_a_missing_plug_in_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        CredentialsError,
        match=r"command './gone' cannot be run: No such file or directory; install it or give its full path$",
    ):
        await fetch(user("./gone"), tmp_path)


def alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_plug_in_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_TIMEOUT", 0.3)
    program(tmp_path, f"echo $$ > {tmp_path}/number; exec sleep 60")
    with pytest.raises(CredentialsError, match=r"command './login' took longer than 0 s$"):
        await fetch(user("./login"), tmp_path)
    number = int((tmp_path / "number").read_text())
    async with asyncio.timeout(10):
        while alive(number):
            await asyncio.sleep(0.01)


def test_the_repr_of_plug_in_credentials_contains_no_secret() -> None:
    assert repr(PluginCredentials("token", b"certificate", b"key", 7.0)) == "PluginCredentials(expires=7.0)"


# ---- OIDC --------------------------------------------------------------------------------


def id_token(**claims: Any) -> str:
    """Return an unsigned JSON web token. Signatures are not verified here."""
    parts = [{"alg": "none"}, claims]
    texts = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts]
    return ".".join([*texts, "c2ln"])


def oidc(**config: str) -> User:
    whole = {"client-id": "vcsync", "idp-issuer-url": "https://issuer.invalid", **config}
    return entry({"auth-provider": {"name": "oidc", "config": whole}})


async def test_the_id_token_of_an_oidc_provider_is_used_until_it_expires(tmp_path: Path) -> None:
    ends = int(time.time()) + 3600
    token = id_token(exp=ends, sub="alice")
    assert await fetch(oidc(**{"id-token": token}), tmp_path) == PluginCredentials(
        token=token, expires=float(ends)
    )


async def test_a_provider_without_a_token_requires_a_new_login(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"^kubeconfig: field user\.auth-provider: .*log in again$"):
        await fetch(oidc(), tmp_path)


async def test_an_expired_token_that_cannot_be_renewed_requires_a_new_login(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"cannot get a token \(\w+\); log in again$"):
        await fetch(
            oidc(**{"id-token": id_token(exp=1), "refresh-token": "r", "client-secret": "s"}), tmp_path
        )


async def test_an_unresponsive_provider_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        async def load_and_set(self, _: object) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(plugins, "_TIMEOUT", 0.0)
    monkeypatch.setattr(plugins, "_loader", lambda _: (Silent(), None))
    with pytest.raises(CredentialsError, match=r"cannot get a token \(TimeoutError\); log in again$"):
        await fetch(oidc(), tmp_path)


@pytest.mark.parametrize("provider", [{"name": "gcp"}, {}])
async def test_other_providers_are_refused_with_the_remedy(tmp_path: Path, provider: dict[str, Any]) -> None:
    found = User(auth_provider=provider)
    with pytest.raises(
        CredentialsError,
        match=rf"^kubeconfig: field user\.auth-provider: {provider.get('name')!r} is unsupported; use its exec plug-in$",
    ):
        await fetch(found, tmp_path)


@pytest.mark.parametrize("token", ["", "a", "a.b", "a.!.c", f"a.{base64.b64encode(b'[]').decode()}.c"])
def test_invalid_tokens_have_no_expiry(token: str) -> None:
    assert plugins._token_expiry(token) is None
