"""Fetches credentials from exec plug-ins, and from the OIDC auth provider through kubernetes-asyncio.

The import of kubernetes-asyncio takes 60 MB and a third of a second, so it happens only here and only for OIDC. Exec plug-ins
run without it, because it does not end a plug-in that hangs, and hangs itself if a plug-in fills the pipe of its stderr.
"""

import asyncio
import base64
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.kube.errors import CredentialsError
from vcsync.kube.kubeconfig import Exec, User

_TIMEOUT = 60.0
"""Seconds after which a plug-in is killed. Some plug-ins wait for a person."""


class PluginCredentials(Struct, frozen=True):
    """Credentials of a plug-in: a token, or a client certificate and its key.

    Attributes:
        token: Bearer token.
        certificate: Client certificate (PEM).
        key: Private key of the certificate (PEM).
        expires: Expiry in unix seconds. None: the credentials do not expire.
    """

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    expires: float | None = None

    def __repr__(self) -> str:
        return f"PluginCredentials(expires={self.expires})"


class _ExecStatus(Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(Struct, rename="camel"):
    api_version: str
    status: _ExecStatus


async def fetch(user: User, base: Path) -> PluginCredentials:
    """Fetch the credentials of a user entry of a kubeconfig.

    Args:
        user: The entry, with `exec` or `auth-provider`.
        base: Directory of the kubeconfig, to which the path of a command is relative.

    Raises:
        CredentialsError: The plug-in cannot run, takes too long or prints no valid credentials.
    """
    if user.exec_ is not None:
        return await _run(user.exec_, base)
    return await _oidc(user.auth_provider or {})


async def _run(plugin: Exec, base: Path) -> PluginCredentials:
    what = f"kubeconfig: field user.exec: command {plugin.command!r}"
    try:
        async with asyncio.timeout(_TIMEOUT):
            code, printed = await _printed(plugin, base)
    except TimeoutError:
        raise CredentialsError(f"{what} took longer than {_TIMEOUT:.0f} s") from None
    except OSError as error:
        raise CredentialsError(
            f"{what} cannot be run: {error.strerror}; install it or give its full path"
        ) from None
    if code != 0:
        # The output may contain a credential, so the message does not repeat it.
        raise CredentialsError(f"{what} failed (exit code {code}); run it by hand to see why")
    try:
        answer = msgspec.json.decode(printed, type=_ExecCredential)
        expires = _unix(answer.status.expiration_timestamp)
    except (msgspec.MsgspecError, ValueError):
        raise CredentialsError(f"{what} did not print a valid ExecCredential") from None
    if answer.api_version != plugin.api_version:
        raise CredentialsError(
            f"{what} printed an ExecCredential of another version than {plugin.api_version}; correct its apiVersion"
        )
    status = answer.status
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise CredentialsError(f"{what} printed neither a token nor a client certificate with its key")
    return PluginCredentials(
        token=status.token,
        certificate=status.client_certificate_data.encode(),
        key=status.client_key_data.encode(),
        expires=expires,
    )


async def _printed(plugin: Exec, base: Path) -> tuple[int | None, bytes]:
    """Run a plug-in, and return its exit code and its output. A cancellation kills it.

    Behaviour: Kubernetes documentation "Authenticating", client-go credential plugins. The plug-in has no input, because
    no person can answer its questions.
    """
    command = plugin.command
    # As in kubectl, a path is relative to the kubeconfig, and a bare word is looked up in PATH.
    if "/" in command:
        command = str(base / command)
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    variables = {variable.name: variable.value for variable in plugin.env or ()}
    process = await asyncio.create_subprocess_exec(
        command,
        *(plugin.args or ()),
        env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, printed


async def _oidc(provider: dict[str, Any]) -> PluginCredentials:
    name = provider.get("name")
    if name != "oidc":
        raise CredentialsError(
            f"kubeconfig: field user.auth-provider: {name!r} is unsupported; use its exec plug-in"
        )
    loader, configuration = await asyncio.to_thread(_loader, provider)
    try:
        async with asyncio.timeout(_TIMEOUT):
            await loader.load_and_set(configuration)
    except Exception as error:  # noqa: BLE001 - the library raises errors of many kinds
        raise CredentialsError(
            f"kubeconfig: field user.auth-provider: cannot get a token ({type(error).__name__}); log in again"
        ) from None
    token = str(configuration.api_key.get("BearerToken", "")).removeprefix("Bearer ")
    if not token:
        raise CredentialsError(
            "kubeconfig: field user.auth-provider: the provider has no id-token; log in again"
        )
    return PluginCredentials(token=token, expires=_token_expiry(token))


def _loader(provider: dict[str, Any]) -> tuple[Any, Any]:
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader  # noqa: PLC0415

    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://unused"}}],
        "users": [{"name": "u", "user": {"auth-provider": provider}}],
    }
    return KubeConfigLoader(config_dict=config), Configuration()


def _token_expiry(token: str) -> float | None:
    """Return the `exp` of a JWT without verification. It only determines when to fetch the next token."""
    try:
        payload = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, msgspec.DecodeError):
        return None


def _unix(timestamp: str | None) -> float | None:
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else None
