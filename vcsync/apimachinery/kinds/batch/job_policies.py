"""A Job's failure and success policies, and lists of indexes. Pure.

Source: `validatePodFailurePolicy`, `validateSuccessPolicy`, `validateIndexesFormat` in Kubernetes'
`pkg/apis/batch/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import (
    Findings,
    Object,
    indexed,
    items,
    number,
    one_of,
    part,
    say,
    text,
)
from vcsync.patterns.linear import linear

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_INTEGER = linear(r"[+-]?[0-9]{1,19}")
_LONGEST_INDEXES = 64 * 1024


def _quoted_choices(choices: tuple[str, ...]) -> str:
    quoted = " ".join(f'"{each}"' for each in choices)
    return f"valid values: [{quoted}]"


def without_value(path: str, message: str) -> FieldError:
    """Return a finding that a value is invalid, without showing the value."""
    return FieldError("FieldValueInvalid", path, "Invalid value", details=(message,))


def failure_policy(path: str, spec: Object) -> Findings:
    """Check the Pod failure policy."""
    rules = items(part(spec, "podFailurePolicy"), "rules")
    if len(rules) > 20:
        yield errors.too_many(f"{path}.rules", len(rules), 20)
    pod = part(spec, "template", "spec")
    known = {text(each, "name") for key in ("containers", "initContainers") for each in items(pod, key)}
    for index, rule in enumerate(rules):
        here = f"{path}.rules[{index}]"
        yield from _action(f"{here}.action", text(rule, "action"), spec)
        codes, conditions = rule.get("onExitCodes"), items(rule, "onPodConditions")
        if codes is not None:
            yield from _exit_codes(f"{here}.onExitCodes", codes, known)
        if conditions:
            yield from _conditions(f"{here}.onPodConditions", rule)
        if codes is not None and conditions:
            yield without_value(here, "specifying both OnExitCodes and OnPodConditions is not supported")
        if codes is None and not conditions:
            yield without_value(here, "specifying one of OnExitCodes and OnPodConditions is required")


def _action(path: str, action: str, spec: Object) -> Findings:
    if not action:
        yield errors.required(path, _quoted_choices(_ACTIONS))
    elif action == "FailIndex":
        if "backoffLimitPerIndex" not in spec:
            yield errors.wrong(path, action, "requires the backoffLimitPerIndex to be set")
    else:
        yield from one_of(path, action, _ACTIONS)


def _exit_codes(path: str, found: Object, known: set[str]) -> Findings:
    operator, values = text(found, "operator"), items(found, "values")
    if not operator:
        yield errors.required(f"{path}.operator", _quoted_choices(_OPERATORS))
    else:
        yield from one_of(f"{path}.operator", operator, _OPERATORS)
    container = found.get("containerName")
    if container is not None and container not in known:
        message = "must be one of the container or initContainer names in the pod template"
        yield errors.wrong(f"{path}.containerName", container, message)
    if not values:
        yield errors.wrong(f"{path}.values", found.get("values"), "at least one value is required")
    elif len(values) > 255:
        yield errors.too_many(f"{path}.values", len(values), 255)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield errors.wrong(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in seen:
            yield errors.duplicate(f"{path}.values[{index}]", value)
        seen.add(value)
    if values != sorted(values):
        yield errors.wrong(f"{path}.values", values, "must be ordered")


def _conditions(path: str, rule: Object) -> Findings:
    found = items(rule, "onPodConditions")
    if len(found) > 20:
        yield errors.too_many(path, len(found), 20)
    for each, here in indexed(rule, "onPodConditions", path):
        yield from say(f"{here}.type", text(each, "type"), names.qualified_name(text(each, "type")))
        status = text(each, "status")
        if not status:
            yield errors.required(f"{here}.status", _quoted_choices(_STATUSES))
        else:
            yield from one_of(f"{here}.status", status, _STATUSES)


def replacement_policy(path: str, spec: Object) -> Findings:
    """Check the Pod replacement policy."""
    policy = spec.get("podReplacementPolicy")
    if policy is not None:
        choices = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
        yield from one_of(path, policy, choices)


def success_policy(path: str, spec: Object) -> Findings:
    """Check the success policy."""
    rules = items(part(spec, "successPolicy"), "rules")
    if spec.get("completionMode") != "Indexed":
        shown = {
            "Rules": [
                {
                    "SucceededIndexes": each.get("succeededIndexes"),
                    "SucceededCount": each.get("succeededCount"),
                }
                for each in rules
            ]
            or None
        }
        yield errors.wrong(path, shown, "requires indexed completion mode")
        return
    if not rules:
        yield errors.required(
            f"{path}.rules", "at least one rules must be specified when the successPolicy is specified"
        )
    if len(rules) > 20:
        yield errors.too_many(f"{path}.rules", len(rules), 20)
    for index, rule in enumerate(rules):
        yield from _success_rule(f"{path}.rules[{index}]", rule, number(spec, "completions"))


def _success_rule(path: str, rule: Object, completions: int) -> Findings:
    count, listed = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and listed is None:
        yield errors.required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if listed is not None:
        if names.size(listed) > _LONGEST_INDEXES:
            yield errors.too_long(f"{path}.succeededIndexes", _LONGEST_INDEXES)
        try:
            total = index_count(listed, completions)
        except ValueError as wrong:
            yield errors.wrong(f"{path}.succeededIndexes", listed, f"error parsing succeededIndexes: {wrong}")
    if count is None:
        return
    here = f"{path}.succeededCount"
    if count < 0:
        yield errors.wrong(here, count, "must be greater than or equal to 0")
    if count > completions:
        message = f"must be less than or equal to {completions} (the number of specified completions)"
        yield errors.wrong(here, count, message)
    if listed is not None and count > total:
        message = "the number of indexes in the specified succeededIndexes field"
        yield errors.wrong(here, count, f"must be less than or equal to {total} ({message})")


def index_count(listed: str, completions: int) -> int:
    """Return how many indexes a list like `0,3-5` names.

    Raises:
        ValueError: it is not well formed, or names an index that is too large.
    """
    return sum(last - first + 1 for first, last in intervals(listed, completions))


def intervals(listed: str, completions: int) -> list[tuple[int, int]]:
    """Return the intervals of a list of indexes.

    Raises:
        ValueError: it is not well formed, or names an index that is too large.
    """
    found: list[tuple[int, int]] = []
    for each in listed.split(",") if listed else ():
        first, last = _interval(each, completions)
        if found and found[-1][1] >= first:
            raise ValueError(f"non-increasing order, previous: {found[-1][1]}, current: {first}")
        found.append((first, last))
    return found


def _interval(each: str, completions: int) -> tuple[int, int]:
    parts = each.split("-")
    if len(parts) > 2:
        message = (
            "violates the requirement that an index interval can have at most two parts separated by '-'"
        )
        raise ValueError(f"the fragment {errors.value_text(each)} {message}")
    ends = []
    for one in parts:
        if not _INTEGER.fullmatch(one):
            raise ValueError(f"cannot convert string to integer for index: {errors.value_text(one)}")
        if int(one) >= completions:
            raise ValueError(f"too large index: {errors.value_text(one)}")
        ends.append(int(one))
    if len(ends) == 2 and ends[0] >= ends[1]:
        raise ValueError(f"non-increasing order, previous: {ends[0]}, current: {ends[1]}")
    return ends[0], ends[-1]
