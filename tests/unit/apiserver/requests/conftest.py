"""A custom resource in two versions."""

from typing import Any

import pytest
from served_definitions import DEFINITIONS, until


@pytest.fixture
async def gadgets(api) -> dict[str, str]:
    """Serve gadgets in two versions and return their paths. Only v1 has the subresources status and scale."""
    properties = {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"made": {"type": "integer"}}},
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    versions: list[dict[str, Any]] = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
    ]
    versions[0]["subresources"] = {"status": {}, "scale": {
        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.made",
    }}  # fmt: skip
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    spec = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": versions}
    made = await api("POST", DEFINITIONS, {"metadata": {"name": "gadgets.example.org"}, "spec": spec})
    assert made.status == 201, made.body
    paths = {name: f"/apis/example.org/{name}/namespaces/default/gadgets" for name in ("v1", "v2")}

    async def served() -> bool:
        return [(await api("GET", path)).status for path in paths.values()] == [200, 200]

    await until(served)
    return paths
