"""Schemas and columns of stored definitions are read only where they are needed."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from vcsync.apimachinery.crd import unread
from vcsync.apimachinery.patch import managed
from vcsync.apiserver.apiextensions import definition_controller as establish

RECORDED = json.loads((Path(__file__).parent / "recorded" / "definitions.json").read_text())
STORED = {
    name: {"metadata": {"name": name}, "spec": each["spec"]}
    for name, each in RECORDED.items()
    if each.get("spec")
}
UNREAD = {"schema", "additionalPrinterColumns"}
NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("name", STORED)
def test_what_is_not_read_is_kept_byte_for_byte(name: str) -> None:
    value = msgspec.json.encode(STORED[name])
    found = unread.definition(value)
    assert msgspec.json.encode(found) == value
    for version, whole in zip(found["spec"]["versions"], STORED[name]["spec"]["versions"], strict=True):
        assert {key: each for key, each in version.items() if key not in UNREAD} == {
            key: each for key, each in whole.items() if key not in UNREAD
        }
        assert all(isinstance(version[key], msgspec.Raw) for key in UNREAD & whole.keys())


def with_owner(definition: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    fields: dict[str, Any] = {"f:spec": {f"f:{key}": {} for key in definition["spec"]}}
    entry = {
        "manager": "me", "operation": "Update", "apiVersion": "apiextensions.k8s.io/v1", "time": NOW,
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    }  # fmt: skip
    metadata = {**definition["metadata"], "managedFields": [entry]}
    return {**definition, "metadata": metadata, **({"status": status} if status else {})}


@pytest.mark.parametrize("name", STORED)
def test_what_is_told_of_a_status_does_not_depend_on_the_versions(name: str) -> None:
    before = with_owner(STORED[name])
    status = {"acceptedNames": STORED[name]["spec"]["names"], "conditions": [{"type": "A", "status": "True"}]}
    after = with_owner(STORED[name], status)
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    whole = managed.update(
        {**head, **before}, {**head, **after}, establish.MANAGER, NOW, establish._tracking()
    )
    establish.track_status(establish._without_versions(before), after, NOW)
    assert after["metadata"]["managedFields"] == whole


def redefining(spec: dict[str, Any], changed: dict[str, Any]) -> Any:
    before, after = (msgspec.json.encode({"metadata": {}, "spec": each}) for each in (spec, changed))
    return unread.redefined(before, after)


def test_another_order_of_a_small_definition_redefines_nothing() -> None:
    spec = {"group": "g", "names": {"plural": "foos"}, "versions": [{"name": "v1", "served": True}]}
    assert redefining(spec, dict(reversed(spec.items()))) is None
    assert redefining(spec, {**spec, "group": "h"}) == ("g", "foos")


def test_large_definitions_are_compared_without_being_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    decode = unread._decode
    monkeypatch.setattr(unread, "_decode", lambda value: decoded.append(len(bytes(value))) or decode(value))
    columns = [{"name": f"c{number}", "type": "string", "jsonPath": ".a"} for number in range(3_000)]
    spec = {
        "group": "g",
        "names": {"plural": "foos"},
        "versions": [{"name": "v1", "additionalPrinterColumns": columns}],
    }
    assert redefining(spec, dict(reversed(spec.items()))) == ("g", "foos")
    assert redefining(spec, spec) is None
    assert not decoded
