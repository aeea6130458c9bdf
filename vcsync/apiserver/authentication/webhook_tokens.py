"""Authenticates tokens by the operator's authentication webhook, which answers a TokenReview with the user and its tenant.

The server of the webhook's kubeconfig is exactly the URL that is called.

Behaviour: apiserver `plugin/pkg/authenticator/token/webhook`.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authentication import provider_claims as outside
from vcsync.apiserver.authentication import tokens
from vcsync.apiserver.authentication.provider_calls import CallError, call
from vcsync.apiserver.authentication.provider_claims import Identified
from vcsync.apiserver.authentication.remembered import MAX_REMEMBERED, answer_bytes
from vcsync.apiserver.authentication.tokens import TokenError
from vcsync.kube.connection import Connection
from vcsync.kube.errors import CredentialsError
from vcsync.objects.recently_used import RecentlyUsed

TENANT_EXTRA = "tenancy.x-k8s.io/tenant"
"""Default key of a user's extra in which the webhook names the tenant."""
CACHE_SECONDS = 120.0
MAX_CALLS = 32
"""Concurrent calls of the webhook. Up to `MAX_WAITING` further requests wait."""
MAX_WAITING = 256

Send = Callable[[bytes], Awaitable[bytes]]
_log = structlog.get_logger(__name__)


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: list[str] | None = None
    error: str = ""


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A cached response. `found` is None if the token is invalid."""

    found: Identified | None
    at: float


def sender(path: Path) -> Send:
    """Return a function that sends a review to the URL of a kubeconfig with its credentials.

    Raises:
        CredentialsError: The kubeconfig cannot be used.
    """
    connection = Connection.load(str(path))

    async def send(body: bytes) -> bytes:
        try:
            credentials = await connection.credentials()
        except CredentialsError as error:
            raise CallError(str(error)) from error
        headers = {"Content-Type": "application/json", "Accept": "application/json", **credentials.headers}
        return await call("POST", credentials.url, credentials.tls, headers=headers, body=body)

    return send


class ReviewedTokens:
    """Authenticates tokens by a webhook, whose responses are cached."""

    def __init__(
        self,
        send: Send,
        exists: Callable[[str], bool],
        clock: Callable[[], float],
        *,
        tenant_extra: str = TENANT_EXTRA,
        cache_seconds: float = CACHE_SECONDS,
    ) -> None:
        """Create an authenticator.

        Args:
            send: Calls the webhook.
            exists: Tells whether a tenant exists.
            clock: Returns seconds.
            tenant_extra: Key of the extra that names the tenant.
            cache_seconds: Time for which responses are cached.
        """
        self._send = send
        self._exists = exists
        self._clock = clock
        self._tenant_extra = tenant_extra
        self._cache_seconds = cache_seconds
        self._answers: RecentlyUsed[bytes, _Answer] = RecentlyUsed(MAX_REMEMBERED)
        self._room = asyncio.Semaphore(MAX_CALLS)
        self._waiting = 0

    async def identify(self, token: str) -> Identified | None:
        """Return the user of a token, or None if the webhook does not accept it.

        Raises:
            TokenError: The webhook does not answer, or asserts an invalid user.
        """
        if len(token) > tokens.MAX_BYTES:
            return None
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        known = self._answers.get(digest)
        if known is None or not 0 <= self._clock() - known.at < self._cache_seconds:
            known = _Answer(await self._ask(token), self._clock())
            self._answers.put(digest, known, answer_bytes(known.found))
        if known.found and not self._exists(known.found.tenant):
            raise TokenError("the tenant of the token is gone")
        return known.found

    async def _ask(self, token: str) -> Identified | None:
        if self._waiting >= MAX_WAITING:
            raise TokenError("too many tokens wait for the authentication webhook")
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        self._waiting += 1
        try:
            async with self._room:
                answer = await self._send(msgspec.json.encode(review))
            status = msgspec.json.decode(answer, type=_Review).status
        except (CallError, msgspec.MsgspecError, UnicodeEncodeError) as error:
            _log.warning("authentication webhook failed", error=str(error))
            raise TokenError("the authentication webhook does not answer") from error
        finally:
            self._waiting -= 1
        if not status.authenticated:
            return None
        extra = {key: tuple(values) for key, values in (status.user.extra or {}).items()}
        tenants = extra.pop(self._tenant_extra, ())
        tenant = outside.of_tenant(
            tenants[0] if len(tenants) == 1 else None, claimed=True, exists=self._exists
        )
        user = User(status.user.username, status.user.uid, tuple(status.user.groups or ()), extra)
        return Identified(outside.checked(user), tenant, tuple(status.audiences or ()) or None)
