"""Long-lived tokens of ServiceAccounts, for roles that run outside of the cluster they talk to."""

import asyncio
import base64
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

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
"""How long a controller may take to put tokens into Secrets."""
QUIET_SECONDS = 1.0
"""After which it is said what is waited for."""
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
    """Return a token of one ServiceAccount; see `tokens_of`.

    Raises:
        KubeError: The cluster refused it.
    """
    return (await tokens_of(client, [account], namespace))[account]


async def tokens_of(client: Client, accounts: Sequence[str], namespace: str) -> dict[str, str]:
    """Return tokens of ServiceAccounts that last, from Secrets that the cluster fills.

    Where nothing fills them (no kube-controller-manager), tokens for a year are requested instead, and their
    ends are shown on stderr. So is what is waited for, if it takes more than a moment.

    Raises:
        KubeError: The cluster refused it.
    """
    await apply(client, [_secret(account, namespace) for account in accounts])
    found: dict[str, str] = {}
    begun = time.monotonic()
    told = False
    while True:
        for account in accounts:
            if account not in found and (token := await _filled(client, account, namespace)) is not None:
                found[account] = token
        left = len(accounts) - len(found)
        waited = time.monotonic() - begun
        if left and waited >= QUIET_SECONDS and not told:
            told = True
            click.echo(
                f"waiting at most {FILL_SECONDS:.0f} s for {client.name} to fill {left} token "
                f"Secret{'s' if left > 1 else ''}",
                err=True,
            )
        if not left or waited >= FILL_SECONDS:
            break
        await asyncio.sleep(POLL_SECONDS)
    for account in accounts:
        if account not in found:
            found[account] = await _requested(client, account, namespace)
    return found


def _secret(account: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": token_secret(account),
            "namespace": namespace,
            "annotations": {"kubernetes.io/service-account.name": account},
        },
        "type": "kubernetes.io/service-account-token",
    }


async def _filled(client: Client, account: str, namespace: str) -> str | None:
    envelope = await client.get(SECRETS, token_secret(account), namespace)
    token = (untyped(envelope.rest).get("data") or {}).get("token") if envelope.rest else None
    return base64.b64decode(token).decode() if token else None


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
