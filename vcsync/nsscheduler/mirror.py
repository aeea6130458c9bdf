"""The mirror of placements on a tenant's Namespace: annotations and labels for users. No decision depends on them. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from vcsync.api import names
from vcsync.objects.envelope import Envelope

_PREFIX = names.PLACEMENT_DOMAIN + "/"
_encode = msgspec.json.Encoder(order="sorted").encode


def mirror_patch(
    namespace: Envelope, placements: Mapping[str, int], assumed: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the merge patch that updates a Namespace's mirror; None if it is up to date.

    Args:
        namespace: the tenant's Namespace.
        placements: slices per super cluster id.
        assumed: resource -> quota that the namespace has by default; empty if it has its own.
    """
    annotations = _difference(
        {key: namespace.annotations.get(key) for key in (names.PLACEMENTS, names.DEFAULT_QUOTA)},
        {
            names.PLACEMENTS: _encode(dict(placements)).decode() if placements else None,
            names.DEFAULT_QUOTA: _encode(dict(assumed)).decode() if assumed and placements else None,
        },
    )
    wanted: dict[str, str | None] = {key: None for key in namespace.labels if key.startswith(_PREFIX)}
    wanted |= {names.placement_label(super_id): str(slices) for super_id, slices in placements.items()}
    labels = _difference({key: namespace.labels.get(key) for key in wanted}, wanted)
    if not annotations and not labels:
        return None
    metadata: dict[str, Any] = {"uid": namespace.uid}
    if annotations:
        metadata["annotations"] = annotations
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata}


def slim(namespace: Envelope) -> Envelope:
    """Return a Namespace for the cache, with only the fields that this scheduler reads."""
    kept = (names.SLICE, names.PLACEMENTS, names.DEFAULT_QUOTA, names.WITHOUT_DEFAULT_QUOTA)
    return msgspec.structs.replace(
        namespace,
        annotations={key: namespace.annotations[key] for key in kept if key in namespace.annotations},
        labels={key: value for key, value in namespace.labels.items() if key.startswith(_PREFIX)},
        owners=(),
        finalizers=(),
        spec=b"",
        status=b"",
        rest=b"",
    )


def _difference(present: Mapping[str, str | None], wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    return {key: value for key, value in wanted.items() if present.get(key) != value}
