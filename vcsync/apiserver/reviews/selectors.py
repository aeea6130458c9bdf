"""Validates the selectors of access reviews, and reads the parts that authorizers use. Pure.

Behaviour: apimachinery `pkg/apis/meta/v1/validation`, kubernetes `pkg/registry/authorization/util/helpers.go`.
"""

from collections.abc import Callable
from typing import Any

from vcsync.apimachinery.errors import FieldError, not_allowed, required, wrong
from vcsync.apimachinery.selectors.field_selectors import InvalidFieldSelector, parse_field_selector
from vcsync.apimachinery.selectors.label_selectors import InvalidLabelSelector, parse_label_selector
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.validation import names

_NEEDS = "must be specified when `operator` is 'In' or 'NotIn'"
_HAS_NONE = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_KNOWN = ("In", "NotIn", "Exists", "DoesNotExist")


def field_findings(requirement: Object, path: str) -> list[FieldError]:
    """Validate a requirement on a field. Unknown operators are valid."""
    found = [] if requirement.get("key") else [required(f"{path}.key", "must be specified")]
    return found + _value_findings(requirement, path)


def label_findings(requirement: Object, path: str) -> list[FieldError]:
    """Validate a requirement on a label. Unknown operators are valid."""
    key = requirement.get("key") or ""
    found = _value_findings(requirement, path)
    found += [wrong(f"{path}.key", key, why) for why in names.qualified_name(key)]
    for number, value in enumerate(requirement.get("values") or ()):
        found += [wrong(f"{path}.values[{number}]", value, why) for why in names.label_value(value)]
    return found


def _value_findings(requirement: Object, path: str) -> list[FieldError]:
    operator, values = requirement.get("operator"), requirement.get("values")
    if operator in ("In", "NotIn") and not values:
        return [required(f"{path}.values", _NEEDS)]
    if operator in ("Exists", "DoesNotExist") and values:
        return [not_allowed(f"{path}.values", _HAS_NONE)]
    return []


def selected_fields(selector: Any) -> tuple[tuple[str, str], ...]:
    """Return the pairs of field and value that a review's field selector requires to be equal."""
    if not selector:
        return ()
    if selector.get("requirements"):
        usable = (each for each in selector["requirements"] if _is_usable(each))
        return tuple((each["key"], each["values"][0]) for each in usable if each["operator"] == "In")
    try:
        found = parse_field_selector(selector.get("rawSelector") or "")
    except InvalidFieldSelector:
        return ()
    return tuple((term.field, term.value) for term in found.terms if term.equal)


def selector_problems(resource: Object) -> str:
    """Return a message that names the selectors of a review that are ignored. Empty: none."""
    messages = []
    for key, parse, usable in (
        ("fieldSelector", _parses_fields, _is_usable),
        ("labelSelector", _parses_labels, _is_known),
    ):
        selector = resource.get(key) or {}
        ignored = _ignored(selector, parse, usable)
        if ignored:
            messages.append(f"spec.resourceAttributes.{key} {ignored} due to parse error")
    return "; ".join(messages)


def _ignored(selector: Object, parse: Callable[[str], bool], usable: Callable[[Object], bool]) -> str:
    requirements = selector.get("requirements") or []
    if requirements:
        good = sum(map(usable, requirements))
        return "" if good == len(requirements) else "partially ignored" if good else "ignored"
    raw = selector.get("rawSelector")
    return "ignored" if raw and not parse(raw) else ""


def _is_usable(requirement: Object) -> bool:
    """Return whether a requirement can be expressed as a field selector."""
    return requirement.get("operator") in ("In", "NotIn") and len(requirement.get("values") or ()) == 1


def _is_known(requirement: Object) -> bool:
    return requirement.get("operator") in _KNOWN


def _parses_fields(text: str) -> bool:
    try:
        parse_field_selector(text)
    except InvalidFieldSelector:
        return False
    return True


def _parses_labels(text: str) -> bool:
    try:
        parse_label_selector(text)
    except InvalidLabelSelector:
        return False
    return True
