"""Signs and verifies ServiceAccount tokens. Pure.

Only ES256 with the key of a tenant is accepted, whatever the header of a token says.

Behaviour: kubernetes `pkg/serviceaccount/{jwt,claims,legacy}.go`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from vcsync.apiserver.authorization.policy import ACCOUNT_PREFIX

ALGORITHM = "ES256"
LEGACY_ISSUER = "kubernetes/serviceaccount"
"""Issuer of the tokens that kube-controller-manager writes into Secrets."""
LEEWAY = 60.0
"""Seconds by which clocks may differ."""
MAX_BYTES = 16 * 1024
MAX_TIME = 1e15
"""Largest accepted time in seconds since the epoch. The comparison also refuses infinity and NaN."""

_LEGACY = "kubernetes.io/serviceaccount/"


class TokenError(Exception):
    """The token is invalid. The message says why, in kube-apiserver's words where it has some."""


class UnknownTokenError(TokenError):
    """No authenticator of this server knows the token. It may be another server's."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that a token depends on."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a verified token.

    Attributes:
        audiences: Its audiences, or None for the token of a Secret, which is for this server.
        legacy: Whether it is the token of a Secret, which must contain this token.
        expires: Expiry in seconds since the epoch, or None if it does not expire.
    """

    namespace: str
    account: Reference
    audiences: tuple[str, ...] | None
    id: str = ""
    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None
    legacy: bool = False
    not_before: float = 0.0
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """The object that a new token is bound to: at most one of Secret, Pod (with its Node) and Node."""

    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None


def key_id(token: str) -> str:
    """Return the key id that an unverified token names.

    Raises:
        TokenError: The token is not a ServiceAccount token.
    """
    if len(token) > MAX_BYTES or not token.isascii():
        raise TokenError("the token is too large, or has characters that none has")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, RecursionError) as error:
        raise TokenError("it is no JSON web token") from error
    identifier = header.get("kid")
    if header.get("alg") != ALGORITHM or not isinstance(identifier, str):
        raise TokenError("it is not signed as ServiceAccount tokens are")
    return identifier


def verified(token: str, key: ec.EllipticCurvePublicKey, issuer: str) -> Claims:
    """Verify the signature and issuer of a token, and return its claims. `check_time` checks when it is valid.

    Raises:
        TokenError: The signature, issuer or claims are invalid.
    """
    try:
        claims = jwt.decode(
            token,
            key,
            algorithms=[ALGORITHM],
            options={
                "verify_aud": False,
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "verify_sub": False,
                "verify_jti": False,
            },
        )
    except (jwt.PyJWTError, RecursionError) as error:
        raise TokenError("the signature is wrong") from error
    if claims.get("iss") not in (LEGACY_ISSUER, issuer):
        raise TokenError("the token is from another issuer")
    return account_claims(claims)


def account_claims(claims: Mapping[str, Any]) -> Claims:
    """Return the claims of a ServiceAccount token whose signature is valid.

    Raises:
        TokenError: It is not a ServiceAccount token.
    """
    return _legacy(claims) if claims.get("iss") == LEGACY_ISSUER else _claims(claims)


def _claims(claims: Mapping[str, Any]) -> Claims:
    private = claims.get("kubernetes.io")
    if not isinstance(private, dict):
        raise TokenError("the token has no kubernetes.io claims")
    account = _reference(private.get("serviceaccount"))
    namespace = private.get("namespace")
    if account is None or not isinstance(namespace, str) or not namespace:
        raise TokenError("the token names no ServiceAccount")
    _check_subject(claims, namespace, account.name)
    audiences = claims.get("aud")
    listed = [audiences] if isinstance(audiences, str) else audiences
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise TokenError("the token has no audience")
    expires = number(claims, "exp")
    if expires is None:
        raise TokenError("the token has no end")
    identifier = claims.get("jti")
    return Claims(
        namespace,
        account,
        tuple(listed),
        identifier if isinstance(identifier, str) else "",
        _reference(private.get("pod")),
        _reference(private.get("secret")),
        _reference(private.get("node")),
        not_before=max(number(claims, "nbf") or 0.0, number(claims, "iat") or 0.0),
        expires=expires,
    )


def _legacy(claims: Mapping[str, Any]) -> Claims:
    namespace, name, uid, secret = (
        claims.get(f"{_LEGACY}{key}")
        for key in ("namespace", "service-account.name", "service-account.uid", "secret.name")
    )
    texts = [each for each in (namespace, name, uid, secret) if isinstance(each, str) and each]
    if len(texts) < 4:
        raise TokenError("the token names no ServiceAccount")
    namespace, name, uid, secret = texts
    _check_subject(claims, namespace, name)
    return Claims(
        namespace,
        Reference(name, uid),
        None,
        secret=Reference(secret, ""),
        legacy=True,
        expires=number(claims, "exp"),
    )


def _check_subject(claims: Mapping[str, Any], namespace: str, name: str) -> None:
    if claims.get("sub") != f"{ACCOUNT_PREFIX}{namespace}:{name}":
        raise TokenError("the token's subject is not its ServiceAccount")


def _reference(value: Any) -> Reference | None:
    if not isinstance(value, dict):
        return None
    name, uid = value.get("name"), value.get("uid")
    if not isinstance(name, str) or not name:
        raise TokenError("the token refers to an object without a name")
    return Reference(name, uid if isinstance(uid, str) else "")


def number(claims: Mapping[str, Any], key: str) -> float | None:
    """Return a claim that is a time in seconds since the epoch, or None if the claim is missing.

    Raises:
        TokenError: The claim is not a time.
    """
    value = claims.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_TIME:
        raise TokenError(f"the token's {key} is no time")
    return float(value)


def check_time(claims: Claims, now: float) -> None:
    """Return if a token is valid at `now`, in seconds since the epoch.

    Raises:
        TokenError: It is not valid yet, or has expired.
    """
    if claims.expires is not None and now > claims.expires + LEEWAY:
        raise TokenError("service account token has expired")
    if now < claims.not_before - LEEWAY:
        raise TokenError("service account token is not valid yet")


def check_audience(claims: Claims, wanted: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """Return the audiences of a token that are wanted.

    Args:
        claims: Claims of the token.
        wanted: Audiences of which the token must have one.
        own: Audiences of this server.

    Raises:
        TokenError: The token has none of them.
    """
    held = claims.audiences if claims.audiences is not None else tuple(own)
    common = tuple(each for each in wanted if each in held)
    if not common:
        said, asked = ("[" + " ".join(f'"{each}"' for each in values) + "]" for values in (held, wanted))
        raise TokenError(f"token audiences {said} is invalid for the target audiences {asked}")
    return common


def signed(  # noqa: PLR0917  one token
    key: ec.EllipticCurvePrivateKey,
    identifier: str,
    issuer: str,
    namespace: str,
    account: Reference,
    bound: Bound,
    audiences: Sequence[str],
    token_id: str,
    now: int,
    seconds: int,
    *,
    warn_after: int = 0,
) -> str:
    """Return a new token that is valid from `now`, in seconds since the epoch, for `seconds`.

    `warn_after` is the number of seconds after which the holder should have fetched another one. 0: none.
    """
    private: dict[str, Any] = {"namespace": namespace}
    for title, reference in (("node", bound.node), ("pod", bound.pod), ("secret", bound.secret)):
        if reference:
            private[title] = _written(reference)
    private["serviceaccount"] = _written(account)
    if warn_after:
        private["warnafter"] = now + warn_after
    claims = {
        "aud": list(audiences),
        "exp": now + seconds,
        "iat": now,
        "iss": issuer,
        "jti": token_id,
        "kubernetes.io": private,
        "nbf": now,
        "sub": f"{ACCOUNT_PREFIX}{namespace}:{account.name}",
    }
    return jwt.encode(claims, key, algorithm=ALGORITHM, headers={"kid": identifier, "typ": None})


def signed_for_secret(
    key: ec.EllipticCurvePrivateKey, identifier: str, namespace: str, account: Reference, secret: str
) -> str:
    """Return the token of a Secret for a ServiceAccount. It is valid as long as the Secret exists."""
    claims = {
        "iss": LEGACY_ISSUER,
        "sub": f"{ACCOUNT_PREFIX}{namespace}:{account.name}",
        f"{_LEGACY}namespace": namespace,
        f"{_LEGACY}secret.name": secret,
        f"{_LEGACY}service-account.name": account.name,
        f"{_LEGACY}service-account.uid": account.uid,
    }
    return jwt.encode(claims, key, algorithm=ALGORITHM, headers={"kid": identifier, "typ": None})


def _written(reference: Reference) -> dict[str, str]:
    return {"name": reference.name, **({"uid": reference.uid} if reference.uid else {})}
