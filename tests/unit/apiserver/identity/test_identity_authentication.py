"""Authentication, and what attackers try."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.apiserver.identity.conftest import NOW, House
from vcsync.apimachinery.errors import StatusError
from vcsync.apiserver.authentication.authenticator import bearer
from vcsync.apiserver.authentication.token_file import TokenFile, TokenFileError, parse
from vcsync.apiserver.authentication.tokens import TokenError
from vcsync.apiserver.authentication.watched_file import CHECK_SECONDS
from vcsync.apiserver.tenants import pki

HOUR = 3600


def der(pem: str) -> bytes:
    return x509.load_pem_x509_certificate(pem.encode()).public_bytes(serialization.Encoding.DER)


async def certificate(house: House, tenant: str, user: str = "alice", *groups: str) -> bytes:
    authority, _, _ = await house.keys(tenant)
    return der(pki.issue_client(authority, user, groups, house.clock()).certificate)


async def refused(house: House, shown: bytes | None, authorization: str | None = None) -> bool:
    try:
        await house.identity.authenticator.authenticate(shown, authorization, "acme")
    except StatusError as error:
        return (error.code, error.message) == (401, "Unauthorized")
    return False


# ---- certificates ----------------------------------------------------------------------


async def test_the_issuing_authority_decides_the_tenant(house: House) -> None:
    for tenant in ("acme", "umbrella"):
        shown = await certificate(house, tenant, "alice", "devs")
        caller = await house.identity.authenticator.authenticate(shown, None, "acme")
        assert (caller.tenant, caller.system) == (tenant, False)
        assert (caller.user.name, caller.user.groups) == ("alice", ("devs", "system:authenticated"))


async def test_only_the_system_authority_makes_system_callers(house: House) -> None:
    shown = await certificate(house, "system", "operator", "system:masters")
    caller = await house.identity.authenticator.authenticate(shown, None, None)
    assert (caller.tenant, caller.system) == ("system", True)
    assert "system:masters" in caller.user.groups


async def test_masters_of_a_tenants_authority_are_none(house: House) -> None:
    shown = await certificate(house, "acme", "mallory", "system:masters", "devs")
    caller = await house.identity.authenticator.authenticate(shown, None, None)
    assert caller.user.groups == ("devs", "system:authenticated")
    assert not caller.system


async def test_a_certificate_of_a_stranger_with_the_same_names_is_refused(house: House) -> None:
    authority, _, _ = await house.keys("acme")
    stranger = pki.new_authority("stranger", house.clock())
    forged = pki.Authority(stranger.certificate, stranger.key, authority.id)
    assert await refused(house, der(pki.issue_client(forged, "admin", (), house.clock()).certificate))
    assert await refused(house, der(pki.issue_client(stranger, "admin", (), house.clock()).certificate))
    assert await refused(house, b"no certificate at all")


async def test_an_authority_is_no_user_and_a_server_no_client(house: House) -> None:
    authority, _, _ = await house.keys("acme")
    assert await refused(house, der(authority.certificate))
    assert await refused(house, der(pki.issue_serving(authority, ["x"], house.clock()).certificate))


@pytest.mark.parametrize(
    ("later", "gone"), [(0, False), (364 * 24 * HOUR, False), (366 * 24 * HOUR, True), (-HOUR, True)]
)
async def test_certificates_count_in_their_time_only(house: House, later: int, gone: bool) -> None:
    shown = await certificate(house, "acme")
    assert not await refused(house, shown)
    house.clock.now = NOW + later
    assert await refused(house, shown) is gone


async def test_rotation_makes_old_certificates_and_tokens_worthless(house: House) -> None:
    shown = await certificate(house, "acme")
    token = await account_token(house, "acme")
    assert not await refused(house, shown)
    assert not await refused(house, None, f"Bearer {token}")
    await house.identity.lifecycle.rotate("acme")
    assert await refused(house, shown)
    assert await refused(house, None, f"Bearer {token}")
    assert not await refused(house, await certificate(house, "acme"))


async def test_credentials_of_a_deleted_tenant_and_of_its_successor_differ(house: House) -> None:
    shown = await certificate(house, "acme")
    assert not await refused(house, shown)
    await house.identity.deletion.delete("acme")
    assert await refused(house, shown)
    await house.identity.lifecycle.create("acme")
    assert await refused(house, shown)


# ---- ServiceAccount tokens -------------------------------------------------------------


async def account_token(house: House, tenant: str, **spec: Any) -> str:
    body = {"metadata": {"name": "robot", "namespace": "default", "uid": f"uid-{tenant}"}}
    await house.put(tenant, "", "serviceaccounts", body)
    answer = await house.identity.token_requests.create(tenant, "default", "robot", {"spec": spec})
    return str(answer["status"]["token"])


async def test_a_token_identifies_its_service_account_in_its_tenant(house: House) -> None:
    token = await account_token(house, "acme")
    caller = await house.identity.authenticator.authenticate(None, f"Bearer {token}", None)
    assert (caller.tenant, caller.system) == ("acme", False)
    assert caller.user.name == "system:serviceaccount:default:robot"
    assert caller.user.uid == "uid-acme"
    assert caller.user.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    )
    (credential,) = caller.user.extra["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("JTI=")


@pytest.mark.parametrize(
    ("later", "gone"), [(HOUR, False), (HOUR + 59, False), (HOUR + 61, True), (-59, False), (-61, True)]
)
async def test_tokens_count_in_their_time_give_or_take_a_minute(house: House, later: int, gone: bool) -> None:
    token = await account_token(house, "acme")
    house.clock.now = NOW + later
    assert await refused(house, None, f"Bearer {token}") is gone


async def test_a_token_for_others_is_refused_here(house: House) -> None:
    assert await refused(house, None, f"Bearer {await account_token(house, 'acme', audiences=['vault'])}")
    both = await account_token(house, "acme", audiences=["vault", "https://cp.example:6443/tenants/acme"])
    assert not await refused(house, None, f"Bearer {both}")


async def test_the_issuer_of_another_tenant_as_audience_does_not_help(house: House) -> None:
    token = await account_token(house, "acme", audiences=["https://cp.example:6443/tenants/umbrella"])
    assert await refused(house, None, f"Bearer {token}")


async def forged(house: House, forge: Callable[[dict[str, Any], str, str], str]) -> str:
    """Return a token that `forge` makes of a true one's claims, acme's key id and acme's public key."""
    token = await account_token(house, "acme")
    claims = jwt.decode(token, options={"verify_signature": False})
    _, signer, _ = await house.keys("acme")
    return forge(claims, signer.id, pki.public_pem(signer))


def unsigned(claims: dict[str, Any], kid: str, _public: str) -> str:
    return jwt.encode(claims, None, algorithm="none", headers={"kid": kid})


def by_public_key_as_secret(claims: dict[str, Any], kid: str, public: str) -> str:
    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    head = f"{part(json.dumps({'alg': 'HS256', 'kid': kid}).encode())}.{part(json.dumps(claims).encode())}"
    return f"{head}.{part(hmac.new(public.encode(), head.encode(), hashlib.sha256).digest())}"


def by_own_key(claims: dict[str, Any], kid: str, _public: str) -> str:
    return jwt.encode(
        claims, ec.generate_private_key(ec.SECP256R1()), algorithm="ES256", headers={"kid": kid}
    )


def claiming_es256_without_signature(claims: dict[str, Any], kid: str, _public: str) -> str:
    head = {"alg": "ES256", "kid": kid}
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in (head, claims)
    ]
    return ".".join([*parts, ""])


def with_key_inside(claims: dict[str, Any], kid: str, _public: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    return jwt.encode(
        claims, key, algorithm="ES256", headers={"kid": kid, "jwk": jwk, "jku": "https://evil/"}
    )


@pytest.mark.parametrize(
    "forge",
    [unsigned, by_public_key_as_secret, by_own_key, claiming_es256_without_signature, with_key_inside],
)
async def test_forged_signatures_are_refused(
    house: House, forge: Callable[[dict[str, Any], str, str], str]
) -> None:
    assert await refused(house, None, f"Bearer {await forged(house, forge)}")


async def test_a_tenant_with_its_own_keys_cannot_speak_for_another(house: House) -> None:
    token = await account_token(house, "acme")
    await account_token(house, "umbrella")
    _, own, signing_key = await house.keys("acme")
    _, other, _ = await house.keys("umbrella")
    claims = jwt.decode(token, options={"verify_signature": False})
    claims["kubernetes.io"]["serviceaccount"]["uid"] = "uid-umbrella"
    claims |= {"iss": other.issuer, "aud": [other.issuer]}
    for kid in (own.id, other.id, "unknown"):
        made = jwt.encode(claims, signing_key, algorithm="ES256", headers={"kid": kid})
        assert await refused(house, None, f"Bearer {made}")


@pytest.mark.parametrize(
    "change",
    [
        {"sub": "system:serviceaccount:default:other"},
        {"exp": None},
        {"exp": "tomorrow"},
        {"aud": None},
        {"kubernetes.io": None},
        {"kubernetes.io": {"namespace": "default"}},
        {"kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": "other"}}},
        {"iss": "kubernetes/serviceaccount"},
    ],
)
async def test_well_signed_nonsense_is_refused(house: House, change: dict[str, Any]) -> None:
    token = await account_token(house, "acme")
    _, own, signing_key = await house.keys("acme")
    claims = {
        key: value
        for key, value in {**jwt.decode(token, options={"verify_signature": False}), **change}.items()
        if value is not None
    }
    made = jwt.encode(claims, signing_key, algorithm="ES256", headers={"kid": own.id})
    assert await refused(house, None, f"Bearer {made}")


@pytest.mark.parametrize(
    ("plural", "kind", "namespace"),
    [("secrets", "Secret", "default"), ("pods", "Pod", "default"), ("nodes", "Node", "")],
)
async def test_a_bound_token_lives_as_long_as_what_it_is_bound_to(
    house: House, plural: str, kind: str, namespace: str
) -> None:
    place = {"namespace": namespace} if namespace else {}
    bound = {"metadata": {"name": "thing", "uid": "u1", **place}, "spec": {"serviceAccountName": "robot"}}
    key = await house.put("acme", "", plural, bound)
    token = await account_token(
        house, "acme", boundObjectRef={"kind": kind, "apiVersion": "v1", "name": "thing"}
    )
    assert not await refused(house, None, f"Bearer {token}")
    bound["metadata"]["uid"] = "u2"
    await house.put("acme", "", plural, bound)
    assert await refused(house, None, f"Bearer {token}")
    bound["metadata"] |= {"uid": "u1", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    await house.put("acme", "", plural, bound)
    assert await refused(house, None, f"Bearer {token}")
    await house.delete(key)
    assert await refused(house, None, f"Bearer {token}")


async def test_a_deleted_service_accounts_token_is_worthless(house: House) -> None:
    token = await account_token(house, "acme")
    assert not await refused(house, None, f"Bearer {token}")
    await house.delete("acme/core/serviceaccounts/default/robot")
    assert await refused(house, None, f"Bearer {token}")


async def test_tokens_that_a_controller_manager_puts_into_secrets_count(house: House) -> None:
    await account_token(house, "acme")
    _, own, signing_key = await house.keys("acme")
    prefix = "kubernetes.io/serviceaccount/"
    claims = {
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:default:robot",
        f"{prefix}namespace": "default",
        f"{prefix}secret.name": "robot-token",
        f"{prefix}service-account.name": "robot",
        f"{prefix}service-account.uid": "uid-acme",
    }
    token = jwt.encode(claims, signing_key, algorithm="ES256", headers={"kid": own.id})
    assert await refused(house, None, f"Bearer {token}")
    data = {"token": base64.b64encode(token.encode()).decode()}
    secret: dict[str, Any] = {"metadata": {"name": "robot-token", "namespace": "default"}, "data": data}
    key = await house.put("acme", "", "secrets", secret)
    assert not await refused(house, None, f"Bearer {token}")
    found, _ = await house.store.get(key)
    assert found
    labels = msgspec.json.decode(found.value)["metadata"]["labels"]
    assert labels == {"kubernetes.io/legacy-token-last-used": "2027-01-15"}
    assert not await refused(house, None, f"Bearer {token}")
    again, _ = await house.store.get(key)
    assert again == found  # a day is written once
    secret["metadata"]["labels"] = {**labels, "kubernetes.io/legacy-token-invalid-since": "2027-01-14"}
    await house.put("acme", "", "secrets", secret)
    assert await refused(house, None, f"Bearer {token}")
    secret["metadata"]["labels"] = {}
    data["token"] = base64.b64encode(b"another").decode()
    await house.put("acme", "", "secrets", secret)
    assert await refused(house, None, f"Bearer {token}")


# ---- headers and files -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, ""),
        ("", ""),
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("  Bearer abc  ", "abc"),
        ("Bearer abc def", "abc"),
        ("Bearer", ""),
        ("Bearer  abc", ""),
        ("Basic abc", ""),
    ],
)
def test_the_authorization_header_is_read_as_the_real_server_does(header: str | None, token: str) -> None:
    assert bearer(header) == token


async def test_who_shows_nothing_is_anonymous_where_the_url_says(house: House) -> None:
    for tenant in ("acme", "no-such", None):
        caller = await house.identity.authenticator.authenticate(None, None, tenant)
        assert (caller.user.name, caller.user.groups) == ("system:anonymous", ("system:unauthenticated",))
        assert (caller.tenant, caller.system) == (tenant or "", False)


async def test_anonymous_callers_of_the_systems_url_are_no_system_callers(house: House) -> None:
    assert not (await house.identity.authenticator.authenticate(None, None, "system")).system


@pytest.mark.parametrize(
    "token", ["wrong", "a.b.c", "x" * 20_000, "é", "\udcff", "..", "eyJhbGciOiJFUzI1NiJ9.e30."]
)
async def test_unknown_tokens_are_refused(house: House, token: str) -> None:
    assert await refused(house, None, f"Bearer {token}")


async def test_a_good_token_helps_out_a_bad_certificate_and_a_bad_one_does_not_hurt_a_good_certificate(
    house: House,
) -> None:
    token = await account_token(house, "acme")
    assert not await refused(house, b"bad", f"Bearer {token}")
    assert not await refused(house, await certificate(house, "acme"), "Bearer bad")


def test_static_tokens() -> None:
    found = parse(
        ["# comment", 't1,admin,u1,"system:masters,ops"', 't2,bob,u2,"devs,system:masters",acme', "t3,eve,"]
    )
    users = [(known.user.name, known.user.uid, known.user.groups, known.tenant) for known in found.values()]
    assert users == [
        ("admin", "u1", ("system:masters", "ops"), "system"),
        ("bob", "u2", ("devs",), "acme"),
        ("eve", "", (), "system"),
    ]


@pytest.mark.parametrize("line", ["token", "token,user", ",user,uid", "token,,uid"])
def test_a_broken_line_is_named(line: str) -> None:
    with pytest.raises(TokenFileError, match="line 2"):
        parse(["good,user,uid", line])


def test_the_file_is_read_anew_when_it_changes(tmp_path: Path) -> None:
    now = [0.0]
    path = tmp_path / "tokens.csv"
    path.write_text("t1,alice,u1\n")
    tokens = TokenFile(path, lambda: now[0])
    path.write_text("t2,bob,u2,devs\n")
    assert tokens.get("t1") is not None
    now[0] += CHECK_SECONDS
    assert (tokens.get("t1"), tokens.get("t2") is None) == (None, False)
    path.write_text("broken\n")
    now[0] += CHECK_SECONDS
    assert tokens.get("t2") is not None
    path.unlink()
    now[0] += CHECK_SECONDS
    assert tokens.get("t2") is None


def test_a_file_that_comes_back_unchanged_in_content_counts_again(tmp_path: Path) -> None:
    now = [0.0]
    path = tmp_path / "tokens.csv"
    path.write_text("t1,alice,u1\n")
    tokens = TokenFile(path, lambda: now[0])
    path.rename(tmp_path / "away")
    for _ in range(2):
        now[0] += CHECK_SECONDS
        assert tokens.get("t1") is None
    (tmp_path / "away").rename(path)
    now[0] += CHECK_SECONDS
    assert tokens.get("t1") is not None


def test_a_clock_that_steps_back_does_not_keep_an_old_file(tmp_path: Path) -> None:
    now = [1000.0]
    path = tmp_path / "tokens.csv"
    path.write_text("t1,alice,u1\n")
    tokens = TokenFile(path, lambda: now[0])
    path.write_text("t22,bob,u2\n")
    now[0] = 1.0
    assert tokens.get("t1") is None


async def test_static_tokens_of_a_tenant_that_is_not_there_are_worthless(
    house: House, tmp_path: Path
) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text("t1,alice,u1,devs,acme\nt2,bob,u2,,no-such\nt3,admin,u3,system:masters\n")
    house.identity.authenticator._token_file = TokenFile(path, house.clock)
    caller = await house.identity.authenticator.authenticate(None, "Bearer t1", None)
    assert (caller.tenant, caller.system, caller.user.groups) == (
        "acme",
        False,
        ("devs", "system:authenticated"),
    )
    assert (await house.identity.authenticator.authenticate(None, "Bearer t3", None)).system
    assert await refused(house, None, "Bearer t2")
    with pytest.raises(TokenError):
        await house.identity.authenticator.by_token("t1", of="umbrella")


async def test_the_admin_kubeconfig_identifies_an_admin(house: House) -> None:
    document = yaml.safe_load(await house.identity.admin.kubeconfig("acme"))
    assert document["clusters"][0]["cluster"]["server"] == "https://cp.example:6443"
    pem = base64.b64decode(document["users"][0]["user"]["client-certificate-data"]).decode()
    caller = await house.identity.authenticator.authenticate(der(pem), None, None)
    assert (caller.user.name, caller.user.groups) == (
        "admin",
        ("vcsync:tenant-admins", "system:authenticated"),
    )


@given(st.one_of(st.text(max_size=200), st.from_regex(r"Bearer [A-Za-z0-9_.-]{0,80}", fullmatch=True)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
async def test_no_header_makes_anything_but_a_refusal_or_nobody(house: House, header: str) -> None:
    try:
        caller = await house.identity.authenticator.authenticate(None, header, "acme")
    except StatusError as error:
        assert error.code == 401  # noqa: PT017  both ends are right
    else:
        assert caller.user.name == "system:anonymous"


def header_of(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "header",
    [
        "[" * 5000 + "]" * 5000,
        '{"a":' * 1500 + "1" + "}" * 1500,
        "null",
        "5",
        '{"alg":"ES256","kid":["x"]}',
        '{"alg":"ES256","kid":"x","crit":["b64"],"b64":false}',
        "9" * 5000,
        "{",
    ],
)
async def test_hostile_token_headers_are_refused(house: House, header: str) -> None:
    assert await refused(house, None, f"Bearer {header_of(header)}.e30.AA")
