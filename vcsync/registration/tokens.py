"""Long-lived tokens of ServiceAccounts, for roles that run outside the cluster they use."""

import asyncio
import base64
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_fixed

from vcsync.kube.client import Client
from vcsync.kube.errors import ApiError
from vcsync.kube.resources import SECRETS, SERVICE_ACCOUNTS
from vcsync.objects.envelope import untyped
from vcsync.registration.manifests import apply

POLL_SECONDS = 0.25
FILL_SECONDS = 15.0
"""Seconds that a controller may take to put tokens into Secrets."""
QUIET_SECONDS = 1.0
"""Seconds after which the command says what it waits for."""
Note = Callable[[str], None]
"""Takes a message for people."""

REQUESTED_LIFETIME = timedelta(days=365)
"""Lifetime of a token where Secrets are not filled (a cluster without that controller)."""


class _Token(msgspec.Struct):
    token: str
    expirationTimestamp: str  # noqa: N815


class _TokenRequest(msgspec.Struct):
    status: _Token


def token_secret(account: str) -> str:
    """Return the name of the Secret with the token of a ServiceAccount."""
    return f"{account}-token"


async def tokens_of(
    client: Client, accounts: Sequence[str], namespace: str, *, again: str, note: Note
) -> dict[str, str]:
    """Return long-lived tokens of ServiceAccounts, from Secrets that the cluster fills.

    Without a controller that fills them (no kube-controller-manager), tokens for a year are requested instead, and
    their end is noted. If this takes a while, the reason is noted as well.

    Args:
        client: client of the cluster.
        accounts: names of the ServiceAccounts.
        namespace: their namespace.
        again: the command for new tokens before these expire, for people.
        note: takes messages about what it waits for, and about tokens that expire.

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
            note(
                f"waiting at most {FILL_SECONDS:.0f} s for {client.name} to fill {left} token "
                f"Secret{'s' if left > 1 else ''}"
            )
        if not left or waited >= FILL_SECONDS:
            break
        await asyncio.sleep(POLL_SECONDS)
    requested = {
        account: await _requested(client, account, namespace) for account in accounts if account not in found
    }
    if requested:
        end = min(token.expirationTimestamp for token in requested.values())
        note(
            f"note: {client.name} fills no token Secrets: has it a kube-controller-manager, without which ServiceAccounts, "
            f"quotas and workloads do not work there either? The tokens requested instead end {end}; "
            f"run '{again}' before"
        )
    return found | {account: token.token for account, token in requested.items()}


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


async def _requested(client: Client, account: str, namespace: str) -> _Token:
    """Request a token with an expiration (Kubernetes API, TokenRequest)."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": int(REQUESTED_LIFETIME.total_seconds())},
    }
    answer = await client.create_raw(SERVICE_ACCOUNTS, body, namespace, name=account, subresource="token")
    return msgspec.json.decode(answer, type=_TokenRequest).status


async def wait_until_usable(client: Client, path: str, seconds: float = 10.0) -> None:
    """Wait until new credentials are accepted: API servers learn of new tokens and bindings with a delay.

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
