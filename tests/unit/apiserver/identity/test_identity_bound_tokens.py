"""Tokens bound to Pods, Secrets and Nodes: what they say, and what their holder is known by."""

from typing import Any

import jwt
import pytest

from tests.unit.apiserver.identity.conftest import House
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.request.caller import Caller


async def token(house: House, reference: dict[str, Any] | None) -> str:
    account = {"metadata": {"name": "robot", "namespace": "a", "uid": "u1"}}
    await house.put("acme", "", "serviceaccounts", account)
    spec = {"boundObjectRef": reference} if reference else {}
    made = await house.identity.token_requests.create("acme", "a", "robot", {"spec": spec})
    return str(made["status"]["token"])


async def pod(house: House, **spec: Any) -> dict[str, str]:
    metadata = {"name": "p", "namespace": "a", "uid": "p1"}
    await house.put(
        "acme", "", "pods", {"metadata": metadata, "spec": {"serviceAccountName": "robot", **spec}}
    )
    return {"kind": "Pod", "apiVersion": "v1", "name": "p"}


def private(made: str) -> Any:
    return jwt.decode(made, options={"verify_signature": False})["kubernetes.io"]


async def caller(house: House, made: str) -> Caller:
    return await house.identity.authenticator.authenticate(None, f"Bearer {made}", None)


async def test_a_pods_token_names_its_node_and_so_does_its_holder(house: House) -> None:
    await house.put("acme", "", "nodes", {"metadata": {"name": "n1", "uid": "n-uid"}})
    made = await token(house, await pod(house, nodeName="n1"))
    assert private(made) == {
        "namespace": "a",
        "serviceaccount": {"name": "robot", "uid": "u1"},
        "pod": {"name": "p", "uid": "p1"},
        "node": {"name": "n1", "uid": "n-uid"},
    }
    extra = dict((await caller(house, made)).user.extra)
    assert extra.pop("authentication.kubernetes.io/credential-id")[0].startswith("JTI=")
    assert extra == {
        "authentication.kubernetes.io/pod-name": ("p",),
        "authentication.kubernetes.io/pod-uid": ("p1",),
        "authentication.kubernetes.io/node-name": ("n1",),
        "authentication.kubernetes.io/node-uid": ("n-uid",),
    }


async def test_a_node_that_is_not_there_is_known_by_name(house: House) -> None:
    made = await token(house, await pod(house, nodeName="gone"))
    assert private(made)["node"] == {"name": "gone"}
    extra = (await caller(house, made)).user.extra
    assert extra["authentication.kubernetes.io/node-name"] == ("gone",)
    assert "authentication.kubernetes.io/node-uid" not in extra


async def test_a_pod_that_runs_nowhere_yet_has_no_node(house: House) -> None:
    made = await token(house, await pod(house))
    assert "node" not in private(made)
    assert "authentication.kubernetes.io/node-name" not in (await caller(house, made)).user.extra


@pytest.mark.parametrize(("kind", "plural", "place"), [("Secret", "secrets", "a"), ("Node", "nodes", "")])
async def test_tokens_of_secrets_and_nodes_name_them(
    house: House, kind: str, plural: str, place: str
) -> None:
    where = {"namespace": place} if place else {}
    await house.put("acme", "", plural, {"metadata": {"name": "thing", "uid": "t1", **where}})
    reference = {"kind": kind, "apiVersion": "v1", "name": "thing", "uid": "t1"}
    made = await token(house, reference)
    assert private(made)[kind.lower()] == {"name": "thing", "uid": "t1"}
    extra = (await caller(house, made)).user.extra
    node = ("thing",) if kind == "Node" else None
    assert extra.get("authentication.kubernetes.io/node-name") == node
    assert "authentication.kubernetes.io/pod-name" not in extra


@pytest.mark.parametrize(
    ("reference", "code", "message"),
    [
        ({"kind": "Pod", "name": ""}, 404, 'pods "" not found'),
        ({"kind": "Node", "apiVersion": "v1", "name": "n"}, 404, 'nodes "n" not found'),
        ({}, 400, "cannot bind token to object of type /, Kind="),
        ({"kind": "Pod", "apiVersion": "v2", "name": "p"}, 404, 'pods "p" not found'),
        (
            {"kind": "Pod", "apiVersion": "a/v1", "name": "p"},
            400,
            "cannot bind token to object of type a/v1, Kind=Pod",
        ),
    ],
)
async def test_what_a_token_cannot_be_bound_to(
    house: House, reference: dict[str, Any], code: int, message: str
) -> None:
    account = {"metadata": {"name": "robot", "namespace": "a", "uid": "u1"}}
    await house.put("acme", "", "serviceaccounts", account)
    with pytest.raises(StatusError) as caught:
        await house.identity.token_requests.create(
            "acme", "a", "robot", {"spec": {"boundObjectRef": reference}}
        )
    assert (caught.value.code, caught.value.message) == (code, message)


async def test_validating_admission_sees_default_values(house: House) -> None:
    account = {"metadata": {"name": "robot", "namespace": "a", "uid": "u1"}}
    await house.put("acme", "", "serviceaccounts", account)
    seen: list[dict[str, Any]] = []

    async def check(asked: dict[str, Any]) -> None:
        seen.append(asked)
        raise StatusError(400, "", "not this one")

    spec = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "unknown"}}
    with pytest.raises(StatusError, match="not this one"):
        await house.identity.token_requests.create("acme", "a", "robot", {"spec": spec}, check)
    (asked,) = seen
    assert {key: asked["metadata"][key] for key in ("name", "namespace", "uid")} == {
        "name": "robot",
        "namespace": "a",
        "uid": "u1",
    }
    assert asked["spec"]["expirationSeconds"] == 3600
    (audience,) = asked["spec"]["audiences"]
    assert audience == (await house.identity.token_requests.openid_configuration("acme"))["issuer"]
    assert asked["status"] == {"expirationTimestamp": None, "token": ""}
