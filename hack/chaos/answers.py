"""Answers that simulated users must expect from an API server. Pure."""

from typing import Any

_STATUSES = frozenset({200, 201, 202, 404, 409})
"""Expected for concurrent users: 404 and 409 if another user deleted, created or changed the object."""
_REFUSALS = (
    "exceeded quota",
    "being terminated",
    "not found",
    "must specify",
    "status unknown for quota",
    "no PriorityClass with name",
)
"""Texts of expected refusals (403): a used-up quota, a namespace that is being deleted, a withdrawn class."""
_NOT_BOUND = "spec is immutable after creation except resources.requests"
"""Text of 422 for a claim that should grow before it has a volume."""
_TAKEN = "provided IP is already allocated"
"""Text of 422 for a Service that asks for the cluster IP of another one."""
_STARTING = "failed to allocate a serviceIP"
"""Text of 500 of a kube-apiserver that has not read its ServiceCIDRs yet after its start: its range is full then."""


def is_expected(status: int, answer: Any) -> bool:
    """Return whether users must expect an answer."""
    message = str(answer.get("message", "")) if isinstance(answer, dict) else str(answer)
    refused = status == 403 and any(text in message for text in _REFUSALS)
    invalid = status == 422 and (_NOT_BOUND in message or _TAKEN in message)
    return status in _STATUSES or refused or invalid or (status == 500 and _STARTING in message)
