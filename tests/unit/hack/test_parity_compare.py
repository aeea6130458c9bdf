"""Differences between two answers."""

import json
from typing import Any

import pytest

from hack.parity.ask import Answer
from hack.parity.compare import differences
from hack.parity.corpus import Step


def refusal(group: str, *fields: str) -> Answer:
    causes = [{"reason": "FieldValueTypeInvalid", "message": "must be", "field": field} for field in fields]
    body: dict[str, Any] = {
        "kind": "Status",
        "message": f'Nil "a" is invalid: [{", ".join(f"{field}: must be" for field in fields)}]',
        "details": {"name": "a", "group": group, "kind": "Nil", "causes": causes},
        "code": 422,
    }
    return Answer(422, "application/json", (), body)


@pytest.mark.parametrize(("group", "different"), [("parity.example.com", False), ("apps", True), ("", True)])
def test_causes_of_invalid_custom_resources_have_no_order(group: str, different: bool) -> None:
    step = Step("nulls#1", "PATCH", "/x")
    assert bool(differences(step, refusal(group, "s", "o"), refusal(group, "o", "s"))) == different
    assert differences(step, refusal(group, "s", "o"), refusal(group, "o", "t"))


@pytest.mark.parametrize(("managers", "equal"), [(("one", "two"), True), (("one", "three"), False)])
def test_managed_fields_of_a_quoted_object_have_no_order(managers: tuple[str, str], equal: bool) -> None:
    """They are in the order of time, and of their names within a second."""

    def refused(*names: str) -> Answer:
        entries = [{"manager": name, "operation": "Update"} for name in names]
        quoted = json.dumps(json.dumps({"kind": "Thing", "metadata": {"managedFields": entries}}))
        return Answer(
            422, "application/json", (), {"kind": "Status", "message": f"Invalid value: {quoted}: odd"}
        )

    assert (
        not differences(Step("fields#1", "PATCH", "/x"), refused(*managers), refused("two", "one"))
    ) is equal
