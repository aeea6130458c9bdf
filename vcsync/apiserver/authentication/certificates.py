"""Client certificates: verifies them and returns their user. Pure.

Behaviour: apiserver `pkg/authentication/request/x509`: CN is the user, every O a group.
"""

import hashlib
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from vcsync.apimachinery.strategy import User
from vcsync.apiserver.authorization.protected_groups import text
from vcsync.apiserver.request.caller import MASTERS

MAX_BYTES = 64 * 1024
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


class CertificateError(Exception):
    """The certificate is invalid. The message says why and is for logs."""


@dataclass(frozen=True, slots=True)
class Certified:
    """The content of a verified certificate. Times are seconds since the epoch; `serial` is lower case hex."""

    user: User
    not_before: float
    not_after: float
    serial: str = ""


def parse(der: bytes) -> x509.Certificate:
    """Parse a certificate.

    Raises:
        CertificateError: The data is not a certificate.
    """
    if len(der) > MAX_BYTES:
        raise CertificateError("the certificate is too large")
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError as error:
        raise CertificateError("the certificate cannot be read") from error


def authority_id(certificate: x509.Certificate) -> str:
    """Return the authority key identifier of a certificate in hex.

    Raises:
        CertificateError: The certificate has none.
    """
    try:
        extension = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError) as error:
        raise CertificateError("the certificate does not name the key of its authority") from error
    if extension.value.key_identifier is None:
        raise CertificateError("the certificate does not name the key of its authority")
    return extension.value.key_identifier.hex()


def certified(certificate: x509.Certificate, authority: x509.Certificate, *, masters: bool) -> Certified:
    """Return the user of a certificate. The caller checks whether the certificate is valid now.

    Args:
        certificate: The certificate.
        authority: Its certificate authority.
        masters: Whether the authority may issue certificates for system:masters. If not, that group is dropped.

    Raises:
        CertificateError: The authority did not issue the certificate, or it is not for clients.
    """
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise CertificateError("the certificate is not from that authority") from error
    if not _for_clients(certificate):
        raise CertificateError("the certificate is not for clients")
    try:
        subject = certificate.subject
    except ValueError as error:
        raise CertificateError("the certificate's subject cannot be read") from error
    names = [text(each) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not names or not names[-1]:
        raise CertificateError("the certificate has no common name")
    groups = [text(each) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    digest = hashlib.sha256(_der(certificate)).hexdigest()
    user = User(
        names[-1],
        groups=tuple(group for group in groups if masters or group != MASTERS),
        extra={CREDENTIAL_ID: (f"X509SHA256={digest}",)},
    )
    return Certified(
        user,
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
        f"{certificate.serial_number:x}",
    )


def _for_clients(certificate: x509.Certificate) -> bool:
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    except (x509.DuplicateExtension, ValueError):
        return False
    allowed = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
    return not allowed.isdisjoint(usage)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)
