"""Errors of failed calls, with the messages of kube-apiserver's client. Pure."""

import json
from typing import Any

import msgspec

MAX_TEXT_BYTES = 2048
"""Bytes of an error response's text that a message contains."""
_FIXED = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_TEXT_STATUSES = frozenset({403, 406, 415})
"""Status codes whose message is the text of the response."""


class CallFailed(Exception):
    """A call failed. The message is shown to the tenant and reveals nothing about the operator's networks.

    Args:
        message: The message.
        code: Status code of the called server's response. 0: there was no response.

    Attributes:
        code: The same status code, which the response of the failing request may repeat.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


def error_of_status(code: int, content_type: str, body: bytes) -> CallFailed:
    """Return the error for an unsuccessful response.

    Behaviour: apimachinery's `NewGenericServerResponse`.

    Args:
        code: Status code of the response.
        content_type: Value of its Content-Type header, or an empty text.
        body: Its body.
    """
    status = _status_in(body)
    if status is not None and status.get("status") != "Success":
        return CallFailed(str(status.get("message") or ""), code)
    text = "unknown"
    if not content_type or content_type.startswith("text/"):
        text = body[:MAX_TEXT_BYTES].decode(errors="replace").strip()
    message = f"the server responded with the status code {code} but did not return more information"
    if code in _FIXED:
        message = _FIXED[code]
    elif code == 406 and text in ("", "unknown"):
        message = "the server was unable to respond with a content type that the client supports"
    elif code in _TEXT_STATUSES:
        message = text
    elif code >= 500:
        quoted = json.dumps(text, ensure_ascii=False)
        message = f"an error on the server ({quoted}) has prevented the request from succeeding"
    return CallFailed(message, code)


def _status_in(body: bytes) -> dict[str, Any] | None:
    """Return the body of a response if it is a Status, else None."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    is_status = isinstance(found, dict) and (found.get("apiVersion"), found.get("kind")) == ("v1", "Status")
    return found if is_status else None
