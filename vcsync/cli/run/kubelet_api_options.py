"""Options of the kubelet API of virtual nodes, which syncers serve."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import click

from vcsync.cli.command.common import options
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.stream_options import stream_limits_of, stream_options
from vcsync.kube.tls import serving_context
from vcsync.streams.limits import StreamLimits

DEFAULT_PORTS = "10300-11299"
DEFAULT_LIMITS = StreamLimits()
MAX_PORT = 65535
_PORTS = re.compile(r"(\d{1,5})-(\d{1,5})")


class KubeletOptions(NamedTuple):
    """Options of the kubelet API; see `vcsync.syncer.kubelet_api.settings.KubeletSettings`."""

    address: str
    listen: str
    ports: tuple[int, int]
    identity: bytes = b""
    limits: StreamLimits = DEFAULT_LIMITS

    def __repr__(self) -> str:
        return f"KubeletOptions({self.address!r}, {self.ports})"


kubelet_api_options = options(
    stream_options,
    click.option(
        "--kubelet-address",
        metavar="IP",
        help="Address at which tenants' own kube-apiservers reach this process: kubectl logs, exec, attach and port-forward "
        "then work for their Pods. Without it they do not.",
    ),
    click.option(
        "--kubelet-listen", metavar="IP", help="Address to listen on for them (default: --kubelet-address)."
    ),
    click.option(
        "--kubelet-ports",
        metavar="FIRST-LAST",
        default=DEFAULT_PORTS,
        show_default=True,
        help="Ports for them. Each tenant has one of its own.",
    ),
    click.option(
        "--kubelet-tls-cert-file",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Serving certificate, for kube-apiservers with --kubelet-certificate-authority (default: a self-signed one).",
    ),
    click.option(
        "--kubelet-tls-private-key-file",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Its key.",
    ),
)


def kubelet_options_of(given: Mapping[str, Any]) -> KubeletOptions | None:
    """Return the options of the kubelet API among those of a command; None: it is not served.

    Raises:
        WrongInputError: One of them is invalid.
    """
    address, listen = given.get("kubelet_address"), given.get("kubelet_listen")
    ports = given.get("kubelet_ports", DEFAULT_PORTS)
    certificate = given.get("kubelet_tls_cert_file")
    key = given.get("kubelet_tls_private_key_file")
    if (certificate is None) != (key is None):
        raise WrongInputError(
            "--kubelet-tls-cert-file and --kubelet-tls-private-key-file: give both or neither"
        )
    if not address:
        return None
    for option, value in (("--kubelet-address", address), ("--kubelet-listen", listen)):
        if value:
            _require_address(option, value)
    found = _PORTS.fullmatch(ports)
    first, last = (int(found[1]), int(found[2])) if found is not None else (0, 0)
    if not 0 < first <= last <= MAX_PORT:
        raise WrongInputError(
            f"--kubelet-ports: {ports!r} is not a range of ports; give for example {DEFAULT_PORTS}"
        )
    identity = b"" if certificate is None or key is None else _identity(certificate, key)
    return KubeletOptions(address, listen or address, (first, last), identity, stream_limits_of(given))


def _identity(certificate: Path, key: Path) -> bytes:
    try:
        identity = certificate.read_bytes() + b"\n" + key.read_bytes()
        serving_context(identity)
    except OSError as error:
        raise WrongInputError(f"{error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise WrongInputError(f"--kubelet-tls-cert-file, --kubelet-tls-private-key-file: {error}") from error
    return identity


def _require_address(option: str, value: str) -> None:
    try:
        ip_address(value)
    except ValueError:
        raise WrongInputError(f"{option}: {value!r} is not an IP address") from None
