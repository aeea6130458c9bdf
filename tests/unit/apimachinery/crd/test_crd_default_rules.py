"""Rules of a CustomResourceDefinition are evaluated on its defaults. Parity compares the answers; see `crds-defaults.yaml`."""

from typing import Any

import pytest

from vcsync.apimachinery.cel.rules import RULES
from vcsync.apimachinery.structural.schema_check import Rules, check_schema

WHERE = "spec.validation.openAPIV3Schema.properties[spec].properties[a].default"


def checked(schema: dict[str, Any], rules: Rules = RULES) -> list[str]:
    whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": schema}}}}
    return [str(each) for each in check_schema("spec.validation", whole, rules, status=False)]


def ruled(default: Any, rule: str, type_: str = "integer", **more: Any) -> dict[str, Any]:
    return {"type": type_, "default": default, "x-kubernetes-validations": [{"rule": rule}], **more}


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (ruled(8, "self > 7"), []),
        (ruled(5, "self > 7"), [f"{WHERE}: Invalid value: 5: failed rule: self > 7"]),
        (ruled("x", "self == oldSelf", "string", maxLength=9), []),
    ],
)
def test_a_default_must_keep_the_rules(schema: dict[str, Any], found: list[str]) -> None:
    assert checked(schema) == found


def test_a_default_must_be_valid_as_a_new_value_too() -> None:
    rule = {"rule": "oldSelf.hasValue()", "optionalOldSelf": True}
    schema = {"type": "string", "maxLength": 9, "default": "x", "x-kubernetes-validations": [rule]}
    assert checked(schema) == [f'{WHERE}: Invalid value: "x": failed rule: oldSelf.hasValue()']


def test_the_defaults_of_a_schema_share_a_budget() -> None:
    rules = Rules(RULES.estimate, RULES.evaluate, 10)
    dear = ruled("x", "self + self + self + self != self + self + 'y'", "string", maxLength=9)
    schema = {"type": "object", "properties": dict.fromkeys("abc", dear)}
    found = checked(schema, rules)
    assert len(found) == 1
    assert "running out of cost budget" in found[0] or "cost limit exceeded" in found[0]
