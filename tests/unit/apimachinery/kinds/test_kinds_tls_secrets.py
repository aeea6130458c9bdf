"""Warnings about Secrets whose certificate and key make no TLS server."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from vcsync.apimachinery.kinds.core import secret, tls_pairs


def pem(key: Any, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    found: bytes = key.private_bytes(Encoding.PEM, form, NoEncryption())
    return found


def certificate(key: Any) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = builder.serial_number(1).not_valid_before(start).not_valid_after(start + timedelta(days=1))
    return built.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


CURVE, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)
CERTIFICATE = certificate(CURVE)
WRONG = b"-----BEGIN %b-----\nAAAA\n-----END %b-----\n"


@pytest.mark.parametrize(
    ("crt", "key", "told"),
    [
        (CERTIFICATE, pem(CURVE), ""),
        (CERTIFICATE, pem(CURVE, PrivateFormat.TraditionalOpenSSL), ""),
        (b"a comment\n" + CERTIFICATE + CERTIFICATE, CERTIFICATE + pem(CURVE), ""),
        (certificate(RSA), pem(RSA, PrivateFormat.TraditionalOpenSSL), ""),
        (b"", b"", "tls: failed to find any PEM data in certificate input"),
        (CERTIFICATE, b"x", "tls: failed to find any PEM data in key input"),
        (CERTIFICATE, pem(OTHER), "tls: private key does not match public key"),
        (CERTIFICATE, pem(RSA), "tls: private key type does not match public key type"),
        (CERTIFICATE, CERTIFICATE, "tls: found a certificate rather than a key in the PEM for the private key"),
        (CERTIFICATE, WRONG % ((b"PRIVATE KEY",) * 2), "tls: failed to parse private key"),
        (WRONG % ((b"CERTIFICATE",) * 2), pem(CURVE), "x509: malformed certificate"),
        (pem(CURVE), pem(CURVE), "PEM inputs may have been switched"),
        (WRONG % (b"X", b"X"), pem(CURVE), "after skipping PEM blocks of the following types: [X]"),
        (CERTIFICATE, WRONG % (b"X", b"X"), "after skipping PEM blocks of the following types: [X]"),
        (WRONG % (b"CERTIFICATE", b"X"), pem(CURVE), "tls: failed to find any PEM data in certificate input"),
    ],
)  # fmt: skip
def test_a_pair_that_makes_no_server_is_told_in_words_of_go(crt: bytes, key: bytes, told: str) -> None:
    found = tls_pairs.complaint(crt, key)
    assert found.endswith(told)
    assert bool(found) == bool(told)


@pytest.mark.parametrize(("type_", "count"), [("kubernetes.io/tls", 1), ("Opaque", 0)])
def test_only_secrets_for_tls_get_the_warning(type_: str, count: int) -> None:
    data = {"tls.crt": "", "tls.key": base64.b64encode(b"x").decode()}
    assert len(secret.KIND.warnings({"type": type_, "data": data}, None)) == count


def test_a_huge_key_is_not_parsed() -> None:
    block = base64.b64encode(bytes(tls_pairs.LARGEST + 1))
    key = b"-----BEGIN PRIVATE KEY-----\n" + block + b"\n-----END PRIVATE KEY-----\n"
    assert tls_pairs.complaint(CERTIFICATE, key) == "tls: failed to parse private key"
