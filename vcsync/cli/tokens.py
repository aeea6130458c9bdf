"""Long-lived tokens of ServiceAccounts, for roles that run outside of the cluster they talk to."""

import asyncio
import base64
import time
from datetime import timedelta

import click
import msgspec
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_fixed

from vcsync.cli.manifests import apply
from vcsync.kube.client import Client
from vcsync.kube.envelope import untyped
from vcsync.kube.errors import ApiError
from vcsync.kube.resources import SECRETS, SERVICE_ACCOUNTS

POLL_SECONDS = 0.25
FILL_SECONDS = 15.0
"""How long a controller may take to put a token into a Secret."""
REQUESTED_LIFETIME = timedelta(days=365)
"""Life of a token where Secrets are not filled (a cluster without that controller)."""


class _Token(msgspec.Struct):
    token: str
    expirationTimestamp: str  # noqa: N815


class _TokenRequest(msgspec.Struct):
    status: _Token


def token_secret(account: str) -> str:
    """Name the Secret with the token of a ServiceAccount."""
    return f"{account}-token"


async def token_of(client: Client, account: str, namespace: str) -> str:
    """Return a token of a ServiceAccount that lasts, from a Secret that the cluster fills.

    Where nothing fills it (no kube-controller-manager), a token for a year is requested instead, and its
    end is shown on stderr.

    Raises:
        KubeError: The cluster refused it.
    """
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": token_secret(account),
            "namespace": namespace,
            "annotations": {"kubernetes.io/service-account.name": account},
        },
        "type": "kubernetes.io/service-account-token",
    }
    await apply(client, [secret])
    deadline = time.monotonic() + FILL_SECONDS
    while time.monotonic() < deadline:
        envelope = await client.get(SECRETS, token_secret(account), namespace)
        token = (untyped(envelope.rest).get("data") or {}).get("token") if envelope.rest else None
        if token:
            return base64.b64decode(token).decode()
        await asyncio.sleep(POLL_SECONDS)
    return await _requested(client, account, namespace)


async def _requested(client: Client, account: str, namespace: str) -> str:
    """Ask for a token with an end (Kubernetes API, TokenRequest)."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(REQUESTED_LIFETIME.total_seconds())},
    }
    answer = await client.create_raw(SERVICE_ACCOUNTS, body, namespace, name=account, subresource="token")
    token = msgspec.json.decode(answer, type=_TokenRequest).status
    click.echo(
        f"note: {client.name} fills no token Secrets; the token of {namespace}/{account} ends "
        f"{token.expirationTimestamp}, run this command again before then",
        err=True,
    )
    return token.token


async def wait_until_usable(client: Client, path: str, seconds: float = 10.0) -> None:
    """Wait until fresh credentials are accepted: API servers learn of new tokens and bindings a moment later.

    Args:
        client: A client with the new credentials.
        path: A path that the credentials must be able to read.
        seconds: How long to try.

    Raises:
        KubeError: They are still refused.
    """
    refused = retry_if_exception(
        lambda error: isinstance(error, ApiError) and error.status.code in (401, 403)
    )
    until_accepted = AsyncRetrying(
        retry=refused, stop=stop_after_delay(seconds), wait=wait_fixed(POLL_SECONDS), reraise=True
    )
    await until_accepted(client.request, "GET", path, params={"limit": "1"})
