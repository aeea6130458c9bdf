"""JSON merge patches (RFC 7396) as the API takes them. Pure."""

from typing import Any

from vcsync.controlplane.behaviour import Object
from vcsync.kube.patches import merge_patch


def apply(live: Object, patch: Any) -> Any:
    """Return what the object becomes. A patch that is a list replaces it, as in evanphx/json-patch."""
    return merge_patch(live, patch)
