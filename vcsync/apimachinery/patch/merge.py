"""JSON merge patches (RFC 7396) with the behaviour of the API. Pure."""

from typing import Any

from vcsync.apimachinery.strategy import Object
from vcsync.objects.merge_patch import merge_patch


def apply(live: Object, patch: Object) -> Object:
    """Return the patched object.

    Objects within new lists lose their nulls, too, as in evanphx/json-patch v4, which kube-apiserver uses.
    """
    merged: Object = merge_patch(live, _settled(patch, live))
    return merged


def _settled(patch: Any, live: Any) -> Any:
    if isinstance(patch, dict):
        known = live if isinstance(live, dict) else {}
        return {key: _settled(each, known.get(key)) for key, each in patch.items()}
    return _without_nulls(patch) if isinstance(patch, list) and not isinstance(live, dict) else patch


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
