"""Compares two answers field by field, ignoring unavoidable differences. Pure."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from hack.parity.ask import Answer
from hack.parity.corpus import Step

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
_ABSENT = object()


class Difference(NamedTuple):
    """One path at which two answers differ."""

    path: str
    real: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.path}: real {_shown(self.real)}, ours {_shown(self.ours)}"


def differences(step: Step, real: Answer, ours: Answer) -> list[Difference]:
    """Return every path at which the answers differ."""
    found: list[Difference] = []
    for part, left, right in (
        ("code", real.code, ours.code),
        ("content type", real.content_type, ours.content_type),
        ("warnings", list(real.warnings), list(ours.warnings)),
    ):
        found += _differ(part, left, right)
    found += _differ("", _prepared(step, real.body), _prepared(step, ours.body))
    return found


def _prepared(step: Step, body: Any) -> Any:
    body = _masked(body)
    if step.sort and isinstance(body, dict):
        for key, value in body.items():
            if isinstance(value, list):
                body[key] = sorted(value, key=repr)
    if isinstance(body, dict) and body.get("kind") == "SelfSubjectRulesReview":
        body = _rules_in_order(body)
    return _unordered(body) if step.unordered and isinstance(body, dict) else body


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
        return value
    return value


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


def _shown(value: Any) -> str:
    text = "absent" if value is _ABSENT else repr(value)
    return text if len(text) <= 600 else f"{text[:600]}..."
