"""What makes sense in an access review. Pure.

Behaviour: kubernetes `pkg/apis/authorization/validation`.
"""

from typing import Any

from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.errors import FieldError, required, wrong
from vcsync.controlplane.identity.review_selectors import field_findings, label_findings

_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_BOTH = "cannot be specified in combination with resourceAttributes"
_NOBODY = "at least one of user or group must be specified"


def review_findings(review: Object, *, whose: bool, namespace: str | None = None) -> list[FieldError]:
    """Return what is wrong with a review.

    `whose`: whether the question is about somebody that it must name. `namespace`: of a LocalSubjectAccessReview.
    """
    spec = review.get("spec") or {}
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    found = []
    if resource is not None and other is not None:
        found.append(wrong("spec.nonResourceAttributes", _internal(other), _BOTH))
    if resource is None and other is None:
        found.append(wrong("spec.resourceAttributes", None, _ONE_OF))
    if whose and not spec.get("user") and not spec.get("groups"):
        found.append(wrong("spec.user", spec.get("user") or "", _NOBODY))
    for key, rules in (("fieldSelector", field_findings), ("labelSelector", label_findings)):
        selector, path = (resource or {}).get(key), f"spec.resourceAttributes.{key}"
        found += _selector_findings(selector, path)
        for number, each in enumerate((selector or {}).get("requirements") or ()):
            found += rules(each, f"{path}.requirements[{number}]")
    return found + _metadata_findings(review, namespace) + _local_findings(resource, other, namespace)


def _internal(attributes: Object) -> Object:
    """Write non-resource attributes as the real server's internal type prints."""
    return {"Path": attributes.get("path") or "", "Verb": attributes.get("verb") or ""}


def _metadata_findings(review: Object, namespace: str | None) -> list[FieldError]:
    metadata = {key: value for key, value in review["metadata"].items() if value not in (None, "", {}, [])}
    given = {key for key in metadata if key != "managedFields"} - (
        {"namespace"} if namespace is not None else set()
    )
    if not given:
        return []
    rule = "must be empty" if namespace is None else "must be empty except for namespace"
    return [wrong("metadata", metadata, rule)]


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
        said = f"when {path} is specified, requirements or rawSelector is required"
        found.append(required(f"{path}.requirements", said))
    return found
