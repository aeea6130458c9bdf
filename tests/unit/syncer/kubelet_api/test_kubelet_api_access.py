"""Callers of the kubelet API."""

from typing import Any

import msgspec
import pytest
from api_server_kit import ApiServer, api_server

from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError
from vcsync.syncer.kubelet_api.access import Access, NoClientCA, NoDecision, User, authentication, user_of

CONFIG = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
CALLER = User("kube-apiserver-kubelet-client", ("system:masters",))


def config(data: dict[str, str] | None) -> dict[str, Any]:
    return {
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": data,
    }


async def test_the_authority_is_the_one_that_the_control_plane_publishes() -> None:
    async with api_server() as server, Client(server.connection(), name="acme") as client:
        server.objects[CONFIG] = config({"client-ca-file": "PEM", "requestheader-client-ca-file": "other"})
        assert (await authentication(client))["client-ca-file"] == "PEM"


@pytest.mark.parametrize("data", [None, {}, {"client-ca-file": ""}])
async def test_a_control_plane_without_an_authority_is_told_what_to_do(data: dict[str, str] | None) -> None:
    async with api_server() as server, Client(server.connection(), name="acme") as client:
        server.objects[CONFIG] = config(data)
        with pytest.raises(NoClientCA, match="--client-ca-file"):
            await authentication(client)


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        (((("organizationName", "a"),), (("organizationName", "b"),), (("commonName", "x"),)), User("x", ("a", "b"))),
        (((("commonName", "first"),), (("commonName", "last"),)), User("last")),
        (((("commonName", ""),),), None),
        ((), None),
    ],
)  # fmt: skip
def test_a_certificate_names_user_and_groups(subject: Any, user: User | None) -> None:
    assert user_of({"subject": subject}) == user


def test_without_a_certificate_there_is_no_user() -> None:
    assert user_of(None) is None


def review(server: ApiServer, **status: bool) -> None:
    server.objects[REVIEWS] = {"kind": "SubjectAccessReview", "status": status}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("status", "allowed"),
    [({"allowed": True}, True), ({"allowed": False}, False), ({}, False), ({"allowed": True, "denied": True}, False)],
)  # fmt: skip
async def test_the_control_plane_decides(status: dict[str, bool], allowed: bool) -> None:
    async with api_server() as server, Client(server.connection(), name="acme") as client:
        review(server, **status)
        assert await Access(client, Clock()).allows(CALLER, "create", "n.r1") is allowed


async def test_answers_are_used_again_for_a_while() -> None:
    clock = Clock()
    async with api_server() as server, Client(server.connection(), name="acme") as client:
        access = Access(client, clock)
        review(server, allowed=True)
        assert await access.allows(CALLER, "get", "n.r1")
        review(server, allowed=False)
        clock.now = 9.9
        assert await access.allows(CALLER, "get", "n.r1")
        assert not await access.allows(CALLER, "create", "n.r1")
        clock.now = 10.1
        assert not await access.allows(CALLER, "get", "n.r1")
        review(server, allowed=True)
        clock.now = 11.2
        assert await access.allows(CALLER, "get", "n.r1")


async def test_nobody_is_allowed_if_the_control_plane_does_not_answer() -> None:
    async with api_server() as server, Client(server.connection(), name="acme") as client:
        server.objects[REVIEWS] = 403
        with pytest.raises(KubeError):
            await Access(client, Clock()).allows(CALLER, "get", "n.r1")


async def test_the_question_is_the_one_that_kubelets_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def create_raw(_: Client, __: Any, body: Any) -> bytes:
        asked.append(body)
        return msgspec.json.encode({"status": {"allowed": True}})

    monkeypatch.setattr(Client, "create_raw", create_raw)
    async with api_server() as server, Client(server.connection(), name="acme") as client:
        await Access(client, Clock()).allows(CALLER, "create", "n.r1")
    assert asked[0]["spec"] == {
        "user": "kube-apiserver-kubelet-client",
        "groups": ["system:masters"],
        "resourceAttributes": {
            "verb": "create", "version": "v1", "resource": "nodes", "subresource": "proxy", "name": "n.r1"
        },
    }  # fmt: skip


@pytest.mark.parametrize("status", [[], {"allowed": "yes"}, "x"])
async def test_an_answer_that_is_no_decision_is_none(status: Any) -> None:
    async with api_server() as server, Client(server.connection(), name="acme") as client:
        server.objects[REVIEWS] = {"kind": "SubjectAccessReview", "status": status}
        with pytest.raises(NoDecision):
            await Access(client, Clock()).allows(CALLER, "get", "n.r1")


async def test_a_large_authority_is_refused() -> None:
    async with api_server() as server, Client(server.connection(), name="acme") as client:
        server.objects[CONFIG] = config({"client-ca-file": "x" * 300_000})
        with pytest.raises(NoClientCA, match="larger than"):
            await authentication(client)
