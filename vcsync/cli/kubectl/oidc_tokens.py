"""The tokens of a login: checks of an ID token, and the ExecCredential that kubectl reads. Pure.

Behaviour: OpenID Connect Core 1.0, section 3.1.3.7; Kubernetes, client.authentication.k8s.io/v1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import msgspec

from vcsync.objects.times import unix_time_text

EXEC_GROUP = "client.authentication.k8s.io"
EXEC_VERSIONS = (f"{EXEC_GROUP}/v1", f"{EXEC_GROUP}/v1beta1")
EARLY_SECONDS = 30.0
"""An ID token counts as expired this long before it expires, so that it lasts for the request that it is fetched for."""


class LoginError(Exception):
    """The login failed. The message says why, and what helps. It contains no token."""


@dataclass(frozen=True)
class Client:
    """A client at a provider.

    Attributes:
        issuer: URL of the provider.
        client_id: Id of the client there.
        scopes: Scopes besides `openid`.
        secret: Secret of the client; empty: it is a public client.
        authority: File with the CA of the provider; None: the CAs of this machine.
    """

    issuer: str
    client_id: str
    scopes: tuple[str, ...] = ()
    secret: str = ""
    authority: Path | None = None

    def __repr__(self) -> str:
        """Return the text without the secret."""
        return f"Client({self.issuer!r}, {self.client_id!r})"


class Tokens(msgspec.Struct, frozen=True):
    """The tokens of one login.

    Attributes:
        id_token: ID token, which the API server authenticates.
        expires: When the ID token expires, in seconds since 1970.
        refresh_token: Token that gets the next ID token without the user; empty: none.
    """

    id_token: str
    expires: float
    refresh_token: str = ""

    def __repr__(self) -> str:
        """Return the text without the tokens."""
        return f"Tokens(expires={self.expires})"

    def last(self, now: float) -> bool:
        """Return whether the ID token is still valid at a time, in seconds since 1970."""
        return now < self.expires - EARLY_SECONDS


class _Spec(msgspec.Struct):
    interactive: bool = False


class _ExecInfo(msgspec.Struct, rename="camel"):
    api_version: str
    spec: _Spec = msgspec.field(default_factory=_Spec)


def exec_info(text: str) -> tuple[str, bool]:
    """Parse the environment variable KUBERNETES_EXEC_INFO.

    Returns:
        (API version of the answer, whether the user can be asked).

    Raises:
        LoginError: The text is no ExecCredential of a known version.
    """
    try:
        found = msgspec.json.decode(text, type=_ExecInfo)
    except msgspec.MsgspecError as error:
        raise LoginError(f"KUBERNETES_EXEC_INFO: {error}") from error
    if found.api_version not in EXEC_VERSIONS:
        raise LoginError(
            f"KUBERNETES_EXEC_INFO: {found.api_version!r} is not known; set the kubeconfig's exec.apiVersion to "
            f"{EXEC_VERSIONS[0]}"
        )
    return found.api_version, found.spec.interactive


def exec_credential(version: str, tokens: Tokens) -> str:
    """Return the ExecCredential with an ID token, as JSON.

    kubectl asks again when the credential has expired.
    """
    expires = unix_time_text(tokens.expires - EARLY_SECONDS)
    status = {"token": tokens.id_token, "expirationTimestamp": expires}
    return msgspec.json.encode({"apiVersion": version, "kind": "ExecCredential", "status": status}).decode()


def tokens_of(
    answer: Mapping[str, Any], *, issuer: str, client_id: str, nonce: str = "", refresh_token: str = ""
) -> Tokens:
    """Check a token response, and return its tokens.

    The signature of the ID token is not verified here: the response came from the issuer over TLS, and the API server
    verifies it with each request.

    Args:
        answer: Response of the token endpoint.
        issuer: Issuer that the ID token must have.
        client_id: Audience that the ID token must have.
        nonce: Nonce that the ID token must have; empty: none was sent.
        refresh_token: Token that stays valid if the response has none.

    Raises:
        LoginError: The response has no ID token, or one for somebody else.
    """
    token = answer.get("id_token")
    if not isinstance(token, str) or not token:
        raise LoginError(f"{issuer} gives no ID token: the client {client_id!r} needs the scope openid")
    # Times are the API server's to judge: clocks of users' machines are often wrong.
    options: Any = {"verify_signature": False, "verify_exp": False, "require": ["exp", "iss", "aud", "sub"]}
    try:
        claims = jwt.decode(token, options=options)
    except jwt.PyJWTError as error:
        raise LoginError(f"{issuer} gives an invalid ID token: {error}") from error
    audience = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    if claims["iss"] != issuer or client_id not in audience:
        raise LoginError(f"{issuer} gives an ID token of the issuer {claims['iss']!r} for {audience!r}")
    if nonce and claims.get("nonce") != nonce:
        raise LoginError(f"{issuer} gives an ID token of another login; try again")
    if not isinstance(claims["exp"], int | float):
        raise LoginError(f"{issuer} gives an ID token without a time of expiry")
    renewed = answer.get("refresh_token")
    return Tokens(
        token, float(claims["exp"]), renewed if isinstance(renewed, str) and renewed else refresh_token
    )


def subject(tokens: Tokens) -> str:
    """Return what a person calls the user of an ID token: the e-mail address, the user name, or the subject."""
    claims = jwt.decode(tokens.id_token, options={"verify_signature": False})
    return str(claims.get("email") or claims.get("preferred_username") or claims["sub"])
