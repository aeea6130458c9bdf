"""Finds out why a certificate and a private key in PEM make no TLS server, in the words of Go's crypto/tls. Pure.

Source: `X509KeyPair` of Go's crypto/tls, which kube-apiserver calls for Secrets of type `kubernetes.io/tls`
(`warningsForSecret` of pkg/registry/core/secret/strategy.go).
"""

import base64
import binascii
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_private_key

from vcsync.patterns.linear import linear

LARGEST = 64 * 1024
"""Bytes of a certificate or key in DER beyond which it is not parsed. Real ones have some thousand."""
MOST_BLOCKS = 64
"""Blocks of PEM that are looked at. Real chains have a handful."""
_BEGIN = "-----BEGIN "
_BLOCK = linear(
    r"([^\n-]*)-----[ \t\r]*\n(?:[^\n:]*:[^\n]*\n)*([A-Za-z0-9+/=\s]*)-----END ([^\n-]*)-----[ \t\r]*(?:\n|$)"
)
"""A block behind its beginning: type, headers, content, and the type again."""
_KINDS = (rsa.RSAPublicKey, ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey)


def complaint(certificate: bytes, key: bytes) -> str:
    """Return Go's error about a pair, or an empty text.

    Args:
        certificate: PEM blocks, of which the first certificate counts.
        key: PEM blocks, of which the first private key counts.
    """
    blocks = _blocks(certificate)
    found = [der for name, der in blocks if name == "CERTIFICATE"]
    if not found:
        return _no_certificate([name for name, _ in blocks])
    blocks = _blocks(key)
    keys = [der for name, der in blocks if name == "PRIVATE KEY" or name.endswith(" PRIVATE KEY")]
    if not keys:
        return _no_key([name for name, _ in blocks])
    try:
        public: Any = x509.load_der_x509_certificate(_bounded(found[0])).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "x509: malformed certificate"
    return _mismatch(public, keys[0])


def _mismatch(public: Any, key: bytes) -> str:
    try:
        private: Any = load_der_private_key(_bounded(key), None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    sort = next((each for each in _KINDS if isinstance(public, each)), None)
    own = private.public_key()
    if not isinstance(own, _KINDS):
        return "tls: found unknown private key type in PKCS#8 wrapping"
    if sort is None:
        return "tls: unknown public key algorithm"
    if not isinstance(own, sort):
        return "tls: private key type does not match public key type"
    return "" if _der(own) == _der(public) else "tls: private key does not match public key"


def _der(key: Any) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded


def _bounded(der: bytes) -> bytes:
    if len(der) > LARGEST:
        raise ValueError("too large")
    return der


def _blocks(pem: bytes) -> list[tuple[str, bytes]]:
    """Return the blocks of a text as (type, content). Blocks that are no PEM are skipped, as by Go's pem.Decode."""
    found = []
    for piece in pem.decode("latin-1").split(_BEGIN, MOST_BLOCKS)[1:]:
        match = _BLOCK.match(piece)
        if match is None or match[1] != match[3]:
            continue
        try:
            found.append((match[1], base64.b64decode("".join(match[2].split()), validate=True)))
        except binascii.Error:
            continue
    return found


def _no_certificate(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in certificate input"
    if len(skipped) == 1 and skipped[0].endswith("PRIVATE KEY"):
        found = "but did find a private key; PEM inputs may have been switched"
        return f"tls: failed to find certificate PEM data in certificate input, {found}"
    return (
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following types:'
        f" [{' '.join(skipped)}]"
    )


def _no_key(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in key input"
    if skipped == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the following'
        f" types: [{' '.join(skipped)}]"
    )
