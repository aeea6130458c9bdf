"""Compare two answers field by field, leaving out what differs by nature. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hack.parity.ask import Answer
from hack.parity.corpus import Step

# What no two servers share, by the field's name; the value's type is kept.
_BY_NATURE = {
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
"""In a text that holds JSON or YAML."""
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
    """One place in which two answers differ."""

    path: str
    real: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.path}: real {_shown(self.real)}, ours {_shown(self.ours)}"


def differences(step: Step, real: Answer, ours: Answer) -> list[Difference]:
    """Return every place in which the answers differ."""
    found: list[Difference] = []
    for what, left, right in (
        ("code", real.code, ours.code),
        ("content type", real.content_type, ours.content_type),
        ("warnings", list(real.warnings), list(ours.warnings)),
    ):
        found += _differ(what, left, right)
    found += _differ("", _prepared(step, real.body), _prepared(step, ours.body))
    return found


def _prepared(step: Step, body: Any) -> Any:
    body = _masked(body)
    for path in step.mask:
        body = _mask_path(body, path.split("."))
    if step.sort and isinstance(body, dict):
        for key, value in body.items():
            if isinstance(value, list):
                body[key] = sorted(value, key=repr)
    return _unordered(body) if step.unordered and isinstance(body, dict) else body


def _unordered(status: dict[str, Any]) -> dict[str, Any]:
    """Bring the findings of a Status into one order."""
    subject, _, findings = str(status.get("message") or "").partition(": ")
    told = {**status, "message": [subject, *sorted(findings.strip("[]").split(", "))]}
    details = status.get("details")
    if isinstance(details, dict) and "causes" in details:
        told["details"] = {**details, "causes": sorted(details["causes"], key=repr)}
    return told


def _masked(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _masked(each, key) for key, each in value.items()}
    if isinstance(value, list):
        masked = [_masked(each, name) for each in value]
        # Their order follows the second in which each was written.
        return sorted(masked, key=_manager) if name == "managedFields" else masked
    if name in _BY_NATURE and isinstance(value, str) and value:
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


def _mask_path(value: Any, parts: Sequence[str]) -> Any:
    if not parts:
        return "<masked>"
    if parts[0] == "*":
        if isinstance(value, list):
            return [_mask_path(each, parts[1:]) for each in value]
        if isinstance(value, dict):
            return {key: _mask_path(each, parts[1:]) for key, each in value.items()}
        return value
    if isinstance(value, dict) and parts[0] in value:
        return {**value, parts[0]: _mask_path(value[parts[0]], parts[1:])}
    return value


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
