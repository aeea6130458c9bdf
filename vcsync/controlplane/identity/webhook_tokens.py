"""Callers by the operator's authentication webhook: it is sent a TokenReview and says who, and of which tenant.

Behaviour: apiserver `plugin/pkg/authenticator/token/webhook`. Its kubeconfig names exactly the URL that is called.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from vcsync.controlplane.behaviour import User
from vcsync.controlplane.identity import outside, tokens
from vcsync.controlplane.identity.calls import CallError, call
from vcsync.controlplane.identity.outside import Identified
from vcsync.controlplane.identity.remembered import Remembered
from vcsync.controlplane.identity.tokens import TokenError
from vcsync.kube.connection import Connection
from vcsync.kube.errors import CredentialsError

TENANT_EXTRA = "tenancy.x-k8s.io/tenant"
"""The key of a user's extra in which the webhook names the tenant, unless configured."""
CACHE_SECONDS = 120.0
MAX_CALLS = 32
"""How many reviews are asked for at a time; who comes then waits, and `MAX_WAITING` do at most."""
MAX_WAITING = 256
MAX_REMEMBERED = 4096

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
    """What the webhook said of a token, and when. `found`: None: it identifies nobody."""

    found: Identified | None
    at: float


def sender(path: Path) -> Send:
    """Return what sends a review to the URL of a kubeconfig, with its credentials.

    Raises:
        CredentialsError: the kubeconfig cannot be used.
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
    """Knows callers by asking a webhook; its answers count for a while."""

    def __init__(
        self,
        send: Send,
        exists: Callable[[str], bool],
        clock: Callable[[], float],
        *,
        tenant_extra: str = TENANT_EXTRA,
        cache_seconds: float = CACHE_SECONDS,
    ) -> None:
        """Take what asks the webhook, what tells whether there is a tenant, the time, and where it names the tenant."""
        self._send = send
        self._exists = exists
        self._clock = clock
        self._tenant_extra = tenant_extra
        self._cache_seconds = cache_seconds
        self._answers: Remembered[bytes, _Answer] = Remembered(MAX_REMEMBERED)
        self._room = asyncio.Semaphore(MAX_CALLS)
        self._waiting = 0

    async def identify(self, token: str) -> Identified | None:
        """Return whom a token identifies; None: nobody.

        Raises:
            TokenError: the webhook says something that does not count, or does not answer.
        """
        if len(token) > tokens.MAX_BYTES:
            return None
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        known = self._answers.get(digest)
        if known is None or not 0 <= self._clock() - known.at < self._cache_seconds:
            known = _Answer(await self._ask(token), self._clock())
            self._answers.put(digest, known)
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
