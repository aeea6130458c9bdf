"""Certificates and keys: authorities, what they issue, and the ids of keys. No I/O."""

import base64
import hashlib
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from vcsync.apiserver.tenants.records import Authority, Signer

AUTHORITY_LIFE = timedelta(days=3650)
CLIENT_LIFE = timedelta(days=365)
SERVING_LIFE = timedelta(days=365)
BACKDATE = timedelta(minutes=5)
"""Certificates are valid a little before they are made: clocks differ."""
MAX_COMMON_NAME = 64


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: str
    key: str


def new_authority(name: str, now: float) -> Authority:
    """Make a self-signed certificate authority (EC P-256). `now`: seconds since the epoch."""
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    subject = _subject(name[:MAX_COMMON_NAME], ())
    builder = (
        _builder(subject, subject, key.public_key(), now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(identifier, critical=False)
    )
    certificate = builder.sign(key, hashes.SHA256())
    return Authority(_pem(certificate), _key_pem(key), identifier.digest.hex())


def issue_client(
    authority: Authority, user: str, groups: Sequence[str], now: float, *, after: float = 0.0
) -> Pair:
    """Issue a client certificate for a user in groups. It begins later than `after`, in seconds since the epoch."""
    key = ec.generate_private_key(ec.SECP256R1())
    return _issue(
        authority,
        key,
        _subject(user, groups),
        now,
        CLIENT_LIFE,
        ExtendedKeyUsageOID.CLIENT_AUTH,
        None,
        after=after,
    )


def issue_serving(
    authority: Authority, names: Iterable[str], now: float, life: timedelta = SERVING_LIFE
) -> Pair:
    """Issue a serving certificate for host names and addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = x509.SubjectAlternativeName([_alternative(name) for name in dict.fromkeys(names)])
    subject = _subject("vcsync", ())
    return _issue(authority, key, subject, now, life, ExtendedKeyUsageOID.SERVER_AUTH, alternatives)


def _issue(  # noqa: PLR0917  one certificate
    authority: Authority,
    key: ec.EllipticCurvePrivateKey,
    subject: x509.Name,
    now: float,
    life: timedelta,
    usage: x509.ObjectIdentifier,
    alternatives: x509.SubjectAlternativeName | None,
    *,
    after: float = 0.0,
) -> Pair:
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    identifier = x509.SubjectKeyIdentifier(bytes.fromhex(authority.id))
    builder = (
        _builder(subject, issuer.subject, key.public_key(), now, life, after)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
    )
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    return Pair(_pem(builder.sign(_private(authority.key), hashes.SHA256())), _key_pem(key))


def _builder(  # noqa: PLR0917  one certificate
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: float,
    life: timedelta,
    after: float = 0.0,
) -> x509.CertificateBuilder:
    at = datetime.fromtimestamp(int(now), UTC)
    begins = max(at - BACKDATE, datetime.fromtimestamp(int(after) + 1, UTC))
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(at + life)
    )


def _subject(name: str, groups: Sequence[str]) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    form = (
        serialization.PrivateFormat.TraditionalOpenSSL
    )  # "EC PRIVATE KEY", which every Kubernetes program reads
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def _private(pem: str) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem.encode(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not an EC key")
    return key


def new_signer(issuer: str) -> Signer:
    """Make a key for ServiceAccount tokens (ES256)."""
    key = ec.generate_private_key(ec.SECP256R1())
    return Signer(_key_pem(key), key_id(key.public_key()), issuer)


def key_id(key: ec.EllipticCurvePublicKey) -> str:
    """Return the key id that Kubernetes puts into tokens (`pkg/serviceaccount/jwt.go`, `keyIDFromPublicKey`)."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()


def signing_key(authority: Authority) -> ec.EllipticCurvePrivateKey:
    """Return the key that signs certificates."""
    return _private(authority.key)


def private_key(signer: Signer) -> ec.EllipticCurvePrivateKey:
    """Return the key that signs tokens."""
    return _private(signer.key)


def public_pem(signer: Signer) -> str:
    """Return the key that verifies tokens, as PEM."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return private_key(signer).public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def expires(pem: str) -> float:
    """Return when a certificate ends, in seconds since the epoch."""
    return x509.load_pem_x509_certificate(pem.encode()).not_valid_after_utc.timestamp()
