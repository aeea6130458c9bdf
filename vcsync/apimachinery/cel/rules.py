"""`x-kubernetes-validations` of a schema: compiled, estimated, and evaluated on objects.

Source: apiextensions' `apiserver/schema/cel`: transition rules, optional oldSelf, message expressions, reasons, field
paths, ratcheting of unchanged values, cost budgets. In addition, all rules of one object share a limit of steps, since
one process serves many tenants.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vcsync.apimachinery.cel.compiler import Compiler, NotCompiled
from vcsync.apimachinery.cel.cooperative import work
from vcsync.apimachinery.cel.declared import LARGEST_REQUEST, Declared, declare
from vcsync.apimachinery.cel.estimate import estimate_cost
from vcsync.apimachinery.cel.evaluate import Run, Step, constant_fault, prepare
from vcsync.apimachinery.cel.expression import Checked
from vcsync.apimachinery.cel.values import NONE, CelError, CostExceeded, Optional, Work, from_json
from vcsync.apimachinery.errors import FieldError, duplicate, not_allowed, required, wrong
from vcsync.apimachinery.gotext import quoted
from vcsync.apimachinery.message_size import LONGEST_TEXT
from vcsync.apimachinery.structural import field_path as fieldpath
from vcsync.apimachinery.structural.correlate import Correlated, composite_key, keyed
from vcsync.apimachinery.structural.field_names import child, index, key
from vcsync.apimachinery.structural.schema import META_FIELDS, Structural
from vcsync.apimachinery.structural.schema_check import Estimated, Rules

PER_CALL = 1_000_000
BUDGET = 10_000_000
STEPS = 2_000_000
"""Most steps of all rules of one object: a few seconds, off the event loop."""
_LONGEST_MESSAGE = 5 * 1024
_OUT = "validation failed due to running out of cost budget, no further validation rules will be run"


@dataclass(frozen=True, slots=True)
class _Rule:
    """One compiled rule. `told` is its name in messages, and `error` says why it could not be compiled."""

    raw: Mapping[str, Any]
    told: str
    step: Step | None = None
    message: Step | None = None
    error: str = ""
    uses_old: bool = False
    field_path: str = ""


def _uses_old(checked: Checked) -> bool:
    return "oldSelf" in checked.names.values()


def _compiled_rule(compiler: Compiler, raw: Mapping[str, Any]) -> tuple[Checked, Checked | None, str]:
    """Compile a rule and its message.

    Returns:
        Both, and the error of the message expression.

    Raises:
        NotCompiled: the rule is not valid.
    """
    optional_old = bool(raw.get("optionalOldSelf"))
    try:
        checked = compiler.compile(raw["rule"], optional_old=optional_old)
    except NotCompiled as why:
        raise NotCompiled(f"compilation failed: {why}") from None
    if checked.output.kind != "bool":
        raise NotCompiled("cel expression must evaluate to a bool")
    if fault := constant_fault(checked):
        raise NotCompiled(f"program instantiation failed: {fault}")
    message, problem = None, ""
    if raw.get("messageExpression"):
        try:
            message = compiler.compile(raw["messageExpression"], optional_old=optional_old)
        except NotCompiled as why:
            problem = f"messageExpression compilation failed: {why}"
        if message is not None and message.output.kind != "string":
            message, problem = None, "messageExpression must evaluate to a string"
    return checked, message, problem


def estimate(node: Structural, whole: bool) -> list[Estimated]:
    """Compile the rules of one node of a schema and estimate their costs.

    Args:
        node: a node with rules.
        whole: whether it is the schema of whole objects.
    """
    declared = declare(node, whole=whole or node.embedded)
    if declared is None:
        return [Estimated(error="internal error: failed to retrieve type information") for _ in node.rules]
    compiler = Compiler(declared)
    occurrences = LARGEST_REQUEST // (declared.smallest + 1)
    return [_estimated(compiler, declared, each, occurrences) for each in node.rules]


def _estimated(compiler: Compiler, declared: Declared, raw: Mapping[str, Any], occurrences: int) -> Estimated:
    if not (raw.get("rule") or "").strip():
        return Estimated(occurrences=occurrences)
    try:
        checked, message, problem = _compiled_rule(compiler, raw)
    except NotCompiled as why:
        return Estimated(error=str(why), occurrences=occurrences)
    found = Estimated(
        cost=estimate_cost(checked, declared),
        uses_old=_uses_old(checked),
        message_error=problem,
        occurrences=occurrences,
    )
    if message is None:
        return found
    return replace(found, has_message=True, message_cost=estimate_cost(message, declared))


def _rule(compiler: Compiler, raw: Mapping[str, Any], node: Structural) -> _Rule:
    name = (raw.get("message") or raw.get("rule") or "").strip()
    if not (raw.get("rule") or "").strip():
        return _Rule(raw, name)
    try:
        checked, message, _ = _compiled_rule(compiler, raw)
    except NotCompiled as why:
        return _Rule(raw, name, error=str(why))
    path = ""
    if raw.get("fieldPath"):
        try:
            path = fieldpath.resolve(raw["fieldPath"], node)[0]
        except fieldpath.InvalidPath:
            path = ""
    told = prepare(message) if message is not None else None
    return _Rule(raw, name, prepare(checked), told, uses_old=_uses_old(checked), field_path=path)


@dataclass(slots=True)
class Validator:
    """The rules of one node of a schema and of the nodes below it."""

    node: Structural
    declared: Declared | None
    rules: list[_Rule] = field(default_factory=list)
    items: "Validator | None" = None
    additional: "Validator | None" = None
    properties: dict[str, "Validator"] = field(default_factory=dict)

    def validate(self, path: str, new: Any, old: Any, correlated: Correlated | None) -> list[FieldError]:
        """Return the findings of the rules on an object.

        Args:
            path: the path of the object.
            new: the object.
            old: the previous object. None: the object is new.
            correlated: the correlation of both. Findings on unchanged values are omitted.
        """
        return self._checked(path, new, old, correlated).found

    def spend(self, path: str, new: Any, old: Any, budget: int) -> tuple[list[FieldError], int]:
        """Return the findings of the rules on a value, and what is left of a cost budget, below 0 if it did not suffice."""
        check = _Check(budget=budget)
        with contextlib.suppress(_Ended):
            check.node(self, path, new, old, None)
            return check.found, check.budget
        return check.found, -1

    def warnings(self, new: Any, old: Any, correlated: Correlated) -> list[str]:
        """Return warnings for the broken rules on unchanged values."""
        return list(_as_warnings(self._checked("", new, old, correlated).excused))

    def _checked(self, path: str, new: Any, old: Any, correlated: Correlated | None) -> "_Check":
        check = _Check()
        with contextlib.suppress(_Ended):
            check.node(self, path, new, old, correlated)
        return check


def _as_warnings(excused: list[FieldError]) -> Iterator[str]:
    """Yield the texts of findings until they are longer than any client is shown."""
    size = 0
    for each in excused:
        if size > LONGEST_TEXT:
            return
        yield (text := str(each))
        size += len(text)


class _Ended(Exception):
    """No further rules are evaluated."""


@dataclass(slots=True)
class _Check:
    found: list[FieldError] = field(default_factory=list)
    excused: list[FieldError] = field(default_factory=list)
    budget: int = BUDGET
    work: Work = field(default_factory=lambda: work(STEPS))

    def node(
        self,
        validator: Validator,
        path: str,
        new: Any,
        old: Any,
        correlated: Correlated | None,
        *,
        parent: Correlated | None = None,
    ) -> None:
        """Check a value and the values below it; `parent` is the nearest ancestor with an old counterpart."""
        if new is None:
            return
        if validator.rules:
            self._rules(validator, path, new, old, correlated if correlated is not None else parent)
        nearest = correlated if correlated is not None else parent
        if isinstance(new, list) and validator.items is not None:
            before = keyed(validator.node, old)
            for at, each in enumerate(new):
                own = composite_key(validator.node.map_keys, each) if before else None
                previous = before.get(own) if own is not None else None
                below = correlated.item(at) if correlated is not None else None
                self.node(validator.items, index(path, at), each, previous, below, parent=nearest)
        elif isinstance(new, dict):
            before = old if isinstance(old, dict) else {}
            for name, each in new.items():
                below = correlated.field(name) if correlated is not None else None
                if parent is None and correlated is not None and name in META_FIELDS - {"metadata"}:
                    below = None
                if validator.additional is not None:
                    self.node(
                        validator.additional, key(path, name), each, before.get(name), below, parent=nearest
                    )
                if name in validator.properties:
                    where = child(path, name)
                    self.node(
                        validator.properties[name], where, each, before.get(name), below, parent=nearest
                    )

    def _end(self, path: str, validator: Validator, *told: str) -> None:
        self.found.append(wrong(path or "<nil>", validator.node.type, *told))
        raise _Ended

    def _rules(self, validator: Validator, path: str, new: Any, old: Any, nearest: Correlated | None) -> None:
        if self.budget <= 0:
            self._end(path, validator, _OUT)
        self.work.left -= 1
        current = from_json(new, validator.declared)
        before = from_json(old, validator.declared) if old is not None else None
        where = path or "<nil>"
        for rule in validator.rules:
            if rule.error:
                self.found.append(wrong(where, validator.node.type, "rule compile error", rule.error))
                continue
            optional_old = bool(rule.raw.get("optionalOldSelf"))
            if rule.step is None or (rule.uses_old and old is None and not optional_old):
                continue
            variables: dict[str, Any] = {"self": current}
            if optional_old:
                variables["oldSelf"] = Optional(before) if old is not None else NONE
            elif old is not None:
                variables["oldSelf"] = before
            try:
                passed = self._evaluate(rule.step, variables)
            except CostExceeded:
                if self.budget <= 0:
                    self._end(path, validator, _OUT)
                told = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to"
                self._end(path, validator, f"{told} call cost exceeds limit for rule: {rule.told}")
            except CelError as problem:
                self.found.append(wrong(where, validator.node.type, *_failure(problem, rule)))
                continue
            if passed is not True:
                self._broken(validator, rule, path, new, variables, nearest=nearest)

    def _evaluate(self, step: Step, variables: dict[str, Any]) -> Any:
        run = Run(variables, min(PER_CALL, self.budget), self.work)
        try:
            return step(run)
        except RecursionError:
            raise CostExceeded from None
        finally:
            self.budget -= run.cost

    def _broken(
        self,
        validator: Validator,
        rule: _Rule,
        path: str,
        new: Any,
        variables: dict[str, Any],
        *,
        nearest: Correlated | None,
    ) -> None:
        where = child(path, rule.field_path) if rule.field_path else path
        # Many findings share the text of a rule.
        details = (rule.told,) if rule.raw.get("message") else ("failed rule", rule.told)
        ended = ""
        if rule.message is not None:
            try:
                told = self._evaluate(rule.message, variables)
                told = told.strip() if isinstance(told, str) else ""
                if told and len(told.encode("utf-8", "replace")) <= _LONGEST_MESSAGE and "\n" not in told:
                    details = (told,)
            except CelError:
                pass  # the plain message says it
            except CostExceeded:
                source = quoted(rule.raw["messageExpression"])
                ended = f"no further validation rules will be run due to call cost exceeds limit for messageExpression: {source}"
        problem = _broken_rule(where or "<nil>", validator.node, new, details, rule.raw.get("reason"))
        if not rule.uses_old and nearest is not None and nearest.unchanged():
            self.excused.append(problem)
            return
        if ended:
            self._end(where, validator, ended)
        self.found.append(problem)


def _failure(problem: CelError, rule: _Rule) -> tuple[str, ...]:
    if str(problem).startswith("no such overload"):
        told = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{problem}'", told, rule.told
    return f"{problem} evaluating rule", rule.told


def _broken_rule(
    path: str, node: Structural, value: Any, details: tuple[str, ...], reason: str | None
) -> FieldError:
    if reason == "FieldValueForbidden":
        return not_allowed(path, *details)
    if reason == "FieldValueRequired":
        return required(path, *details)
    omitted = node.type in ("object", "array")
    if reason == "FieldValueDuplicate":
        return (
            FieldError("FieldValueDuplicate", path, "Duplicate value") if omitted else duplicate(path, value)
        )
    if omitted:
        return FieldError("FieldValueInvalid", path, "Invalid value", details=details)
    return wrong(path, value, *details)


def evaluate_default(
    path: str, node: Structural, default: Any, budget: int, *, whole: bool
) -> tuple[list[FieldError], int]:
    """Evaluate the rules of a schema on a default; see `schema_check.DefaultEvaluator`.

    The default must be valid as an unchanged value and as a new one, which differs for rules with optionalOldSelf.
    """
    validator = _validator(node, declare(node, whole=whole)) if node.has_rules else None
    if validator is None:
        return [], budget
    found, left = validator.spend(path, default, default, budget)
    if not found:
        found, left_if_new = validator.spend(path, default, None, budget)
        left = min(left, left_if_new)
    return found, left


RULES = Rules(estimate, evaluate_default, BUDGET)
"""Functions for the rules of CustomResourceDefinitions."""


def compile_rules(node: Structural) -> Validator | None:
    """Compile the rules of a schema of whole objects. Return None if it has none."""
    if not node.has_rules:
        return None
    return _validator(node, declare(node, whole=True))


def _validator(node: Structural, declared: Declared | None) -> Validator | None:
    if not node.has_rules:
        return None
    found = Validator(node, declared)
    if node.rules and declared is not None:
        compiler = Compiler(declared)
        found.rules = [_rule(compiler, each, node) for each in node.rules]
    element = declared.element if declared is not None else None
    if node.items is not None:
        found.items = _validator(node.items, element or declare(node.items, whole=node.items.embedded))
    if node.additional is not None:
        found.additional = _validator(
            node.additional, element or declare(node.additional, whole=node.additional.embedded)
        )
    known = dict(declared.fields.values()) if declared is not None else {}
    for name, each in node.properties.items():
        below = _validator(each, known.get(name) or declare(each, whole=each.embedded))
        if below is not None:
            found.properties[name] = below
    return found
