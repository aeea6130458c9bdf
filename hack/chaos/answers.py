"""Answers that simulated users must expect from an API server. Pure."""

from typing import Any

_STATUSES = frozenset({200, 201, 202, 404, 409})
"""Expected for concurrent users: 404 and 409 if another user deleted, created or changed the object."""
_REFUSALS = ("exceeded quota", "being terminated", "not found", "must specify", "status unknown for quota")
"""Texts of expected refusals (403): the quota is used up, or the namespace is being deleted."""


def is_expected(status: int, answer: Any) -> bool:
    """Return whether users must expect an answer."""
    message = str(answer.get("message", "")) if isinstance(answer, dict) else str(answer)
    return status in _STATUSES or (status == 403 and any(text in message for text in _REFUSALS))
