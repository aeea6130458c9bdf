"""The kind Event of the group `events.k8s.io`: validation and conversion to core Events, its stored form. Pure.

Source: Kubernetes' `pkg/apis/events/v1/conversion.go` and `pkg/apis/core/validation/events.go`.
"""

from collections.abc import Mapping

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind, View
from vcsync.apimachinery.kinds.core.event import COLUMNS, FIELDS, fields, legacy
from vcsync.apimachinery.validation.fields import Findings, Object, immutable, needed, number, part, text

_FROZEN = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
)


def validate_new_event(event: Object) -> list[FieldError]:
    """Return the findings on an Event created through events.k8s.io/v1; `event` is in the core form."""
    found = list(legacy(event, "reportingController"))
    found.extend(_series(event))
    if not event.get("eventTime"):
        found.append(errors.required("eventTime"))
    if text(event, "type") not in ("Normal", "Warning"):
        found.append(errors.wrong("type", "", f"has invalid value: {text(event, 'type')}"))
    times = ("firstTimestamp", "lastTimestamp")
    found.extend(errors.wrong(key, "", "needs to be unset") for key in times if event.get(key))
    if number(event, "count"):
        found.append(errors.wrong("count", "", "needs to be unset"))
    if any(text(part(event, "source"), key) for key in ("component", "host")):
        found.append(errors.wrong("source", "", "needs to be unset"))
    return found


def _series(event: Object) -> Findings:
    series = event.get("series")
    if series is None:
        return
    if number(series, "count") < 2:
        yield errors.wrong("series.count", "", "should be at least 2")
    yield from needed(series, "lastObservedTime", "series")


def validate_changed_event(new: Object, old: Object) -> list[FieldError]:
    """Return the findings on an update of an Event through events.k8s.io/v1; both are in the core form."""
    found = list(legacy(new, "reportingController"))
    if new.get("series") != old.get("series"):
        found.extend(_series(new))
    for key in _FROZEN:
        found.extend(immutable(key, new.get(key), old.get(key)))
    found.extend(
        immutable("reportingController", text(new, "reportingComponent"), text(old, "reportingComponent"))
    )
    found.extend(
        immutable("reportingInstance", text(new, "reportingInstance"), text(old, "reportingInstance"))
    )
    return found


def _wide_fields(event: Object) -> dict[str, str]:
    found = fields(event)
    found.update({f"regarding.{key}": found[f"involvedObject.{key}"] for key in FIELDS})
    return {**found, "reportingController": found["reportingComponent"]}


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


def _to_core(found: Object) -> Object:
    return _renamed(found, _EVENT_NAMES)


def _from_core(found: Object) -> Object:
    return _renamed(found, _CORE_NAMES)


KIND = Kind(
    group="events.k8s.io",
    kind="Event",
    plural="events",
    create_on_update=True,
    shaped_as=("", "Event"),
    validate=validate_new_event,
    validate_update=validate_changed_event,
    fields=_wide_fields,
    columns=COLUMNS,
    views={"v1": View(_to_core, _from_core)},
)
