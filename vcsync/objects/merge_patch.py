"""JSON merge patches (RFC 7396): applies them, and computes the smallest one. Pure; arguments are never changed."""

from collections.abc import Mapping
from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the patched target. Unchanged parts are shared, not copied."""
    if not isinstance(patch, Mapping):
        return patch
    merged: dict[str, Any] = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def create_merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the smallest merge patch that converts `old` to `new`, or None if they are equal.

    Lists are replaced as a whole. A null in `new` means absence, because a merge patch cannot set null.
    """
    patch: dict[str, Any] = {key: None for key in old if new.get(key) is None and old[key] is not None}
    for key, value in new.items():
        before = old.get(key)
        if value is None or (type(value) is type(before) and value == before):
            continue
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = create_merge_patch(before, value)
            if inner is not None:
                patch[key] = inner
        elif before != value or type(before) is not type(value):
            patch[key] = value
    return patch or None
