"""Authenticates JSON web tokens of the issuers that the operator has configured (OpenID Connect)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import structlog

from vcsync.apiserver.authentication import jwt_config, tokens
from vcsync.apiserver.authentication.jwt_config import Authenticator
from vcsync.apiserver.authentication.jwt_keys import Fetch, IssuerKeys, fetch
from vcsync.apiserver.authentication.jwt_mapping import identified
from vcsync.apiserver.authentication.provider_claims import Identified
from vcsync.apiserver.authentication.tokens import TokenError
from vcsync.apiserver.authentication.watched_file import WatchedFile

LEEWAY = 0.0
"""Seconds for which a token is accepted after it has expired: none, as in kube-apiserver."""
EARLY = 300.0
"""Seconds by which a token may be accepted before its `nbf`, because clocks differ (as in go-oidc)."""

_log = structlog.get_logger(__name__)


class IssuedTokens:
    """Authenticates tokens of configured issuers. Follows changes of the configuration file."""

    def __init__(
        self, path: Path, exists: Callable[[str], bool], clock: Callable[[], float], fetch: Fetch = fetch
    ) -> None:
        """Read the configuration file.

        Args:
            path: The file.
            exists: Tells whether a tenant exists.
            clock: Returns seconds since the epoch.
            fetch: Reads documents of issuers.

        Raises:
            ConfigError: The file is invalid.
            OSError: The file cannot be read.
        """
        self._exists = exists
        self._clock = clock
        self._fetch = fetch
        self._file: WatchedFile[list[Authenticator]] = WatchedFile(path, _read, clock, None)
        self._issuers: dict[str, tuple[Authenticator, IssuerKeys]] = {}
        self._take()

    def _take(self) -> None:
        """Apply the configuration. Issuers that did not change keep their cached keys."""
        before, self._issuers = self._issuers, {}
        for each in self._file.content:
            known = before.get(each.issuer.url)
            keys = known[1] if known and known[0].issuer == each.issuer else None
            self._issuers[each.issuer.url] = (
                each,
                keys or IssuerKeys(each.issuer, self._clock, self._fetch),
            )

    async def identify(self, token: str) -> Identified | None:
        """Return the user of a token, or None if its issuer is not configured.

        Raises:
            TokenError: The token is invalid.
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
    """Return the issuer that an unverified token names, or an empty text."""
    if len(token) > tokens.MAX_BYTES or token.count(".") != 2:
        return ""
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, RecursionError, ValueError):
        return ""
    issuer = claims.get("iss")
    return issuer if isinstance(issuer, str) else ""


def _check(authenticator: Authenticator, claims: dict[str, Any], now: float) -> None:
    """Return if a token has an accepted audience and is valid now.

    Raises:
        TokenError: It is not.
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
