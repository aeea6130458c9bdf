"""The data folder of a control plane process: its files, readable by its owner only, and its serving certificate."""

import ipaddress
import os
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from vcsync.controlplane.tenants import pki
from vcsync.controlplane.tenants.defaults import SERVICE_ADDRESS
from vcsync.controlplane.tenants.records import Authority

RENEW_SHARE = 3
"""A certificate is renewed when less than one part in so many of its life is left."""

_CLUSTER_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    SERVICE_ADDRESS,
)
_PROBE = ("192.0.2.1", 9)
"""An address for documentation; asking the kernel for the way there sends nothing."""


class DataFolder:
    """The files in it."""

    def __init__(self, path: Path) -> None:
        """Make the folder if it is not there, and close it to others.

        Raises:
            OSError: it cannot be made or is not ours.
        """
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(0o700)
        self.path = path
        self.store = path / "store.db"
        self.authority = path / "ca.crt"
        self.certificate = path / "server.crt"
        self.key = path / "server.key"
        self.authorities = path / "authorities"
        self.admin_kubeconfig = path / "admin.kubeconfig"

    def has_lost_its_store(self) -> bool:
        """Tell whether a system has been served from here whose store is not here, or is empty."""
        log = self.store.with_name(f"{self.store.name}-wal")
        return self.admin_kubeconfig.exists() and not any(
            file.exists() and file.stat().st_size for file in (self.store, log)
        )

    @staticmethod
    def write(path: Path, content: bytes | str) -> None:
        """Write a file that only its owner can read; it is there whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        data = content.encode() if isinstance(content, str) else content
        beside = path.with_name(f".{path.name}.new")
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)

    def serve_with(self, authority: Authority, names: Sequence[str], now: float) -> bool:
        """Make sure that the serving certificate is good for these names and some time; True: it is a new one.

        Raises:
            OSError: files cannot be read or written.
        """
        self.write(self.authority, authority.certificate)
        wanted = list(dict.fromkeys((*names, *_CLUSTER_NAMES)))
        if self._is_good(authority, wanted, now):
            return False
        pair = pki.issue_serving(authority, wanted, now)
        self.write(self.key, pair.key)
        # With its authority: else it is looked for, and the chain verified, in each handshake.
        self.write(self.certificate, pair.certificate + authority.certificate)
        return True

    def _is_good(self, authority: Authority, names: Sequence[str], now: float) -> bool:
        try:
            found = x509.load_pem_x509_certificate(self.certificate.read_bytes())
            found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.encode()))
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
            alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return False
        begin, end = found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()
        held = {str(each.value) for each in alternatives}
        return held == set(names) and end - now > (end - begin) / RENEW_SHARE


def own_address() -> str:
    """Return the address by which this machine is seen from outside; loopback if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_PROBE)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def is_wildcard(host: str) -> bool:
    """Tell whether a host to listen on means all addresses."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def pod_address(host: str) -> str:
    """Return the IPv4 address at which Pods reach a server that clients reach at `host`."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return own_address()
    return own_address() if address.is_loopback or address.is_unspecified or address.version != 4 else host


def serving_names(*hosts: str) -> list[str]:
    """Return the names and addresses that a serving certificate is made for, those of this machine with them."""
    named = [host for host in hosts if host and not is_wildcard(host)]
    return list(dict.fromkeys((*named, "localhost", "127.0.0.1", socket.gethostname(), own_address())))
