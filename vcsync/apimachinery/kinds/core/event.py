"""The kind Event of the core group: validation, selectable fields and columns. Pure.

Source: Kubernetes' `pkg/apis/core/validation`, `pkg/registry/core/event` and `pkg/printers/internalversion`.
"""

from datetime import datetime
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, part, say, text
from vcsync.apimachinery.wire import cells

FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def legacy(event: Object, reporter: str) -> Findings:
    """Yield the findings of `legacyValidateEvent`; `reporter` is the path of the reporting controller's name."""
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
    return list(legacy(event, "reportingComponent"))


def fields(event: Object) -> dict[str, str]:
    """Return the selectable fields of an Event of the core group."""
    about = part(event, "involvedObject")
    source = text(part(event, "source"), "component") or text(event, "reportingComponent")
    return {
        **{f"involvedObject.{key}": text(about, key) for key in FIELDS},
        "reason": text(event, "reason"),
        "reportingComponent": text(event, "reportingComponent"),
        "source": source,
        "type": text(event, "type"),
    }


def first_seen(obj: cells.Object, now: datetime) -> str:
    """Return the age of the first occurrence of an Event."""
    return cells.ago(cells.look(obj, "firstTimestamp") or cells.look(obj, "eventTime"), now)


def last_seen(obj: cells.Object, now: datetime) -> str:
    """Return the age of the last occurrence of an Event."""
    if cells.look(obj, "series") is not None:
        return cells.ago(cells.look(obj, "series.lastObservedTime"), now)
    last = cells.look(obj, "lastTimestamp")
    return cells.ago(last, now) if last else first_seen(obj, now)


def event_object(obj: cells.Object, _: datetime) -> str:
    """Return the kind and name of the object that an Event is about."""
    kind, about = (
        cells.look(obj, "involvedObject.kind", "").lower(),
        cells.look(obj, "involvedObject.name", ""),
    )
    return f"{kind}/{about}" if about else kind


def event_source(obj: cells.Object, _: datetime) -> str:
    """Return the component that reported an Event."""
    component = cells.look(obj, "source.component") or cells.look(obj, "reportingComponent", "")
    instance = cells.look(obj, "source.host") or cells.look(obj, "reportingInstance", "")
    return f"{component}, {instance}" if instance else component


def event_count(obj: cells.Object, _: datetime) -> Any:
    """Return the number of an Event's occurrences."""
    return (
        cells.look(obj, "series.count", 0)
        if cells.look(obj, "series") is not None
        else cells.look(obj, "count") or 1
    )


def message(obj: cells.Object, _: datetime) -> str:
    """Return an Event's message."""
    return cells.look(obj, "message", "").strip()  # type: ignore[no-any-return]


COLUMNS: cells.Printer = {
    "Last Seen": last_seen,
    "Type": cells.field("type"),
    "Reason": cells.field("reason"),
    "Object": event_object,
    "Subobject": cells.field("involvedObject.fieldPath"),
    "Source": event_source,
    "Message": message,
    "First Seen": first_seen,
    "Count": event_count,
    "Name": cells.name,
}


KIND = Kind(
    group="",
    kind="Event",
    plural="events",
    create_on_update=True,
    validate=_validate,
    fields=fields,
    validate_name=names.segment_name,
    columns=COLUMNS,
    any_finalizers=True,
    repeats_metadata_findings=False,
)
