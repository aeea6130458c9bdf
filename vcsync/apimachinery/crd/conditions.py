"""Conditions in the status of a CustomResourceDefinition. Pure."""

from typing import Any

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


def condition(definition: dict[str, Any], type_: str) -> dict[str, Any] | None:
    """Return the condition of a type, or None."""
    for each in (definition.get("status") or {}).get("conditions") or ():
        if each.get("type") == type_:
            found: dict[str, Any] = each
            return found
    return None


def is_true(definition: dict[str, Any], type_: str) -> bool:
    """Return whether a condition is present and true."""
    found = condition(definition, type_)
    return found is not None and found.get("status") == "True"


def set_condition(definition: dict[str, Any], type_: str, state: tuple[str, str, str], now: str) -> bool:
    """Set a condition in place. Its time changes only with its status.

    Args:
        definition: the definition to change.
        type_: the type of the condition.
        state: status, reason and message.
        now: the current time.

    Returns:
        Whether anything changed.
    """
    status, reason, message = state
    found = condition(definition, type_)
    if found is None:
        conditions = definition.setdefault("status", {}).get("conditions") or []
        definition["status"]["conditions"] = conditions
        told = {
            "type": type_,
            "status": status,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        conditions.append(told)
        return True
    before = dict(found)
    if found.get("status") != status:
        found["lastTransitionTime"] = now
    found |= {"status": status, "reason": reason, "message": message}
    return found != before


def remove_condition(definition: dict[str, Any], type_: str) -> bool:
    """Remove a condition in place. Return whether it was present."""
    conditions = (definition.get("status") or {}).get("conditions") or []
    kept = [each for each in conditions if each.get("type") != type_]
    if len(kept) == len(conditions):
        return False
    definition["status"]["conditions"] = kept
    return True
