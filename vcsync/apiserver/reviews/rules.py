"""Validates access reviews. Pure.

Behaviour: kubernetes `pkg/apis/authorization/validation`.
"""

from typing import Any

from vcsync.apimachinery.errors import FieldError, required, too_many, wrong
from vcsync.apimachinery.schema.gotypes import META, fields
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.reviews.selectors import field_findings, label_findings

OBJECT_META = f"{META}ObjectMeta"
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_BOTH = "cannot be specified in combination with resourceAttributes"
MAX_GROUPS = 1000
"""Groups of the user that a review may name. kube-apiserver takes as many as fit into 3 MiB."""
MAX_EXTRA = 1000
"""Keys and values of extra, together, that it may name."""
_NO_SUBJECT = "at least one of user or group must be specified"


def review_findings(review: Object, *, whose: bool, namespace: str | None = None) -> list[FieldError]:
    """Validate an access review.

    Args:
        review: The review.
        whose: Whether the review must name its subject.
        namespace: Namespace of a LocalSubjectAccessReview, or None for other reviews.
    """
    spec = review.get("spec") or {}
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    found = []
    if resource is not None and other is not None:
        found.append(wrong("spec.nonResourceAttributes", _internal(other), _BOTH))
    if resource is None and other is None:
        found.append(wrong("spec.resourceAttributes", None, _ONE_OF))
    if whose and not spec.get("user") and not spec.get("groups"):
        found.append(wrong("spec.user", spec.get("user") or "", _NO_SUBJECT))
    found += _subject_findings(spec)
    for key, rules in (("fieldSelector", field_findings), ("labelSelector", label_findings)):
        selector, path = (resource or {}).get(key), f"spec.resourceAttributes.{key}"
        found += _selector_findings(selector, path)
        for number, each in enumerate((selector or {}).get("requirements") or ()):
            found += rules(each, f"{path}.requirements[{number}]")
    return found + _metadata_findings(review, namespace) + _local_findings(resource, other, namespace)


def _subject_findings(spec: Object) -> list[FieldError]:
    found = []
    groups, extra = spec.get("groups") or (), spec.get("extra") or {}
    if len(groups) > MAX_GROUPS:
        found.append(too_many("spec.groups", len(groups), MAX_GROUPS))
    values = len(extra) + sum(len(each or ()) for each in extra.values())
    if values > MAX_EXTRA:
        found.append(too_many("spec.extra", values, MAX_EXTRA))
    return found


def _internal(attributes: Object) -> Object:
    """Return non-resource attributes with the field names of kube-apiserver's internal type, for messages."""
    return {"Path": attributes.get("path") or "", "Verb": attributes.get("verb") or ""}


def _metadata_findings(review: Object, namespace: str | None) -> list[FieldError]:
    metadata = {key: value for key, value in review["metadata"].items() if value not in (None, "", {}, [])}
    allowed = {"managedFields"} if namespace is None else {"managedFields", "namespace"}
    if metadata.keys() <= allowed:
        return []
    rule = "must be empty" if namespace is None else "must be empty except for namespace"
    ordered = {key: metadata[key] for key in fields(OBJECT_META) if key in metadata}
    return [wrong("metadata", ordered, rule)]


def _local_findings(resource: Object | None, other: Object | None, namespace: str | None) -> list[FieldError]:
    if namespace is None:
        return []
    found = []
    if resource is not None and (resource.get("namespace") or "") != namespace:
        value = resource.get("namespace") or ""
        found.append(wrong("spec.resourceAttributes.namespace", value, "must match metadata.namespace"))
    if other is not None:
        found.append(
            wrong("spec.nonResourceAttributes", _internal(other), "disallowed on this kind of request")
        )
    return found


def _selector_findings(selector: Any, path: str) -> list[FieldError]:
    if selector is None:
        return []
    raw, requirements = selector.get("rawSelector") or "", selector.get("requirements") or []
    found = []
    if raw and requirements:
        found.append(wrong(f"{path}.rawSelector", raw, "may not specified at the same time as requirements"))
    if not raw and not requirements:
        detail = f"when {path} is specified, requirements or rawSelector is required"
        found.append(required(f"{path}.requirements", detail))
    return found
