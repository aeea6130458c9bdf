"""Decides who may read a status endpoint: the meta cluster reviews the token of a caller, and what the caller may.

Behaviour: the delegated authentication and authorization of kube-controller-manager and kube-scheduler (Kubernetes'
`apiserver/pkg/authentication/authenticatorfactory` and `authorization/authorizerfactory`), without anonymous users and
client certificates. Which users and tokens there are, OIDC's among them, is the meta cluster's business.
"""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from vcsync.api.rbac import STATUS_PATHS
from vcsync.kube.client import Client
from vcsync.kube.errors import ApiError, Forbidden, KubeError
from vcsync.kube.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from vcsync.process.legible import legible
from vcsync.streams.budget import ConnectionBudget
from vcsync.tenancy.rounds import Rounds

REMEMBERED_SECONDS: Final = 10.0
"""Seconds for which a decision is used again, as by default in kube-controller-manager."""
MAX_REMEMBERED: Final = 1000
"""Decisions that are remembered, each in less than a KiB."""
MAX_TOKEN: Final = 16 * 1024
"""Longest token in bytes. That of a ServiceAccount has about one KiB."""
MAX_NAME: Final = 256
"""Characters of a user's name in a refusal."""
MAX_REVIEWS: Final = 32
"""Callers about whom the meta cluster is asked at the same time. No address has more of them than remain free."""
UNKNOWN_AT_ONCE: Final = 20
"""Callers of one address about whom the meta cluster is asked without a pause..."""
UNKNOWN_PER_SECOND: Final = 5.0
"""...and in each second after that. Remembered ones do not count."""
REVIEW_SECONDS: Final = 5.0
"""Seconds that the meta cluster has for both answers."""
_log = structlog.get_logger(__name__)


class Decision(Struct, frozen=True):
    """The HTTP status of a decision: 200 if the caller may read; and what a refusal says."""

    code: int
    text: str = ""


ALLOWED: Final = Decision(200)
NOBODY: Final = Decision(
    401,
    "Unauthorized: send the header 'Authorization: Bearer TOKEN' with a token that the meta cluster accepts",
)
TOO_MANY: Final = Decision(429, "too many callers of this address are unknown: try again in a second")
NOT_INSTALLED: Final = Decision(
    503,
    "the meta cluster does not let this process create TokenReviews and SubjectAccessReviews, so that nobody can be let in: "
    "run 'vcsync install' again",
)
NO_ANSWER: Final = Decision(
    503,
    "the meta cluster does not answer who you are and what you may read, so that nobody can be let in: try again later",
)


class NoDecision(Exception):
    """The meta cluster sends something else than a review."""


class _User(Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(Struct):
    authenticated: bool = False
    user: _User | None = None


class _TokenReview(Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class Access:
    """Decides about callers.

    Args:
        meta: Client of the meta cluster.
        clock: Monotonic seconds.
    """

    def __init__(self, meta: Client, clock: Callable[[], float]) -> None:
        self._meta = meta
        self._clock = clock
        self._remembered: dict[tuple[bytes, str], tuple[Decision, float]] = {}
        self._reviews = ConnectionBudget(MAX_REVIEWS)
        self._rounds = Rounds(UNKNOWN_AT_ONCE, UNKNOWN_PER_SECOND)
        self._told = ""

    async def decide(self, authorization: str, path: str, source: str) -> Decision:
        """Return whether a caller may get a path. Without an answer of the meta cluster nobody may.

        Args:
            authorization: The header of that name; empty: there is none.
            path: The path, for which the caller needs the verb `get`.
            source: Address on which the caller counts.
        """
        token = bearer(authorization)
        if token is None:
            return NOBODY
        # Tokens are looked up by a digest, which tells nothing about other tokens by the time that it takes.
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock()
        key = digest, path
        decision, until = self._remembered.get(key, (NOBODY, 0.0))
        if now < until:
            return decision
        # Who could read before is not kept out by strangers at the same address.
        payer = digest.hex() if decision is ALLOWED else source
        if (payer == source and self._rounds.take(source, now) > 0) or not self._reviews.take(payer):
            return TOO_MANY
        try:
            decision = await self._ask(token, path)
        finally:
            self._reviews.give_back(payer)
        if decision.code != NO_ANSWER.code:
            self._remember(key, decision, now)
        return decision

    def _remember(self, key: tuple[bytes, str], decision: Decision, now: float) -> None:
        self._remembered.pop(key, None)
        while len(self._remembered) >= MAX_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]  # the oldest one
        self._remembered[key] = (decision, now + REMEMBERED_SECONDS)

    async def _ask(self, token: str, path: str) -> Decision:
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                user = await self._user_of(token)
                allowed = user is not None and await self._may_get(user, path)
        except Forbidden as error:
            self._tell(_cause(error))
            return NOT_INSTALLED
        except (KubeError, NoDecision, TimeoutError) as error:
            self._tell(_cause(error))
            return NO_ANSWER
        self._tell("")
        if user is None:
            return NOBODY
        return ALLOWED if allowed else _forbidden(user.username, path)

    async def _user_of(self, token: str) -> _User | None:
        """Return whose token it is; None: nobody's."""
        body = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "spec": {"token": token},
        }
        answer = await self._meta.create_raw(TOKEN_REVIEWS, body)
        try:
            status = msgspec.json.decode(answer, type=_TokenReview).status
        except msgspec.MsgspecError as error:
            raise NoDecision(str(error)) from error
        return status.user if status.authenticated and status.user and status.user.username else None

    async def _may_get(self, user: _User, path: str) -> bool:
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups or [],
            "extra": user.extra or {},
            "nonResourceAttributes": {"verb": "get", "path": path},
        }
        body = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": spec,
        }
        answer = await self._meta.create_raw(SUBJECT_ACCESS_REVIEWS, body)
        try:
            status = msgspec.json.decode(answer, type=_AccessReview).status
        except msgspec.MsgspecError as error:
            raise NoDecision(str(error)) from error
        return status.allowed and not status.denied

    def _tell(self, cause: str) -> None:
        """Log a cause when it begins, and not with each request."""
        if cause and cause != self._told:
            _log.warning("nobody can be let in to the status endpoint", error=cause)
        self._told = cause


def bearer(authorization: str) -> str | None:
    """Return the token of a header `Authorization`; None: it has none that could be valid."""
    scheme, _, token = authorization.partition(" ")
    token = token.strip(" ")
    if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
        return None
    return token if token.isascii() and token.isprintable() and " " not in token else None


def _forbidden(name: str, path: str) -> Decision:
    shown = legible(name[:MAX_NAME])
    return Decision(
        403,
        f'forbidden: User "{shown}" cannot get path "{path}": bind ClusterRole {STATUS_PATHS[path]} to it',
    )


def _cause(error: Exception) -> str:
    """Return why there is no decision, without a server's own words: they could repeat what it was sent."""
    if isinstance(error, ApiError):
        return f"the meta cluster answers {error.status.code}"
    if isinstance(error, KubeError):
        return str(error)
    return f"{type(error).__name__}: no review within {REVIEW_SECONDS:g} s"
