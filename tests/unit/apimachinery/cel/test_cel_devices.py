import pytest

from vcsync.apimachinery.cel.devices import GROUP, compiled, fault
from vcsync.apimachinery.strategy import Behaviour

KINDS = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate")


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver == 'x'",
        "device.attributes['d'].x",
        "device.allowMultipleAllocations",
        "device.capacity['d'].memory.isGreaterThan(quantity('1Gi'))",
        "cel.bind(d, device.attributes['d'], d.a && d.b)",
    ],
)
def test_selectors_compile(expression):
    assert not fault(expression)


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("nonsense(", "compilation failed: ERROR: <input>:1:10: Syntax error"),
        ("", "compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>'"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("device.nothing", "undefined field 'nothing'"),
        ("object.x", "undeclared reference to 'object'"),
    ],
)
def test_other_selectors_are_told_as_the_real_server_tells(expression, told):
    assert told in fault(expression)


def selecting(*expressions):
    return {"selectors": [{"cel": {"expression": each}} for each in expressions]}


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        ("DeviceClass", selecting("true", "1"), "spec.selectors[1]"),
        (
            "ResourceClaim",
            {"devices": {"requests": [{"exactly": selecting("1")}]}},
            "spec.devices.requests[0].exactly.selectors[0]",
        ),
        (
            "ResourceClaimTemplate",
            {"spec": {"devices": {"requests": [{}, {"firstAvailable": [{}, selecting("1")]}]}}},
            "spec.spec.devices.requests[1].firstAvailable[1].selectors[0]",
        ),
    ],
)
def test_findings_name_the_selector(kind, spec, path):
    behaviour = compiled({(GROUP, each): Behaviour() for each in KINDS})[GROUP, kind]
    [found] = behaviour.validate({"spec": spec})
    assert found.field == f"{path}.cel.expression"
    assert not behaviour.validate_update({"spec": spec}, {"spec": spec})
    assert behaviour.validate_update({"spec": spec}, {"spec": {}})
