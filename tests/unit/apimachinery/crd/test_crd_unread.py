"""Schemas of stored definitions are read only where they are needed."""

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
NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("name", STORED)
def test_what_is_not_read_is_kept_byte_for_byte(name: str) -> None:
    value = msgspec.json.encode(STORED[name])
    found = unread.definition(value)
    assert msgspec.json.encode(found) == value
    for version, whole in zip(found["spec"]["versions"], STORED[name]["spec"]["versions"], strict=True):
        assert {key: each for key, each in version.items() if key != "schema"} == {
            key: each for key, each in whole.items() if key != "schema"
        }
        if "schema" in whole:
            assert isinstance(version["schema"], msgspec.Raw)


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
