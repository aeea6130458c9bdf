"""Bootstrap tokens, the authentication webhook, and certificates that are revoked."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asked_plane import holding
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tests.unit.apiserver.identity.conftest import Clock, House
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.assembly.identity import Authentication, Identity
from vcsync.apiserver.authentication import revocations, token_file, tokens, webhook_tokens
from vcsync.apiserver.authentication.authenticator import Authenticator
from vcsync.apiserver.authentication.bootstrap_tokens import BootstrapTokens
from vcsync.apiserver.authentication.bound_tokens import BoundObjects
from vcsync.apiserver.authentication.certificates import Certified
from vcsync.apiserver.authentication.jwt_config import ConfigError
from vcsync.apiserver.authentication.provider_calls import CallError
from vcsync.apiserver.authentication.provider_claims import Identified
from vcsync.apiserver.authentication.revocations import PREFIX, Revocation, Revocations
from vcsync.apiserver.authentication.token_file import TokenFileError
from vcsync.apiserver.authentication.tokens import TokenError
from vcsync.apiserver.authentication.watched_file import CHECK_SECONDS, WatchedFile
from vcsync.apiserver.authentication.webhook_tokens import CACHE_SECONDS, TENANT_EXTRA, ReviewedTokens
from vcsync.apiserver.operator.lifecycle import Endpoint
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.storage.interface import Batch, Change, Delete
from vcsync.apiserver.tenants import pki

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


async def test_a_bootstrap_token_whose_secret_is_being_deleted_does_not_count(
    house: House, joining: BootstrapTokens
) -> None:
    found = secret()
    found["metadata"] |= {"deletionTimestamp": "2027-01-15T08:00:00Z", "finalizers": ["example.com/f"]}
    await house.put("acme", "", "secrets", found)
    assert await refused(joining)


@pytest.mark.parametrize(
    ("expiration", "over"),
    [
        ("", False),
        ("2027-01-15T09:01:00+01:00", False),
        ("2027-01-15T09:00:00+01:00", True),
        ("2100-01-01T00:00:00", True),
    ],
)
async def test_an_expiration_is_a_moment_with_a_zone(
    house: House, joining: BootstrapTokens, expiration: str, over: bool
) -> None:
    await house.put("acme", "", "secrets", secret(expiration=expiration))
    assert await refused(joining) is over


async def test_all_bootstrap_secrets_are_found_beyond_the_first_page(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcsync.apiserver.authentication.bootstrap_tokens.PAGE", 2)
    names = [f"abcde{digit}" for digit in range(5)]
    for tenant, kept in (("acme", names[:4]), ("umbrella", names[4:])):
        for name in kept:
            await house.put(tenant, "", "secrets", secret(name))
    source = BootstrapTokens(house.store, house.identity.tenants.names, house.clock)
    found = [await source.identify(f"{name}.{WORD}") for name in names]
    assert [each and each.tenant for each in found] == ["acme"] * 4 + ["umbrella"]


async def test_secrets_are_looked_for_anew_after_changes_were_missed(house: House) -> None:
    source = BootstrapTokens(house.store, house.identity.tenants.names, house.clock)
    assert await refused(source)
    key = await house.put("acme", "", "secrets", secret())
    assert await refused(source)
    source.forget_all()
    assert not await refused(source)
    await house.delete(key)
    await house.put("umbrella", "", "secrets", secret())
    source.forget_all()
    found = await source.identify(TOKEN)
    assert found
    assert found.tenant == "umbrella"


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
        {"authenticated": True, "user": {"username": "alice"}},
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
    await house.identity.deletion.delete("umbrella")
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
    monkeypatch.setattr("vcsync.apiserver.authentication.revocations.MAX_OF_TENANT", 1)
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


async def test_a_tenant_that_goes_takes_the_webhooks_answers_along() -> None:
    tenants = {"acme"}
    source = ReviewedTokens(Hook(**told()).send, tenants.__contains__, Clock())
    assert await source.identify("any")
    tenants.clear()
    with pytest.raises(TokenError, match="the tenant of the token is gone"):
        await source.identify("any")


async def test_a_token_that_is_no_text_is_not_sent() -> None:
    hook = Hook(**told())
    with pytest.raises(TokenError):
        await reviewed(hook, Clock()).identify("any\udcff")
    assert hook.asked == []


@pytest.mark.parametrize(("longer", "asked"), [(0, 1), (1, 0)])
async def test_tokens_of_no_sensible_length_are_not_sent(longer: int, asked: int) -> None:
    hook = Hook(**told())
    await reviewed(hook, Clock()).identify("x" * (tokens.MAX_BYTES + longer))
    assert len(hook.asked) == asked


async def test_few_ask_the_webhook_at_a_time_and_who_is_too_many_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook_tokens, "MAX_CALLS", 1)
    monkeypatch.setattr(webhook_tokens, "MAX_WAITING", 2)
    hook, may_answer = Hook(**told()), asyncio.Event()

    async def slow(body: bytes) -> bytes:
        answer = await hook.send(body)
        await may_answer.wait()
        return answer

    source = ReviewedTokens(slow, {"acme"}.__contains__, Clock())
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(source.identify(token)) for token in ("one", "two")]
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(hook.asked) == 1
        with pytest.raises(TokenError, match="too many"):
            await source.identify("three")
        may_answer.set()
    assert all(task.result() for task in waiting)
    assert await source.identify("three"), "there is room again"


def test_a_revocation_that_went_without_a_word_of_what_it_was_changes_nothing(house: House) -> None:
    known = Revocations(house.store)
    key = f"{PREFIX}acme/serial/1f"
    known.changed([Change(1, key, msgspec.json.encode(Revocation(serial="1f")), None, 0)])
    known.changed([Change(2, key, None, None, 1)])
    assert known.of("acme") == [Revocation(serial="1f")]
    known.changed([Change(3, key, None, msgspec.json.encode(Revocation(serial="1f")), 1)])
    assert known.of("acme") == []
    known.changed([Change(4, key, None, msgspec.json.encode(Revocation(serial="1f")), 1)])
    assert known.of("acme") == []


def test_revocations_of_others_stay_when_one_goes(house: House) -> None:
    known = Revocations(house.store)
    kept = [Revocation(serial="1f"), Revocation(serial="2e"), Revocation(user="bob", at=5)]
    for number, each in enumerate(kept):
        known.changed([Change(number, f"{PREFIX}acme/x{number}", msgspec.json.encode(each), None, 0)])
    known.changed([Change(9, f"{PREFIX}acme/x0", None, msgspec.json.encode(kept[0]), 0)])
    assert known.of("acme") == kept[1:]
    known.changed(
        [Change(10, f"{PREFIX}acme/x2", msgspec.json.encode(Revocation(user="bob", at=3)), None, 0)]
    )
    assert known.issue_after("acme", "bob") == 5.0, "an earlier moment takes nothing back"


async def test_the_keys_of_a_tenant_are_published_in_the_form_of_rfc_7518(house: House) -> None:
    _, signer, key = await house.keys("acme")
    [published] = (await house.identity.token_requests.jwks("acme"))["keys"]
    numbers = key.public_key().public_numbers()
    assert {each: published[each] for each in ("use", "kty", "kid", "crv", "alg")} == {
        "use": "sig",
        "kty": "EC",
        "kid": signer.id,
        "crv": "P-256",
        "alg": "ES256",
    }
    for name, value in (("x", numbers.x), ("y", numbers.y)):
        assert len(published[name]) == 43, "32 bytes without padding"
        assert int.from_bytes(base64.urlsafe_b64decode(published[name] + "="), "big") == value
    with pytest.raises(StatusError) as refusal:
        await house.identity.token_requests.jwks("nobody")
    assert refusal.value.code == 404


def test_a_token_file_may_have_blanks_after_commas_and_before_comments() -> None:
    lines = [" # who may come\n", 'word, alice, 7, "devs, ops", acme\n', "\n", "#x,y,z\n"]
    assert token_file.parse(lines) == {
        token_file.digest("word"): token_file.Known(User("alice", "7", ("devs", "ops")), "acme")
    }


@pytest.mark.parametrize(
    ("user", "begins", "revoked"),
    [("bob", 4.0, True), ("bob", 5.0, True), ("bob", 6.0, False), ("eve", 4.0, False)],
)
def test_certificates_of_a_user_that_begin_by_then_are_revoked(
    house: House, user: str, begins: float, revoked: bool
) -> None:
    known = Revocations(house.store)
    value = msgspec.json.encode(Revocation(user="bob", at=5))
    known.changed([Change(1, f"{PREFIX}acme/user/bob", value, None, 0)])
    certificate = Certified(User(user), begins, 100.0, "1f")
    assert known.revoked("acme", certificate) is revoked
    assert not known.revoked("umbrella", certificate)


def test_a_file_is_read_once_for_each_change(tmp_path: Path) -> None:
    path, now, reads = tmp_path / "file", [0.0], []
    path.write_text("one")

    def read(found: Path) -> str:
        reads.append(found.read_text())
        return reads[-1]

    file = WatchedFile(path, read, lambda: now[0], None)
    path.write_text("three")
    said = []
    for _ in range(3):
        now[0] += CHECK_SECONDS
        said.append(file.refresh())
    assert (said, file.content, reads) == ([True, False, False], "three", ["one", "three"])
    path.unlink()
    now[0] += CHECK_SECONDS
    assert (file.refresh(), file.content) == (False, "three"), "what was known holds"


async def test_revocations_are_read_as_of_one_moment(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [Revocation(serial=serial) for serial in ("a", "b", "c")]
    for each in kept:
        await house.identity.revocations.revoke("acme", each)
    page, deleted = house.store.range, []

    async def busy(*args: Any, **options: Any) -> Any:
        found = await page(*args, **options)
        if not deleted:
            deleted.append(f"{PREFIX}acme/serial/c")
            await house.store.txn([], [Delete(deleted[0])])
        return found

    monkeypatch.setattr(revocations, "PAGE", 1)
    monkeypatch.setattr(house.store, "range", busy)
    known = Revocations(house.store)
    await known.load()
    assert known.of("acme") == kept, "of what changes meanwhile it is told afterwards"
