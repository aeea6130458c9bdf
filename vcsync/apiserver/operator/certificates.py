"""Signs the certificates of CertificateSigningRequests with a tenant's authority. No I/O.

Behaviour: Kubernetes' `pkg/controller/certificates/authority`, `PermissiveSigningPolicy`.
"""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority
from vcsync.objects.signing_requests import RequestError, alternatives

LONGEST = timedelta(days=365)
"""`--cluster-signing-duration` of kube-controller-manager."""
SHORTEST = timedelta(minutes=10)
SHORT = timedelta(hours=8)
"""Lifetime below which the backdating of a certificate does not shorten its validity."""
_EXTENDED = {
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
}


def sign(
    authority: Authority,
    request: x509.CertificateSigningRequest,
    usages: Collection[str],
    seconds: int | None,
    now: float,
    *,
    after: float = 0.0,
) -> str:
    """Return the certificate for a request in PEM form.

    Args:
        authority: The authority that signs the certificate.
        request: Provides key, subject and alternative names. Its other fields are ignored.
        usages: The usages in `spec.usages`.
        seconds: Requested lifetime. None: the longest possible one.
        now: Time in seconds since the epoch.
        after: Time after which the certificate begins, in seconds since the epoch.

    Raises:
        RequestError: The request cannot be represented in a certificate, or the authority has expired.
    """
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    at = datetime.fromtimestamp(int(now), UTC)
    if at >= issuer.not_valid_after_utc:
        raise RequestError(f"the signer has expired: NotAfter={issuer.not_valid_after_utc}")
    life = LONGEST if seconds is None else max(SHORTEST, min(LONGEST, timedelta(seconds=seconds)))
    ends = at + life - (pki.BACKDATE if life >= SHORT else timedelta())
    begins = max(at - pki.BACKDATE, datetime.fromtimestamp(int(after) + 1, UTC))
    identifier = x509.SubjectKeyIdentifier(bytes.fromhex(authority.id))
    try:
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(issuer.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(min(ends, issuer.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
            )
        )
        for extension, critical in _extensions(request, usages):
            builder = builder.add_extension(extension, critical=critical)
        certificate = builder.sign(pki.signing_key(authority), hashes.SHA256())
    except (ValueError, TypeError) as error:
        raise RequestError(f"unable to sign the certificate request: {error}") from error
    return certificate.public_bytes(Encoding.PEM).decode()


def _extensions(
    request: x509.CertificateSigningRequest, usages: Collection[str]
) -> list[tuple[x509.ExtensionType, bool]]:
    found: list[tuple[x509.ExtensionType, bool]] = []
    if not {"digital signature", "key encipherment"}.isdisjoint(usages):
        found.append((_key_usage(usages), True))
    if extended := [oid for usage, oid in _EXTENDED.items() if usage in usages]:
        found.append((x509.ExtendedKeyUsage(extended), False))
    if names := alternatives(request):
        found.append((x509.SubjectAlternativeName(names), False))
    return found


def _key_usage(usages: Collection[str]) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature="digital signature" in usages,
        content_commitment=False,
        key_encipherment="key encipherment" in usages,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
