"""TLS of the kubelet API: a serving certificate, and contexts that require certificates of a tenant's control plane."""

import ssl
from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from vcsync.kube.tls import serving_context

LIFE = timedelta(days=3650)
BACKDATE = timedelta(hours=1)
"""The certificate begins before it is made, since clocks differ."""


def self_signed(address: str, now: datetime, names: Sequence[str] = ()) -> bytes:
    """Make a self-signed serving certificate, as a kubelet without one does; return it with its key as PEM.

    Args:
        address: IP address for which it is valid.
        now: The time.
        names: Host names for which it is valid.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"vcsync-syncer@{address}"[:64])])
    alternatives = [x509.IPAddress(ip_address(address)), *(x509.DNSName(each) for each in names)]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def certificate_of(identity: bytes) -> bytes:
    """Return the certificate of an identity without its key, as PEM."""
    return x509.load_pem_x509_certificate(identity).public_bytes(serialization.Encoding.PEM)


def server_context(identity: bytes, client_ca: str) -> ssl.SSLContext:
    """Return a TLS context that accepts clients with a certificate of an authority only.

    Args:
        identity: Serving certificate with its chain, and its key, as PEM.
        client_ca: The authority, as PEM.

    Raises:
        ValueError: One of them is not usable.
    """
    context = serving_context(identity)
    context.verify_mode = ssl.CERT_REQUIRED
    # A tenant's control plane may use an intermediate authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=client_ca)
    except (ssl.SSLError, TypeError) as error:  # TypeError: it has other characters than ASCII
        raise ValueError("the client CA cannot be used: it is not PEM") from error
    return context
