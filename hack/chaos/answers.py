"""Answers that simulated users must expect from an API server. Pure."""

from typing import Any

_STATUSES = frozenset({200, 201, 202, 404, 409})
"""Expected for concurrent users: 404 and 409 if another user deleted, created or changed the object."""
_REFUSALS = ("exceeded quota", "being terminated", "not found", "must specify", "status unknown for quota")
"""Texts of expected refusals (403): the quota is used up, or the namespace is being deleted."""
_STARTING = "failed to allocate a serviceIP"
"""Text of 500 of a kube-apiserver that has not read its ServiceCIDRs yet after its start: its range is full then."""


def is_expected(status: int, answer: Any) -> bool:
    """Return whether users must expect an answer."""
    message = str(answer.get("message", "")) if isinstance(answer, dict) else str(answer)
    refused = status == 403 and any(text in message for text in _REFUSALS)
    return status in _STATUSES or refused or (status == 500 and _STARTING in message)
