"""Validation of the openAPIV3Schema of one version of a CustomResourceDefinition. Pure.

Source: `validateCustomResourceDefinitionValidation`, `ValidateCustomResourceDefinitionOpenAPISchema` in apiextensions:
unsupported keywords, list and map types, rules of x-kubernetes-validations with their estimated cost.
"""

import contextlib
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from vcsync.apimachinery import gotext
from vcsync.apimachinery.errors import FieldError, not_allowed, not_supported, required, wrong
from vcsync.apimachinery.structural import field_path as fieldpath
from vcsync.apimachinery.structural import object_meta as objectmeta
from vcsync.apimachinery.structural import schema as structural
from vcsync.apimachinery.structural import schema_rules as schemarules
from vcsync.apimachinery.structural import validation as validate
from vcsync.apimachinery.structural.field_names import child, index, key
from vcsync.apimachinery.structural.list_rules import check_lists
from vcsync.apimachinery.structural.schema import Structural
from vcsync.patterns.linear import linear

Raw = Mapping[str, Any]

_LINE_BREAK = linear(r"[\n\r]")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_AT_ROOT = {
    "description": "Description", "type": "Type", "format": "Format", "title": "Title", "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum", "minimum": "Minimum", "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength", "minLength": "MinLength", "pattern": "Pattern", "maxItems": "MaxItems",
    "minItems": "MinItems", "uniqueItems": "UniqueItems", "multipleOf": "MultipleOf", "required": "Required",
    "items": "Items", "properties": "Properties", "externalDocs": "ExternalDocs", "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields", "x-kubernetes-validations": "XValidations",
}  # fmt: skip
_EXPRESSION_LIMIT = 10_000_000
_DEFINITION_LIMIT = 100_000_000
UNBOUNDED = 2**64 - 1


@dataclass(slots=True)
class Cost:
    """The estimated costs of a schema's rules: their sum, and the most expensive ones with their paths."""

    total: int = 0
    dearest: list[tuple[int, str]] = field(default_factory=list)

    def observe(self, path: str, cost: int) -> None:
        """Add the cost of one expression. The four most expensive ones above the threshold are kept."""
        self.total = min(self.total + cost, UNBOUNDED)
        if cost >= _DEFINITION_LIMIT // 100:
            self.dearest = sorted([*self.dearest, (cost, path)], key=lambda each: -each[0])[:4]


@dataclass(frozen=True, slots=True)
class Estimated:
    """The result of compiling one rule: errors and costs of `rule` and `messageExpression`."""

    error: str = ""
    message_error: str = ""
    cost: int = 0
    message_cost: int = 0
    has_message: bool = False
    uses_old: bool = False
    occurrences: int = 1


class DefaultEvaluator(Protocol):
    """Evaluates the rules of a schema on a default."""

    def __call__(
        self, path: str, node: Structural, default: Any, budget: int, *, whole: bool
    ) -> tuple[list[FieldError], int]:
        """Return the findings, and what is left of the cost budget.

        Args:
            path: the path of the default.
            node: the schema that has the default.
            default: the default.
            budget: the cost that its rules may have.
            whole: whether it is the schema of whole objects.
        """
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """Functions that compile and evaluate x-kubernetes-validations.

    Attributes:
        estimate: compiles the rules of a schema; arguments: the schema, and whether it is that of whole objects.
        evaluate: evaluates them on a default.
        budget: the cost of all rules of all defaults of a schema.
    """

    estimate: Callable[[Structural, bool], list[Estimated]]
    evaluate: DefaultEvaluator
    budget: int


@dataclass(frozen=True, slots=True)
class _Position:
    """The position in a schema: what is forbidden here, and how often it may occur (None: unbounded)."""

    no_defaults: str | None = None
    in_meta: bool = False
    uncorrelated: str | None = None
    occurrences: int | None = 1
    rules: bool = True
    whole: bool = False


@dataclass(slots=True)
class _Check:
    compile: Callable[[Structural, bool], list[Estimated]]
    costs: Cost
    free_cost: bool
    shapes: list[FieldError] = field(default_factory=list)
    expressions: list[FieldError] = field(default_factory=list)


def check_schema(
    path: str, schema: Raw, rules: Rules, *, status: bool, free_cost: bool = False
) -> list[FieldError]:
    """Return the findings on a schema.

    Args:
        schema: the schema as written.
        path: the path of the parent of `openAPIV3Schema`.
        rules: compiles and evaluates x-kubernetes-validations.
        status: whether the status subresource is enabled.
        free_cost: do not limit single expressions, since the schema is already stored.
    """
    where = child(path, "openAPIV3Schema")
    found = _root(where, schema, status=status)
    unsupported = schemarules.unsupported(schema)
    sound = not unsupported
    if sound:
        problems = schemarules.validate_structural(where, schema)
        if not problems:
            problems = _Defaults(rules).findings(where, structural.root(structural.build(schema)))
        found += problems
        sound = not problems
    check = _Check(rules.estimate, Cost(), free_cost)
    _node(check, where, schema, _Position(rules=sound, whole=True))
    found += check.shapes + check.expressions
    if not found and unsupported:
        return [wrong(where, "", unsupported)]
    if check.costs.total > _DEFINITION_LIMIT:
        told = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        found += [not_allowed(each, told) for _, each in check.costs.dearest]
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found.append(not_allowed(where, _exceeds(what, check.costs.total, _DEFINITION_LIMIT)))
    return found


def _root(where: str, schema: Raw, *, status: bool) -> list[FieldError]:
    found = []
    if status:
        for name, value in schema.items():
            if value in (None, "", [], {}, False):
                continue
            if name == "type" and value != "object":
                told = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
                found.append(wrong(f"{where}.type", value, told))
                break
            if name not in _AT_ROOT:
                told = (
                    f"only [{' '.join(_AT_ROOT.values())}] fields are allowed at the root of the schema"
                    " if the status subresource is enabled"
                )
                found.append(wrong(where, dict(schema), told))
                break
    if schema.get("nullable"):
        found.append(not_allowed(f"{where}.nullable", "nullable cannot be true at the root"))
    return found


class _Defaults:
    """Checks the defaults of one schema: unknown fields, wrong types and values, broken rules.

    Source: apiextensions' `apiserver/schema/defaulting/validation.go`.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._budget = rules.budget

    def findings(self, path: str, root: Structural) -> list[FieldError]:
        """Return the findings."""
        found: list[FieldError] = []
        with contextlib.suppress(_OutOfBudget):
            self._node(found, path, root, in_meta=False, whole=True)
        return found

    def _node(
        self, found: list[FieldError], path: str, node: Structural, *, in_meta: bool, whole: bool
    ) -> None:
        whole, in_meta = whole or node.embedded, in_meta and not node.embedded
        if node.default is not None:
            found += self._default(child(path, "default"), node, in_meta=in_meta, whole=whole)
            if self._budget < 0:
                raise _OutOfBudget
        if node.items is not None:
            self._node(found, child(path, "items"), node.items, in_meta=in_meta, whole=False)
        for name in sorted(node.properties):
            meta = in_meta or (node.embedded and name in structural.META_FIELDS)
            where = key(child(path, "properties"), name)
            self._node(found, where, node.properties[name], in_meta=meta, whole=False)

    def _default(self, where: str, node: Structural, *, in_meta: bool, whole: bool) -> list[FieldError]:
        found: list[FieldError] = []
        if not in_meta:
            pruned = copy.deepcopy(node.default)
            structural.prune(pruned, node)
            if pruned != node.default:
                found.append(wrong(where, node.default, "must not have unknown fields"))
            misfit = objectmeta.coerce(where, copy.deepcopy(node.default), node, [], lenient=False)
            if misfit is not None:
                return [*found, misfit]
            if problems := objectmeta.validate(where, node.default, node):
                return [*found, *problems]
        if problems := validate.validate(where, node.default, node.raw):
            return [*found, *problems]
        broken, self._budget = self._rules.evaluate(where, node, node.default, self._budget, whole=whole)
        return [*found, *broken]


class _OutOfBudget(Exception):
    """The rules of defaults cost too much; no further defaults are checked."""


def _node(check: _Check, path: str, schema: Raw, at: _Position) -> None:
    check.shapes += _keywords(path, schema, at)
    _additional(check, path, schema, at)
    for name in sorted(schema.get("properties") or {}):
        each = schema["properties"][name]
        below = replace(at, whole=False, occurrences=_times(at.occurrences, schema))
        if (at.whole or schema.get("x-kubernetes-embedded-resource")) and name in structural.META_FIELDS:
            below = replace(below, in_meta=True)
            if at.whole:
                below = replace(below, no_defaults=f"in top-level {name}")
        _node(check, key(child(path, "properties"), name), each, below)
    _nested(check, path, schema, at)
    items = schema.get("items")
    if items is not None:
        below = replace(at, whole=False, occurrences=_times(at.occurrences, schema))
        if schema.get("x-kubernetes-list-type") != "map" and below.uncorrelated is None:
            below = replace(below, uncorrelated=path)
        if isinstance(items, Mapping):
            _node(check, child(path, "items"), items, below)
        else:
            for position, each in enumerate(items):
                _node(check, index(child(path, "items"), position), each, below)
    check.shapes += check_lists(path, schema)
    _rules(check, path, schema, at)


def _additional(check: _Check, path: str, schema: Raw, at: _Position) -> None:
    additional = schema.get("additionalProperties")
    if additional is None:
        return
    where = child(path, "additionalProperties")
    if schema.get("properties") and additional is not True:
        told = "additionalProperties and properties are mutual exclusive"
        check.shapes.append(not_allowed(where, told))
    if isinstance(additional, Mapping):
        below = replace(at, whole=False, occurrences=_times(at.occurrences, schema))
        if at.in_meta:
            below = replace(below, no_defaults="inside additionalProperties applying to object metadata")
        _node(check, where, additional, below)


def _nested(check: _Check, path: str, schema: Raw, at: _Position) -> None:
    below = replace(at, whole=False, rules=False)
    if isinstance(schema.get("not"), Mapping):
        _node(check, child(path, "not"), schema["not"], below)
    for name in ("allOf", "oneOf", "anyOf"):
        for position, each in enumerate(schema.get(name) or ()):
            _node(check, index(child(path, name), position), each, below)
    for name in ("definitions", "dependencies"):
        for each, nested in (schema.get(name) or {}).items():
            if isinstance(nested, Mapping):
                _node(check, key(child(path, name), each), nested, below)


def _times(occurrences: int | None, schema: Raw) -> int | None:
    """Return how often the nodes below may occur in one object, or None if that is unbounded."""
    if occurrences is None:
        return None
    bound: int | None = 1
    if schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        bound = schema.get("maxProperties")
    elif schema.get("type") == "array":
        bound = schema.get("maxItems")
    return None if bound is None else min(occurrences * max(bound, 0), UNBOUNDED)


_UNSUPPORTED = (
    ("additionalItems", False), ("patternProperties", True), ("definitions", True), ("dependencies", False),
    ("$ref", False),
)  # fmt: skip


def _keywords(path: str, schema: Raw, at: _Position) -> list[FieldError]:
    found = []
    type_ = schema.get("type") or ""
    if type_ and type_ not in _TYPES:
        found.append(not_supported(child(path, "type"), type_, _TYPES))
    if schema.get("default") is not None and at.no_defaults is not None:
        found.append(not_allowed(child(path, "default"), f"must not be set {at.no_defaults}"))
    if schema.get("id"):
        found.append(not_allowed(child(path, "id"), "id is not supported"))
    for name, if_filled in _UNSUPPORTED:
        if schema.get(name) if if_filled else schema.get(name) is not None:
            found.append(not_allowed(child(path, name), f"{name} is not supported"))
    if type_ == "null":
        found.append(
            not_allowed(child(path, "type"), "type cannot be set to null, use nullable as an alternative")
        )
    if isinstance(schema.get("items"), list) and schema["items"]:
        found.append(not_allowed(child(path, "items"), "items must be a schema object and not an array"))
    if at.in_meta and schema.get("x-kubernetes-embedded-resource"):
        where = child(path, "x-kubernetes-embedded-resource")
        found.append(not_allowed(where, "must not be used inside of resource meta"))
    if schema.get("uniqueItems"):
        told = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        found.append(not_allowed(child(path, "uniqueItems"), told))
    return found


def _rules(check: _Check, path: str, schema: Raw, at: _Position) -> None:
    rules = schema.get("x-kubernetes-validations") or ()
    where = child(path, "x-kubernetes-validations")
    for position, rule in enumerate(rules):
        check.shapes += _rule(index(where, position), rule, schema)
    if not rules or check.shapes or not at.rules:
        return
    node = structural.build(schema)
    for position, (rule, found) in enumerate(zip(rules, check.compile(node, at.whole), strict=True)):
        check.expressions += _expression(check, index(where, position), rule, found, at)


def _rule(path: str, rule: Raw, schema: Raw) -> list[FieldError]:
    found = []
    expression, message = rule.get("rule") or "", rule.get("message") or ""
    if not expression.strip():
        found.append(required(child(path, "rule"), "rule is not specified"))
    elif message and not message.strip():
        found.append(wrong(child(path, "message"), message, "must be non-empty if specified"))
    elif _LINE_BREAK.search(message.strip()):
        found.append(wrong(child(path, "message"), message, "must not contain line breaks"))
    elif _LINE_BREAK.search(expression.strip()) and not message.strip():
        found.append(
            required(child(path, "message"), "message must be specified if rule contains line breaks")
        )
    told = rule.get("messageExpression") or ""
    if told and not told.strip():
        found.append(
            required(child(path, "messageExpression"), "messageExpression must be non-empty if specified")
        )
    reason, field_path = rule.get("reason"), rule.get("fieldPath") or ""
    if reason is not None and reason not in _REASONS:
        found.append(not_supported(child(path, "reason"), reason, _REASONS))
    where = child(path, "fieldPath")
    if field_path and not field_path.strip():
        found.append(wrong(where, field_path, "must be non-empty if specified"))
    if _LINE_BREAK.search(field_path):
        found.append(wrong(where, field_path, "must not contain line breaks"))
    if field_path and not schemarules.unsupported(schema):
        try:
            fieldpath.resolve(field_path, structural.build(schema))
        except fieldpath.InvalidPath:
            found.append(wrong(where, field_path, "must be a valid path"))
    return found


def _expression(check: _Check, path: str, rule: Raw, found: Estimated, at: _Position) -> list[FieldError]:
    problems = []
    times = found.occurrences if at.occurrences is None else at.occurrences
    cost = min(found.cost * times, UNBOUNDED)
    where, message = child(path, "rule"), child(path, "messageExpression")
    if cost > _EXPRESSION_LIMIT and not check.free_cost:
        problems.append(not_allowed(where, _exceeds("estimated rule cost", cost, _EXPRESSION_LIMIT)))
    check.costs.observe(where, cost)
    if found.error:
        problems.append(_told_rule(where, rule, found.error))
    if found.message_error:
        problems.append(_told_rule(message, rule, found.message_error))
    elif found.has_message:
        if found.message_cost > _EXPRESSION_LIMIT and not check.free_cost:
            told = _exceeds("estimated messageExpression cost", found.message_cost, _EXPRESSION_LIMIT)
            problems.append(not_allowed(message, told))
        check.costs.observe(message, found.message_cost)
    if found.uses_old and at.uncorrelated is not None:
        told = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {at.uncorrelated}"
        problems.append(wrong(where, rule["rule"], told))
    elif not found.uses_old and rule.get("optionalOldSelf") is not None:
        told = "may not be set if oldSelf is not used in rule"
        problems.append(wrong(child(path, "optionalOldSelf"), rule["optionalOldSelf"], told))
    return problems


def _told_rule(path: str, rule: Raw, why: str) -> FieldError:
    """Format a rule as Go prints its internal type, whose members have no JSON names."""
    told = {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    return FieldError("FieldValueInvalid", path, f"Invalid value: {gotext.as_json(told)}: {why}")


def _exceeds(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        told = "more than 100x"
    elif factor < 1.5:
        told = f"{factor:f}x"
    else:
        told = f"{factor:.1f}x"
    advice = (
        "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings"
        " are declared"
    )
    return f"{what} exceeds budget by factor of {told} ({advice})"
