"""TLS of the kubelets in a hollow cluster: a certificate of the cluster's CA, and only API servers as clients."""

import ssl
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509

from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority
from vcsync.cli.command.errors import WrongInputError

CERTIFICATE, KEY = "ca.crt", "ca.key"
"""Files of `vcsync tenant export`."""


def read_keys(folder: Path) -> Mapping[str, str]:
    """Read the CA that `vcsync tenant export` wrote.

    Raises:
        WrongInputError: it does not exist.
    """
    try:
        return {name: (folder / name).read_text(encoding="ascii") for name in (CERTIFICATE, KEY)}
    except (OSError, UnicodeDecodeError) as error:
        raise WrongInputError(
            f"--keys {folder}: {error}; 'vcsync tenant export NAME --dir {folder}' writes it"
        ) from error


def kubelet_tls(files: Mapping[str, str], host: str) -> ssl.SSLContext:
    """Return the TLS settings of a hollow cluster's kubelets at an address.

    Args:
        files: certificate and key of the cluster's CA, PEM.
        host: the address.

    Raises:
        WrongInputError: the keys are invalid.
    """
    try:
        return _context(files, host)
    except (ValueError, TypeError, x509.ExtensionNotFound, ssl.SSLError) as error:
        raise WrongInputError(f"the keys of the cluster's CA cannot be used: {error}") from error


def _context(files: Mapping[str, str], host: str) -> ssl.SSLContext:
    certificate = x509.load_pem_x509_certificate(files[CERTIFICATE].encode())
    identifier = certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest.hex()
    pair = pki.issue_serving(Authority(files[CERTIFICATE], files[KEY], identifier), [host], time.time())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=files[CERTIFICATE])
    # Python's TLS reads keys only from files.
    with tempfile.TemporaryDirectory(prefix="vcsync-") as folder:
        path = Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_text(pair.certificate + pair.key, encoding="ascii")
        context.load_cert_chain(path)
    return context
