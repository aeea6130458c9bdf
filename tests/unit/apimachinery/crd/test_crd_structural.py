"""Pruning, defaults and validation hold whatever a tenant sends."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.cel.rules import RULES
from vcsync.apimachinery.crd import definition, shape
from vcsync.apimachinery.crd.custom_resource import compile_version
from vcsync.apimachinery.structural import list_types as listtypes
from vcsync.apimachinery.structural import object_meta as objectmeta
from vcsync.apimachinery.structural import schema as structural
from vcsync.apimachinery.structural import schema_rules as schemarules
from vcsync.apimachinery.structural import validation as validate
from vcsync.apimachinery.structural.correlate import Correlated
from vcsync.apimachinery.structural.schema_check import check_schema

NAMES = st.sampled_from(["a", "b", "c", "kind", "metadata", "apiVersion"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=12,
)
SCALARS = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean"])},
    optional={
        "nullable": st.booleans(),
        "minimum": st.integers(-5, 5),
        "maximum": st.floats(-5, 5),
        "multipleOf": st.sampled_from([0, 0.1, 2, -1]),
        "maxLength": st.integers(0, 3),
        "pattern": st.sampled_from(["^a", "(", "a*"]),
        "format": st.sampled_from(
            ["int32", "int64", "float", "date-time", "uuid", "email", "duration", "zzz"]
        ),
        "enum": st.lists(VALUES, max_size=2),
        "default": VALUES,
    },
)
FLAGS = {
    "x-kubernetes-preserve-unknown-fields": st.just(True),
    "x-kubernetes-embedded-resource": st.booleans(),
    "nullable": st.booleans(),
    "default": VALUES,
}


def nested(below):
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, below, max_size=3)},
        optional={
            **FLAGS,
            "required": st.lists(NAMES, max_size=2),
            "oneOf": st.lists(below, max_size=2),
            "anyOf": st.lists(below, max_size=2),
            "allOf": st.lists(below, max_size=2),
            "not": below,
        },
    )
    maps = st.fixed_dictionaries(
        {"type": st.just("object"), "additionalProperties": below | st.booleans()}, optional=FLAGS
    )
    arrays = st.fixed_dictionaries(
        {"type": st.just("array"), "items": below},
        optional={
            "x-kubernetes-list-type": st.sampled_from(["set", "map", "atomic"]),
            "x-kubernetes-list-map-keys": st.lists(NAMES, max_size=2),
            "maxItems": st.integers(0, 3),
            "uniqueItems": st.booleans(),
        },
    )
    return objects | maps | arrays | st.just({"x-kubernetes-int-or-string": True})


SCHEMAS = st.recursive(SCALARS, nested, max_leaves=10)


@given(SCHEMAS, VALUES)
def test_pruning_is_idempotent_and_tells_what_it_removed(schema, value):
    node = structural.build(schema)
    before = copy.deepcopy(value)
    removed = structural.prune(value, node)
    if isinstance(before, dict):
        # Of whole objects, which this is one of, identity and metadata are dealt with elsewhere and never told.
        before = {
            name: each for name, each in before.items() if name in value or name not in structural.META_FIELDS
        }
    assert (removed == []) == (value == before)
    again = copy.deepcopy(value)
    assert structural.prune(again, node) == []
    assert again == value


@given(SCHEMAS, VALUES)
def test_defaults_are_idempotent_and_never_shared(schema, value):
    node = structural.build(schema)
    structural.prune_nulls(value, node)
    structural.apply_defaults(value, node)
    once = copy.deepcopy(value)
    structural.apply_defaults(value, node)
    if node.has_default:
        return  # a default may hold what has a default itself, so that a second pass goes deeper
    assert value == once


@given(SCHEMAS, VALUES, VALUES)
def test_values_are_checked_without_a_crash(schema, new, old):
    node = structural.build(schema)
    validate.validate("", new, schema)
    validate.validate("status", new, schema, Correlated(new, old, node))
    listtypes.find_duplicates("", node, new)
    objectmeta.validate("", new, node)
    objectmeta.coerce("", new, node, [], lenient=True)


@given(SCHEMAS, VALUES)
def test_what_did_not_change_is_never_wrong(schema, value):
    node = structural.build(schema)
    assert validate.validate("", value, schema, Correlated(value, copy.deepcopy(value), node)) == []


@given(SCHEMAS, st.booleans())
def test_schemas_are_checked_without_a_crash(schema, status):
    found = check_schema("spec.validation", schema, RULES, status=status)
    if not found:
        assert schemarules.unsupported(schema) == ""


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), VALUES), VALUES)
def test_definitions_of_any_shape_are_refused_without_a_crash(given_, schema):
    given_["spec"] = {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}], "group": "a.b"}
    given_["metadata"] = {"name": "x"}
    given_.pop("status", None)
    definition.default(given_)
    assert definition.validate(given_)


def test_schemas_may_not_nest_without_end():
    schema = {"type": "string"}
    for _ in range(structural.MAX_DEPTH + 5):
        schema = {"type": "array", "items": schema}
    found = shape.misshapen({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}})
    assert "nests no deeper" in str(found[0])


@pytest.mark.parametrize(
    ("schema", "value", "kept", "removed"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": "x", "b": 1}, {"a": "x"}, ["b"]),
        (
            {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"a": {"type": "object"}},
            },
            {"z": 1, "a": {"y": 1}},
            {"z": 1, "a": {}},
            ["a.y"],
        ),
        (
            {
                "type": "object",
                "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}},
            },
            {"k": {"a": "x", "b": 1}},
            {"k": {"a": "x"}},
            ["k.b"],
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            [{"a": "x"}, {"b": 1}],
            [{"a": "x"}, {}],
            ["[1].b"],
        ),
    ],
)
def test_unknown_fields_go(schema, value, kept, removed):
    assert structural.prune(value, structural.build(schema)) == removed
    assert value == kept


def test_the_deepest_schema_works_everywhere():
    schema = {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'a'"}]}
    value = "a"
    for _ in range(structural.MAX_DEPTH - 2):
        schema = {"type": "object", "properties": {"a": schema}}
        value = {"a": value}
    made = {
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    definition.default(made)
    assert definition.validate(made) == []
    version = compile_version(made, "v1")
    obj = {**value, "metadata": {"name": "x"}, "apiVersion": "example.com/v1", "kind": "Foo"}
    assert version.decode(obj) == []
    assert len(version.behaviour.validate(obj)) == 1
    assert len(version.behaviour.validate_update(obj, copy.deepcopy(obj))) == 0
