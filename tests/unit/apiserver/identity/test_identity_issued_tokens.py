"""JSON web tokens of issuers outside: whose keys count, what a token makes of its holder, and of which tenant."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.unit.apiserver.identity.conftest import NOW, Clock
from vcsync.apiserver.authentication import jwt_config, jwt_keys
from vcsync.apiserver.authentication.jwt_config import ConfigError
from vcsync.apiserver.authentication.jwt_tokens import IssuedTokens
from vcsync.apiserver.authentication.provider_calls import CallError
from vcsync.apiserver.authentication.provider_claims import Identified
from vcsync.apiserver.authentication.tokens import TokenError

URL = "https://issuer.example"
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
SMALL_KEY = rsa.generate_private_key(public_exponent=65537, key_size=1024)


def jwk(key: Any, name: str, **more: Any) -> dict[str, Any]:
    algorithm = ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig", **more}


class Provider:
    """An issuer that answers from memory, and counts."""

    def __init__(self) -> None:
        self.keys = [jwk(EC_KEY, "one")]
        self.issuer = URL
        self.keys_url = f"{URL}/keys"
        self.down = False
        self.asked: list[str] = []

    async def fetch(self, url: str, tls: Any) -> bytes:
        self.asked.append(url)
        if self.down:
            raise CallError("down")
        if url == self.keys_url:
            return msgspec.json.encode({"keys": self.keys})
        return msgspec.json.encode({"issuer": self.issuer, "jwks_uri": self.keys_url})


def config(**changes: Any) -> dict[str, Any]:
    """Return a configuration with one issuer; `changes` replace parts of it."""
    one: dict[str, Any] = {
        "issuer": {"url": URL, "audiences": ["vcsync"]},
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "sso:"},
            "groups": {"claim": "groups", "prefix": ""},
        },
        "tenant": {"name": "acme"},
        **changes,
    }
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [one],
    }


class Bench:
    """A file, an issuer, and what reads both."""

    def __init__(self, folder: Path) -> None:
        self.path, self.clock, self.provider = folder / "auth.yaml", Clock(), Provider()
        self.tokens: IssuedTokens | None = None

    def write(self, **changes: Any) -> None:
        self.path.write_text(yaml.safe_dump(config(**changes)))

    async def identify(self, token: str) -> Identified | None:
        if self.tokens is None:
            exists = {"acme", "umbrella", "system"}.__contains__
            self.tokens = IssuedTokens(self.path, exists, self.clock, self.provider.fetch)
        return await self.tokens.identify(token)

    async def refused(self, token: str) -> str:
        with pytest.raises(TokenError) as caught:
            await self.identify(token)
        return str(caught.value)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.write()
    return made


def token(key: Any = EC_KEY, kid: str | None = "one", algorithm: str = "ES256", **claims: Any) -> str:
    told = {"iss": URL, "aud": "vcsync", "sub": "alice", "exp": NOW + 60, **claims}
    headers = {"kid": kid} if kid else {}
    return jwt.encode({k: v for k, v in told.items() if v is not None}, key, algorithm, headers=headers)


async def test_a_token_makes_its_holder_a_caller_of_the_configured_tenant(bench: Bench) -> None:
    found = await bench.identify(token(groups=["devs", "ops"], jti="j1"))
    assert found
    assert (found.user.name, found.tenant) == ("sso:alice", "acme")
    assert found.user.groups == ("devs", "ops", "system:authenticated")
    assert found.user.extra == {"authentication.kubernetes.io/credential-id": ("JTI=j1",)}


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: token(aud="other"), "meant for others"),
        (lambda: token(aud=None), "meant for others"),
        (lambda: token(exp=NOW - 1), "expired"),
        (lambda: token(exp=None), "expired"),
        (lambda: token(exp="soon"), ""),
        (lambda: token(nbf=NOW + 3600), "not valid yet"),
        (lambda: token(OTHER_KEY), "no key of the issuer"),
        (lambda: token(OTHER_KEY, kid=None), "no key of the issuer"),
        (lambda: token(RSA_KEY, algorithm="RS256"), "no key of the issuer"),
        (lambda: token("x" * 64, algorithm="HS256"), "in a way that does not count"),
        (lambda: token(sub=7), "is no text"),
        (lambda: token(sub=None), "is no text"),
        (lambda: token(groups=[1]), "no list of texts"),
    ],
)
async def test_tokens_that_identify_nobody(bench: Bench, made: Callable[[], str], why: str) -> None:
    assert why in await bench.refused(made())


async def test_unsigned_tokens_and_keys_used_as_secrets_are_refused(bench: Bench) -> None:
    assert "does not count" in await bench.refused(jwt.encode({"iss": URL}, None, "none"))
    head, body, _ = token().split(".")
    assert await bench.refused(f"{head}.{body}.")


@pytest.mark.parametrize(
    "text", ["", "a", "a.b.c", "x" * 20000, token(iss="https://another.example"), "é.é.é"]
)
async def test_what_is_of_no_known_issuer_is_left_to_others(bench: Bench, text: str) -> None:
    assert await bench.identify(text) is None
    assert bench.provider.asked == []


async def test_new_keys_are_found_and_unknown_ones_ask_the_issuer_seldom(bench: Bench) -> None:
    assert await bench.identify(token())
    assert len(bench.provider.asked) == 2
    bench.provider.keys = [jwk(OTHER_KEY, "two")]
    bench.clock.now += jwt_keys.RETRY_SECONDS
    assert await bench.identify(token(OTHER_KEY, "two"))
    assert len(bench.provider.asked) == 4
    for _ in range(20):
        assert await bench.refused(token(kid="made-up"))
    assert len(bench.provider.asked) == 4
    assert await bench.refused(token())  # the old key is gone


async def test_withdrawn_keys_stop_to_count_after_a_while(bench: Bench) -> None:
    assert await bench.identify(token(exp=NOW + 9999))
    bench.provider.keys = [jwk(OTHER_KEY, "two")]
    assert await bench.identify(token(exp=NOW + 9999))
    bench.clock.now += jwt_keys.KEPT_SECONDS
    assert await bench.refused(token(exp=NOW + 9999))


async def test_an_issuer_that_is_down_is_no_failure_and_leaves_the_known_keys(bench: Bench) -> None:
    bench.provider.down = True
    assert await bench.refused(token())
    bench.provider.down = False
    assert await bench.refused(token())  # asked just now
    bench.clock.now += jwt_keys.RETRY_SECONDS
    assert await bench.identify(token())
    bench.provider.down = True
    bench.clock.now += jwt_keys.KEPT_SECONDS
    assert await bench.identify(token(exp=NOW + 9999))


async def test_a_slow_issuer_is_asked_once_and_holds_up_nobody_whose_key_is_known(bench: Bench) -> None:
    assert await bench.identify(token(exp=NOW + 9999))
    gate, real = asyncio.Event(), bench.provider.fetch
    bench.clock.now += jwt_keys.KEPT_SECONDS

    async def slow(url: str, tls: Any) -> bytes:
        await gate.wait()
        bench.clock.now += jwt_keys.RETRY_SECONDS
        raise CallError("timeout")

    assert bench.tokens
    (_, keys) = bench.tokens._issuers[URL]
    keys._fetch = slow
    waiting = asyncio.create_task(bench.identify(token(exp=NOW + 9999)))
    await asyncio.sleep(0)
    assert await bench.identify(token(exp=NOW + 9999))
    unknown = [asyncio.create_task(bench.refused(token(kid="made-up"))) for _ in range(3)]
    await asyncio.sleep(0)
    keys._fetch, asked = real, len(bench.provider.asked)
    gate.set()
    assert await waiting
    assert await asyncio.gather(*unknown)
    assert len(bench.provider.asked) == asked


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("issuer", "https://evil.example"), ("keys_url", "http://issuer.example/keys")],
)
async def test_discovery_that_lies_gives_no_keys(bench: Bench, attribute: str, value: str) -> None:
    setattr(bench.provider, attribute, value)
    assert await bench.refused(token())


def test_only_keys_that_can_be_trusted_are_taken() -> None:
    entries = [
        jwk(EC_KEY, "plain"),
        jwk(RSA_KEY, "rsa", alg="RS256"),
        jwk(EC_KEY, "for-encryption", use="enc"),
        jwk(EC_KEY, "confused", alg="RS256"),
        jwk(SMALL_KEY, "small"),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
        {"kty": "EC"},
    ]
    keys = jwt_keys.parse_keys(msgspec.json.encode({"keys": entries}))
    assert [(key.id, key.algorithms) for key in keys] == [("plain", ("ES256",)), ("rsa", ("RS256",))]
    with pytest.raises(CallError):
        jwt_keys.parse_keys(b"[]")


@pytest.mark.parametrize("algorithm", ["RS256", "PS384", "RS512"])
async def test_rsa_keys_count(bench: Bench, algorithm: str) -> None:
    bench.provider.keys = [jwk(RSA_KEY, "one")]
    assert await bench.identify(token(RSA_KEY, algorithm=algorithm))


async def test_the_tenant_may_come_from_a_claim_but_never_be_the_operators(bench: Bench) -> None:
    bench.write(tenant={"claim": "org"})
    found = await bench.identify(token(org="umbrella"))
    assert found
    assert found.tenant == "umbrella"
    for org in ("system", "all", "nobody", "", None, ["acme"], "acme/../umbrella"):
        assert "tenant" in await bench.refused(token(org=org)) or org in (None, ["acme"])


async def test_an_expression_may_make_the_tenant_and_tenant_admins(bench: Bench) -> None:
    bench.write(
        tenant={"expression": "claims.org.split('/')[0]"},
        claimMappings={
            "username": {"expression": "'sso:' + claims.sub"},
            "groups": {"expression": "claims.owner ? ['vcsync:tenant-admins'] : []"},
            "uid": {"claim": "uid"},
            "extra": [{"key": "example.org/team", "valueExpression": "claims.team"}],
        },
    )
    found = await bench.identify(token(org="acme/a", owner=True, uid="u", team=["x", ""]))
    assert found
    assert (found.tenant, found.user.uid) == ("acme", "u")
    assert found.user.groups == ("vcsync:tenant-admins", "system:authenticated")
    assert found.user.extra["example.org/team"] == ("x",)
    assert "no such key" in await bench.refused(token(org="acme/a"))


async def test_a_token_with_an_id_has_the_uid_that_its_claim_gives(bench: Bench) -> None:
    bench.write(claimMappings={"username": {"claim": "sub", "prefix": ""}, "uid": {"claim": "uid"}})
    for uid, more in (("u", {"jti": "j1"}), ("v", {})):
        found = await bench.identify(token(uid=uid, **more))
        assert found
        assert found.user.uid == uid


async def test_reserved_names_cannot_be_asserted(bench: Bench) -> None:
    found = await bench.identify(
        token(groups=["system:masters", "system:nodes", "vcsync:tenant-admins", "devs"])
    )
    assert found
    assert found.user.groups == ("devs", "system:authenticated")
    bench.clock.now += 2
    bench.write(claimMappings={"username": {"claim": "sub", "prefix": ""}})
    assert "system:" in await bench.refused(token(sub="system:admin"))
    bench.clock.now += 2
    bench.write(claimMappings={"username": {"expression": "'system:node:' + claims.sub"}})
    assert "system:" in await bench.refused(token())


async def test_rules_on_claims_and_users_hold(bench: Bench) -> None:
    bench.write(
        claimValidationRules=[
            {"claim": "hd", "requiredValue": "acme.example"},
            {"expression": "claims.exp - claims.iat <= 3600.0", "message": "lives too long"},
        ],
        userValidationRules=[{"expression": "!user.username.endsWith('bot')", "message": "no robots"}],
    )
    good = {"hd": "acme.example", "iat": NOW}
    assert await bench.identify(token(**good))
    assert "required claim hd" in await bench.refused(token(iat=NOW))
    assert "lives too long" in await bench.refused(token(**{**good, "iat": NOW - 7200}))
    assert "no robots" in await bench.refused(token(**good, sub="robot"))


async def test_an_unverified_address_is_no_name(bench: Bench) -> None:
    bench.write(claimMappings={"username": {"claim": "email", "prefix": ""}})
    assert await bench.identify(token(email="a@b.example"))
    assert await bench.identify(token(email="a@b.example", email_verified=True))
    assert "not verified" in await bench.refused(token(email="a@b.example", email_verified=False))


async def test_costly_expressions_end(bench: Bench) -> None:
    bench.write(
        claimValidationRules=[
            {"expression": "claims.l.all(a, claims.l.all(b, claims.l.all(c, a + b + c != 'x')))"}
        ]
    )
    assert "costs too much" in await bench.refused(token(l=["a"] * 400))


async def test_the_file_is_read_again_and_a_broken_one_leaves_what_was_known(bench: Bench) -> None:
    assert await bench.identify(token())
    bench.clock.now += 2
    bench.path.write_text("kind: [")
    assert await bench.identify(token())
    bench.clock.now += 2
    bench.write(tenant={"name": "umbrella"})
    found = await bench.identify(token())
    assert found
    assert found.tenant == "umbrella"
    assert len(bench.provider.asked) == 2  # the issuer stays as it was, and so do its keys


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tenant": {}}, "exactly one of name, claim and expression"),
        ({"tenant": {"name": "a", "claim": "b"}}, "exactly one of"),
        ({"issuer": {"url": "http://x.example", "audiences": ["a"]}}, "scheme must be https"),
        ({"issuer": {"url": "https://u:p@x.example", "audiences": ["a"]}}, "username or password"),
        ({"issuer": {"url": URL, "audiences": []}}, "audiences"),
        ({"issuer": {"url": URL, "audiences": ["a", "b"]}}, "MatchAny"),
        ({"issuer": {"url": URL, "audiences": ["a"], "discoveryURL": f"{URL}/"}}, "must be different"),
        ({"issuer": {"url": URL, "audiences": ["a"], "certificateAuthority": "x"}}, "no PEM"),
        ({"issuer": {"url": URL, "audiences": ["a"], "egressSelectorType": "cluster"}}, "reached directly"),
        ({"claimMappings": {"username": {"claim": "sub"}}}, "prefix is required"),
        ({"claimMappings": {"username": {}}}, "claim or expression is required"),
        ({"claimMappings": {"username": {"claim": "a", "prefix": "", "expression": "'x'"}}}, "both be set"),
        ({"claimMappings": {"username": {"expression": "claims."}}}, "compilation failed"),
        ({"claimMappings": {"username": {"expression": "claims.email"}}}, "email_verified must be used"),
        (
            {
                "claimMappings": {
                    "username": {"claim": "sub", "prefix": ""},
                    "extra": [{"key": "kubernetes.io/x", "valueExpression": "'x'"}],
                }
            },
            "reserved for Kubernetes",
        ),
        ({"claimValidationRules": [{"expression": "'x'"}]}, "must evaluate to bool"),
        ({"claimValidationRules": [{"claim": "a", "message": "m"}]}, "may not be specified when claim"),
        ({"userValidationRules": [{"expression": "user.nothing == 'x'"}]}, "compilation failed"),
        ({"colour": "blue"}, "unknown field `colour`"),
    ],
)
def test_configurations_that_make_no_sense_are_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match="(?s)" + why.replace("(", r"\(")):
        jwt_config.parse(yaml.safe_dump(config(**changes)).encode())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "no YAML"),
        ("[]", "Expected"),
        ("{apiVersion: v1, kind: AuthenticationConfiguration}", "apiVersion must be"),
        ("{apiVersion: apiserver.config.k8s.io/v1, kind: Other}", "kind"),
        (
            "{apiVersion: apiserver.config.k8s.io/v1, kind: AuthenticationConfiguration, anonymous: {enabled: false}}",
            "leave `anonymous` out",
        ),
    ],
)
def test_files_that_are_no_configuration_are_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        jwt_config.parse(text.encode())


def test_an_issuer_stands_once() -> None:
    twice = config()
    twice["jwt"] *= 2
    with pytest.raises(ConfigError, match="Duplicate value"):
        jwt_config.parse(yaml.safe_dump(twice).encode())
