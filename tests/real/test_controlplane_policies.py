"""Admission policies of a running control plane: their effect on one tenant, with custom resources as parameters."""

import asyncio
from pathlib import Path
from typing import Any

from hack.embedded import ControlPlane
from tests.real.plane_kit import Caller, calling

GROUP = "/tenants/red/apis/admissionregistration.k8s.io/v1"
MAPS = "api/v1/namespaces/default/configmaps"
LIMITS: dict[str, Any] = {
    "metadata": {"name": "limits.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "limits", "kind": "Limit"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "most": {"type": "integer"},
                            "spent": {"type": "array", "maxItems": 1000, "items": {"type": "integer"}},
                        },
                        "x-kubernetes-validations": [
                            {
                                "rule": "!has(self.spent) || self.spent.all(a, self.spent.all(b, a + b < 1000000))"
                            }
                        ],
                    }
                },
            }
        ],
    },
}
LIMIT: dict[str, Any] = {"apiVersion": "example.org/v1", "kind": "Limit", "metadata": {"name": "here"}}
POLICY: dict[str, Any] = {
    "metadata": {"name": "few"},
    "spec": {
        "paramKind": {"apiVersion": "example.org/v1", "kind": "Limit"},
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["configmaps"],
                }
            ]
        },
        "variables": [{"name": "count", "expression": "size(object.?data.orValue({}))"}],
        "validations": [
            {
                "expression": "variables.count <= params.most",
                "messageExpression": "'%d of %d'.format([variables.count, params.most])",
            }
        ],
    },
}
BINDING: dict[str, Any] = {
    "metadata": {"name": "few"},
    "spec": {
        "policyName": "few",
        "validationActions": ["Deny"],
        "paramRef": {"name": "here", "parameterNotFoundAction": "Deny"},
    },
}


async def define(call: Caller, definition: Any) -> str:
    """Create a definition, and wait until it is served; return the path of its objects."""
    path = "/tenants/red/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    code, answer = await call("POST", path, definition)
    assert code == 201, answer
    async with asyncio.timeout(60):
        while True:
            _, found = await call("GET", f"{path}/{definition['metadata']['name']}")
            conditions = {each["type"]: each["status"] for each in found["status"].get("conditions") or ()}
            if conditions.get("Established") == "True":
                return "/tenants/red/apis/example.org/v1/namespaces/default/limits"
            await asyncio.sleep(0.05)


async def answered(call: Caller, body: Any, code: int, said: str) -> None:
    """Create an object repeatedly until the answer is the expected one."""
    async with asyncio.timeout(60):
        while True:
            found, answer = await call("POST", f"/tenants/red/{MAPS}?dryRun=All", body)
            if found == code and said in answer.get("message", ""):
                return
            await asyncio.sleep(0.05)


async def test_a_policy_is_in_effect_soon_and_only_for_its_tenant(tmp_path: Path) -> None:
    with ControlPlane(tmp_path) as plane:
        async with calling(plane, plane.create("red")) as red, calling(plane, plane.create("blue")) as blue:
            limits = await define(red, LIMITS)
            assert (await red("POST", limits, {**LIMIT, "most": 1}))[0] == 201
            assert (await red("POST", f"{GROUP}/validatingadmissionpolicies", POLICY))[0] == 201
            assert (await red("POST", f"{GROUP}/validatingadmissionpolicybindings", BINDING))[0] == 201
            two = {"metadata": {"name": "two"}, "data": {"a": "b", "c": "d"}}
            await answered(red, two, 422, "denied request: 2 of 1")
            assert (await blue("POST", f"/tenants/blue/{MAPS}", two))[0] == 201
            changed, _ = await red("PATCH", f"{limits}/here", {"most": 2}, "application/merge-patch+json")
            assert changed == 200
            assert (await red("POST", f"/tenants/red/{MAPS}", two))[0] == 201
            assert (await red("DELETE", f"{limits}/here"))[0] == 200
            await answered(red, {"metadata": {"name": "three"}}, 422, "no params found for policy binding")
            assert (await red("DELETE", f"{GROUP}/validatingadmissionpolicybindings/few"))[0] == 200
            await answered(red, {"metadata": {"name": "three"}}, 201, "")


async def test_a_costly_rule_of_one_tenant_does_not_delay_another(tmp_path: Path) -> None:
    with ControlPlane(tmp_path) as plane:
        async with calling(plane, plane.create("red")) as red, calling(plane, plane.create("blue")) as blue:
            limits = await define(red, LIMITS)
            assert (await red("POST", f"{limits}?dryRun=All", LIMIT))[0] == 201
            slow = asyncio.create_task(red("POST", limits, {**LIMIT, "spent": list(range(1000))}))
            served = 0
            while not slow.done():
                assert (await blue("GET", "/tenants/blue/api/v1/namespaces/default"))[0] == 200
                served += 1
            code, answer = await slow
            assert code == 422
            assert "actual cost limit exceeded" in answer["message"]
            assert served > 3
