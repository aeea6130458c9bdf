"""What the embedded API refuses, as exceptions that carry the Status object which the client will read.

Reasons, codes and wording are those of kube-apiserver (apimachinery's `api/errors` and `util/validation/field`);
parity tests compare them word for word.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of a Status' `details.causes`."""

    reason: str
    message: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One finding of validation.

    `reason` is the cause's reason (`FieldValueInvalid`, ...), `field` its path (`spec.containers[0].name`),
    `body` what is said after the path (`Invalid value: "x": must be ...`).
    """

    reason: str
    field: str
    body: str

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


@dataclass(eq=False)
class StatusError(Exception):
    """The request ends with this Status.

    Attributes:
        code: HTTP status code.
        reason: machine-readable (`NotFound`, `Invalid`, ...); empty: none is told.
        message: what kubectl prints.
        details: the Status' `details`, without causes.
        causes: go into `details.causes`.
        retry_after: seconds; sets the header Retry-After and `details.retryAfterSeconds`.
        empty_details: whether `details` is written even if there is nothing in it, as the router's answers do.
        metadata: the Status' `metadata`: a list that cannot go on tells how to (`continue`).
        plain: the answer is the message alone, as text.
    """

    code: int
    reason: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    causes: Sequence[Cause] = ()
    retry_after: int | None = None
    empty_details: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    plain: bool = False

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    def status(self) -> dict[str, Any]:
        """Return the Status object."""
        details = dict(self.details)
        if self.causes:
            details["causes"] = [
                {
                    **({"reason": each.reason} if each.reason else {}),
                    **({"message": each.message} if each.message else {}),
                    **({"field": each.field} if each.field else {}),
                }
                for each in self.causes
            ]
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata),
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if details or self.empty_details:
            status["details"] = details
        status["code"] = self.code
        return status


def qualified(plural: str, group: str) -> str:
    """Name a resource as messages do: `pods`, `deployments.apps`."""
    return f"{plural}.{group}" if group else plural


def _about(name: str, group: str, kind: str) -> dict[str, Any]:
    return {key: value for key, value in (("name", name), ("group", group), ("kind", kind)) if value}


def not_found(plural: str, group: str, name: str) -> StatusError:
    """404: no such object."""
    return StatusError(
        404, "NotFound", f'{qualified(plural, group)} "{name}" not found', _about(name, group, plural)
    )


def page_not_found() -> StatusError:
    """404: no such resource type or path."""
    return StatusError(
        404, "NotFound", "the server could not find the requested resource", empty_details=True
    )


def already_exists(plural: str, group: str, name: str) -> StatusError:
    """409: an object of that name stands already."""
    return StatusError(
        409,
        "AlreadyExists",
        f'{qualified(plural, group)} "{name}" already exists',
        _about(name, group, plural),
    )


def conflict(plural: str, group: str, name: str, why: str) -> StatusError:
    """409: the object is not what the caller thinks it is; `why` completes the message."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return StatusError(409, "Conflict", message, _about(name, group, plural))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
"""Why an optimistic update conflicts."""


def bad_request(message: str) -> StatusError:
    """400: the request makes no sense."""
    return StatusError(400, "BadRequest", message)


def invalid(kind: str, group: str, name: str, findings: Sequence[FieldError]) -> StatusError:
    """422: the object breaks rules of its kind."""
    texts = list(dict.fromkeys(str(each) for each in findings))
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return StatusError(
        422,
        "Invalid",
        f'{qualified(kind, group)} "{name}" is invalid: {said}'
        if texts
        else f'{qualified(kind, group)} "{name}" is invalid',
        _about(name, group, kind),
        tuple(Cause(each.reason, each.body, each.field) for each in findings),
    )


def forbidden(plural: str, group: str, name: str, why: str) -> StatusError:
    """403: admission refuses, or the operation is not allowed on this object."""
    subject = (
        f'{qualified(plural, group)} "{name}" is forbidden: {why}'
        if name
        else f"{qualified(plural, group)} is forbidden: {why}"
    )
    return StatusError(403, "Forbidden", subject, _about(name, group, plural))


def unauthorized() -> StatusError:
    """401: nobody we know."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> StatusError:
    """405: the resource has no such verb."""
    return StatusError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        empty_details=True,
    )


def unsupported_media_type(message: str) -> StatusError:
    """415: the body's content type is not understood here."""
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(message: str) -> StatusError:
    """406: none of the accepted content types can be given."""
    return StatusError(406, "NotAcceptable", message)


def expired(message: str) -> StatusError:
    """410: the resourceVersion or continuation is too old; list again."""
    return StatusError(410, "Expired", message)


def too_large(message: str) -> StatusError:
    """413: the body is larger than the server reads."""
    return StatusError(413, "RequestEntityTooLarge", message)


def too_many_requests(message: str, retry_after: int) -> StatusError:
    """429: later; `retry_after` in seconds."""
    return StatusError(429, "TooManyRequests", message, retry_after=retry_after)


def internal(message: str) -> StatusError:
    """500: a defect or a store that fails; the message must not tell a tenant about others."""
    return StatusError(
        500, "InternalError", f"Internal error occurred: {message}", causes=(Cause("", message),)
    )


def unavailable(message: str, retry_after: int | None = None) -> StatusError:
    """503: not now, through no fault of the caller's; `retry_after` in seconds, None: nobody knows."""
    return StatusError(503, "ServiceUnavailable", message, retry_after=retry_after)


def insufficient_storage(message: str, retry_after: int) -> StatusError:
    """507: there is no room; `retry_after` in seconds."""
    return StatusError(507, "InsufficientStorage", message, retry_after=retry_after)


def required(path: str, detail: str = "") -> FieldError:
    """Say that a field must be given."""
    return FieldError("FieldValueRequired", path, f"Required value: {detail}" if detail else "Required value")


def wrong(path: str, value: Any, detail: str) -> FieldError:
    """Say that a field's value is invalid."""
    told = f": {detail}" if detail else ""
    return FieldError("FieldValueInvalid", path, f"Invalid value: {shown(value)}{told}")


def wrong_type(path: str, value: Any, detail: str) -> FieldError:
    """Say that a field's value is of the wrong type."""
    return FieldError("FieldValueTypeInvalid", path, f"Invalid value: {shown(value)}: {detail}")


def not_supported(path: str, value: Any, choices: Sequence[str]) -> FieldError:
    """Say which values a field takes; `choices` in the order in which they shall be told."""
    said = ", ".join(f'"{each}"' for each in choices)
    return FieldError(
        "FieldValueNotSupported", path, f"Unsupported value: {shown(value)}: supported values: {said}"
    )


def duplicate(path: str, value: Any) -> FieldError:
    """Say that a value stands twice in a list that is a set or a map."""
    return FieldError("FieldValueDuplicate", path, f"Duplicate value: {shown(value)}")


def not_allowed(path: str, detail: str) -> FieldError:
    """Say that a field may not be set (or not so) here."""
    return FieldError("FieldValueForbidden", path, f"Forbidden: {detail}")


def absent(path: str, value: Any) -> FieldError:
    """Say that what a field names does not exist."""
    return FieldError("FieldValueNotFound", path, f"Not found: {shown(value)}")


def too_long(path: str, limit: int) -> FieldError:
    """Say how many bytes a text may have."""
    return FieldError("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes")


def too_many(path: str, actual: int, limit: int) -> FieldError:
    """Say how many items a list may have."""
    return FieldError("FieldValueTooMany", path, f"Too many: {actual}: must have at most {limit} items")


def shown(value: Any) -> str:
    """Write a value as Go's messages do: strings quoted, objects as JSON."""
    if value is None:
        return "null"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
