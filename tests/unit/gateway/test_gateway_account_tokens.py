"""ServiceAccount tokens of an external control plane at the door."""

import asyncio
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from door_kit import CREDENTIAL, ApiServer, Door

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authentication import tokens
from vcsync.apiserver.authentication.tokens import Reference
from vcsync.apiserver.filters.external import is_forwarded
from vcsync.apiserver.request.caller import Caller
from vcsync.gateway import account_tokens
from vcsync.gateway.account_tokens import AccountTokens

BASE = "/tenants/umbrella/api/v1/namespaces/default/configmaps"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ACCOUNT = "system:serviceaccount:apps:robot"
POD = "authentication.kubernetes.io/pod-name"


def key_set(*keys: rsa.RSAPrivateKey) -> bytes:
    entries = [
        {
            **jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True),
            "kid": f"k{number}",
            "use": "sig",
        }
        for number, key in enumerate(keys)
    ]
    return json.dumps({"keys": entries}).encode()


def token(key: rsa.RSAPrivateKey = KEY, *, kid: str = "k0", algorithm: str = "RS256", **changes: Any) -> str:
    now = int(time.time())
    claims = {
        "aud": ["https://kubernetes.default.svc"],
        "exp": now + 3600,
        "iat": now,
        "nbf": now,
        "iss": "https://kubernetes.default.svc",
        "jti": "1",
        "sub": ACCOUNT,
        "kubernetes.io": {
            "namespace": "apps",
            "serviceaccount": {"name": "robot", "uid": "u-2"},
            "pod": {"name": "p", "uid": "u-3"},
        },
        **changes,
    }
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": kid})


async def test_the_api_server_receives_the_token_itself(door: Door, upstream: ApiServer) -> None:
    upstream.keys = key_set(KEY)
    mine = token()
    status, _, body = await door.request(f"GET {BASE}", token=mine)
    assert (status, body) == (200, b'{"kind":"X"}\n')
    (received,) = upstream.received
    assert received.header("authorization") == [f"Bearer {mine}"]
    assert not [name for name, _ in received.headers if name.startswith("impersonate-")]
    assert upstream.key_reads == [f"Bearer {CREDENTIAL}"]


async def test_keys_are_read_once_for_many_tokens(door: Door, upstream: ApiServer) -> None:
    upstream.keys = key_set(KEY)
    for _ in range(3):
        await door.request(f"GET {BASE}", token=token())
    assert len(upstream.key_reads) == 1


async def test_an_expired_token_is_refused_as_the_clients_own_fault(door: Door, upstream: ApiServer) -> None:
    upstream.keys = key_set(KEY)
    upstream.refuses = True
    status, _, _ = await door.request(f"GET {BASE}", token=token())
    assert status == 401


@pytest.mark.parametrize(
    "mine",
    [
        pytest.param(lambda: token(OTHER_KEY), id="another key under the same id"),
        pytest.param(lambda: token(kid="unknown"), id="an unknown key id"),
        pytest.param(lambda: token(exp=int(time.time()) - 3600), id="expired"),
        pytest.param(lambda: token(nbf=int(time.time()) + 3600), id="not valid yet"),
        pytest.param(lambda: token(sub="system:serviceaccount:apps:other"), id="another subject"),
        pytest.param(lambda: token(sub="admin", **{"kubernetes.io": None}), id="no ServiceAccount"),
        pytest.param(lambda: jwt.encode({"sub": ACCOUNT}, "x" * 32, algorithm="HS256"), id="a shared secret"),
        pytest.param(lambda: jwt.encode({"sub": ACCOUNT}, None, algorithm="none"), id="no signature"),
        pytest.param(lambda: "a.b.c", id="no token"),
    ],
)
async def test_other_tokens_never_reach_the_api_server(door: Door, upstream: ApiServer, mine: Any) -> None:
    upstream.keys = key_set(KEY)
    status, _, _ = await door.request(f"GET {BASE}", token=mine())
    assert (status, upstream.received) == (401, [])


@pytest.mark.parametrize("tenant", ["acme", "nobody", "system", "all"])
async def test_the_token_is_not_valid_in_another_tenant(door: Door, upstream: ApiServer, tenant: str) -> None:
    upstream.keys = key_set(KEY)
    path = BASE.replace("umbrella", tenant)
    status, _, body = await door.request(f"GET {path}", token=token())
    assert status == 401
    assert b"umbrella" not in body
    assert (upstream.received, upstream.key_reads) == ([], [])


async def test_a_url_without_a_tenant_is_refused(door: Door, upstream: ApiServer) -> None:
    upstream.keys = key_set(KEY)
    status, _, _ = await door.request("GET /api/v1/namespaces", token=token())
    assert (status, upstream.received) == (401, [])


async def test_a_host_name_names_the_tenant(door: Door, upstream: ApiServer) -> None:
    upstream.keys = key_set(KEY)
    host = "umbrella.tenants.example.com"
    status, _, _ = await door.request("GET /api/v1/namespaces", token=token(), host=host)
    assert (status, len(upstream.received)) == (200, 1)


async def test_a_key_of_the_door_that_a_tenant_publishes_makes_its_tokens_no_tokens_of_the_tenant(
    door: Door, upstream: ApiServer
) -> None:
    """Or the tenant's API server would receive tokens of others that were sent to its path by mistake."""
    credentials = await door.identity.tenants.credentials("acme")
    assert credentials is not None
    assert credentials.signing_key is not None
    assert credentials.verification_key is not None
    document = jwt.algorithms.ECAlgorithm.to_jwk(credentials.verification_key, as_dict=True)
    assert credentials.record.signer is not None
    upstream.keys = json.dumps({"keys": [document | {"kid": credentials.record.signer.id}]}).encode()
    mine = tokens.signed(
        credentials.signing_key,
        credentials.record.signer.id,
        credentials.record.signer.issuer,
        "default",
        Reference("default", "u-9"),
        tokens.Bound(),
        [credentials.record.signer.issuer],
        "t",
        int(time.time()),
        600,
    )
    status, _, _ = await door.request(f"GET {BASE}", token=mine)
    assert status in (401, 403)
    assert upstream.received == []


async def test_impersonation_needs_another_credential(door: Door, upstream: ApiServer) -> None:
    upstream.keys = key_set(KEY)
    status, _, body = await door.request(f"GET {BASE}", [("Impersonate-User", "alice")], token=token())
    assert status == 403
    assert b"only at the control plane's own address" in body
    assert upstream.received == []


async def test_a_new_key_is_known_soon_after_its_first_token(
    door: Door, upstream: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_tokens, "RETRY_SECONDS", 0.0)
    upstream.keys = key_set(KEY)
    await door.request(f"GET {BASE}", token=token())
    upstream.keys = key_set(KEY, OTHER_KEY)
    new = token(OTHER_KEY, kid="k1")
    async with asyncio.timeout(20):
        while (await door.request(f"GET {BASE}", token=new))[0] != 200:
            await asyncio.sleep(0.01)


def test_a_token_means_nothing_once_its_control_plane_is_not_external_any_more() -> None:
    caller = Caller(User(ACCOUNT, groups=("system:authenticated",)), "umbrella", by_control_plane=True)
    with pytest.raises(StatusError, match="Unauthorized"):
        is_forwarded(None, "umbrella", caller)


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


async def test_unknown_keys_cause_one_read_in_ten_seconds() -> None:
    clock, reads = Clock(), []

    async def read(tenant: str) -> bytes:
        reads.append(tenant)
        return key_set(KEY)

    found = AccountTokens(lambda tenant: tenant == "umbrella", read, time.time, clock)
    running = asyncio.create_task(found.run())
    for _ in range(5):
        assert await found.identify(token(OTHER_KEY, kid="x"), "umbrella") is None
        await asyncio.sleep(0)
    assert reads == ["umbrella"]
    clock.seconds += account_tokens.RETRY_SECONDS
    await found.identify(token(OTHER_KEY, kid="x"), "umbrella")
    for _ in range(5):
        await asyncio.sleep(0)
    assert reads == ["umbrella", "umbrella"]
    running.cancel()


LARGE = rsa.RSAPublicNumbers(2**64 + 13, KEY.public_key().public_numbers().n).public_key()


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(b'{"keys":[{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}]}", id="deep"),
        pytest.param(b'{"keys":[{"kty":"RSA","kid":"\xff"}]}', id="no UTF-8"),
        pytest.param(b'{"keys":[{"kty":["RSA"],"kid":{}}]}', id="wrong types"),
        pytest.param(
            json.dumps({"keys": [{"kty": "RSA", "n": "AA", "e": "AA", "kid": "k0"}]}).encode(), id="no key"
        ),
        pytest.param(
            json.dumps(
                {"keys": [jwt.algorithms.RSAAlgorithm.to_jwk(LARGE, as_dict=True) | {"kid": "k0"}]}
            ).encode(),
            id="a large exponent",
        ),
    ],
)
async def test_a_tenants_odd_keys_are_useless_and_do_not_stop_those_of_others(document: bytes) -> None:
    answers = {"evil": document, "umbrella": key_set(KEY)}

    async def read(tenant: str) -> bytes:
        return answers[tenant]

    found = AccountTokens(lambda _tenant: True, read, time.time, Clock())
    running = asyncio.create_task(found.run())
    assert await found.identify(token(), "evil") is None
    assert await found.identify(token(), "umbrella") is not None
    assert not running.done()
    running.cancel()


async def test_a_token_without_a_key_id_is_not_tried_against_all_keys() -> None:
    async def read(_tenant: str) -> bytes:
        return key_set(KEY)

    found = AccountTokens(lambda _tenant: True, read, time.time, Clock())
    running = asyncio.create_task(found.run())
    assert await found.identify(token(kid=""), "umbrella") is None
    running.cancel()


async def test_known_keys_stay_valid_when_they_cannot_be_read_again() -> None:
    clock = Clock()
    answers = [key_set(KEY), b"not json"]

    async def read(_tenant: str) -> bytes:
        return answers.pop(0)

    found = AccountTokens(lambda _tenant: True, read, time.time, clock)
    running = asyncio.create_task(found.run())
    assert await found.identify(token(), "umbrella") == User(
        ACCOUNT,
        "u-2",
        ("system:serviceaccounts", "system:serviceaccounts:apps", "system:authenticated"),
        {
            "authentication.kubernetes.io/credential-id": ("JTI=1",),
            POD: ("p",),
            "authentication.kubernetes.io/pod-uid": ("u-3",),
        },
    )
    clock.seconds += account_tokens.KEPT_SECONDS + 1
    await found.identify(token(), "umbrella")
    for _ in range(5):
        await asyncio.sleep(0)
    assert answers == []
    assert await found.identify(token(), "umbrella") is not None
    running.cancel()


async def test_a_token_waits_a_limited_time_for_an_api_server_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(account_tokens, "FIRST_SECONDS", 0.01)

    async def read(_tenant: str) -> bytes:
        await asyncio.sleep(3600)
        return b""

    found = AccountTokens(lambda _tenant: True, read, time.time, Clock())
    running = asyncio.create_task(found.run())
    assert await found.identify(token(), "umbrella") is None
    running.cancel()
