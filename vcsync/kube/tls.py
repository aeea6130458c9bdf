"""TLS contexts: made once per CA and client certificate, shared by everyone who needs the same."""

import os
import ssl
from hashlib import sha256
from weakref import WeakValueDictionary

from vcsync.kube.errors import CredentialsError

_contexts: "WeakValueDictionary[bytes, ssl.SSLContext]" = WeakValueDictionary()


def client_context(
    *, ca: bytes = b"", certificate: bytes = b"", key: bytes = b"", insecure: bool = False
) -> ssl.SSLContext:
    """Return the TLS context for a server and an identity; equal arguments share one while it is in use.

    Args:
        ca: PEM certificates to trust, or one in DER; empty trusts the system's.
        certificate: our client certificate (PEM, with its chain), empty for none.
        key: its private key (PEM, without a password).
        insecure: do not verify the server at all.

    Raises:
        CredentialsError: the CA, the certificate or the key is unusable, or certificate and key do not match.
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
    # Kubernetes' own tools make CAs without the extensions strict mode asks for, and trust any certificate
    # that is listed, self-signed or not. Chain, dates and host name are verified all the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate or key:
        _load_identity(context, certificate, key)
    return context


def _cadata(ca: bytes) -> str | bytes | None:
    if not ca:
        return None
    return ca.decode("ascii", "replace") if b"-----BEGIN" in ca else ca


def _load_identity(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a client certificate. OpenSSL reads only files, so it gets one that never touches a disk."""
    if not certificate or not key:
        missing = "client-key" if certificate else "client-certificate"
        raise CredentialsError(
            f"kubeconfig: field user.{missing} is missing; a client certificate needs both"
        )
    descriptor = os.memfd_create("identity", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(certificate.rstrip() + b"\n" + key)
        # An empty password makes an encrypted key fail instead of asking on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "unreadable"
        raise CredentialsError(
            f"client-certificate, client-key: {reason}; give a PEM certificate and its key without a password"
        ) from None
    finally:
        os.close(descriptor)
