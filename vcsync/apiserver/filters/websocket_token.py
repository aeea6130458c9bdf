"""Tokens that browsers send in the list of WebSocket protocols, since they cannot set an Authorization header there.

The token is taken out of the list before anything else sees the request, so that it is neither logged nor sent back or on.

Behaviour: apiserver's `pkg/authentication/request/websocket/protocol.go`.
"""

import base64
import binascii
from typing import Final

import structlog
from multidict import CIMultiDict

from vcsync.apimachinery.errors import unauthorized
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.streams.upgrade_headers import BEARER, wanted_protocol

PROTOCOLS: Final = "Sec-WebSocket-Protocol"
_log = structlog.get_logger(__name__)


def take_token(incoming: Incoming) -> None:
    """Make an Authorization header of the token among a request's WebSocket protocols, unless it has such a header already.

    A client certificate is tried before it, and is enough.

    Raises:
        StatusError: 401, the request has no other credential, and there are several tokens, there is no other protocol, or the
            token cannot be decoded.
    """
    headers = incoming.headers
    if wanted_protocol(headers) != "websocket":
        return
    offered = [value for name, value in headers.items() if name.lower() == PROTOCOLS.lower()]
    named = [each.strip() for value in offered for each in value.split(",")]
    tokens = [each.removeprefix(BEARER) for each in named if each.startswith(BEARER)]
    others = [each for each in named if each and not each.startswith(BEARER)]
    if not any(BEARER in each for each in named):
        return
    kept = CIMultiDict(headers)
    kept.popall(PROTOCOLS, None)
    if others:
        kept[PROTOCOLS] = ", ".join(others)
    incoming.headers = kept
    if not any(tokens) or "Authorization" in kept:
        return
    token = _decoded(tokens[0]) if len(tokens) == 1 and others else ""
    if token:
        kept["Authorization"] = f"Bearer {token}"
    elif incoming.certificate is None:
        _log.info("credential refused", reason="Sec-WebSocket-Protocol has no token that can be read")
        raise unauthorized()


def _decoded(token: str) -> str:
    """Return a token that is encoded as base64url without padding; an empty text: it is not."""
    try:
        found = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        found = ""
    return found if "=" not in token and found.isprintable() and " " not in found else ""
