"""The errors of the embedded API: exceptions that carry the Status object for the client.

Reasons, codes and wording are those of kube-apiserver (apimachinery's `api/errors` and `util/validation/field`).
Parity tests compare them word for word.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from vcsync.apimachinery.message_size import LONGEST_PATH, Room, cut, left_out


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `details.causes` of a Status."""

    reason: str
    message: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One finding of validation.

    A finding keeps the value itself, and its text is made when it is read: many findings may show the same long list, and
    an answer has room for few of them. The value must not be changed after that.

    Attributes:
        reason: Reason of the cause (`FieldValueInvalid`, ...).
        field: Path of the field (`spec.containers[0].name`).
        what: What the message says first (`Invalid value`).
        value: The value that the message shows next, as JSON. `...`: it shows none.
        details: What the message says after that. Empty ones are omitted; lists are joined by commas.
        choices: Supported values, which the message shows last. None: it shows none.
    """

    reason: str
    field: str
    what: str
    value: Any = ...
    details: tuple[str | Collection[str], ...] = ()
    choices: Sequence[str] | None = None

    @property
    def body(self) -> str:
        """Message after the path (`Invalid value: "x": must be ...`). Each part of it is cut if it is very long."""
        parts = [self.what]
        if self.value is not ...:
            parts.append(value_text(self.value))
        parts += (each if isinstance(each, str) else ", ".join(each) for each in self.details if each)
        if self.choices is not None:
            supported = ", ".join(f'"{each}"' for each in self.choices)
            parts.append(f"supported values: {supported}")
        return ": ".join(map(cut, parts))

    def __str__(self) -> str:
        return f"{cut(self.field, LONGEST_PATH)}: {self.body}"


@dataclass(eq=False)
class StatusError(Exception):
    """An error that ends a request with a Status.

    Attributes:
        code: HTTP status code.
        reason: Machine-readable reason (`NotFound`, `Invalid`, ...). Empty: the Status has none.
        message: Message for people; kubectl prints it.
        details: `details` of the Status, without causes.
        causes: `details.causes`.
        retry_after: Seconds for the header Retry-After and `details.retryAfterSeconds`.
        empty_details: Whether to write `details` even if it is empty, as answers of the router do.
        metadata: `metadata` of the Status. An expired list has a new `continue` token there.
        plain: Whether the body of the answer is only the message, as text.
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
    """Return the name of a resource as in messages: `pods`, `deployments.apps`."""
    return f"{plural}.{group}" if group else plural


def _about(name: str, group: str, kind: str) -> dict[str, Any]:
    return {key: value for key, value in (("name", name), ("group", group), ("kind", kind)) if value}


def not_found(plural: str, group: str, name: str) -> StatusError:
    """404: the object does not exist."""
    return StatusError(
        404, "NotFound", f'{qualified(plural, group)} "{name}" not found', _about(name, group, plural)
    )


def page_not_found() -> StatusError:
    """404: the resource type or path does not exist."""
    return StatusError(
        404, "NotFound", "the server could not find the requested resource", empty_details=True
    )


def already_exists(plural: str, group: str, name: str) -> StatusError:
    """409: an object of that name already exists."""
    return StatusError(
        409,
        "AlreadyExists",
        f'{qualified(plural, group)} "{name}" already exists',
        _about(name, group, plural),
    )


def conflict(plural: str, group: str, name: str, why: str) -> StatusError:
    """409: the object is not in the state that the caller expects. `why` completes the message."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return StatusError(409, "Conflict", message, _about(name, group, plural))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
"""Reason why an optimistic update conflicts."""


def bad_request(message: str) -> StatusError:
    """400: the request is malformed."""
    return StatusError(400, "BadRequest", message)


def invalid(kind: str, group: str, name: str, findings: Sequence[FieldError]) -> StatusError:
    """422: the object violates rules of its kind. The findings that an answer has no room for are replaced by their number."""
    causes = _causes(findings)
    texts = list(dict.fromkeys(f"{each.field}: {each.message}" for each in causes))
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return StatusError(
        422,
        "Invalid",
        f'{qualified(kind, group)} "{name}" is invalid: {joined}'
        if texts
        else f'{qualified(kind, group)} "{name}" is invalid',
        _about(name, group, kind),
        causes,
    )


def _causes(findings: Sequence[FieldError]) -> tuple[Cause, ...]:
    """Return the causes that an answer and its message have room for."""
    causes: list[Cause] = []
    room = Room()
    for at, each in enumerate(findings):
        cause = Cause(each.reason, each.body, cut(each.field, LONGEST_PATH))
        # The message has the texts of the causes once more.
        if not room.holds(cause.message, cause.field, cause.message, cause.field) and causes:
            causes.append(Cause(each.reason, left_out(len(findings) - at), cause.field))
            break
        causes.append(cause)
    return tuple(causes)


def forbidden(plural: str, group: str, name: str, why: str) -> StatusError:
    """403: admission refuses the request, or the operation is not allowed on this object."""
    subject = (
        f'{qualified(plural, group)} "{name}" is forbidden: {why}'
        if name
        else f"{qualified(plural, group)} is forbidden: {why}"
    )
    return StatusError(403, "Forbidden", subject, _about(name, group, plural))


def unauthorized() -> StatusError:
    """401: the caller is not authenticated."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def verb_not_supported(verb: str, plural: str) -> StatusError:
    """405: the resource does not support the verb, though its path takes the method."""
    message = f'{verb} is not supported on resources of kind "{plural}"'
    return StatusError(405, "MethodNotAllowed", message, details={"kind": plural})


def method_not_allowed() -> StatusError:
    """405: the resource does not support the verb."""
    return StatusError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        empty_details=True,
    )


def unsupported_media_type(message: str) -> StatusError:
    """415: the content type of the body is not supported."""
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(message: str) -> StatusError:
    """406: none of the accepted content types is supported."""
    return StatusError(406, "NotAcceptable", message)


def expired(message: str) -> StatusError:
    """410: the resourceVersion or the continue token is too old; the client must list again."""
    return StatusError(410, "Expired", message)


def too_large(message: str) -> StatusError:
    """413: the body is larger than the server accepts."""
    return StatusError(413, "RequestEntityTooLarge", message)


def too_many_requests(message: str, retry_after: int) -> StatusError:
    """429: the client must retry after `retry_after` seconds."""
    return StatusError(429, "TooManyRequests", message, retry_after=retry_after)


def internal(message: str) -> StatusError:
    """500: a defect, or a failing store. The message must not reveal anything about other tenants."""
    return StatusError(
        500, "InternalError", f"Internal error occurred: {message}", causes=(Cause("", message),)
    )


def unavailable(message: str, retry_after: int | None = None) -> StatusError:
    """503: the server cannot serve the request now. `retry_after` is in seconds; None: unknown."""
    return StatusError(503, "ServiceUnavailable", message, retry_after=retry_after)


def insufficient_storage(message: str, retry_after: int) -> StatusError:
    """507: the store is full. `retry_after` is in seconds."""
    return StatusError(507, "InsufficientStorage", message, retry_after=retry_after)


def required(path: str, *details: str | Collection[str]) -> FieldError:
    """Return the finding that a field is required."""
    return FieldError("FieldValueRequired", path, "Required value", details=details)


def wrong(path: str, value: Any, *details: str | Collection[str]) -> FieldError:
    """Return the finding that the value of a field is invalid."""
    return FieldError("FieldValueInvalid", path, "Invalid value", value, details)


def wrong_type(path: str, value: Any, detail: str) -> FieldError:
    """Return the finding that the value of a field has the wrong type."""
    return FieldError("FieldValueTypeInvalid", path, "Invalid value", value, (detail,))


def not_supported(path: str, value: Any, choices: Sequence[str]) -> FieldError:
    """Return the finding that a field does not support a value. The message lists `choices` in the given order."""
    return FieldError("FieldValueNotSupported", path, "Unsupported value", value, choices=choices)


def duplicate(path: str, value: Any, *details: str | Collection[str]) -> FieldError:
    """Return the finding that a value occurs twice in a list that is a set or a map."""
    return FieldError("FieldValueDuplicate", path, "Duplicate value", value, details)


def not_allowed(path: str, *details: str | Collection[str]) -> FieldError:
    """Return the finding that a field may not be set, or not to this value."""
    return FieldError("FieldValueForbidden", path, "Forbidden", details=details)


def absent(path: str, value: Any, *details: str | Collection[str]) -> FieldError:
    """Return the finding that the object that a field names does not exist."""
    return FieldError("FieldValueNotFound", path, "Not found", value, details)


def too_long(path: str, limit: int) -> FieldError:
    """Return the finding that a text has more than `limit` bytes."""
    return FieldError("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes")


def too_many(path: str, actual: int, limit: int) -> FieldError:
    """Return the finding that a list has more than `limit` items."""
    return FieldError("FieldValueTooMany", path, f"Too many: {actual}: must have at most {limit} items")


def value_text(value: Any) -> str:
    """Return a value in the form of Go's messages: strings quoted, objects as JSON."""
    if value is None:
        return "null"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
