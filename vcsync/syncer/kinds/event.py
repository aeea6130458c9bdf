"""Translates Events about objects of a super cluster into Events about the tenant's objects."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from vcsync.api import names
from vcsync.kube.resources import EVENTS
from vcsync.objects.envelope import Envelope, decode, untyped
from vcsync.objects.text_cache import cache_short_texts
from vcsync.patterns.linear import linear
from vcsync.syncer.kinds import volume_event
from vcsync.syncer.kinds.plan import TenantContext

Json = dict[str, Any]

_NAME_CHARACTERS: Final = r"A-Za-z0-9._\-"
"""Characters that continue an object's name."""
_SCHEDULED = linear(r"^Successfully assigned \S+ to (?P<node>\S+?)\.?$")
_KEPT: Final[tuple[str, ...]] = (
    "reason",
    "type",
    "action",
    "count",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "series",
    "reportingComponent",
    "reportingInstance",
    "source",
)
_COUNTED: Final[tuple[str, ...]] = ("count", "lastTimestamp", "series", "message")


class Regarding(Struct, frozen=True, rename="camel"):
    """The object that an Event is about (`involvedObject`), by its names in the super cluster."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    field_path: str = ""


class TenantEvent(Struct, frozen=True):
    """An Event to write in the tenant."""

    namespace: str
    """Tenant namespace."""
    name: str
    body: Json
    """The whole Event, to create it."""
    update: Json
    """The merge patch to update it if it exists."""
    repeated: bool
    """Whether it has occurred more than once, so that it probably exists in the tenant."""


class _Series(Struct, rename="camel"):
    count: int | None = 0
    last_observed_time: str | None = ""


class _Event(Struct, rename="camel"):
    involved_object: Regarding = Regarding()
    event_time: str | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    series: _Series | None = None
    count: int | None = None


class _NodeName(Struct, rename="camel"):
    node_name: str = ""


def regarding(event: Envelope) -> Regarding:
    """Return the object that an Event of the super cluster is about."""
    return decode(event.rest, _Event).involved_object


def event_time(event: Envelope) -> datetime | None:
    """Return when an Event last occurred; None if it has no valid time."""
    decoded = decode(event.rest, _Event)
    observed = decoded.series.last_observed_time if decoded.series is not None else ""
    for text in (observed, decoded.last_timestamp, decoded.event_time, decoded.first_timestamp):
        if text and (moment := _parse(text)) is not None:
            return moment
    return _parse(event.creation_timestamp)


def _parse(text: str) -> datetime | None:
    try:
        moment = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def event_up(event: Envelope, v: Envelope, context: TenantContext) -> TenantEvent:
    """Translate an Event of the super cluster.

    Args:
        event: the Event, in a super namespace.
        v: the tenant's counterpart of the object that the Event is about. The caller has checked that they are a pair.
        context: the tenant's settings.
    """
    theirs: Json = untyped(event.rest)
    decoded = decode(event.rest, _Event)
    involved = decoded.involved_object
    nodes = _nodes(theirs, v, context)
    # The namespace of a cluster scoped object's Event is "default", as everywhere in Kubernetes.
    namespace = v.namespace or "default"
    rest: Json = {key: theirs[key] for key in _KEPT if theirs.get(key) is not None}
    _translate_reporter(rest, nodes)
    renamed = {event.namespace: v.namespace, involved.uid: v.uid, **nodes}
    renamed.pop("", None)
    rest["message"] = _message(theirs.get("message") or "", renamed, context)
    volume_event.redact(involved.kind, v, rest)
    about: Json = {"kind": involved.kind, "name": v.name, "namespace": v.namespace, "uid": v.uid}
    if involved.api_version:
        about["apiVersion"] = involved.api_version
    if involved.field_path:
        about["fieldPath"] = involved.field_path
    body = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": event.name, "namespace": namespace},
        "involvedObject": {key: value for key, value in about.items() if value},
        **rest,
    }
    update = {key: rest[key] for key in _COUNTED if key in rest}
    series = (decoded.series.count or 0) if decoded.series is not None else 0
    return TenantEvent(namespace, event.name, body, update, max(series, decoded.count or 0) > 1)


def _nodes(theirs: Json, v: Envelope, context: TenantContext) -> dict[str, str]:
    """Return the super cluster's node names that an Event may mention -> the names of their virtual nodes."""
    found = {(theirs.get("source") or {}).get("host") or ""}
    if scheduled := _SCHEDULED.match(theirs.get("message") or ""):
        found.add(scheduled["node"])
    if v.spec and (bound := _bound_node(v)):
        found.add(names.split_virtual_node(bound, context.super_id) or "")
    found.discard("")
    return {node: f"{node}.{context.super_id}" for node in found}


def _bound_node(v: Envelope) -> str:
    try:
        return decode(v.spec, _NodeName).node_name
    except msgspec.ValidationError:
        return ""  # the spec of another kind, in which the field has another meaning


def _translate_reporter(rest: Json, nodes: dict[str, str]) -> None:
    source = rest.get("source")
    if source and source.get("host") in nodes:
        rest["source"] = {**source, "host": nodes[source["host"]]}
    instance = rest.get("reportingInstance")
    if instance in nodes:
        rest["reportingInstance"] = nodes[instance]


def _message(message: str, renamed: dict[str, str], context: TenantContext) -> str:
    """Return a message with the tenant's names.

    Only whole names are replaced: a cluster key may be a word that is also a part of an image's name.
    """
    for name, replacement in renamed.items():
        if name in message:  # most names are not, and a pattern is expensive to compile
            message = _replace_name(message, name, replacement)
    if context.key not in message:
        return message
    # The remaining occurrences of the cluster key are prefixes of other namespaces of the tenant.
    return _key_prefix(context.key).sub("", message)


def _replace_name(text: str, name: str, replacement: str) -> str:
    return _whole_word(name).sub(lambda _: replacement, text)


@cache_short_texts(4096, 512)
def _whole_word(name: str) -> re.Pattern[str]:
    """Return a pattern that matches a name as a whole word. A full stop may follow it."""
    return re.compile(rf"(?<![{_NAME_CHARACTERS}]){re.escape(name)}(?![A-Za-z0-9_-]|\.[A-Za-z0-9])")


@cache_short_texts(4096, 512)
def _key_prefix(key: str) -> re.Pattern[str]:
    """Return a pattern that matches a cluster key as the prefix of one of the tenant's namespaces."""
    return re.compile(rf"(?<![{_NAME_CHARACTERS}/]){re.escape(key)}-(?=[a-z0-9])")
