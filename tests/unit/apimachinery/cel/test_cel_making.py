import pytest

from vcsync.apimachinery.cel.evaluate import Run
from vcsync.apimachinery.cel.making import as_json, compile_making, misnamed
from vcsync.apimachinery.cel.request import declarations
from vcsync.apimachinery.cel.values import Work

VARIABLES = declarations(params=False)


def made(source, outputs=("Object",)):
    program = compile_making(VARIABLES, source, outputs)
    assert not program.error
    return program.step(Run({"object": {"a": "x"}}, 10**6, Work(10**6)))


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("Object{}", {}),
        ("Object{spec: Object.spec{replicas: 1 + 1}}", {"spec": {"replicas": 2}}),
        ("Object{list: [Object.list{b: 'Object.x{'}]}", {"list": [{"b": "Object.x{"}]}),
        ("Object{ spec : Object . spec { a : {'b': [1.5]}, c: null } }", {"spec": {"a": {"b": [1.5]}, "c": None}}),
        ("Object{?a: object.?a, ?b: object.?b}", {"a": "x"}),
        ("has(object.b) ? Object{a: 1} : Object{b: duration('60s')}", {"b": "60s"}),
        ("Object{long_name: Object.long_name{x: 1}}", {"long_name": {"x": 1}}),
    ],
)  # fmt: skip
def test_objects_are_made(source, value):
    found = made(source)
    assert as_json(found) == value
    assert not misnamed(found)


def test_patches_are_made():
    source = "[JSONPatch{op: 'add', path: '/' + jsonpatch.escapeKey('a/b~'), value: Object.spec{x: 1}}]"
    found = made(source, ("list(JSONPatch)",))
    assert as_json(found) == [{"op": "add", "path": "/a~1b~0", "value": {"x": 1}}]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "Object{spec: Object.other{}}",
            (
                'unexpected type name "Object.other", expected "Object.spec", '
                "which matches field name path from root Object type"
            ),
        ),
        (
            "Object{a: [Object.b{}]}",
            (
                'unexpected type name "Object.b", expected "Object.a", '
                "which matches field name path from root Object type"
            ),
        ),
    ],
)
def test_types_that_stand_elsewhere_are_told(source, told):
    assert misnamed(made(source)) == [told]


@pytest.mark.parametrize(
    ("source", "outputs", "told"),
    [
        ("Object.spec{}", ("Object",), "must evaluate to Object but got Object.spec"),
        ("{'a': 1}", ("Object",), "must evaluate to Object but got map(string, int)"),
        ("[]", ("list(JSONPatch)",), "must evaluate to list(JSONPatch) but got list(dyn)"),
        (
            "[JSONPatch{op: 1}]",
            ("list(JSONPatch)",),
            "expected type of field 'op' is 'string' but provided type is 'int'",
        ),
        (
            "[JSONPatch{opp: 'add'}]",
            ("list(JSONPatch)",),
            "expected type of field 'opp' is '' but provided type is 'string'",
        ),
        ("Object{a: nothing}", ("Object",), "undeclared reference to 'nothing' (in container '')"),
        ("Object{a: Object.spec{b: nothing}}", ("Object",), "| Object{a: Object.spec{b: nothing}}"),
        ("Object{", ("Object",), "Syntax error: mismatched input '<EOF>'"),
        (
            "Other{}",
            ("Object",),
            "compilation failed: ERROR: <input>:1:6: undeclared reference to 'Other' (in container '')",
        ),
    ],
)
def test_what_makes_nothing_is_told_as_the_real_server_tells(source, outputs, told):
    assert told in compile_making(VARIABLES, source, outputs).error
