"""Warnings in the status of ValidatingAdmissionPolicies about expressions with type errors."""

from typing import Any

import pytest

from vcsync.apimachinery.cel.published import Types
from vcsync.apiserver.admission.policies.typechecking import warnings

SCHEMAS: dict[str, Any] = {
    "v1.Widget": {
        "type": "object",
        "properties": {
            "kind": {"type": "string"},
            "metadata": {"allOf": [{"$ref": "#/components/schemas/v1.Meta"}], "default": {}},
            "spec": {"$ref": "#/components/schemas/v1.Spec"},
        },
    },
    "v1.Meta": {
        "type": "object",
        "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "creationTimestamp": {"type": "string", "format": "date-time"},
        },
    },
    "v1.Spec": {
        "type": "object",
        "properties": {
            "replicas": {"type": "integer", "format": "int32"},
            "port": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
            "amount": {"oneOf": [{"type": "string"}, {"type": "number"}]},
            "parts": {"type": "array", "items": {"$ref": "#/components/schemas/v1.Spec"}},
            "data": {"type": "string", "format": "byte"},
            "share": {"type": "number"},
            "on": {"type": "boolean"},
        },
    },
}
WIDGET = ("example.com/v1, Kind=Widget", SCHEMAS, "v1.Widget")


def type_warnings(*expressions: str, **spec: Any) -> list[str]:
    found = warnings({"validations": [{"expression": each} for each in expressions], **spec}, [WIDGET], None)
    return [each["warning"] for each in found]


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.replicas > 1",
        "object.spec.port == 80 || object.spec.port == 'http'",
        "object.spec.parts.all(part, part.parts.size() == 0)",
        "object.metadata.labels['a'] == 'b' && object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')",
        "object.spec.data == b'x' && object.spec.share > 0.5 && object.spec.on",
        "has(oldObject.spec) && request.operation == 'UPDATE' && namespaceObject.metadata.name == 'x'",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "object.apiVersion == object.kind",
        "object.spec.replicas",  # the type of the result is not checked
    ],
)
def test_valid_expressions_have_no_warnings(expression: str) -> None:
    assert type_warnings(expression) == []


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("object.spec.replicas > '1'", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("object.spec.maxRetries < 10", "undefined field 'maxRetries'"),
        ("object.spec.amount == '1'", "undefined field 'amount'"),  # what has no type is not seen
        ("params.spec.replicas == 1", "undeclared reference to 'params'"),
        ("object.spec.", "Syntax error"),
    ],
)
def test_invalid_expressions_have_warnings_with_the_kind(expression: str, problem: str) -> None:
    (found,) = type_warnings(expression)
    assert found.startswith("example.com/v1, Kind=Widget: ERROR: <input>:1:")
    assert problem in found
    assert found.endswith("^\n")


def test_message_expressions_are_checked_too() -> None:
    validation = {
        "expression": "object.spec.replicas > '1'",
        "messageExpression": "'wants more than ' + object.spec.replicas",
    }
    first, second = warnings({"validations": [validation]}, [WIDGET], None)
    assert (first["fieldRef"], second["fieldRef"]) == (
        "spec.validations[0].expression",
        "spec.validations[0].messageExpression",
    )
    assert "found no matching overload for '_+_' applied to '(string, int)'" in second["warning"]


def test_each_kind_is_checked() -> None:
    other = ("example.com/v1, Kind=Spec", SCHEMAS, "v1.Spec")
    (found,) = warnings({"validations": [{"expression": "object.spec.replicas > 1"}]}, [WIDGET, other], None)
    assert found["warning"].startswith("example.com/v1, Kind=Spec: ERROR")
    (both,) = warnings({"validations": [{"expression": "object.nothing"}]}, [WIDGET, other], None)
    assert both["warning"].count("undefined field 'nothing'") == 2


def test_parameters_have_their_kind_or_are_dynamic() -> None:
    spec = {
        "paramKind": {"apiVersion": "example.com/v1", "kind": "Widget"},
        "validations": [{"expression": "params.spec.replicas > '1'"}],
    }
    assert len(warnings(spec, [WIDGET], WIDGET)) == 1
    assert warnings(spec, [WIDGET], None) == []


def test_variables_have_the_types_of_their_expressions() -> None:
    variables = [
        {"name": "count", "expression": "object.spec.replicas"},
        {"name": "more", "expression": "variables.count + 1"},
        {"name": "broken", "expression": "object.spec.nothing"},
    ]
    assert (
        type_warnings("variables.more > variables.count && variables.broken == 1", variables=variables) == []
    )
    (found,) = type_warnings("variables.more > 'x'", variables=variables)
    assert "'(int, string)'" in found


def test_the_checked_characters_are_bounded() -> None:
    long = f"object.nothing == '{'x' * 16_000}'"
    assert len(type_warnings(*[long] * 30)) == 18
    variables = [{"name": f"v{index}", "expression": "variables.v == 1"} for index in range(1000)]
    assert type_warnings("object.nothing", variables=variables) == []


def test_schemas_can_be_recursive_and_unknown_ones_are_none() -> None:
    types = Types(SCHEMAS)
    spec = types.whole("v1.Spec")
    assert spec is not None
    assert types.whole("v1.Other") is None
    assert spec.fields["parts"][1].element is not None
