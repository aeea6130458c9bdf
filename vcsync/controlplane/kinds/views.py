"""Kinds that are served in a further version: the same object in another shape. Pure.

A view is keyed by the group, version and kind that clients name. `to_storage` makes the stored form of an object
that a client sent, `from_storage` what a client reads; both return a new object and leave apiVersion and kind to
the caller.

Source: Kubernetes' `pkg/apis/events/v1/conversion.go`, `pkg/apis/autoscaling/v1/conversion.go`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vcsync.controlplane.kinds import autoscaling_views
from vcsync.controlplane.kinds.rules import Object


@dataclass(frozen=True, slots=True)
class View:
    """Both directions of one further version."""

    to_storage: Callable[[Object], Object]
    from_storage: Callable[[Object], Object]


_EVENT_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_CORE_NAMES = {core: name for name, core in _EVENT_NAMES.items()}


def _renamed(found: Object, names: Mapping[str, str]) -> Object:
    return {names.get(key, key): value for key, value in found.items()}


def _event_to_core(found: Object) -> Object:
    return _renamed(found, _EVENT_NAMES)


def _event_from_core(found: Object) -> Object:
    return _renamed(found, _CORE_NAMES)


VIEWS: Mapping[tuple[str, str, str], View] = {
    ("events.k8s.io", "v1", "Event"): View(_event_to_core, _event_from_core),
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): View(
        autoscaling_views.to_storage, autoscaling_views.from_storage
    ),
}
"""(group, version, kind) -> how it is kept; what is not here is kept as it is."""
