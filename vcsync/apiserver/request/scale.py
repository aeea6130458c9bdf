"""The scale subresource: converts objects to Scale objects, and applies Scale objects. Pure.

Source: `registry/apps/*/storage/storage.go` in Kubernetes.
"""

from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.request.resource import Kind
from vcsync.objects.selectors import InvalidSelector, parse_selector

NEGATIVE = "must be greater than or equal to 0"
UNSET = -(2**31)
"""Replicas of a custom resource without replicas while its scale is being written."""


def to_scale(kind: Kind, served: Object, *, unset: int | None = None) -> Object:
    """Return the Scale of an object.

    `unset` is the number of replicas of a custom resource that has none. None: such a resource is refused.

    Raises:
        StatusError: The object cannot be scaled.
    """
    if kind.scale is not None:
        found: Object = kind.scale.to_scale(served, unset=unset)
        return found
    metadata, spec, status = served["metadata"], served.get("spec") or {}, served.get("status") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scale_status: dict[str, Any] = {"replicas": status.get("replicas") or 0}
    if text := selector_text(spec.get("selector")):
        scale_status["selector"] = text
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if metadata.get(key)},
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": scale_status,
    }


def apply_scale(kind: Kind, served: Object, scale: Object, name: str) -> None:
    """Apply a Scale to its object, in place.

    Raises:
        StatusError: 422, 409.
    """
    metadata = scale.get("metadata") or {}
    resource = kind.resource
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if kind.scale is not None:
        if replicas == UNSET:
            raise errors.bad_request(f'the spec replicas field "{kind.scale.spec}" cannot be empty')
        kind.scale.apply_scale(served, scale)
    else:
        if replicas < 0:
            finding = errors.wrong("spec.replicas", replicas, NEGATIVE)
            raise errors.invalid("Scale", "autoscaling", name, [finding])
        uid, there = metadata.get("uid"), served["metadata"].get("uid")
        if uid and uid != there:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {there}"
            raise errors.conflict(f"{resource.plural}/scale", resource.group, name, why)
        served.setdefault("spec", {})["replicas"] = replicas
    if version := metadata.get("resourceVersion"):
        served["metadata"]["resourceVersion"] = version


def selector_text(selector: Any) -> str:
    """Return a selector as text in the API's order. A plain map consists of equalities."""
    if not isinstance(selector, dict):
        return ""
    if not selector.keys() & {"matchLabels", "matchExpressions"}:
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        key, operator = each.get("key", ""), each.get("operator")
        values = ",".join(sorted(each.get("values") or ()))
        form = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        terms.append((key, form.get(operator, f"!{key}")))
    text = ",".join(term for _, term in sorted(terms, key=lambda each: each[0]))
    try:
        parse_selector(text)
    except InvalidSelector as error:
        raise errors.bad_request(str(error)) from None
    return text
