"""The keys of one issuer of JSON web tokens, found by OpenID discovery and read again when a token names an unknown key.

Keys are read when a token of the issuer arrives, never at the start. If the issuer does not answer, cached keys stay valid.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jwt
import msgspec
import structlog
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from vcsync.apiserver.authentication.jwt_config import Issuer
from vcsync.apiserver.authentication.provider_calls import CallError, call
from vcsync.apiserver.authentication.tokens import TokenError

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
"""Accepted signature algorithms, as in kube-apiserver: neither shared secrets nor `none`."""
RETRY_SECONDS = 10.0
"""Minimum time between two reads of an issuer's keys, whatever tokens arrive."""
KEPT_SECONDS = 600.0
"""Time after which keys are read again, so that keys that the issuer has withdrawn become invalid."""
MAX_KEYS = 64
MIN_RSA_BITS = 2048
_OF_CURVE = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
_OF_RSA = tuple(each for each in ALGORITHMS if each.startswith(("RS", "PS")))
_ONLY_SIGNATURE: Any = {
    "verify_aud": False,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}

Fetch = Callable[[str, ssl.SSLContext | None], Awaitable[bytes]]
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Key:
    """A public key.

    Attributes:
        id: Key id, or nothing.
        algorithms: Accepted signature algorithms.
    """

    id: str
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey
    algorithms: tuple[str, ...]


class _Discovery(msgspec.Struct):
    issuer: str
    jwks_uri: str


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


async def fetch(url: str, tls: ssl.SSLContext | None) -> bytes:
    """Read a document of an issuer.

    Raises:
        CallError: The document cannot be read.
    """
    return await call("GET", url, tls, headers={"Accept": "application/json"})


def parse_keys(document: bytes) -> list[Key]:
    """Parse a JSON Web Key Set. Unusable keys are left out.

    Raises:
        CallError: The document is not a key set.
    """
    try:
        entries = msgspec.json.decode(document, type=_KeySet).keys
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise CallError("the issuer's key set cannot be read") from error
    found = []
    for entry in entries[:MAX_KEYS]:
        try:
            key = jwt.PyJWK(entry).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        algorithms = _algorithms(key)
        said = entry.get("alg")
        usable = tuple(each for each in algorithms if said in (None, each))
        if usable and entry.get("use") in (None, "sig"):
            found.append(Key(str(entry.get("kid") or ""), key, usable))
    return found


def _algorithms(key: Any) -> tuple[str, ...]:
    if isinstance(key, rsa.RSAPublicKey):
        return _OF_RSA if key.key_size >= MIN_RSA_BITS else ()
    if isinstance(key, ec.EllipticCurvePublicKey):
        return _OF_CURVE.get(key.curve.name, ())
    return ()


def signed_claims(token: str, keys: Sequence[Key]) -> dict[str, Any] | None:
    """Return the claims of a token if one of the keys has signed it, or None. Only the signature is checked.

    Raises:
        TokenError: It is no JSON web token, or is signed by an algorithm that is not accepted.
    """
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, RecursionError) as error:
        raise TokenError("it is no JSON web token") from error
    algorithm, identifier = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise TokenError("the token is signed in a way that does not count")
    for key in keys:
        if identifier not in (None, "", key.id) or algorithm not in key.algorithms:
            continue
        try:
            return jwt.decode(token, key.key, algorithms=[algorithm], options=_ONLY_SIGNATURE)
        except (jwt.PyJWTError, RecursionError, ValueError):
            continue
    return None


class IssuerKeys:
    """The cached keys of one issuer.

    Args:
        issuer: The issuer.
        clock: Returns seconds.
        fetch: Reads documents.
    """

    def __init__(self, issuer: Issuer, clock: Callable[[], float], fetch: Fetch = fetch) -> None:
        self._issuer = issuer
        self._clock = clock
        self._fetch = fetch
        self._tls: ssl.SSLContext | None = None
        if issuer.certificate_authority:
            self._tls = ssl.create_default_context(cadata=issuer.certificate_authority)
        self._keys: Sequence[Key] = ()
        self._read = self._asked = float("-inf")
        self._reading = asyncio.Lock()

    async def verified(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that is signed with one of the keys. Only the signature is checked.

        Raises:
            TokenError: The signature is invalid, or the keys cannot be read.
        """
        if self._clock() - self._read >= KEPT_SECONDS and not (self._keys and self._reading.locked()):
            await self._refresh(self._read)
        read = self._read
        claims = signed_claims(token, self._keys)
        if claims is None:
            await self._refresh(read)
            claims = signed_claims(token, self._keys) if self._read != read else None
        if claims is None:
            raise TokenError("no key of the issuer has signed the token")
        return claims

    async def _refresh(self, seen: float) -> None:
        """Read the keys unless that was done after `seen` or attempted within `RETRY_SECONDS`."""
        async with self._reading:
            now = self._clock()
            if self._read != seen or 0 <= now - self._asked < RETRY_SECONDS:
                return
            self._asked = now
            try:
                self._keys = await self._discover()
            except CallError as error:
                _log.warning("keys of an issuer cannot be read", issuer=self._issuer.url, error=str(error))
                return
            finally:
                self._asked = self._clock()  # so that requests that waited for this read do not start another
            self._read = now

    async def _discover(self) -> list[Key]:
        url = self._issuer.discovery_url or f"{self._issuer.url.rstrip('/')}/.well-known/openid-configuration"
        document = await self._fetch(url, self._tls)
        try:
            found = msgspec.json.decode(document, type=_Discovery)
        except msgspec.MsgspecError as error:
            raise CallError(f"{url} is no discovery document: {error}") from error
        if found.issuer != self._issuer.url:
            raise CallError(f"{url} is of the issuer {found.issuer!r}")
        if not found.jwks_uri.startswith("https://"):
            raise CallError(f"{url} names keys that are not served by TLS")
        return parse_keys(await self._fetch(found.jwks_uri, self._tls))
