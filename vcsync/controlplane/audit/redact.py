"""Takes out of audit events what nobody may read there, whatever the policy says: Secrets' data and tokens. Pure.

A Secret's content travels in more places than its data: patches, lists, the annotation of kubectl's last configuration,
messages that repeat what was sent, and what a tenant's policies and webhooks say of it.
"""

from collections.abc import Mapping
from typing import Any

REDACTED = "REDACTED"
_SECRETS = ("", "secrets", "")
_TOKENS: Mapping[tuple[str, str, str], tuple[str, str]] = {
    ("authentication.k8s.io", "tokenreviews", ""): ("spec", "token"),
    ("", "serviceaccounts", "token"): ("status", "token"),
}
"""(group, plural, subresource) -> where a token stands."""
_KEPT = frozenset(
    {
        "kind",
        "apiVersion",
        "type",
        "immutable",
        "propagationPolicy",
        "gracePeriodSeconds",
        "orphanDependents",
    }
)
"""Fields of Secrets and of the options of their deletion."""
_KEPT_METADATA = frozenset(
    {
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "finalizers",
        "ownerReferences",
        "managedFields",
    }
)
_HARMLESS_CODES = frozenset({401, 404, 405, 406, 409, 410, 415, 429})
"""Whose messages never repeat what was sent."""
_HARMLESS_KEYS = (
    "authorization.k8s.io/",
    "authentication.k8s.io/",
    "authentication.kubernetes.io/",
    "audit.k8s.io/",
    "k8s.io/",
    "mutation.webhook.admission.k8s.io/",
)
"""Prefixes of annotations that the server itself writes."""


def secretive(reference: Mapping[str, str] | None) -> bool:
    """Whether a request is about what may hold something secret."""
    return reference is not None and (_is_secret(reference) or _which(reference) in _TOKENS)


def body(reference: Mapping[str, str], value: Any, *, answered: bool = False) -> Any:
    """Return a body without what is secret in it; `answered`: the server wrote it, and a Status is one."""
    if answered and isinstance(value, dict) and value.get("kind") == "Status":
        return value
    if _is_secret(reference):
        return _secret(value)
    place = _TOKENS.get(_which(reference))
    if place is None or not isinstance(value, dict):
        return value
    part = value.get(place[0])
    if not isinstance(part, dict) or not part.get(place[1]):
        return value
    return {**value, place[0]: {**part, place[1]: REDACTED}}


def status(value: Mapping[str, Any], annotations: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a Status about something secret without messages that may repeat it."""
    harmless = value.get("code") in _HARMLESS_CODES or not value.get("message")
    if harmless or annotations.get("authorization.k8s.io/decision") == "forbid":
        return value
    shown = {**value, "message": REDACTED}
    details = value.get("details")
    if isinstance(details, dict) and details.get("causes"):
        shown["details"] = {
            **details,
            "causes": [{**each, "message": REDACTED} for each in details["causes"]],
        }
    return shown


def annotations(found: Mapping[str, str]) -> dict[str, str]:
    """Return annotations of a request about something secret: of what others wrote only the keys."""
    return {
        key: value if key.startswith(_HARMLESS_KEYS) else REDACTED for key, value in sorted(found.items())
    }


def without_managed_fields(value: Any) -> Any:
    """Return an object, list or Table without metadata.managedFields."""
    if not isinstance(value, dict):
        return value
    bare = dict(value)
    if isinstance(bare.get("metadata"), dict):
        bare["metadata"] = {key: each for key, each in bare["metadata"].items() if key != "managedFields"}
    return _each(bare, without_managed_fields)


def _which(reference: Mapping[str, str]) -> tuple[str, str, str]:
    return reference.get("apiGroup", ""), reference.get("resource", ""), reference.get("subresource", "")


def _is_secret(reference: Mapping[str, str]) -> bool:
    return _which(reference)[:2] == _SECRETS[:2]


def _secret(value: Any) -> Any:
    if isinstance(value, list):
        return [_operation(each) for each in value]
    if value is None:
        return None
    if not isinstance(value, dict):
        return REDACTED
    return {key: _field(key, each) for key, each in value.items()}


def _operation(value: Any) -> Any:
    """Of a JSON patch all but the values."""
    if not isinstance(value, dict):
        return REDACTED
    return {key: each if key in ("op", "path", "from") else REDACTED for key, each in value.items()}


def _field(key: str, value: Any) -> Any:
    if key in _KEPT and not isinstance(value, dict | list):
        return value
    if key == "metadata" and isinstance(value, dict):
        return {name: each if name in _KEPT_METADATA else _values(each) for name, each in value.items()}
    if key == "items" and isinstance(value, list):
        return [_secret(each) for each in value]
    if key == "rows" and isinstance(value, list):
        return [_row(each) for each in value]
    return _values(value)


def _row(value: Any) -> Any:
    """Of a Table's row the object; its cells count a Secret's keys."""
    if not isinstance(value, dict):
        return REDACTED
    return {key: _secret(each) if key == "object" else REDACTED for key, each in value.items()}


def _values(value: Any) -> Any:
    return dict.fromkeys(value, REDACTED) if isinstance(value, dict) else REDACTED


def _each(value: dict[str, Any], change: Any) -> dict[str, Any]:
    """Change every object of a list or Table."""
    changed = dict(value)
    if isinstance(value.get("items"), list):
        changed["items"] = [change(each) for each in value["items"]]
    if isinstance(value.get("rows"), list):
        changed["rows"] = [
            {**row, "object": change(row["object"])} if isinstance(row, dict) and row.get("object") else row
            for row in value["rows"]
        ]
    return changed
