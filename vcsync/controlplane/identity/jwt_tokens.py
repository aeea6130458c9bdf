"""Callers by JSON web tokens of the issuers that the operator has configured (OpenID Connect)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import structlog

from vcsync.controlplane.identity import jwt_config, tokens
from vcsync.controlplane.identity.jwt_config import Authenticator
from vcsync.controlplane.identity.jwt_keys import Fetch, IssuerKeys, fetch
from vcsync.controlplane.identity.jwt_mapping import identified
from vcsync.controlplane.identity.outside import Identified
from vcsync.controlplane.identity.tokens import TokenError
from vcsync.controlplane.identity.watched_file import WatchedFile

LEEWAY = 0.0
"""Seconds after its end for which a token counts: none, as kube-apiserver's."""
EARLY = 300.0
"""Seconds before its beginning from which on a token counts: clocks differ (as go-oidc)."""

_log = structlog.get_logger(__name__)


class IssuedTokens:
    """Knows callers by the tokens of issuers; follows its file."""

    def __init__(
        self, path: Path, exists: Callable[[str], bool], clock: Callable[[], float], fetch: Fetch = fetch
    ) -> None:
        """Read the file.

        Args:
            path: of the configuration.
            exists: tells whether there is a tenant.
            clock: the time, seconds since the epoch.
            fetch: reads documents of issuers.

        Raises:
            ConfigError: it cannot be used.
            OSError: it cannot be read.
        """
        self._exists = exists
        self._clock = clock
        self._fetch = fetch
        self._file: WatchedFile[list[Authenticator]] = WatchedFile(path, _read, clock, None)
        self._issuers: dict[str, tuple[Authenticator, IssuerKeys]] = {}
        self._take()

    def _take(self) -> None:
        """Know the issuers that the file names; those that stay as they were keep their keys."""
        before, self._issuers = self._issuers, {}
        for each in self._file.content:
            known = before.get(each.issuer.url)
            keys = known[1] if known and known[0].issuer == each.issuer else None
            self._issuers[each.issuer.url] = (
                each,
                keys or IssuerKeys(each.issuer, self._clock, self._fetch),
            )

    async def identify(self, token: str) -> Identified | None:
        """Return whom a token identifies; None: it is of no issuer known here.

        Raises:
            TokenError: it is, but identifies nobody.
        """
        if self._file.refresh():
            _log.info("authentication configuration is read again", file=str(self._file.path))
            self._take()
        found = self._issuers.get(unverified_issuer(token))
        if found is None:
            return None
        authenticator, keys = found
        claims = await keys.verified(token)
        _check(authenticator, claims, self._clock())
        return identified(authenticator, claims, self._exists)


def _read(path: Path) -> list[Authenticator]:
    with path.open("rb") as file:
        return jwt_config.parse(file.read(jwt_config.MAX_BYTES + 1))


def unverified_issuer(token: str) -> str:
    """Return who a token says has issued it; empty: nobody."""
    if len(token) > tokens.MAX_BYTES or token.count(".") != 2:
        return ""
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, RecursionError, ValueError):
        return ""
    issuer = claims.get("iss")
    return issuer if isinstance(issuer, str) else ""


def _check(authenticator: Authenticator, claims: dict[str, Any], now: float) -> None:
    """Make sure that a token of an issuer is meant for this server, and counts now.

    Raises:
        TokenError: it is not, or does not.
    """
    if claims.get("iss") != authenticator.issuer.url:
        raise TokenError("the token is from another issuer")
    audiences = claims.get("aud")
    listed = [audiences] if isinstance(audiences, str) else audiences
    if not isinstance(listed, list) or not any(each in authenticator.issuer.audiences for each in listed):
        raise TokenError("the token is meant for others")
    expires, begins = tokens.number(claims, "exp"), tokens.number(claims, "nbf")
    if expires is None or now > expires + LEEWAY:
        raise TokenError("the token has expired")
    if begins is not None and now < begins - EARLY:
        raise TokenError("the token is not valid yet")
