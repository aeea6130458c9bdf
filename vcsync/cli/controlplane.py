"""`vcsync run controlplane`: many tenants' Kubernetes APIs in one process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from vcsync.cli.common import log_options, parse_endpoint
from vcsync.cli.config import config_option
from vcsync.cli.controlplane_audit import AuditOptions, audit_of, audit_options
from vcsync.cli.controlplane_authentication import (
    AuthenticationSettings,
    authentication_options,
    settings_of,
)
from vcsync.cli.controlplane_kubelets import kubelet_option, kubelets_of
from vcsync.cli.controlplane_limits import DEFAULT_LIMITS, LimitOptions, limit_options, limits_of
from vcsync.cli.controlplane_webhooks import webhook_options, webhooks_of
from vcsync.cli.errors import WrongInputError
from vcsync.cli.help import example
from vcsync.controlplane.egress.networks import Networks
from vcsync.controlplane.egress.policy import NOTHING, Policy
from vcsync.status.server import parse_listen

DEFAULT_LISTEN = "127.0.0.1:6443"
data_option = click.option(
    "--data",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the store, certificates and the admin kubeconfig; made if it is not there.",
)


@dataclass(frozen=True)
class Etcd:
    """Where an etcd is. The files are PEM; none: without TLS, or by the system's authorities."""

    endpoints: tuple[str, ...]
    prefix: str
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class ControlPlaneSettings:
    """What `vcsync run controlplane` was asked for. `advertise`: host and port that clients are told."""

    data: Path
    listen: tuple[str, int]
    advertise: tuple[str, int] | None
    names: tuple[str, ...]
    authentication: AuthenticationSettings
    etcd: Etcd | None
    audit: AuditOptions | None = None
    limits: LimitOptions = DEFAULT_LIMITS
    webhooks: Policy = NOTHING
    kubelets: Networks = field(default_factory=Networks)
    admission: Path | None = None


@click.command(
    epilog=example(
        "vcsync run controlplane --data /var/lib/vcsync --listen 0.0.0.0:6443",
        "vcsync tenant create acme --data /var/lib/vcsync",
    )
)
@config_option("controlplane")
@data_option
@click.option(
    "--listen", metavar="HOST:PORT", default=DEFAULT_LISTEN, show_default=True, help="Where to serve, by TLS."
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="Where clients find it, for kubeconfigs (default: --listen; this machine's address for 0.0.0.0).",
)
@click.option(
    "--name", "names", multiple=True, metavar="NAME", help="Further host name or address in the certificate."
)
@authentication_options
@audit_options
@limit_options
@webhook_options
@kubelet_option
@click.option(
    "--admission-control-config-file",
    "admission",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="AdmissionConfiguration: defaults and exemptions of PodSecurity, limitedResources of ResourceQuota.",
)
@click.option("--etcd", multiple=True, metavar="URL", help="Keep objects in this etcd instead of a file.")
@click.option("--etcd-prefix", default="/vcsync", show_default=True, help="Of all keys in that etcd.")
@click.option("--etcd-cacert", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its CA.")
@click.option(
    "--etcd-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Certificate."
)
@click.option("--etcd-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its key.")
@log_options()
def controlplane(*, log_level: str, log_format: str, **given: Any) -> None:
    """Run the embedded control plane: a Kubernetes API for every tenant, under https://HOST:PORT/tenants/NAME.

    The folder keeps the store, the server's certificate and admin.kubeconfig, by which 'vcsync tenant create'
    and the like reach this process.
    """
    from vcsync.cli.controlplane_process import serve  # noqa: PLC0415  loads the whole control plane

    serve(control_plane_settings(given), log_level, log_format)


def control_plane_settings(given: Mapping[str, Any]) -> ControlPlaneSettings:
    """Return the settings that the options' values make.

    Raises:
        WrongInputError: they contradict one another, or one cannot be read.
    """
    host, port = parse_listen(given["listen"])
    if not port:
        raise WrongInputError(
            f"--listen {given['listen']!r}: kubeconfigs need a port that stays; give one from 1 to 65535"
        )
    if bool(given["etcd_cert"]) != bool(given["etcd_key"]):
        raise WrongInputError("--etcd-cert and --etcd-key belong together: give both or none")
    return ControlPlaneSettings(
        data=given["data"],
        listen=(host, port),
        advertise=parse_endpoint("--advertise", given["advertise"]) if given["advertise"] else None,
        names=given["names"],
        authentication=settings_of(given),
        etcd=_etcd_of(given),
        audit=audit_of(given),
        limits=limits_of(given),
        webhooks=webhooks_of(given),
        kubelets=kubelets_of(given),
        admission=given["admission"],
    )


def _etcd_of(given: Mapping[str, Any]) -> Etcd | None:
    if not given["etcd"]:
        return None
    files = (given["etcd_cacert"], given["etcd_cert"], given["etcd_key"])
    return Etcd(given["etcd"], given["etcd_prefix"], *files)
