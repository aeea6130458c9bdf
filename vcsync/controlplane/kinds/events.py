"""Events as the core group keeps them. Pure.

Source: Kubernetes' `pkg/apis/core/validation/events.go`, `pkg/registry/core/event`.
"""

from vcsync.controlplane import errors
from vcsync.controlplane.errors import FieldError
from vcsync.controlplane.kinds import names
from vcsync.controlplane.kinds.parts import Part
from vcsync.controlplane.kinds.rules import Findings, Object, immutable, needed, number, part, say, text

_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
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


def _legacy(event: Object, reporter: str) -> Findings:
    namespace = text(part(event, "metadata"), "namespace")
    about = text(part(event, "involvedObject"), "namespace")
    mismatch = errors.wrong("involvedObject.namespace", about, "does not match event.namespace")
    if not event.get("eventTime"):
        if (about or "default") != (namespace or "default") or (about and about != namespace):
            yield mismatch
    else:
        if not about and namespace not in ("default", "kube-system"):
            yield mismatch
        yield from _reported(event, reporter)
    yield from say("namespace", namespace, names.dns_subdomain(namespace))


def _reported(event: Object, reporter: str) -> Findings:
    controller, instance = text(event, "reportingComponent"), text(event, "reportingInstance")
    if not controller:
        yield errors.required(reporter)
    yield from say(reporter, controller, names.qualified_name(controller))
    if not instance:
        yield errors.required("reportingInstance")
    for key, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)):
        if key in ("action", "reason"):
            yield from _given(event, key)
        if names.size(text(event, key)) > limit:
            yield errors.wrong(key, "", f"can have at most {limit} characters")


def _given(event: Object, key: str) -> Findings:
    if not text(event, key):
        yield errors.required(key)


def _validate(event: Object) -> list[FieldError]:
    return list(_legacy(event, "reportingComponent"))


def validate_new_event(event: Object) -> list[FieldError]:
    """Findings on an Event that is made through events.k8s.io/v1; `event` is in the core form."""
    found = list(_legacy(event, "reportingController"))
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
    yield from needed(
        {"series.lastObservedTime": series.get("lastObservedTime")}, "series.lastObservedTime", "series"
    )


def validate_changed_event(new: Object, old: Object) -> list[FieldError]:
    """Findings on a change of an Event through events.k8s.io/v1; both are in the core form."""
    found = list(_legacy(new, "reportingController"))
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


def _fields(event: Object) -> dict[str, str]:
    about = part(event, "involvedObject")
    source = text(part(event, "source"), "component") or text(event, "reportingComponent")
    return {
        **{f"involvedObject.{key}": text(about, key) for key in _FIELDS},
        "reason": text(event, "reason"),
        "reportingComponent": text(event, "reportingComponent"),
        "source": source,
        "type": text(event, "type"),
    }


def _wide_fields(event: Object) -> dict[str, str]:
    found = _fields(event)
    found.update({f"regarding.{key}": found[f"involvedObject.{key}"] for key in _FIELDS})
    return {**found, "reportingController": found["reportingComponent"]}


def _name(name: str, prefix: bool) -> list[str]:
    return names.subdomain_name(name, prefix)


EVENTS = {
    ("", "Event"): Part(validate=_validate, fields=_fields, name=_name),
    ("events.k8s.io", "Event"): Part(
        validate=validate_new_event, validate_update=validate_changed_event, fields=_wide_fields, name=_name
    ),
}
