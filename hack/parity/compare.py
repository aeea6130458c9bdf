"""Compares two answers field by field, ignoring unavoidable differences. Pure."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from hack.parity import sequences
from hack.parity.ask import Answer
from hack.parity.corpus import EVENTS, Step
from vcsync.apiserver.discovery.served import served_version

# Names of fields whose values differ between any two servers. Only the types of their values are compared.
_SERVER_SPECIFIC = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
    "lastHeartbeatTime",
    "continue",
    "hash",
    "serverRelativeURL",
}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}\b")
_VERSION = re.compile(r'(resourceVersion\\?"?: ?\\?")\d+')
"""Resource versions in a text that contains JSON or YAML."""
_IN_RECORD = re.compile(r"(the ResourceVersion in record )\(\d+\)")
_AGE_IN_YAML = re.compile(r"^( *)- \d+s$", re.MULTILINE)
_AGE = re.compile(r"^(\d+s|<unknown>|<invalid>)$")
_IN_TEXTS = (
    (_UUID, "<uid>"),
    (_TIME, "<time>"),
    (_VERSION, r"\1<version>"),
    (_IN_RECORD, r"\1(<version>)"),
    (_AGE_IN_YAML, r"\1- <age>"),
    (_TOKEN_VOLUME, "kube-api-access-<made>"),
)
_QUOTED_OBJECT = re.compile(r'"\{(?:[^"\\]|\\.)*\}"')
"""An object as the JSON of a string, as messages about objects that cannot be decoded have it."""
_ABSENT = object()
INVALID = 422


class Difference(NamedTuple):
    """One path at which two answers differ; `event`: the name of the watch event in whose object the path is."""

    path: str
    real: Any
    ours: Any
    event: str = ""

    def __str__(self) -> str:
        where = f"{self.event}: {self.path}" if self.event else self.path
        return f"{where}: real {_shown(self.real)}, ours {_shown(self.ours)}"

    @property
    def whole(self) -> str:
        """The difference as a text that does not name the event and is not abridged."""
        return f"{self.path}: real {_text(self.real)}, ours {_text(self.ours)}"


def differences(step: Step, real: Answer, ours: Answer) -> list[Difference]:
    """Return every path at which the answers differ."""
    found: list[Difference] = []
    for part, left, right in (
        ("code", real.code, ours.code),
        ("content type", real.content_type, ours.content_type),
        ("warnings", list(real.warnings), list(ours.warnings)),
    ):
        found += _differ(part, left, right)
    left, right = _prepared(step, real.body), _prepared(step, ours.body)
    found += _differ_in_events(left, right) if step.verb == EVENTS else _differ("", left, right)
    return found


def _differ_in_events(real: dict[str, Any], ours: dict[str, Any]) -> Iterator[Difference]:
    yield from _differ("missing", real["missing"], [])
    yield from _differ("missing", [], ours["missing"])
    sides = [
        sequences.by_object(each["events"]) if each["grouped"] else each["events"] for each in (real, ours)
    ]
    for name, left, right in sequences.pairs(*sides):
        if left is None or right is None:
            yield Difference(name, left or _ABSENT, right or _ABSENT)
        else:
            for key in ("newer", "object"):
                for each in _differ("" if key == "object" else key, left[key], right[key]):
                    yield each._replace(event=name)


def _prepared(step: Step, body: Any) -> Any:
    if step.verb == EVENTS:
        body = {**body, "events": sequences.with_progress(body["events"])}
    body = _masked(body)
    if step.sort and isinstance(body, dict):
        for key, value in body.items():
            if isinstance(value, list):
                body[key] = sorted(value, key=repr)
    if isinstance(body, dict) and body.get("kind") == "SelfSubjectRulesReview":
        body = _rules_in_order(body)
    return (
        _unordered(body) if isinstance(body, dict) and (step.unordered or _is_refused_custom(body)) else body
    )


def _is_refused_custom(status: dict[str, Any]) -> bool:
    """Tell whether a Status says why a custom resource is invalid.

    kube-openapi's `validation/validate/object_validator.go` walks the properties of an object in a random order.
    """
    details = status.get("details")
    group = details.get("group", "") if isinstance(details, dict) else ""
    return status.get("code") == INVALID and "." in group and not served_version(group)


def _rules_in_order(review: dict[str, Any]) -> dict[str, Any]:
    """Sort the rules of a SelfSubjectRulesReview, whose order changes with every request."""
    status = review.get("status")
    if not isinstance(status, dict):
        return review
    ordered = {
        key: sorted(value, key=repr) if isinstance(value, list) else value for key, value in status.items()
    }
    return {**review, "status": ordered}


def _unordered(status: dict[str, Any]) -> dict[str, Any]:
    """Sort the causes of a Status, in its message and in its details."""
    subject, _, causes = str(status.get("message") or "").partition(": ")
    ordered = {**status, "message": [subject, *sorted(causes.strip("[]").split(", "))]}
    details = status.get("details")
    if isinstance(details, dict) and "causes" in details:
        ordered["details"] = {**details, "causes": sorted(details["causes"], key=repr)}
    return ordered


def _masked(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {_UUID.sub("<uid>", key): _masked(each, key) for key, each in value.items()}
    if isinstance(value, list):
        masked = [_masked(each, name) for each in value]
        # Their order depends on the second in which each entry was written.
        return sorted(masked, key=_manager) if name == "managedFields" else masked
    if name in _SERVER_SPECIFIC and isinstance(value, str) and value:
        return f"<{name}>"
    if isinstance(value, str):
        if name == "cells" and _AGE.match(value):
            return "<age>"
        for pattern, shown in _IN_TEXTS:
            value = pattern.sub(shown, value)
        return _QUOTED_OBJECT.sub(_in_order, value) if "managedFields" in value else value
    return value


def _in_order(quoted: re.Match[str]) -> str:
    """Sort the managedFields of an object that a message quotes."""
    try:
        found = json.loads(json.loads(quoted[0]))
        found["metadata"]["managedFields"].sort(key=_manager)
    except (ValueError, LookupError, TypeError, AttributeError):
        return quoted[0]
    return json.dumps(json.dumps(found, separators=(",", ":")))


def _manager(entry: Any) -> tuple[str, ...]:
    fields = ("operation", "manager", "apiVersion", "subresource")
    return tuple(str(entry.get(each)) for each in fields) if isinstance(entry, dict) else ()


def _differ(path: str, left: Any, right: Any) -> Iterator[Difference]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(each for each in right if each not in left)]:
            yield from _differ(
                f"{path}.{key}" if path else key, left.get(key, _ABSENT), right.get(key, _ABSENT)
            )
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for position, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _differ(f"{path}[{position}]", one, other)
    elif left != right or type(left) is not type(right):
        yield Difference(path, left, right)


def _text(value: Any) -> str:
    return "absent" if value is _ABSENT else repr(value)


def _shown(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= 600 else f"{text[:600]}..."
