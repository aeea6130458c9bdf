"""TLS of calls: whom to trust, and what is told when a certificate is not."""

import ssl
from functools import cache

from vcsync.controlplane.egress.failure import CallFailed

_UNKNOWN = frozenset({2, 7, 18, 19, 20, 21, 24})
_EXPIRED, _NOT_YET, _HOST, _ADDRESS = 10, 9, 62, 64


def context(bundle: bytes) -> ssl.SSLContext:
    """Return a context that trusts the authorities of a bundle (PEM), or if it is empty the system's.

    Raises:
        CallFailed: the bundle is none.
    """
    if not bundle:
        return _system()
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        made.load_verify_locations(cadata=bundle.decode())
    except (ssl.SSLError, ValueError) as wrong:
        raise CallFailed("unable to load root certificates: unable to parse bytes as PEM block") from wrong
    return _settled(made)


@cache
def _system() -> ssl.SSLContext:
    return _settled(ssl.create_default_context())


def _settled(made: ssl.SSLContext) -> ssl.SSLContext:
    """Check as kube-apiserver does: a certificate of the bundle is trusted itself, common names don't count."""
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    made.hostname_checks_common_name = False
    return made


def fault(error: ssl.SSLError, host: str) -> str:
    """Return what is told of a connection that TLS refused."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return "tls: handshake failure"
    code = error.verify_code
    if code in _UNKNOWN:
        why = "certificate signed by unknown authority"
    elif code in (_EXPIRED, _NOT_YET):
        why = "certificate has expired or is not yet valid"
    elif code in (_HOST, _ADDRESS):
        why = f"certificate is not valid for {host}"
    else:
        why = "certificate is not valid"
    return f"tls: failed to verify certificate: x509: {why}"
