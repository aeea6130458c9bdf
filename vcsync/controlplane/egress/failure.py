"""Why a call came to nothing, in the words of a kube-apiserver's client. Pure."""

import json
from typing import Any

import msgspec

MOST_TEXT = 2048
"""Bytes of a wrong answer's text that are told."""
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
_ITS_OWN = frozenset({403, 406, 415})
"""Statuses whose text is the message."""


class CallFailed(Exception):
    """There is no answer to use; the message is for the tenant, and tells nothing of the operator's networks.

    Attributes:
        code: what an answer to a request that ends here may say, where the called server said it; 0: none said one.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        """Take the message, and the status that the called server answered with."""
        super().__init__(message)
        self.code = code


def of_status(code: int, content_type: str, body: bytes) -> CallFailed:
    """Tell what a server answered instead of an answer (apimachinery's `NewGenericServerResponse`)."""
    status = _status_in(body)
    if status is not None and status.get("status") != "Success":
        return CallFailed(str(status.get("message") or ""), code)
    text = "unknown"
    if not content_type or content_type.startswith("text/"):
        text = body[:MOST_TEXT].decode(errors="replace").strip()
    message = f"the server responded with the status code {code} but did not return more information"
    if code in _FIXED:
        message = _FIXED[code]
    elif code == 406 and text in ("", "unknown"):
        message = "the server was unable to respond with a content type that the client supports"
    elif code in _ITS_OWN:
        message = text
    elif code >= 500:
        quoted = json.dumps(text, ensure_ascii=False)
        message = f"an error on the server ({quoted}) has prevented the request from succeeding"
    return CallFailed(message, code)


def _status_in(body: bytes) -> dict[str, Any] | None:
    """Return the Status that an answer is, None: it is none."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    said = isinstance(found, dict) and (found.get("apiVersion"), found.get("kind")) == ("v1", "Status")
    return found if said else None
