"""TLS contexts: of clients, shared by all with the same CA and client certificate, and of servers."""

import os
import ssl
from hashlib import sha256
from weakref import WeakValueDictionary

from vcsync.kube.errors import CredentialsError
from vcsync.process.handshakes import BoundedContext

_contexts: "WeakValueDictionary[bytes, ssl.SSLContext]" = WeakValueDictionary()


def client_context(
    *, ca: bytes = b"", certificate: bytes = b"", key: bytes = b"", insecure: bool = False
) -> ssl.SSLContext:
    """Return the TLS context for a server and an identity. Equal arguments share a context while it is in use.

    Args:
        ca: Trusted certificates in PEM, or one in DER. Empty: those of the system.
        certificate: Client certificate with its chain (PEM). Empty: none.
        key: Private key of the certificate (PEM, without a password).
        insecure: Whether to skip the verification of the server.

    Raises:
        CredentialsError: The CA, the certificate or the key is invalid, or certificate and key do not match.
    """
    digest = sha256(b"%d" % insecure)
    for part in (ca, certificate, key):
        digest.update(b"%d:" % len(part))
        digest.update(part)
    identity = digest.digest()
    context = _contexts.get(identity)
    if context is None:
        context = _contexts[identity] = _make(ca, certificate, key, insecure)
    return context


def _make(ca: bytes, certificate: bytes, key: bytes, insecure: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=_cadata(ca))
    except (ssl.SSLError, ValueError):
        raise CredentialsError(
            "certificate-authority: not a PEM certificate; give the CA that signed the server's"
        ) from None
    # Kubernetes' own tools create CAs without the extensions that strict mode requires, and trust all listed
    # certificates, even if they are not self-signed. Chain, dates and host name are still verified.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate or key:
        _load_client(context, certificate, key)
    return context


def _cadata(ca: bytes) -> str | bytes | None:
    if not ca:
        return None
    return ca.decode("ascii", "replace") if b"-----BEGIN" in ca else ca


def serving_context(identity: bytes) -> ssl.SSLContext:
    """Return the TLS context of a server.

    Args:
        identity: Serving certificate with its chain, and its key without a password, as PEM.

    Raises:
        ValueError: The certificate or the key is invalid, or they do not match.
    """
    context = BoundedContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        load_identity(context, identity)
    except ssl.SSLError as error:
        raise ValueError(f"{error.reason or 'unreadable'}; give a PEM certificate and its key") from error
    return context


def _load_client(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a client certificate."""
    if not certificate or not key:
        missing = "client-key" if certificate else "client-certificate"
        raise CredentialsError(
            f"kubeconfig: field user.{missing} is missing; a client certificate needs both"
        )
    try:
        load_identity(context, certificate.rstrip() + b"\n" + key)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "unreadable"
        raise CredentialsError(
            f"client-certificate, client-key: {reason}; give a PEM certificate and its key without a password"
        ) from None


def load_identity(context: ssl.SSLContext, identity: bytes) -> None:
    """Load a certificate and its key into a context. OpenSSL reads only files, so that they are written to one in memory.

    Args:
        context: The context.
        identity: Certificate with its chain, and its key without a password, as PEM.

    Raises:
        ssl.SSLError: The certificate or the key is invalid, or they do not match.
        ValueError: Likewise.
    """
    descriptor = os.memfd_create("identity", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(identity)
        # With an empty password, an encrypted key fails. Otherwise OpenSSL would prompt on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=lambda: "")
    finally:
        os.close(descriptor)
