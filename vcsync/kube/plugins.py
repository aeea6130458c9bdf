"""Credentials that must be fetched: exec plug-ins and the OIDC auth provider, through kubernetes-asyncio.

kubernetes-asyncio costs 60 MB and a third of a second to import, so it is imported only here and only when
needed.
"""

import asyncio
import base64
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from vcsync.kube.errors import CredentialsError
from vcsync.kube.kubeconfig import Exec, User

_PATIENCE = 60.0  # seconds a plug-in may take; some wait for a person


class Answer(Struct, frozen=True):
    """What a plug-in gave: a token, or a client certificate and key (PEM); expiry in unix seconds."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    expires: float | None = None

    def __repr__(self) -> str:
        return f"Answer(expires={self.expires})"


class _ExecStatus(Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


async def fetch(user: User, base: Path) -> Answer:
    """Fetch credentials as the user entry of a kubeconfig says.

    Args:
        user: the entry; it has `exec` or `auth-provider`.
        base: the kubeconfig's directory; a command named with a relative path starts from there.

    Raises:
        CredentialsError: the plug-in cannot be run, takes too long or answers nonsense.
    """
    if user.exec_ is not None:
        return await _run(user.exec_, base)
    return await _oidc(user.auth_provider or {})


async def _run(plugin: Exec, base: Path) -> Answer:
    what = f"kubeconfig: field user.exec: command {plugin.command!r}"
    provider = await asyncio.to_thread(_provider, plugin, base)
    try:
        async with asyncio.timeout(_PATIENCE):
            raw = await provider.run()
    except TimeoutError:
        raise CredentialsError(f"{what} took longer than {_PATIENCE:.0f} s") from None
    except OSError as error:
        raise CredentialsError(
            f"{what} cannot be run: {error.strerror}; install it or give its full path"
        ) from None
    except Exception as error:  # noqa: BLE001 - it raises whatever the answer's shape provokes
        # What it printed may hold a credential, so it is not repeated.
        raise CredentialsError(f"{what} failed ({type(error).__name__}); run it by hand to see why") from None
    try:
        status = msgspec.convert(raw, _ExecStatus)
        expires = _unix(status.expiration_timestamp)
    except (msgspec.ValidationError, ValueError):
        raise CredentialsError(f"{what} did not print a valid ExecCredential") from None
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise CredentialsError(f"{what} printed neither a token nor a client certificate with its key")
    return Answer(
        token=status.token,
        certificate=status.client_certificate_data.encode(),
        key=status.client_key_data.encode(),
        expires=expires,
    )


def _provider(plugin: Exec, base: Path) -> Any:
    from kubernetes_asyncio.config.exec_provider import ExecProvider  # noqa: PLC0415 - see the module's docstring
    from kubernetes_asyncio.config.kube_config import ConfigNode  # noqa: PLC0415

    command = plugin.command
    if "/" in command:  # as kubectl: relative to the kubeconfig, a bare word comes from PATH
        command = str(base / command)
    settings = {
        "command": command,
        "apiVersion": plugin.api_version,
        "args": plugin.args or [],
        "env": [{"name": variable.name, "value": variable.value} for variable in plugin.env or ()],
    }
    return ExecProvider(ConfigNode("exec", settings))


async def _oidc(provider: dict[str, Any]) -> Answer:
    name = provider.get("name")
    if name != "oidc":
        raise CredentialsError(
            f"kubeconfig: field user.auth-provider: {name!r} is unsupported; use its exec plug-in"
        )
    loader, configuration = await asyncio.to_thread(_loader, provider)
    try:
        async with asyncio.timeout(_PATIENCE):
            await loader.load_and_set(configuration)
    except Exception as error:  # noqa: BLE001 - as above
        raise CredentialsError(
            f"kubeconfig: field user.auth-provider: cannot get a token ({type(error).__name__}); log in again"
        ) from None
    token = str(configuration.api_key.get("BearerToken", "")).removeprefix("Bearer ")
    if not token:
        raise CredentialsError(
            "kubeconfig: field user.auth-provider: the provider has no id-token; log in again"
        )
    return Answer(token=token, expires=_token_expiry(token))


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
    """Return a JWT's `exp`, unverified: it only says when to ask for the next."""
    try:
        payload = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, msgspec.DecodeError):
        return None


def _unix(timestamp: str | None) -> float | None:
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else None
