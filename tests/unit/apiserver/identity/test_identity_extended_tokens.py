"""Tokens that kubelets fetch for Pods count for longer than they say, unless they are for others."""

from typing import Any

import jwt
import pytest

from tests.unit.apiserver.identity.conftest import NOW, House


async def claims_of(house: House, **spec: Any) -> dict[str, Any]:
    for plural, body in (
        ("serviceaccounts", {"metadata": {"name": "robot", "namespace": "a"}}),
        ("pods", {"metadata": {"name": "p", "namespace": "a"}, "spec": {"serviceAccountName": "robot"}}),
    ):
        await house.put("acme", "", plural, body)
    made = await house.identity.token_requests.create("acme", "a", "robot", {"spec": spec})
    token: dict[str, Any] = jwt.decode(made["status"]["token"], options={"verify_signature": False})
    return {"told": made["status"]["expirationTimestamp"], **token}


POD = {"kind": "Pod", "apiVersion": "v1", "name": "p"}


async def test_a_pods_token_outlives_its_end_and_says_when_to_warn(house: House) -> None:
    found = await claims_of(house, expirationSeconds=3607, boundObjectRef=POD)
    assert found["exp"] == NOW + 365 * 24 * 3600
    assert found["kubernetes.io"]["warnafter"] == NOW + 3607
    assert found["told"] == "2027-01-15T09:00:07Z"


@pytest.mark.parametrize(
    "spec",
    [
        {"expirationSeconds": 3600, "boundObjectRef": POD},
        {"expirationSeconds": 3607},
        {"expirationSeconds": 3607, "boundObjectRef": POD, "audiences": ["vault"]},
    ],
)
async def test_other_tokens_end_when_they_say(house: House, spec: dict[str, Any]) -> None:
    found = await claims_of(house, **spec)
    assert found["exp"] == NOW + spec["expirationSeconds"]
    assert "warnafter" not in found["kubernetes.io"]
