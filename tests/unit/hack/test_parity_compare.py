"""Differences between two answers."""

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
