"""Answers that kube-apiserver 1.36.3 gave to the same definitions and objects."""

import copy
import json
from pathlib import Path

import pytest

from vcsync.apimachinery import errors
from vcsync.apimachinery.crd import published
from vcsync.apimachinery.crd.custom_resource import compile_version
from vcsync.apimachinery.crd.definition import BEHAVIOUR
from vcsync.apimachinery.strategy import Context, User
from vcsync.apiserver.apiextensions.catalogue import Served
from vcsync.apiserver.apiextensions.conversion import refuse

RECORDED = Path(__file__).parent / "recorded"
DEFINITIONS = json.loads((RECORDED / "definitions.json").read_text())
OBJECTS = json.loads((RECORDED / "objects.json").read_text())
RULES = json.loads((RECORDED / "rules.json").read_text())
UPDATES = json.loads((RECORDED / "updates.json").read_text())
PUBLISHED = json.loads((RECORDED / "published.json").read_text())
CONTEXT = Context("t", User("admin"), "2026-01-01T00:00:00Z")


def told(kind, group, name, findings):
    return errors.invalid(kind, group, name, findings).message if findings else None


def define(definition):
    made = copy.deepcopy(definition)
    BEHAVIOUR.default(made)
    BEHAVIOUR.prepare_create(made, CONTEXT)
    name = made["metadata"]["name"]
    return made, told("CustomResourceDefinition", "apiextensions.k8s.io", name, BEHAVIOUR.validate(made))


def parts(message):
    """Findings of one message; the real server's order of fields is random."""
    return sorted(message.replace("[", "").replace("]", "").split(", ")) if message else None


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definitions_get_the_same_answer(name):
    recorded = DEFINITIONS[name]
    made, message = define(recorded["given"])
    assert message == recorded["message"]
    if message is None:
        assert made["spec"] == recorded["spec"]
        assert made["status"] == recorded["status"]
        assert [json.loads(json.dumps(each)) for each in BEHAVIOUR.warnings(made, None)] == recorded[
            "warnings"
        ]


@pytest.fixture(scope="module")
def base():
    return compile_version(define(OBJECTS["definition"])[0], "v1")


@pytest.mark.parametrize("name", OBJECTS["objects"])
def test_objects_get_the_same_answer(base, name):
    recorded = OBJECTS["objects"][name]
    obj = copy.deepcopy(recorded["given"])
    base.decode(obj)
    base.behaviour.prepare_create(obj, CONTEXT)
    message = told("Base", "example.com", obj["metadata"]["name"], base.behaviour.validate(obj))
    assert parts(message) == parts(recorded["message"])
    if message is None:
        recorded["stored"]["metadata"].pop("namespace")
        assert obj == recorded["stored"]


def with_rules(rules):
    definition = copy.deepcopy(RULES["definition"])
    version = definition["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] = [
        {"rule": each} for each in rules
    ]
    return definition


@pytest.mark.parametrize("rule", RULES["compiled"])
def test_rules_compile_or_not_with_the_same_words(rule):
    assert define(with_rules([rule]))[1] == RULES["compiled"][rule]


def test_rules_have_the_same_outcome():
    rules = [rule for rule, message in RULES["compiled"].items() if message is None]
    definition = with_rules(rules)
    BEHAVIOUR.default(definition)
    compiled = compile_version(definition, "v1")
    obj = {"apiVersion": "example.com/v1", "kind": "Rule", "metadata": {"name": "r"}, "spec": RULES["spec"]}
    compiled.decode(obj)
    assert [[each.field, each.body] for each in compiled.behaviour.validate(obj)] == RULES["findings"]


@pytest.fixture(scope="module")
def tightened():
    definition = copy.deepcopy(UPDATES["definition"])
    BEHAVIOUR.default(definition)
    return compile_version(definition, "v1")


@pytest.mark.parametrize("name", UPDATES["updates"])
def test_what_did_not_change_is_not_told(tightened, name):
    recorded = UPDATES["updates"][name]
    new, old = copy.deepcopy(recorded["given"]), copy.deepcopy(UPDATES["old"])
    tightened.decode(new)
    tightened.behaviour.prepare_update(new, old, CONTEXT)
    message = told("Rat", "example.com", "r", tightened.behaviour.validate_update(new, old))
    assert message == recorded["message"]
    if message is None:
        assert tightened.behaviour.warnings(new, old) == recorded["warnings"]


@pytest.mark.parametrize("name", UPDATES["status"])
def test_status_is_checked_by_its_own_schema(tightened, name):
    recorded = UPDATES["status"][name]
    new, old = copy.deepcopy(recorded["given"]), copy.deepcopy(UPDATES["old"])
    tightened.decode(new)
    tightened.behaviour.status.prepare(new, old, CONTEXT)
    assert (
        told("Rat", "example.com", "r", tightened.behaviour.status.validate(new, old)) == recorded["message"]
    )


@pytest.fixture(scope="module")
def served():
    definition = PUBLISHED["definition"]
    return Served("t", definition, definition["spec"]["versions"][0], refuse)


def test_schemas_are_published_alike(served):
    version = PUBLISHED["definition"]["spec"]["versions"][0]
    assert served.published() == PUBLISHED["v3"]
    assert published.schemas(served.resource, version, v2=True) == PUBLISHED["v2"]


def test_tables_have_the_same_columns(served):
    found = [
        {
            "name": each.name,
            "type": each.type,
            "format": each.format,
            "description": each.description,
            "priority": each.priority,
        }
        for each in served.columns
    ]
    assert found == PUBLISHED["columns"]
