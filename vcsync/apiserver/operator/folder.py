"""The data folder of a control plane process: its files, readable by its owner only, and its serving certificate."""

import ipaddress
import os
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from vcsync.apiserver.operator.defaults import SERVICE_ADDRESS
from vcsync.apiserver.operator.kubeconfig import names_tenant
from vcsync.apiserver.tenants import pki
from vcsync.apiserver.tenants.records import Authority

RENEW_SHARE = 3
"""A certificate is renewed when less than a third of its lifetime is left."""

_CLUSTER_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    SERVICE_ADDRESS,
)
_PROBE = ("192.0.2.1", 9)
"""An address for documentation. Connecting a datagram socket to it chooses a route and sends nothing."""


class DataFolder:
    """The data folder. It is created if it does not exist, and accessible to its owner only.

    Args:
        path: The folder.

    Raises:
        OSError: The folder cannot be created or belongs to somebody else.
    """

    def __init__(self, path: Path) -> None:
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
        """Tell whether the folder has been used before, but its store is missing or empty.

        Kubeconfigs and authorities are written after the store, so their presence shows that there was one.
        """
        log = self.store.with_name(f"{self.store.name}-wal")
        served = (
            self.admin_kubeconfig.exists()
            or any(self.authorities.glob("*"))
            or any(names_tenant(file.read_bytes()) for file in self.path.glob("*.kubeconfig"))
        )
        return served and not any(file.exists() and file.stat().st_size for file in (self.store, log))

    @staticmethod
    def write(path: Path, content: bytes | str) -> None:
        """Write a file that only its owner can read, atomically.

        Raises:
            OSError: The file cannot be written.
        """
        data = content.encode() if isinstance(content, str) else content
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def serve_with(self, authority: Authority, names: Sequence[str], now: float) -> bool:
        """Issue a new serving certificate unless the current one is valid for these names and long enough.

        Args:
            authority: Authority that signs the certificate.
            names: Host names and addresses of the server.
            now: Time in seconds since the epoch.

        Returns:
            Whether the certificate is new.

        Raises:
            OSError: Files cannot be read or written.
        """
        self.write(self.authority, authority.certificate)
        wanted = list(dict.fromkeys((*names, *_CLUSTER_NAMES)))
        if self._is_good(authority, wanted, now):
            return False
        pair = pki.issue_serving(authority, wanted, now)
        self.write(self.key, pair.key)
        # The file includes the authority. Otherwise OpenSSL builds and verifies the chain in each handshake.
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
    """Return the address of this machine on the network, or the loopback address if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_PROBE)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def is_wildcard(host: str) -> bool:
    """Tell whether a listen address means all addresses."""
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
    """Return the names and addresses of a serving certificate, including those of this machine."""
    named = [host for host in hosts if host and not is_wildcard(host)]
    return list(dict.fromkeys((*named, "localhost", "127.0.0.1", socket.gethostname(), own_address())))
