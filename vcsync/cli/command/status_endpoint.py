"""The status endpoint of a process: its options, its certificate, and whom it asks about callers."""

import hashlib
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import click
import structlog

from vcsync.cli.command.common import options
from vcsync.cli.command.errors import WrongInputError
from vcsync.kube.client import Client
from vcsync.kube.connection import Connection
from vcsync.status import StatusServer, StatusSource
from vcsync.status.access import REVIEW_SECONDS, Access
from vcsync.status.certificate import ServingCertificate
from vcsync.status.server import DEFAULT_LISTEN, Protection, is_loopback, parse_listen

OWN_LIFE = timedelta(days=3650)
"""Life of a certificate that is made at each start."""
CERT_OPTION, KEY_OPTION = "--tls-cert-file", "--tls-private-key-file"
_log = structlog.get_logger(__name__)

_FILE = click.Path(dir_okay=False, path_type=Path)
status_options = options(
    click.option(
        "--listen",
        metavar="HOST:PORT",
        default=DEFAULT_LISTEN,
        show_default=True,
        help="Address of /healthz, /readyz, /metrics and /status: on loopback for everybody on this machine, by HTTP; elsewhere "
        "by HTTPS, for those whom the meta cluster lets read them.",
    ),
    click.option(
        CERT_OPTION,
        "tls_cert_file",
        metavar="FILE",
        type=_FILE,
        help="Certificate of --listen with its chain, PEM; read again when it changes (default: on loopback none, elsewhere one "
        "that is made at each start, so that clients cannot verify it).",
    ),
    click.option(
        KEY_OPTION,
        "tls_private_key_file",
        metavar="FILE",
        type=_FILE,
        help=f"Private key of {CERT_OPTION}, PEM.",
    ),
)


class Listen(NamedTuple):
    """Address and certificate of the status endpoint of a process; `--tls-cert-file` describes the default."""

    address: str
    certificate: Path | None = None
    key: Path | None = None


def listen_of(given: Mapping[str, Any]) -> Listen:
    """Return the values of `status_options`.

    Raises:
        ListenAddressError: The address is malformed.
        WrongInputError: One of the files is missing.
    """
    parse_listen(given["listen"])
    found = Listen(given["listen"], given["tls_cert_file"], given["tls_private_key_file"])
    if (found.certificate is None) != (found.key is None):
        missing = KEY_OPTION if found.key is None else CERT_OPTION
        raise WrongInputError(f"{missing} is missing: a certificate needs its key")
    return found


@asynccontextmanager
async def serve_status(
    listen: Listen,
    sources: Mapping[str, StatusSource],
    meta: Callable[[], Connection],
    *,
    option: str = "--listen",
) -> AsyncIterator[StatusServer]:
    """Serve the status of roles.

    Args:
        listen: Where.
        sources: The roles by name.
        meta: Returns how to reach the cluster that knows the callers; it is called only if other machines reach the endpoint.
        option: Command-line option that sets the address, for messages.

    Raises:
        ListenAddressError: The address cannot be used.
        WrongInputError: The certificate cannot be used.
        CredentialsError: The cluster cannot be asked.
    """
    host, _ = parse_listen(listen.address)
    if is_loopback(host):
        protection = None if listen.certificate is None else Protection(None, _certificate(listen, host))
        async with StatusServer(listen.address, sources, option=option, protection=protection) as server:
            yield server
        return
    async with Client(meta(), name="meta", field_manager="vcsync/status", timeout=REVIEW_SECONDS) as client:
        protection = Protection(Access(client, time.monotonic), _certificate(listen, host))
        async with StatusServer(listen.address, sources, option=option, protection=protection) as server:
            yield server


def _certificate(listen: Listen, host: str) -> ServingCertificate:
    """Return the serving certificate: that of the files, or else a one of its own.

    Raises:
        WrongInputError: The files cannot be used.
    """
    certificate, key = listen.certificate, listen.key
    if certificate is None or key is None:
        identity = _own_identity(host)
        return ServingCertificate(lambda: identity)
    try:
        return ServingCertificate(lambda: certificate.read_bytes() + b"\n" + key.read_bytes())
    except OSError as error:
        raise WrongInputError(
            f"{CERT_OPTION}, {KEY_OPTION}: cannot read {error.filename}: {error.strerror}"
        ) from error
    except ValueError as error:
        raise WrongInputError(f"{CERT_OPTION} {certificate}, {KEY_OPTION} {key}: {error}") from error


def _own_identity(host: str) -> bytes:
    """Return a new certificate for a host and this machine, with its key, as PEM. Its fingerprint is logged."""
    from vcsync.apiserver.operator.folder import serving_names  # noqa: PLC0415  loads cryptography
    from vcsync.apiserver.tenants.pki import issue_serving, new_authority  # noqa: PLC0415

    now = time.time()
    pair = issue_serving(new_authority("vcsync-status", now), serving_names(host), now, OWN_LIFE)
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pair.certificate)).hexdigest()
    _log.info("the status endpoint has a certificate of its own; no client can verify it", sha256=digest)
    return (pair.certificate + pair.key).encode()
