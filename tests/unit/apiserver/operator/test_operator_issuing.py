"""Requests of controllers that are signed: approved ones in the store, and tokens for accounts that exist."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asked_plane import holding
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.unit.apiserver.identity.conftest import NOW, Clock
from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.resources import object_key
from vcsync.apimachinery.strategy import User
from vcsync.apiserver.assembly.identity import Identity
from vcsync.apiserver.authentication import certificates
from vcsync.apiserver.authentication.revocations import Revocation
from vcsync.apiserver.operator.lifecycle import Endpoint
from vcsync.apiserver.operator.signer import Issuer
from vcsync.apiserver.request.caller import Caller
from vcsync.apiserver.storage.interface import Put, Store
from vcsync.apiserver.storage.sqlite import open_sqlite

YEAR = 365 * 24 * 3600
MINUTES = 60
KEYS = {
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
    "rsa": rsa.generate_private_key(65537, 2048),
}
APPROVED = {"type": "Approved", "status": "True"}


class Bench:
    """A store with the tenant acme, and who signs for it."""

    def __init__(self, store: Store, identity: Identity) -> None:
        self.store, self.identity = store, identity
        self.issuer = Issuer(store, identity.tenants, identity.revocations, Clock())

    async def put(self, plural: str, name: str, body: Any, group: str = "", namespace: str = "") -> None:
        metadata = {"name": name, "uid": f"uid-{name}", **body.pop("metadata", {})}
        key = object_key("acme", group, plural, namespace, name)
        await self.store.txn([], [Put(key, msgspec.json.encode({"metadata": metadata, **body}))])

    async def ask(
        self, *, key: str = "ec", user: str = "ann", groups: tuple[str, ...] = ("devs",), **spec: Any
    ) -> None:
        """Store an approved request; `status` in `spec` is its status."""
        status = spec.pop("status", {"conditions": [APPROVED]})
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, user),
            ]
        )
        held: Any = KEYS[key]
        algorithm = None if key == "ed25519" else hashes.SHA256()
        asked = (
            x509.CertificateSigningRequestBuilder()
            .subject_name(subject)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("a.example")]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(held, algorithm)
        )
        wanted = {
            "request": base64.b64encode(asked.public_bytes(Encoding.PEM)).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
            **spec,
        }
        body = {"spec": wanted, "status": status}
        await self.put("certificatesigningrequests", "one", body, "certificates.k8s.io")

    async def issue(self) -> x509.Certificate:
        issued = await self.issuer.certificate("acme", "one", "uid-one")
        assert issued.failure == ""
        return x509.load_pem_x509_certificate(issued.certificate.encode())


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    store = await open_sqlite(tmp_path / "store.db", sweep_seconds=None)
    endpoint = Endpoint("https://cp.example:6443", "192.0.2.1", 6443)
    identity = await Identity.open(store, endpoint, clock=Clock())
    await identity.lifecycle.create("acme")
    yield Bench(store, identity)
    await store.close()


@pytest.mark.parametrize("key", KEYS)
async def test_the_certificate_is_a_clients_of_the_tenant_and_nothing_more(bench: Bench, key: str) -> None:
    await bench.ask(key=key, usages=["digital signature", "key encipherment", "client auth"])
    made = await bench.issue()
    credentials = await bench.identity.tenants.credentials("acme")
    assert credentials is not None
    assert credentials.authority is not None
    assert bench.identity.tenants.by_authority(certificates.authority_id(made)) == "acme"
    known = certificates.certified(made, credentials.authority, masters=False)
    assert (known.user.name, known.user.groups) == ("ann", ("devs",))
    assert made.public_key() == KEYS[key].public_key()
    extensions = made.extensions
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment, usage.key_cert_sign) == (True, True, False)
    extended = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.DNSName("a.example")]


@pytest.mark.parametrize("group", ["system:masters", "system:masters\0", "vcsync:tenant-admins", "VCSYNC:x"])
async def test_groups_that_rights_come_with_are_not_given_by_signing(bench: Bench, group: str) -> None:
    await bench.ask(groups=("devs", group))

    issued = await bench.issuer.certificate("acme", "one", "uid-one")

    assert issued.certificate == ""
    assert "group is not allowed" in issued.failure


async def test_a_name_with_control_characters_is_not_signed(bench: Bench) -> None:
    await bench.ask(user="ann\n")

    issued = await bench.issuer.certificate("acme", "one", "uid-one")

    assert issued.certificate == ""
    assert "control characters" in issued.failure


@pytest.mark.parametrize(
    ("seconds", "lasts"),
    [
        (None, YEAR - 5 * MINUTES),
        (2 * YEAR, YEAR - 5 * MINUTES),
        (600, 10 * MINUTES),
        (8 * 3600, 8 * 3600 - 5 * MINUTES),
        (8 * 3600 - 1, 8 * 3600 - 1),
    ],
)
async def test_how_long_it_counts(bench: Bench, seconds: int | None, lasts: int) -> None:
    await bench.ask(expirationSeconds=seconds)
    made = await bench.issue()
    assert made.not_valid_before_utc.timestamp() == NOW - 5 * MINUTES
    assert made.not_valid_after_utc.timestamp() == NOW + lasts


async def test_one_that_follows_a_revocation_of_its_user_counts(bench: Bench) -> None:
    await bench.identity.revocations.revoke("acme", Revocation(user="ann", at=int(NOW) - 1))
    await bench.ask()
    assert (await bench.issue()).not_valid_before_utc.timestamp() == NOW


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"usages": ["server auth"]}, "invalid usage for client certificate: server auth"),
        ({"signerName": "kubernetes.io/kubelet-serving"}, "subject organization is not system:nodes"),
        ({"request": "bm9uZQ=="}, "unable to parse the certificate request"),
    ],
)
async def test_what_the_signer_does_not_sign_is_told(bench: Bench, spec: Any, told: str) -> None:
    await bench.ask(**spec)
    issued = await bench.issuer.certificate("acme", "one", "uid-one")
    assert issued.certificate == ""
    assert issued.failure.startswith(told)


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"status": {}}, 409),
        ({"status": {"conditions": [{"type": "Approved", "status": "False"}]}}, 409),
        ({"status": {"conditions": [APPROVED, {"type": "Failed", "status": "True"}]}}, 409),
        ({"status": {"conditions": [APPROVED, {"type": "Denied"}]}}, 409),
        ({"status": {"conditions": [APPROVED], "certificate": "eA=="}}, 409),
        ({"signerName": "example.com/mine"}, 400),
    ],
)
async def test_nothing_is_signed_that_is_not_to_be(bench: Bench, spec: Any, code: int) -> None:
    await bench.ask(**spec)
    with pytest.raises(StatusError) as caught:
        await bench.issuer.certificate("acme", "one", "uid-one")
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("tenant", "name", "uid", "code"),
    [
        ("umbrella", "one", "uid-one", 404),
        ("acme", "two", "uid-one", 404),
        ("acme", "../one", "", 404),
        ("acme", "one", "uid-two", 409),
    ],
)
async def test_only_the_request_that_was_meant_is_signed(
    bench: Bench, tenant: str, name: str, uid: str, code: int
) -> None:
    await bench.ask()
    with pytest.raises(StatusError) as caught:
        await bench.issuer.certificate(tenant, name, uid)
    assert caught.value.code == code


def secret(**annotations: str) -> dict[str, Any]:
    told = {f"kubernetes.io/service-account.{key}": value for key, value in annotations.items()}
    return {"metadata": {"annotations": told}, "type": "kubernetes.io/service-account-token"}


async def test_a_token_is_its_accounts_as_long_as_the_secret_holds_it(bench: Bench) -> None:
    await bench.put("serviceaccounts", "robot", {}, namespace="shop")
    await bench.put("secrets", "robot-token", secret(name="robot"), namespace="shop")
    token = await bench.issuer.token("acme", "shop", "robot-token", "uid-robot-token")
    held = {**secret(name="robot"), "data": {"token": base64.b64encode(token.encode()).decode()}}
    await bench.put("secrets", "robot-token", held, namespace="shop")
    found = await bench.identity.authenticator.by_token(token)
    assert (found.tenant, found.user.name) == ("acme", "system:serviceaccount:shop:robot")


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (secret(name="nobody"), 404),
        (secret(), 400),
        (secret(name="robot", uid="uid-of-another"), 409),
        ({**secret(name="robot"), "type": "Opaque"}, 400),
    ],
)
async def test_no_token_without_an_account(bench: Bench, found: Any, code: int) -> None:
    await bench.put("serviceaccounts", "robot", {}, namespace="shop")
    await bench.put("secrets", "held", found, namespace="shop")
    with pytest.raises(StatusError) as caught:
        await bench.issuer.token("acme", "shop", "held", "uid-held")
    assert caught.value.code == code


OPERATOR = Caller(User("admin", groups=("system:masters", "system:authenticated")), "system", system=True)


async def test_controllers_ask_the_operators_api(bench: Bench) -> None:
    async def ask(what: str, body: Any) -> Any:
        path = f"/vcsync/v1/tenants/acme/{what}"
        answer = await bench.identity.admin.handle(
            OPERATOR, "POST", path, {}, holding(msgspec.json.encode(body))
        )
        return msgspec.json.decode(answer.body)

    await bench.ask()
    issued = await ask("certificates", {"name": "one", "uid": "uid-one"})
    assert issued["certificate"].startswith("-----BEGIN CERTIFICATE-----")
    await bench.put("serviceaccounts", "robot", {}, namespace="shop")
    await bench.put("secrets", "held", secret(name="robot"), namespace="shop")
    told = await ask("tokens", {"namespace": "shop", "name": "held", "uid": "uid-held"})
    assert told["token"].count(".") == 2
    with pytest.raises(StatusError) as caught:
        await ask("tokens", {"name": 1})
    assert caught.value.code == 400
