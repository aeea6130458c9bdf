"""Validation rules for single fields, which the validation of every kind uses. Pure.

Objects must be canonical, as `schema.walk.normalize` leaves them. Paths are texts such as
`spec.containers[0].name`. A rule yields its findings in the order in which kube-apiserver reports them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.validation import names

Findings = Iterator[FieldError]
Object = dict[str, Any]

NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"
IMMUTABLE = "field is immutable"
_MISSING: Object = {}


def part(parent: Mapping[str, Any] | None, *keys: str) -> Object:
    """Return the object under keys, or an empty one. The caller must not change it."""
    here: Any = parent
    for key in keys:
        here = here.get(key) if isinstance(here, dict) else None
    return here if isinstance(here, dict) else _MISSING


def items(parent: Mapping[str, Any] | None, key: str) -> list[Any]:
    """Return the list under a key, or an empty one. The caller must not change it."""
    found = parent.get(key) if parent else None
    return found if isinstance(found, list) else []


def text(parent: Mapping[str, Any] | None, key: str) -> str:
    """Return the text under a key, or an empty one."""
    found = parent.get(key) if parent else None
    return found if isinstance(found, str) else ""


def number(parent: Mapping[str, Any] | None, key: str) -> int:
    """Return the integer under a key, or zero."""
    found = parent.get(key) if parent else None
    return found if isinstance(found, int) else 0


def indexed(parent: Mapping[str, Any] | None, key: str, path: str) -> Iterator[tuple[Any, str]]:
    """Yield the items of the list under a key with their paths. `path` is the path of the list."""
    for index, item in enumerate(items(parent, key)):
        yield item, f"{path}[{index}]"


def keyed(path: str, key: str) -> str:
    """Return the path of a map's entry."""
    return f"{path}[{key}]"


def say(path: str, value: Any, messages: Iterable[str]) -> Findings:
    """Yield a finding for each message about a value."""
    for message in messages:
        yield errors.wrong(path, value, message)


def needed(parent: Mapping[str, Any], key: str, path: str, detail: str = "") -> Findings:
    """Check that a text or list is not empty. `path` is the path of the parent."""
    if not parent.get(key):
        yield errors.required(f"{path}.{key}", detail)


def choice(path: str, value: str, choices: Sequence[str]) -> Findings:
    """Check that a text is not empty, and that it is one of the choices."""
    if not value:
        yield errors.required(path)
    else:
        yield from one_of(path, value, choices)


def one_of(path: str, value: Any, choices: Sequence[str]) -> Findings:
    """Check that a text is one of the choices."""
    if value not in choices:
        yield errors.not_supported(path, value, choices)


def nonnegative(parent: Mapping[str, Any], path: str, *keys: str) -> Findings:
    """Check that integers are not negative. `path` is the path of the parent."""
    for key in keys:
        value = parent.get(key)
        if isinstance(value, int) and value < 0:
            yield errors.wrong(f"{path}.{key}", value, NEGATIVE)


def positive(path: str, value: int) -> Findings:
    """Check that an integer is greater than zero."""
    if value <= 0:
        yield errors.wrong(path, value, NOT_POSITIVE)


def outside(value: int, low: int, high: int) -> list[str]:
    """Return the message that an integer is out of range, or none."""
    return [] if low <= value <= high else [f"must be between {low} and {high}, inclusive"]


def port(path: str, value: int) -> Findings:
    """Check a port number."""
    yield from say(path, value, outside(value, 1, 65535))


def port_or_name(path: str, value: Any) -> Findings:
    """Check a port number or name."""
    if isinstance(value, str):
        yield from say(path, value, names.port_name(value))
    else:
        yield from port(path, value if isinstance(value, int) else 0)


def id_number(path: str, value: Any) -> Findings:
    """Check a Unix user or group ID."""
    if isinstance(value, int):
        yield from say(path, value, outside(value, 0, 2**31 - 1))


def immutable(path: str, new: Any, old: Any) -> Findings:
    """Check that a value is unchanged."""
    if new != old:
        yield errors.wrong(path, new, IMMUTABLE)


def label_key(path: str, key: str) -> Findings:
    """Check the key of a label."""
    yield from say(path, key, names.qualified_name(key))


def labels(path: str, found: Mapping[str, Any]) -> Findings:
    """Check labels, or a selector of the same form."""
    for key, value in found.items():
        yield from label_key(path, key)
        yield from say(path, value, names.label_value(value))


def annotations(path: str, found: Mapping[str, Any]) -> Findings:
    """Check annotations: their keys, and their total size."""
    for key in found:
        yield from say(path, key, names.qualified_name(key.lower()))
    limit = 256 * 1024
    if sum(names.size(key) + names.size(value) for key, value in found.items()) > limit:
        yield errors.too_long(path, limit)


_SET_OPERATORS = ("In", "NotIn")
_EXISTENCE_OPERATORS = ("Exists", "DoesNotExist")


def selector(path: str, found: Mapping[str, Any] | None) -> Findings:
    """Check a LabelSelector."""
    if found is None:
        return
    yield from labels(f"{path}.matchLabels", part(found, "matchLabels"))
    for each, here in indexed(found, "matchExpressions", f"{path}.matchExpressions"):
        yield from _expression(here, each)


def _expression(path: str, found: Mapping[str, Any]) -> Findings:
    operator, values = text(found, "operator"), items(found, "values")
    if operator in _SET_OPERATORS:
        if not values:
            yield errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in _EXISTENCE_OPERATORS:
        if values:
            yield errors.not_allowed(
                f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
    else:
        yield errors.wrong(f"{path}.operator", operator, "not a valid selector operator")
    yield from label_key(f"{path}.key", text(found, "key"))
    for index, value in enumerate(values):
        yield from say(f"{path}.values[{index}]", value, names.label_value(value))


def understood(found: Mapping[str, Any] | None) -> bool:
    """Return whether a LabelSelector can be evaluated."""
    if found is None:
        return True
    return not any(True for _ in selector("", found))


def selects(found: Mapping[str, Any] | None, given: Mapping[str, Any]) -> bool:
    """Return whether a LabelSelector matches labels. None matches nothing."""
    if found is None:
        return False
    return all(given.get(key) == value for key, value in part(found, "matchLabels").items()) and all(
        _expression_matches(each, given) for each in items(found, "matchExpressions")
    )


def _expression_matches(found: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    value = given.get(text(found, "key"))
    match text(found, "operator"):
        case "In":
            return value in items(found, "values")
        case "NotIn":
            return value is None or value not in items(found, "values")
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def empty_selector(found: Mapping[str, Any]) -> bool:
    """Return whether a LabelSelector has no requirements."""
    return not part(found, "matchLabels") and not items(found, "matchExpressions")


def listed(check: Callable[..., Findings], *about: Any) -> list[FieldError]:
    """Return the findings of a rule as a list."""
    return list(check(*about))


CONDITION_STATUS = ("False", "True", "Unknown")


def conditions(path: str, found: Sequence[Mapping[str, Any]]) -> Findings:
    """Check `metav1.Condition`s: types are unique, and required fields are given."""
    seen: set[str] = set()
    for index, each in enumerate(found):
        here = f"{path}[{index}]"
        kind = text(each, "type")
        if kind in seen:
            yield errors.duplicate(f"{here}.type", kind)
        seen.add(kind)
        yield from label_key(f"{here}.type", kind)
        if text(each, "status") not in CONDITION_STATUS:
            yield errors.not_supported(f"{here}.status", text(each, "status"), CONDITION_STATUS)
        if number(each, "observedGeneration") < 0:
            yield errors.wrong(
                f"{here}.observedGeneration",
                number(each, "observedGeneration"),
                "must be greater than or equal to zero",
            )
        yield from needed(each, "lastTransitionTime", here)
        reason = text(each, "reason")
        if not reason:
            yield errors.required(f"{here}.reason")
        else:
            yield from say(f"{here}.reason", reason, names.condition_reason(reason))
            if names.size(reason) > 1024:
                yield errors.too_long(f"{here}.reason", 1024)
        if names.size(text(each, "message")) > 32 * 1024:
            yield errors.too_long(f"{here}.message", 32 * 1024)
