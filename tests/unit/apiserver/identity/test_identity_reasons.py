"""Reasons of refused credentials: callers learn nothing of them, operators read them in the log."""

import asyncio
import base64
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from tests.unit.apiserver.identity.conftest import NOW, Clock, House
from tests.unit.apiserver.identity.test_identity_sources import ID, TOKEN, secret
from vcsync.apiserver.authentication import authenticator as authentication
from vcsync.apiserver.authentication import certificates, jwt_keys, tokens, webhook_tokens
from vcsync.apiserver.authentication.authenticator import INVALID, Authenticator
from vcsync.apiserver.authentication.bootstrap_tokens import BootstrapTokens
from vcsync.apiserver.authentication.bound_tokens import BoundObjects
from vcsync.apiserver.authentication.certificates import CertificateError
from vcsync.apiserver.authentication.jwt_config import Issuer
from vcsync.apiserver.authentication.jwt_keys import IssuerKeys
from vcsync.apiserver.authentication.provider_calls import CallError
from vcsync.apiserver.authentication.provider_claims import Identified
from vcsync.apiserver.authentication.tokens import TokenError
from vcsync.apiserver.authentication.watched_file import CHECK_SECONDS, WatchedFile
from vcsync.apiserver.authentication.webhook_tokens import MAX_WAITING, ReviewedTokens
from vcsync.apiserver.authorization.protected_groups import not_signed
from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority

KEY = ec.generate_private_key(ec.SECP256R1())


def load(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def self_signed(
    *attributes: x509.NameAttribute[Any], identifier: x509.ExtensionType | None = None
) -> x509.Certificate:
    """A certificate with this subject that an authority of nobody's has signed."""
    name = x509.Name(attributes)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(0xAB)
        .not_valid_before(moment(NOW - 60))
        .not_valid_after(moment(NOW + 60))
    )
    if identifier is not None:
        builder = builder.add_extension(identifier, critical=False)
    return builder.sign(KEY, hashes.SHA256())


def moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def common_name(text: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(NameOID.COMMON_NAME, text)


# ---- certificates ----------------------------------------------------------------------


def test_what_is_no_certificate_is_told_apart_from_what_is_too_large() -> None:
    with pytest.raises(CertificateError, match=r"^the certificate cannot be read$"):
        certificates.parse(b"x" * certificates.MAX_BYTES)
    with pytest.raises(CertificateError, match=r"^the certificate is too large$"):
        certificates.parse(b"x" * (certificates.MAX_BYTES + 1))


@pytest.mark.parametrize("identifier", [None, x509.AuthorityKeyIdentifier(None, None, None)])
def test_a_certificate_that_does_not_name_its_authoritys_key(
    identifier: x509.AuthorityKeyIdentifier | None,
) -> None:
    shown = self_signed(common_name("alice"), identifier=identifier)
    with pytest.raises(CertificateError, match=r"^the certificate does not name the key of its authority$"):
        certificates.authority_id(shown)


def test_a_certificate_says_which_one_it_is() -> None:
    shown = self_signed(common_name("ignored"), common_name("alice"))
    found = certificates.certified(shown, shown, masters=False)
    assert found.user.name == "alice"
    digest = shown.fingerprint(hashes.SHA256()).hex()
    assert found.user.extra == {"authentication.kubernetes.io/credential-id": (f"X509SHA256={digest}",)}
    assert found.serial == "ab"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda a: load(pki.issue_serving(a, ["cp"], NOW).certificate), "the certificate is not for clients"),
        (
            lambda _a: load(pki.issue_client(pki.new_authority("other", NOW), "alice", (), NOW).certificate),
            "the certificate is not from that authority",
        ),
    ],
)
def test_certificates_that_identify_nobody(
    make: Callable[[Authority], x509.Certificate], reason: str
) -> None:
    authority = pki.new_authority("acme", NOW)
    with pytest.raises(CertificateError, match=f"^{reason}$"):
        certificates.certified(make(authority), load(authority.certificate), masters=False)


def test_a_certificate_needs_a_common_name() -> None:
    shown = self_signed(x509.NameAttribute(NameOID.ORGANIZATION_NAME, "devs"))
    with pytest.raises(CertificateError, match=r"^the certificate has no common name$"):
        certificates.certified(shown, shown, masters=False)


async def shown_by(house: House, tenant: str) -> bytes:
    authority, _, _ = await house.keys(tenant)
    return der(load(pki.issue_client(authority, "alice", (), house.clock()).certificate))


async def test_a_certificate_counts_to_its_last_second(house: House) -> None:
    shown = await shown_by(house, "acme")
    house.clock.now = x509.load_der_x509_certificate(shown).not_valid_after_utc.timestamp()
    assert (await house.identity.authenticator.authenticate(shown, None, None)).user.name == "alice"


async def test_a_certificate_is_verified_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, verified = await shown_by(house, "acme"), []
    certified = certificates.certified

    def counted(*arguments: Any, **options: Any) -> certificates.Certified:
        verified.append(arguments)
        return certified(*arguments, **options)

    monkeypatch.setattr(authentication.certificates, "certified", counted)
    for _ in range(3):
        await house.identity.authenticator.authenticate(shown, None, None)
    assert len(verified) == 1


# ---- subjects that no signer gives -----------------------------------------------------


def request(*attributes: x509.NameAttribute[Any]) -> x509.CertificateSigningRequest:
    return (
        x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes)).sign(KEY, hashes.SHA256())
    )


def organization(text: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(NameOID.ORGANIZATION_NAME, text)


CLIENT, KUBELET = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kubelet-serving"


@pytest.mark.parametrize(
    ("signer", "attributes", "named"),
    [
        (CLIENT, (organization("devs"), common_name("alice")), None),
        (CLIENT, (organization("system:masters"),), "system:masters group"),
        (CLIENT, (organization("system:masters\0"),), '"system:masters\\u0000" group'),
        (KUBELET, (organization("system:masters"),), None),
        (KUBELET, (organization("vcsync:tenant-admins"),), "vcsync:tenant-admins group"),
        (
            CLIENT,
            (organization("de\x07vs"),),
            'control characters in the organization "de\\u0007vs"',
        ),
        (CLIENT, (common_name("al\x07ice"),), 'control characters in the common name "al\\u0007ice"'),
        ("example.com/own", (organization("system:masters"), common_name("\x07")), None),
    ],
)
def test_names_that_a_signer_does_not_give_are_told(
    signer: str, attributes: tuple[x509.NameAttribute[Any], ...], named: str | None
) -> None:
    assert not_signed(signer, request(*attributes)) == named


# ---- the log tells what callers do not learn --------------------------------------------


class Refusing:
    """Knows why every token is none."""

    async def identify(self, token: str) -> Identified | None:
        raise TokenError(f"{token} is of an issuer that nobody knows")


async def test_who_tries_tokens_learns_nothing_and_the_operator_reads_why(house: House) -> None:
    authenticator = Authenticator(
        house.identity.tenants, BoundObjects(house.store), house.clock, sources=[Refusing()]
    )
    with capture_logs() as logged, pytest.raises(TokenError, match=f"^{INVALID}$"):
        await authenticator.by_token("mine")
    assert logged == [
        {"event": "token refused", "reason": "mine is of an issuer that nobody knows", "log_level": "info"}
    ]


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ({**secret(), "type": "Opaque"}, "type"),
        (secret(token_secret="0123456789abcdee"), "token-secret"),
        (secret(token_id="other1"), "token-id"),
        (secret(expiration="soon"), "expiration"),
        (secret(usage_bootstrap_authentication="false"), "usage-bootstrap-authentication"),
        (secret(auth_extra_groups="system:masters"), "auth-extra-groups"),
    ],
)
async def test_the_log_names_the_field_of_a_bootstrap_token_that_is_wrong(
    house: House, found: dict[str, Any], wrong: str
) -> None:
    await house.put("acme", "", "secrets", found)
    source = BootstrapTokens(house.store, house.identity.tenants.names, house.clock)
    with capture_logs() as logged, pytest.raises(TokenError, match=r"^no tenant has that bootstrap token$"):
        await source.identify(TOKEN)
    assert logged == [
        {
            "event": "bootstrap token refused",
            "tenant": "acme",
            "id": ID,
            "wrong": wrong,
            "log_level": "info",
        }
    ]


def test_the_log_names_a_file_that_breaks(tmp_path: Path) -> None:
    path, clock = tmp_path / "numbers", Clock()
    path.write_text("1")
    watched = WatchedFile(path, lambda file: int(file.read_text()), clock, None)
    path.write_text("one or two")
    clock.now += CHECK_SECONDS
    with capture_logs() as logged:
        assert not watched.refresh()
    assert [(each["event"], each["file"]) for each in logged] == [("file cannot be used", str(path))]
    assert "one or two" in logged[0]["error"]
    assert watched.content == 1


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("a.b", "it is no JSON web token"),
        ("é", "the token is too large, or has characters that none has"),
        ("a" * (tokens.MAX_BYTES + 1), "the token is too large, or has characters that none has"),
    ],
)
def test_what_is_no_token_of_an_account(token: str, reason: str) -> None:
    with pytest.raises(TokenError, match=f"^{reason}$"):
        tokens.key_id(token)


async def test_a_token_of_another_key_says_so(house: House) -> None:
    _, signer, key = await house.keys("acme")
    made = tokens.jwt.encode({"iss": signer.issuer}, KEY, algorithm=tokens.ALGORITHM)
    with pytest.raises(TokenError, match=r"^the signature is wrong$"):
        tokens.verified(made, key.public_key(), signer.issuer)
    own = tokens.jwt.encode({"iss": "https://elsewhere"}, key, algorithm=tokens.ALGORITHM)
    with pytest.raises(TokenError, match=r"^the token is from another issuer$"):
        tokens.verified(own, key.public_key(), signer.issuer)


# ---- issuers outside -------------------------------------------------------------------


async def test_documents_of_an_issuer_are_read_with_its_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def call(method: str, url: str, tls: Any, *, headers: dict[str, str]) -> bytes:
        asked.append((method, url, tls, headers))
        return b"{}"

    monkeypatch.setattr(jwt_keys, "call", call)
    tls = ssl.create_default_context()
    assert await jwt_keys.fetch("https://issuer.example/keys", tls) == b"{}"
    assert asked == [("GET", "https://issuer.example/keys", tls, {"Accept": "application/json"})]


def test_what_is_no_key_set_is_told() -> None:
    with pytest.raises(CallError, match=r"^the issuer's key set cannot be read$"):
        jwt_keys.parse_keys(b'{"keys": 7}')


def issuer(url: str) -> Issuer:
    return Issuer(url=url, audiences=["vcsync"])


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://issuer.example/", "https://issuer.example/.well-known/openid-configuration"),
        ("https://issuer.example/X", "https://issuer.example/X/.well-known/openid-configuration"),
    ],
)
async def test_the_discovery_document_lies_below_the_issuers_url(url: str, asked: str) -> None:
    urls: list[str] = []

    async def fetch(url: str, _tls: Any) -> bytes:
        urls.append(url)
        raise CallError("down")

    keys = IssuerKeys(issuer(url), Clock(), fetch)
    with pytest.raises(TokenError, match=r"^it is no JSON web token$"):
        await keys.verified("text")
    assert urls == [asked]


# ---- the webhook ------------------------------------------------------------------------


class Waiting:
    """A webhook that answers when it is let, and counts who waits."""

    def __init__(self) -> None:
        self.let = asyncio.Event()

    async def send(self, _body: bytes) -> bytes:
        await self.let.wait()
        raise CallError("down")


async def test_no_more_tokens_wait_for_the_webhook_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook_tokens, "MAX_WAITING", 3)
    assert MAX_WAITING > 3
    hook = Waiting()
    source = ReviewedTokens(hook.send, {"acme"}.__contains__, Clock())
    for turn in range(2):  # who has waited makes room, also where the webhook failed
        hook.let.clear()
        asked = [asyncio.create_task(source.identify(f"{turn}-{number}")) for number in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(TokenError, match=r"^too many tokens wait for the authentication webhook$"):
            await source.identify("one more")
        hook.let.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [str(each) for each in answers] == ["the authentication webhook does not answer"] * 3


# ---- keys and times of the control plane -----------------------------------------------


async def test_signing_requests_are_signed_by_the_same_clock(house: House) -> None:
    house.clock.now += 3600
    pem = request(common_name("alice")).public_bytes(Encoding.PEM)
    await house.put(
        "acme",
        "certificates.k8s.io",
        "certificatesigningrequests",
        {
            "metadata": {"name": "alice", "uid": "u"},
            "spec": {
                "signerName": CLIENT,
                "request": base64.b64encode(pem).decode(),
                "usages": ["client auth"],
            },
            "status": {"conditions": [{"type": "Approved", "status": "True"}]},
        },
    )
    issued = await house.identity.admin._issuer.certificate("acme", "alice", "u")
    begins = load(issued.certificate).not_valid_before_utc.timestamp()
    assert NOW < begins <= house.clock.now
