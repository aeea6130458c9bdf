"""What can go wrong between us and a Kubernetes API, as types.

`ApiError` and its kinds: the server answered, and said no. `Unreachable` and its kinds: no answer came, so a
write may or may not have happened. `CredentialsError`: we could not even ask.
"""

from typing import Any

import msgspec
from msgspec import Struct

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding an answer may raise: msgspec says so of what is no JSON, but not of bytes that are no text, nor of depth."""
_LONGEST_MESSAGE = 2000  # characters of a server's message we repeat; tenants' servers can send anything


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
    """A Kubernetes `Status` object: how a server explains a refusal."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None
    kind: str = ""

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The single reasons, if the server named any."""
        return (self.details.causes or ()) if self.details else ()


class KubeError(Exception):
    """Anything that kept a request to a Kubernetes API from succeeding.

    Attributes:
        endpoint: the name of the client that asked.
    """

    def __init__(self, message: str, *, endpoint: str = "") -> None:
        super().__init__(f"{endpoint}: {message}" if endpoint else message)
        self.endpoint = endpoint


class ApiError(KubeError):
    """The server answered with an error.

    Attributes:
        status: what it said.
        retry_after: seconds after which it wants to be asked again, if it named any.
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
    """400: the server could not make sense of the request."""


class Unauthorized(ApiError):
    """401: the server does not know who asks; the credentials are missing, expired or revoked."""


class Forbidden(ApiError):
    """403: the caller may not do that, or an admission rule (quota among them) refused it."""


class NotFound(ApiError):
    """404: no such object, or no such resource type."""


class Conflict(ApiError):
    """409: the object changed meanwhile, is another one (uid), or a field belongs to another manager.

    Also the 422 with which servers refuse a patch whose `metadata.uid` is another object's.
    """


class AlreadyExists(Conflict):
    """409 with reason AlreadyExists: an object of that name stands already."""


class Gone(ApiError):
    """410: the resourceVersion or continuation is too old; list again."""


class TooLarge(ApiError):
    """413: the request's body is beyond what the server takes."""


class Invalid(ApiError):
    """422: the object breaks its schema or a validation rule; `status.causes` names the fields."""


class TooManyRequests(ApiError):
    """429: the server is busy, or a PodDisruptionBudget does not allow an eviction now."""


class ServerError(ApiError):
    """5xx: the server failed. A write may or may not have happened."""


class Unreachable(KubeError):
    """No (whole) answer: refused, reset, TLS failure, cut in the middle.

    Attributes:
        sent: whether the request may have reached the server; then a write may or may not have happened.
    """

    def __init__(self, message: str, *, endpoint: str = "", sent: bool = True) -> None:
        super().__init__(message, endpoint=endpoint)
        self.sent = sent


class Timeout(Unreachable):
    """No answer, or no more of it, within the time allowed."""


class CircuitOpen(Unreachable):
    """Not even tried: the endpoint failed repeatedly and is left alone for a while.

    Attributes:
        retry_after: seconds until it is tried again.
    """

    def __init__(self, message: str, *, endpoint: str = "", retry_after: float) -> None:
        super().__init__(message, endpoint=endpoint, sent=False)
        self.retry_after = retry_after


class CredentialsError(KubeError):
    """A kubeconfig, token, certificate or plug-in is unusable. Names the field and remedy, no secret."""


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
    """Make the error that fits an answer.

    Args:
        code: the HTTP status; 0 takes it from the Status object (in-stream errors of a watch).
        body: the answer. Anything but a Status object is withheld: it may come from a proxy and hold
            anything.
        endpoint: name of the client.
        request: what was asked, for the message, for example `GET /api/v1/pods`.
        retry_after: seconds of the header `Retry-After`, if there was one.
    """
    status = _status(code, body)
    if retry_after is None and status.details is not None and status.details.retry_after_seconds > 0:
        retry_after = float(status.details.retry_after_seconds)
    kind = _BY_CODE.get(status.code, ServerError if status.code >= 500 else ApiError)
    if status.code == 409 and status.reason == "AlreadyExists":
        kind = AlreadyExists
    elif status.code == 422 and any(cause.field == "metadata.uid" for cause in status.causes):
        kind = Conflict  # how a server says that a patch's uid is not the object's
    return kind(status, endpoint=endpoint, request=request, retry_after=retry_after)


def _status(code: int, body: bytes) -> Status:
    try:
        status = _decode_status(body)
    except UNREADABLE:
        status = Status()
    if status.kind != "Status":
        return Status(
            code=code or 500, message=f"answered {len(body)} bytes that are not a Kubernetes Status"
        )
    return msgspec.structs.replace(status, code=code or status.code or 500)


def describe(error: BaseException) -> dict[str, Any]:
    """Return an error's facts as fields for a log event."""
    facts: dict[str, Any] = {"error": str(error), "error_type": type(error).__name__}
    if isinstance(error, ApiError):
        facts["code"] = error.status.code
        facts["reason"] = error.status.reason
    return facts
