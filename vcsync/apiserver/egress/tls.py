"""TLS contexts of calls, and messages for TLS errors."""

import ssl
from dataclasses import dataclass, field
from functools import cache

from vcsync.apiserver.egress.failure import CallFailed
from vcsync.kube.tls import load_identity

_UNKNOWN_AUTHORITY = frozenset({2, 7, 18, 19, 20, 21, 24})
_EXPIRED, _NOT_YET_VALID, _WRONG_HOST, _WRONG_ADDRESS = 10, 9, 62, 64
"""Codes of OpenSSL's X509_V_ERR constants."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The client certificate of connections, and how they trust servers.

    Attributes:
        id: Identifies the certificate.
        pem: The certificate and its key. Never shown.
        insecure: Whether the certificates of servers are not verified.
    """

    id: str
    pem: bytes = field(repr=False)
    insecure: bool = False


def context(bundle: bytes, identity: Identity | None = None) -> ssl.SSLContext:
    """Return a context that trusts the authorities of a bundle.

    Args:
        bundle: Certificates in PEM. Empty: the authorities of the system.
        identity: The client certificate. None: there is none. With one, this takes long enough for a thread.

    Raises:
        CallFailed: The bundle is invalid.
    """
    if not bundle and identity is None:
        return _system_context()
    insecure = identity is not None and identity.insecure
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if bundle or insecure else ssl.create_default_context()
    if bundle:
        try:
            context.load_verify_locations(cadata=bundle.decode())
        except (ssl.SSLError, ValueError) as wrong:
            raise CallFailed(
                "unable to load root certificates: unable to parse bytes as PEM block"
            ) from wrong
    if identity is not None:
        load_identity(context, identity.pem)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return _configured(context)


@cache
def _system_context() -> ssl.SSLContext:
    return _configured(ssl.create_default_context())


def _configured(context: ssl.SSLContext) -> ssl.SSLContext:
    """Verify as kube-apiserver does: any certificate of the bundle is trusted, and common names are ignored."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    return context


def fault(error: Exception, host: str) -> str:
    """Return the message for a failed handshake with a host."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return "tls: handshake failure"
    code = error.verify_code
    if code in _UNKNOWN_AUTHORITY:
        why = "certificate signed by unknown authority"
    elif code in (_EXPIRED, _NOT_YET_VALID):
        why = "certificate has expired or is not yet valid"
    elif code in (_WRONG_HOST, _WRONG_ADDRESS):
        why = f"certificate is not valid for {host}"
    else:
        why = "certificate is not valid"
    return f"tls: failed to verify certificate: x509: {why}"
