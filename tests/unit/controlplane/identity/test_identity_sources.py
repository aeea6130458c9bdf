"""Bootstrap tokens, the authentication webhook, and certificates that are revoked."""

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asked_plane import holding
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tests.unit.controlplane.identity.conftest import Clock, House
from vcsync.controlplane.behaviour import User
from vcsync.controlplane.errors import StatusError
from vcsync.controlplane.identity.authentication import Authenticator
from vcsync.controlplane.identity.bootstrap_tokens import BootstrapTokens
from vcsync.controlplane.identity.bound import BoundObjects
from vcsync.controlplane.identity.caller import Caller
from vcsync.controlplane.identity.calls import CallError
from vcsync.controlplane.identity.jwt_config import ConfigError
from vcsync.controlplane.identity.outside import Identified
from vcsync.controlplane.identity.revocations import PREFIX, Revocation, Revocations
from vcsync.controlplane.identity.service import Authentication, Identity
from vcsync.controlplane.identity.token_file import TokenFileError
from vcsync.controlplane.identity.tokens import TokenError
from vcsync.controlplane.identity.webhook_tokens import CACHE_SECONDS, TENANT_EXTRA, ReviewedTokens
from vcsync.controlplane.store.interface import Batch, Change
from vcsync.controlplane.tenants import pki
from vcsync.controlplane.tenants.lifecycle import Endpoint

ID, WORD = "abcdef", "0123456789abcdef"
TOKEN = f"{ID}.{WORD}"
OPERATOR = Caller(User("admin", groups=("system:masters",)), "system", system=True)


def secret(identifier: str = ID, **changes: str | None) -> dict[str, Any]:
    told = {
        "token-id": identifier,
        "token-secret": WORD,
        "usage-bootstrap-authentication": "true",
        **{key.replace("_", "-"): value for key, value in changes.items()},
    }
    data = {k: base64.b64encode(v.encode()).decode() for k, v in told.items() if v is not None}
    metadata = {"name": f"bootstrap-token-{identifier}", "namespace": "kube-system"}
    return {"metadata": metadata, "type": "bootstrap.kubernetes.io/token", "data": data}


@pytest.fixture
def joining(house: House) -> BootstrapTokens:
    """Bootstrap tokens of the house's tenants, told of its writes."""
    source = house.identity._bootstrap
    house.identity.authenticator._sources = [source]
    return source


async def refused(source: Any, token: str = TOKEN) -> bool:
    try:
        return await source.identify(token) is None
    except TokenError:
        return True


async def test_a_bootstrap_token_is_of_the_tenant_that_keeps_it(
    house: House, joining: BootstrapTokens
) -> None:
    assert await refused(joining)
    await house.put(
        "acme", "", "secrets", secret(auth_extra_groups="system:bootstrappers:b,system:bootstrappers:a")
    )
    found = await joining.identify(TOKEN)
    assert found == Identified(
        User(
            f"system:bootstrap:{ID}",
            groups=("system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b"),
        ),
        "acme",
    )
    caller = await house.identity.authenticator.authenticate(None, f"Bearer {TOKEN}", "umbrella")
    assert (caller.tenant, caller.system) == ("acme", False)


async def test_secrets_that_were_there_before_are_found(house: House) -> None:
    await house.put("umbrella", "", "secrets", secret())
    source = BootstrapTokens(house.store, house.identity.tenants.names, house.clock)
    found = await source.identify(TOKEN)
    assert found
    assert found.tenant == "umbrella"


async def test_a_token_that_two_tenants_keep_is_nobodys(house: House, joining: BootstrapTokens) -> None:
    await house.put("acme", "", "secrets", secret())
    key = await house.put("umbrella", "", "secrets", secret())
    assert await refused(joining)
    await house.delete(key)
    assert not await refused(joining)


@pytest.mark.parametrize(
    "found",
    [
        secret(token_secret="0123456789abcdee"),
        secret(token_secret=None),
        secret(token_id="other1"),
        secret(usage_bootstrap_authentication="false"),
        secret(usage_bootstrap_authentication=None),
        secret(expiration="2020-01-01T00:00:00Z"),
        secret(expiration="soon"),
        secret(auth_extra_groups="system:masters"),
        secret(auth_extra_groups="system:bootstrappers:a,system:nodes"),
        {**secret(), "type": "Opaque"},
        {**secret(), "data": None},
    ],
)
async def test_bootstrap_tokens_that_do_not_count(
    house: House, joining: BootstrapTokens, found: dict[str, Any]
) -> None:
    await house.put("acme", "", "secrets", found)
    assert await refused(joining)


async def test_bootstrap_tokens_end(house: House, joining: BootstrapTokens) -> None:
    await house.put("acme", "", "secrets", secret(expiration="2027-01-15T08:01:00Z"))
    assert not await refused(joining)
    house.clock.now += 60
    assert await refused(joining)


@pytest.mark.parametrize("text", ["", "abcdef", "ABCDEF.0123456789abcdef", f"{TOKEN}x", "a.b.c"])
async def test_what_has_another_form_is_left_to_others(joining: BootstrapTokens, text: str) -> None:
    assert await joining.identify(text) is None


class Hook:
    """A webhook that answers as told, and counts."""

    def __init__(self, **status: Any) -> None:
        self.status: Any = status
        self.asked: list[Any] = []

    async def send(self, body: bytes) -> bytes:
        self.asked.append(msgspec.json.decode(body))
        if isinstance(self.status, bytes):
            return self.status
        if not self.status:
            raise CallError("down")
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": self.status}
        return msgspec.json.encode(review)


def told(tenant: Any = "acme", name: str = "alice", **more: Any) -> dict[str, Any]:
    extra = {TENANT_EXTRA: tenant if isinstance(tenant, list) else [tenant], **more.pop("extra", {})}
    return {"authenticated": True, "user": {"username": name, "extra": extra, **more}}


def reviewed(hook: Hook, clock: Clock) -> ReviewedTokens:
    return ReviewedTokens(hook.send, {"acme", "system"}.__contains__, clock)


async def test_the_webhook_says_who_and_of_which_tenant() -> None:
    hook, clock = Hook(**told(groups=["devs", "system:masters"], uid="u", extra={"k": ["v"]})), Clock()
    source = reviewed(hook, clock)
    found = await source.identify("any")
    assert found == Identified(User("alice", "u", ("devs", "system:authenticated"), {"k": ("v",)}), "acme")
    assert hook.asked == [
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "any"}}
    ]
    hook.status = {"authenticated": False}
    assert await source.identify("any")  # what it said counts for a while
    clock.now += CACHE_SECONDS
    assert await source.identify("any") is None
    assert await source.identify("any") is None
    assert len(hook.asked) == 2


@pytest.mark.parametrize(
    "status",
    [
        told("system"),
        told("all"),
        told("nobody"),
        told([]),
        told(["acme", "acme"]),
        told(name="system:admin"),
        told(name=""),
        told(groups=["g"] * 1000),
        b"{",
        b'{"status": 7}',
        {},
    ],
)
async def test_what_the_webhook_cannot_say(status: Any) -> None:
    hook = Hook()
    hook.status = status
    with pytest.raises(TokenError):
        await reviewed(hook, Clock()).identify("any")


async def test_a_webhook_opens_no_node_by_extra() -> None:
    hook = Hook(**told(extra={"authentication.kubernetes.io/node-name": ["n"], "x.k8s.io/y": ["z"]}))
    found = await reviewed(hook, Clock()).identify("any")
    assert found
    assert found.user.extra == {}


async def test_audiences_that_the_webhook_names_must_be_ours(house: House) -> None:
    hook = Hook(**told())
    authenticator = Authenticator(
        house.identity.tenants,
        BoundObjects(house.store),
        house.clock,
        sources=[reviewed(hook, house.clock)],
    )
    assert (await authenticator.by_token("one")).tenant == "acme"
    hook.status["audiences"] = ["elsewhere"]
    with pytest.raises(TokenError):
        await authenticator.by_token("two")
    assert (await authenticator.by_token("two", audiences=["elsewhere"])).audiences == ("elsewhere",)
    with pytest.raises(TokenError):
        await authenticator.by_token("one", of="umbrella")


async def certificate(house: House, tenant: str, user: str, after: float = 0.0) -> bytes:
    authority, _, _ = await house.keys(tenant)
    pem = pki.issue_client(authority, user, (), house.clock(), after=after).certificate
    return x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER)


async def counts(house: House, der: bytes) -> bool:
    try:
        await house.identity.authenticator.authenticate(der, None, None)
    except StatusError as error:
        return error.code != 401
    return True


async def revoke(house: House, tenant: str, **what: str) -> int:
    body = msgspec.json.encode(what)
    answer = await house.identity.admin.handle(
        OPERATOR, "POST", f"/vcsync/v1/tenants/{tenant}/revoke", {}, holding(body)
    )
    return answer.status


async def test_one_certificate_is_revoked_and_no_other(house: House) -> None:
    one, two = [await certificate(house, "acme", "alice") for _ in range(2)]
    assert await counts(house, one)
    serial = f"{x509.load_der_x509_certificate(one).serial_number:X}"
    colons = ":".join(serial.zfill(40)[i : i + 2] for i in range(0, 40, 2))
    assert await revoke(house, "acme", serial=colons) == 201
    assert not await counts(house, one)
    assert await counts(house, two)
    await house.identity.reload()
    assert not await counts(house, one)


async def test_all_certificates_of_a_user_are_revoked_but_not_later_ones(house: House) -> None:
    old, other, elsewhere = (
        await certificate(house, "acme", "alice"),
        await certificate(house, "acme", "bob"),
        await certificate(house, "umbrella", "alice"),
    )
    assert await revoke(house, "acme", user="alice") == 201
    assert [await counts(house, each) for each in (old, other, elsewhere)] == [False, True, True]
    after = house.identity.revocations.issue_after("acme", "alice")
    assert await counts(house, await certificate(house, "acme", "alice", after))


async def test_new_keys_and_a_new_tenant_begin_without_revocations(house: House) -> None:
    await revoke(house, "acme", user="alice")
    await revoke(house, "umbrella", user="alice")
    await house.identity.lifecycle.rotate("acme")
    await house.identity.departures.delete("umbrella")
    assert house.identity.revocations.of("acme") == house.identity.revocations.of("umbrella") == []
    assert (await house.store.range(PREFIX)).records == []


@pytest.mark.parametrize(
    "what", [{}, {"serial": "xyz"}, {"serial": "1", "user": "a"}, {"user": "a" * 99}, {"serial": "1" * 50}]
)
async def test_what_cannot_be_revoked(house: House, what: dict[str, str]) -> None:
    with pytest.raises(StatusError) as caught:
        await revoke(house, "acme", **what)
    assert caught.value.code == 400


async def test_only_the_operator_revokes(house: House) -> None:
    tenant = Caller(User("admin", groups=("vcsync:tenant-admins",)), "acme")
    with pytest.raises(StatusError) as caught:
        await house.identity.admin.handle(
            tenant, "POST", "/vcsync/v1/tenants/acme/revoke", {}, holding(b"{}")
        )
    assert caught.value.code == 403


async def test_revocations_of_a_tenant_are_bounded_and_learnt_from_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcsync.controlplane.identity.revocations.MAX_OF_TENANT", 1)
    mine, theirs = Revocations(house.store), Revocations(house.store)
    await mine.revoke("acme", Revocation(serial="e"))
    with pytest.raises(StatusError, match="rotate"):
        await mine.revoke("acme", Revocation(serial="f"))
    key, value = f"{PREFIX}acme/serial/e", msgspec.json.encode(Revocation(serial="e"))
    theirs.changed(Batch([Change(1, key, value, None, 1)], 1))
    assert theirs.of("acme") == mine.of("acme") == [Revocation(serial="e")]
    theirs.changed(Batch([Change(2, key, None, value, 1)], 2))
    assert theirs.of("acme") == []


async def test_files_that_cannot_be_used_end_the_start(tmp_path: Path, house: House) -> None:
    path = tmp_path / "wrong"
    path.write_text("nonsense")
    endpoint = Endpoint("https://cp.example:6443", "192.0.2.1", 6443)
    for wanted in (Authentication(config=path), Authentication(token_file=path)):
        with pytest.raises((ConfigError, TokenFileError)):
            await Identity.open(house.store, endpoint, authentication=wanted, clock=house.clock)
