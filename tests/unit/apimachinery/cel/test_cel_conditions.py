import pytest

from vcsync.apimachinery.cel.conditions import compiled, fault
from vcsync.apimachinery.strategy import Behaviour


@pytest.mark.parametrize(
    "expression",
    [
        "true",
        "object.metadata.name != 'skip-me'",
        "object.x == oldObject.y && request.dryRun",
        "request.userInfo.username == 'x' && 'a' in request.userInfo.groups",
        "request.userInfo.extra['k'].exists(each, each == 'v')",
        "request.kind.kind == 'Pod' && request.resource.resource == 'pods'",
        "namespaceObject.metadata.labels['a'] == 'b' && namespaceObject.status.conditions.size() == 1",
        "authorizer.group('').resource('pods').check('get').allowed()",
    ],
)
def test_conditions_on_what_admission_sees_compile(expression):
    assert not fault(expression)


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("... [] bad expression", "compilation failed: ERROR: <input>:1:"),
        ("object.metadata.name", "must evaluate to bool but got dyn"),
        ("'a'", "must evaluate to bool but got string"),
        (
            "request.nothing == 1",
            "compilation failed: ERROR: <input>:1:8: undefined field 'nothing'\n | request.nothing == 1\n | .......^",
        ),
        (
            "params == 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')",
        ),
    ],
)
def test_other_conditions_are_told_as_the_real_server_tells(expression, told):
    assert fault(expression).startswith(told)


def configuration(*expressions):
    conditions = [{"name": f"c{n}", "expression": each} for n, each in enumerate(expressions)]
    return {"metadata": {"name": "w"}, "webhooks": [{"name": "a.b.c", "matchConditions": conditions}]}


def test_conditions_of_webhooks_are_compiled_when_they_are_new():
    rules = compiled(Behaviour())
    bad, good = configuration("true", "1 +"), configuration("true")
    assert [each.field for each in rules.validate(bad)] == ["webhooks[0].matchConditions[1].expression"]
    assert [each.field for each in rules.validate_update(bad, good)] == [
        "webhooks[0].matchConditions[1].expression"
    ]
    assert not rules.validate(good)
    assert not rules.validate_update(bad, bad)
