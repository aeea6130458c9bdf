"""Errors of requests to a Kubernetes API.

* `ApiError` and its subclasses: the server responded with an error.
* `Unreachable` and its subclasses: there is no response, so a write may or may not have happened.
* `CredentialsError`: the request cannot be sent without credentials.
"""

from typing import Any

import msgspec
from msgspec import Struct

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors that decoding of a response may raise. msgspec does not convert those of invalid UTF-8 and of deep nesting."""
_LONGEST_MESSAGE = 2000
"""Characters after which the message of a server is truncated. Servers of tenants can send anything."""


class StatusCause(Struct, frozen=True):
    """One entry of a Status' `details.causes`."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True, rename="camel"):
    """The `details` of a Status."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: int = 0


class Status(Struct, frozen=True, rename="camel"):
    """A Kubernetes `Status` object, with which a server explains an error."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None
    kind: str = ""

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The causes that the server named, if any."""
        return (self.details.causes or ()) if self.details else ()


class KubeError(Exception):
    """The error of a failed request to a Kubernetes API.

    Attributes:
        endpoint: Name of the client.
    """

    def __init__(self, message: str, *, endpoint: str = "") -> None:
        super().__init__(f"{endpoint}: {message}" if endpoint else message)
        self.endpoint = endpoint


class ApiError(KubeError):
    """The server responded with an error.

    Attributes:
        status: The Status of the response.
        retry_after: Seconds after which the client may retry, if the server named any.
    """

    def __init__(
        self, status: Status, *, endpoint: str = "", request: str = "", retry_after: float | None = None
    ) -> None:
        text = status.message[:_LONGEST_MESSAGE] or status.reason or "no explanation"
        super().__init__(
            f"{request}: {status.code} {text}" if request else f"{status.code} {text}", endpoint=endpoint
        )
        self.status = status
        self.retry_after = retry_after


class BadRequest(ApiError):
    """400: the request is malformed."""


class Unauthorized(ApiError):
    """401: the credentials are missing, invalid, expired or revoked."""


class Forbidden(ApiError):
    """403: the caller is not authorized, or admission (such as a quota) refused the request."""


class NotFound(ApiError):
    """404: the object or the resource type does not exist."""


class Conflict(ApiError):
    """409: the object has changed or has another UID, or a field belongs to another manager.

    The 422 of a patch whose `metadata.uid` is that of another object is a Conflict, too.
    """


class AlreadyExists(Conflict):
    """409 with reason AlreadyExists: an object of that name exists."""


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old; list again."""


class TooLarge(ApiError):
    """413: the body of the request is too large."""


class Invalid(ApiError):
    """422: the object violates its schema or a validation rule; `status.causes` names the fields."""


class TooManyRequests(ApiError):
    """429: the server is overloaded, or a PodDisruptionBudget does not allow an eviction now."""


class ServerError(ApiError):
    """5xx: the server failed. A write may or may not have happened."""


class Unreachable(KubeError):
    """There is no complete response: the connection was refused, reset or interrupted, or TLS failed.

    Attributes:
        sent: Whether the request may have reached the server. If so, a write may or may not have happened.
    """

    def __init__(self, message: str, *, endpoint: str = "", sent: bool = True) -> None:
        super().__init__(message, endpoint=endpoint)
        self.sent = sent


class Timeout(Unreachable):
    """The response, or the rest of it, did not arrive in time."""


class CircuitOpen(Unreachable):
    """The request was not sent, because the endpoint failed repeatedly.

    Attributes:
        retry_after: Seconds until the next request may be sent.
    """

    def __init__(self, message: str, *, endpoint: str = "", retry_after: float) -> None:
        super().__init__(message, endpoint=endpoint, sent=False)
        self.retry_after = retry_after


class CredentialsError(KubeError):
    """A kubeconfig, token, certificate or plug-in cannot be used. The message names field and remedy, and no secret."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
}
_decode_status = msgspec.json.Decoder(Status).decode


def api_error(
    code: int, body: bytes, *, endpoint: str = "", request: str = "", retry_after: float | None = None
) -> ApiError:
    """Return the error for a response.

    Args:
        code: HTTP status. 0: it is that of the Status object (for errors in a watch stream).
        body: Body of the response. If it is not a Status object, the message does not contain it, because it may come
            from a proxy and contain anything.
        endpoint: Name of the client.
        request: The request, for the message, such as `GET /api/v1/pods`.
        retry_after: Seconds of the header `Retry-After`, if any.
    """
    status = _status(code, body)
    if retry_after is None and status.details is not None and status.details.retry_after_seconds > 0:
        retry_after = float(status.details.retry_after_seconds)
    kind = _BY_CODE.get(status.code, ServerError if status.code >= 500 else ApiError)
    if status.code == 409 and status.reason == "AlreadyExists":
        kind = AlreadyExists
    elif status.code == 422 and any(cause.field == "metadata.uid" for cause in status.causes):
        # The UID in a patch is not that of the object.
        kind = Conflict
    return kind(status, endpoint=endpoint, request=request, retry_after=retry_after)


_NO_PATH = b"404 page not found"
"""Body of kube-apiserver's response for unknown paths (Go's `http.NotFound`)."""


def _status(code: int, body: bytes) -> Status:
    if code == 404 and body.strip() == _NO_PATH:
        return Status(code=code, reason="NotFound", message="page not found")
    try:
        status = _decode_status(body)
    except UNREADABLE:
        status = Status()
    if status.kind != "Status":
        return Status(
            code=code or 500, message=f"the response of {len(body)} bytes is not a Kubernetes Status"
        )
    return msgspec.structs.replace(status, code=code or status.code or 500)


def describe(error: BaseException) -> dict[str, Any]:
    """Return an error as fields of a log event."""
    fields: dict[str, Any] = {"error": str(error), "error_type": type(error).__name__}
    if isinstance(error, ApiError):
        fields["code"] = error.status.code
        fields["reason"] = error.status.reason
    return fields
