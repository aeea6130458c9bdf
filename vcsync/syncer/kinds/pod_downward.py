"""The downward API: containers get the fields of the tenant's Pod, and not those of the super cluster's Pod.

Labels that the super Pod has under the same key are shown as they are. For all other labels and annotations, variables and files
refer to annotations of the super Pod that contain the tenant's values and are kept up to date.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Final

from vcsync.api import names
from vcsync.objects.envelope import Envelope
from vcsync.syncer.kinds.keys import is_shown_as_is
from vcsync.syncer.kinds.plan import TenantContext

ALL_LABELS: Final = names.DOWNWARD_PREFIX + "labels"
ALL_ANNOTATIONS: Final = names.DOWNWARD_PREFIX + "annotations"

NODE_VARIABLE: Final = "VCSYNC_NODE_NAME"
"""Environment variable with the node's name, from which a variable with `spec.nodeName` gets the virtual node's name."""

_HASH_LENGTH = 16
_WHOLE: Final = {"metadata.labels": ALL_LABELS, "metadata.annotations": ALL_ANNOTATIONS}
_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def quote(text: str) -> str:
    """Quote as Go's `%q` does, as the kubelet writes label and annotation files."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(char: str) -> str:
    if (escape := _ESCAPES.get(char)) is not None:
        return escape
    if char == " " or unicodedata.category(char)[0] not in "CZ":
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def format_map(values: Mapping[str, str]) -> str:
    """Return labels or annotations as the kubelet writes them into a file: sorted lines `key="value"`."""
    return "\n".join(f"{key}={quote(values[key])}" for key in sorted(values))


def env_entries(entry: Mapping[str, Any], v: Envelope, context: TenantContext) -> list[dict[str, Any]]:
    """Return the environment entries for a tenant's entry with a `fieldRef`.

    It refers to the same field if that has the same value in the super cluster.
    """
    path = entry["valueFrom"]["fieldRef"].get("fieldPath", "")
    value: str | None = None
    if path == "metadata.namespace":
        value = v.namespace
    elif path == "metadata.uid":
        value = v.uid
    elif path == "spec.nodeName":
        node = {
            "name": NODE_VARIABLE,
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}},
        }
        return [node, {"name": entry["name"], "value": f"$({NODE_VARIABLE}).{context.super_id}"}]
    if value is None:
        reference = {**entry["valueFrom"]["fieldRef"], "fieldPath": field_path(path, context)}
        return [{**entry, "valueFrom": {"fieldRef": reference}}]
    # Literal values are subject to $(VAR) expansion, values from a fieldRef are not.
    return [{"name": entry["name"], "value": value.replace("$", "$$")}]


def field_path(path: str, context: TenantContext) -> str:
    """Return the field of the super Pod that has the value of a field of the tenant's Pod.

    Args:
        path: `fieldPath` of an item of a downward API volume, or of a variable.
        context: the tenant's settings.
    """
    if path == "metadata.namespace":
        return _annotation_path(names.NAMESPACE)
    if path == "metadata.uid":
        return _annotation_path(names.UID)
    if (key := _key(path, context)) is not None:
        return _annotation_path(key)
    return path


def _key(path: str, context: TenantContext) -> str | None:
    """Return the annotation of the super Pod that shows a field; None if another field does."""
    if (key := _WHOLE.get(path)) is not None:
        return key
    subscript = _subscript(path)
    if subscript is None or is_shown_as_is(*subscript, context):
        return None
    return names.DOWNWARD_PREFIX + hashlib.sha256(path.encode()).hexdigest()[:_HASH_LENGTH]


def paths(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield every `fieldPath` of the Pod's downward API volumes, projections and environment variables."""
    for volume in spec.get("volumes") or ():
        sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
        for source in sources:
            for item in (source.get("downwardAPI") or {}).get("items") or ():
                if (reference := item.get("fieldRef")) is not None:
                    yield reference.get("fieldPath", "")
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            for variable in container.get("env") or ():
                if (reference := (variable.get("valueFrom") or {}).get("fieldRef")) is not None:
                    yield reference.get("fieldPath", "")


def extra_annotations(spec: Mapping[str, Any], v: Envelope, context: TenantContext) -> dict[str, str]:
    """Return the annotations that the super Pod needs for the downward API of the tenant's Pod.

    Args:
        spec: the tenant's spec.
        v: the tenant's Pod.
        context: the tenant's settings.
    """
    extra: dict[str, str] = {}
    for path in paths(spec):
        if (key := _key(path, context)) is None or key in extra:
            continue
        subscript = _subscript(path)
        if subscript is None:
            extra[key] = format_map(_values(v, path))
        else:
            extra[key] = _values(v, subscript[0]).get(subscript[1], "")
    return extra


def shown_as_is(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (labels or annotations, key) of what a Pod's own downward API shows.

    Args:
        spec: the super Pod's spec.
    """
    for path in paths(spec):
        if (subscript := _subscript(path)) is not None:
            yield subscript[0].removeprefix("metadata."), subscript[1]


def _annotation_path(key: str) -> str:
    return f"metadata.annotations['{key}']"


def _subscript(path: str) -> tuple[str, str] | None:
    """Split `metadata.labels['key']` into (metadata.labels, key); None for other paths."""
    field, bracket, rest = path.partition("['")
    if not bracket or field not in _WHOLE or not rest.endswith("']"):
        return None
    return field, rest[:-2]


def _values(v: Envelope, field: str) -> dict[str, str]:
    return v.labels if field == "metadata.labels" else v.annotations
