"""Credentials of one tenant at another's URL, at the operator's, and after their end."""

import pytest

from hack.attacks.client import Answer, Door
from hack.attacks.judge import hint, problem
from hack.attacks.world import ATTACKER, NOBODY, VICTIM, World, claims

FORBIDDEN = frozenset({403})
UNAUTHORIZED = frozenset({401})
PLACES = {
    "list its Secrets": ("GET", "/tenants/{}/api/v1/secrets"),
    "get its Secret": ("GET", "/tenants/{}/api/v1/namespaces/default/secrets/kept-0"),
    "get what it has not": ("GET", "/tenants/{}/api/v1/namespaces/default/secrets/none"),
    "watch its Secrets": ("GET", "/tenants/{}/api/v1/secrets?watch=1&timeoutSeconds=1"),
    "delete its Secrets": ("DELETE", "/tenants/{}/api/v1/namespaces/default/secrets"),
    "create in it": ("POST", "/tenants/{}/api/v1/namespaces/default/configmaps"),
    "ask for its own rights there": ("POST", "/tenants/{}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    "ask who it is there": ("POST", "/tenants/{}/apis/authentication.k8s.io/v1/selfsubjectreviews"),
    "make a token there": ("POST", "/tenants/{}/api/v1/namespaces/default/serviceaccounts/kept-0/token"),
    "read its groups": ("GET", "/tenants/{}/apis"),
    "read its custom resources' documents": ("GET", "/tenants/{}/openapi/v3"),
    "read its metrics": ("GET", "/tenants/{}/metrics"),
    "read its version": ("GET", "/tenants/{}/version"),
    "read its keys": ("GET", "/tenants/{}/openid/v1/jwks"),
    "read its issuer": ("GET", "/tenants/{}/.well-known/openid-configuration"),
    "name it inside the path": ("GET", "/api/v1/tenants/{}/secrets"),
    "name it inside a group's path": ("GET", "/apis/apps/v1/tenants/{}/deployments"),
    "name it inside, watching": ("GET", "/api/v1/watch/tenants/{}/secrets"),
}  # fmt: skip
OPERATORS = {
    "list the tenants": ("GET", "/vcsync/v1/tenants"),
    "delete it": ("DELETE", "/vcsync/v1/tenants/{}"),
    "take its kubeconfig": ("GET", "/vcsync/v1/tenants/{}/kubeconfig"),
    "take its keys": ("GET", "/vcsync/v1/tenants/{}/export"),
    "rotate its keys": ("POST", "/vcsync/v1/tenants/{}/rotate"),
    "do what is not there": ("GET", "/vcsync/v1/{}"),
}
RESERVED = ("system", "all")


@pytest.fixture(scope="module")
def callers(world: World) -> dict[str, Door]:
    """Callers of the attacker's tenant: its admin, a user named like the operator, and a ServiceAccount with a token."""
    return {
        "admin": world.attacker,
        "namesake": world.user(ATTACKER, "admin", "system:masters"),
        "account": Door(world.plane.port, world.anonymous.tls, token(world.attacker)),
    }


def token(admin: Door, account: str = "default") -> str:
    """Return a token of a ServiceAccount, which is created if it does not exist."""
    place = "/api/v1/namespaces/default/serviceaccounts"
    admin.ask("POST", place, {"metadata": {"name": account}})
    return str(admin.ask("POST", f"{place}/{account}/token", {"spec": {}}).json["status"]["token"])


def send(door: Door, method: str, path: str) -> Answer:
    return door.ask(method, path, {"metadata": {"name": "x"}} if method == "POST" else None)


@pytest.mark.parametrize("who", ["admin", "namesake", "account"])
@pytest.mark.parametrize("what", PLACES)
def test_a_credential_is_valid_only_in_its_own_tenant(
    world: World, callers: dict[str, Door], who: str, what: str
) -> None:
    method, path = PLACES[what]
    assert hint(lambda tenant: send(callers[who], method, path.format(tenant)), FORBIDDEN) == ""
    reserved = {send(callers[who], method, path.format(name)).visible for name in (NOBODY, *RESERVED)}
    assert len(reserved) == 1, "the answers for the operator's names differ"


@pytest.mark.parametrize("what", PLACES)
def test_an_anonymous_caller_learns_nothing_about_tenants(world: World, what: str) -> None:
    method, path = PLACES[what]
    wanted = frozenset({200, 403, 404, 405})
    assert hint(lambda tenant: send(world.anonymous, method, path.format(tenant)), wanted) == ""


@pytest.mark.parametrize("who", ["admin", "namesake", "account"])
@pytest.mark.parametrize("what", OPERATORS)
def test_no_tenant_can_use_the_operators_api(
    world: World, callers: dict[str, Door], who: str, what: str
) -> None:
    method, path = OPERATORS[what]
    assert hint(lambda tenant: send(callers[who], method, path.format(tenant)), FORBIDDEN) == ""


def test_creating_an_existing_and_a_missing_tenant_is_refused_alike(world: World) -> None:
    assert (
        hint(lambda tenant: world.attacker.ask("POST", "/vcsync/v1/tenants", {"name": tenant}), FORBIDDEN)
        == ""
    )


def test_a_rotated_tenants_credentials_are_invalid_everywhere(world: World) -> None:
    admin = world.tenant("turning")
    account = Door(world.plane.port, world.anonymous.tls, token(admin))
    assert world.operator.ask("POST", "/vcsync/v1/tenants/turning/rotate").status == 200
    for door in (admin, account):
        for tenant in ("turning", VICTIM, NOBODY):
            assert problem(door.ask("GET", f"/tenants/{tenant}/api"), UNAUTHORIZED) == ""
    assert world.user("turning").ask("GET", "/api").status == 200


def test_a_connection_opened_before_the_rotation_is_refused_too(world: World) -> None:
    admin = world.tenant("holding")
    with admin.connect() as connection, connection.makefile("rb") as stream:
        from hack.attacks.client import read_answer  # noqa: PLC0415

        connection.sendall(admin.request("GET", "/api/v1/namespaces"))
        first = read_answer(stream)
        assert first is not None
        assert first.status == 200
        assert world.operator.ask("POST", "/vcsync/v1/tenants/holding/rotate").status == 200
        connection.sendall(admin.request("GET", "/api/v1/namespaces"))
        second = read_answer(stream)
    assert second is not None
    assert problem(second, UNAUTHORIZED) == ""


def test_a_resumed_tls_session_does_not_restore_a_certificate(world: World) -> None:
    admin = world.tenant("resuming")
    with admin.connect() as connection:
        connection.sendall(admin.request("GET", "/api"))
        connection.recv(65536)
        session = connection.session
    assert world.operator.ask("POST", "/vcsync/v1/tenants/resuming/rotate").status == 200
    import socket  # noqa: PLC0415

    from hack.attacks.client import answers_of  # noqa: PLC0415

    with (
        socket.create_connection(("127.0.0.1", admin.port), timeout=60) as plain,
        admin.tls.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as resumed,
    ):
        resumed.sendall(admin.request("GET", "/api"))
        (answer,) = answers_of(resumed, 1)
    assert problem(answer, UNAUTHORIZED) == ""


def test_a_deleted_tenants_credentials_are_invalid_even_when_it_is_created_again(world: World) -> None:
    admin = world.tenant("passing")
    account = Door(world.plane.port, world.anonymous.tls, token(admin))
    assert world.operator.ask("DELETE", "/vcsync/v1/tenants/passing").status == 200
    for door in (admin, account):
        assert problem(door.ask("GET", "/api/v1/namespaces"), UNAUTHORIZED) == ""
    again = world.tenant("passing")
    for door in (admin, account):
        assert problem(door.ask("GET", "/api/v1/namespaces"), UNAUTHORIZED) == ""
        assert problem(door.ask("GET", "/tenants/passing/api/v1/namespaces"), UNAUTHORIZED) == ""
    assert again.ask("GET", "/api/v1/namespaces/default/configmaps").json["items"] == []


def test_a_token_review_refuses_another_tenants_token(world: World) -> None:
    others, own = token(world.victim, "kept-0"), token(world.attacker)

    def review(text: str) -> Answer:
        body = {"spec": {"token": text}}
        return world.attacker.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)

    assert review(own).json["status"]["authenticated"] is True
    forged = others[:-8] + "AAAAAAAA"
    assert review(others).json["status"] == review(forged).json["status"]
    assert not review(others).json["status"].get("authenticated")


def test_an_audience_named_like_another_issuer_gives_no_access(world: World) -> None:
    issuer = claims(token(world.victim, "kept-0"))["iss"]
    place = "/api/v1/namespaces/default/serviceaccounts/default/token"
    made = world.attacker.ask("POST", place, {"spec": {"audiences": [issuer]}})
    assert made.status == 201
    door = Door(world.plane.port, world.anonymous.tls, made.json["status"]["token"])
    assert hint(lambda tenant: door.ask("GET", f"/tenants/{tenant}/api"), UNAUTHORIZED) == ""
