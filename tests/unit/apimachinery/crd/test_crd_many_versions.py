"""A definition has a limited number of versions: each served one is kept in memory and shown in discovery."""

import copy
from typing import Any

import pytest

from vcsync.apimachinery.crd import validation
from vcsync.apimachinery.crd.definition import default, validate, validate_update
from vcsync.apimachinery.crd.validation import MOST_VERSIONS


def definition(versions: int) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    made: dict[str, Any] = {
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [
                {"name": f"v{number + 1}", "served": True, "storage": number == 0, "schema": schema}
                for number in range(versions)
            ],
        },
    }
    default(made)
    return made


def texts(found: list[Any]) -> list[str]:
    return [f"{each.field}: {each.body}" for each in found]


def test_a_definition_may_have_as_many_versions_as_the_limit() -> None:
    assert validate(definition(MOST_VERSIONS)) == []
    assert validate_update(definition(MOST_VERSIONS), definition(1)) == []


def test_more_versions_are_refused() -> None:
    made = definition(MOST_VERSIONS + 1)
    told = [f"spec.versions: Too many: {MOST_VERSIONS + 1}: must have at most {MOST_VERSIONS} items"]
    assert texts(validate(made)) == told
    assert texts(validate_update(made, definition(MOST_VERSIONS))) == told


def test_a_stored_definition_with_more_versions_can_be_changed_but_gets_no_further_ones() -> None:
    stored = definition(MOST_VERSIONS + 20)
    changed = copy.deepcopy(stored)
    changed["spec"]["names"]["shortNames"] = ["fo"]
    assert validate_update(changed, stored) == []
    fewer = definition(MOST_VERSIONS + 10)
    assert validate_update(fewer, stored) == []
    assert len(validate_update(definition(MOST_VERSIONS + 21), stored)) == 1


def test_the_versions_are_counted_before_anything_looks_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(validation, "_version", lambda *_: seen.append(1) or {})
    monkeypatch.setattr(validation, "_spec", lambda *_: seen.append(1) or [])
    made = definition(MOST_VERSIONS + 1)
    assert validate(made)
    assert validate_update(made, definition(1))
    assert seen == []
