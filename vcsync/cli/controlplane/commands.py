"""`vcsync run controlplane`: many tenants' Kubernetes APIs in one process."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from vcsync.apiserver.request.host_names import HostNames, domain_problem
from vcsync.cli.command.common import limit_stalls, log_options, parse_endpoint, stall_option
from vcsync.cli.command.config import config_option
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.stream_options import stream_limits_of, stream_options
from vcsync.cli.controlplane.audit_options import audit_of, audit_options
from vcsync.cli.controlplane.authentication_options import (
    authentication_options,
    settings_of,
)
from vcsync.cli.controlplane.grant_options import grant_options, grants_of
from vcsync.cli.controlplane.kubelet_options import kubelet_option, kubelets_of
from vcsync.cli.controlplane.limit_options import limit_options, limits_of
from vcsync.cli.controlplane.settings import STALLS, ControlPlaneSettings, Etcd
from vcsync.cli.controlplane.webhook_options import webhook_options, webhooks_of
from vcsync.status.server import parse_listen

DEFAULT_LISTEN = "127.0.0.1:6443"
data_option = click.option(
    "--data",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the store, certificates and the admin kubeconfig; created if missing.",
)


@click.command(
    epilog=example(
        "vcsync run controlplane --data /var/lib/vcsync --listen 0.0.0.0:6443",
        "vcsync tenant create acme --data /var/lib/vcsync",
    )
)
@config_option("controlplane")
@data_option
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_LISTEN,
    show_default=True,
    help="Address to serve at, with TLS.",
)
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="Address for clients, used in kubeconfigs (default: --listen; this machine's address for 0.0.0.0).",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Additional host name or address in the certificate.",
)
@click.option(
    "--tenant-domain",
    metavar="DOMAIN",
    default="",
    help="Domain of tenants' host names: TENANT.DOMAIN is for that tenant. DNS must lead them to --advertise.",
)
@authentication_options
@audit_options
@limit_options
@webhook_options
@kubelet_option
@click.option(
    "--pool",
    metavar="KUBECONFIG",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Kubeconfig of role 'streams' in the meta cluster: logs, exec, attach and port-forward then reach tenants' Pods on "
    "the super clusters of its pool. The file may be written later, by 'vcsync setup' or 'vcsync install'.",
)
@stream_options
@grant_options
@click.option(
    "--admission-control-config-file",
    "admission",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="AdmissionConfiguration: defaults and exemptions of PodSecurity, limitedResources of ResourceQuota.",
)
@click.option("--etcd", multiple=True, metavar="URL", help="Keep objects in this etcd instead of a file.")
@click.option("--etcd-prefix", default="/vcsync", show_default=True, help="Prefix of all keys in that etcd.")
@click.option("--etcd-cacert", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its CA.")
@click.option(
    "--etcd-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Certificate."
)
@click.option("--etcd-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its key.")
@stall_option
@log_options()
def controlplane(*, stall_seconds: float, log_level: str, log_format: str, **given: Any) -> None:
    """Run the embedded control plane: a Kubernetes API for every tenant, under https://HOST:PORT/tenants/NAME.

    The folder contains the store, the server's certificate and admin.kubeconfig, with which 'vcsync tenant create'
    and similar commands reach this process.
    """
    from vcsync.cli.controlplane.process import serve  # noqa: PLC0415  loads the whole control plane

    settings = control_plane_settings(given)
    limit_stalls(stall_seconds, settings.data / STALLS)
    serve(settings, log_level, log_format)


def control_plane_settings(given: Mapping[str, Any]) -> ControlPlaneSettings:
    """Convert the options' values to settings.

    Raises:
        WrongInputError: they contradict each other, or a file cannot be read.
    """
    host, port = parse_listen(given["listen"])
    if not port:
        raise WrongInputError(
            f"--listen {given['listen']!r}: kubeconfigs need a fixed port; give one from 1 to 65535"
        )
    if bool(given["etcd_cert"]) != bool(given["etcd_key"]):
        raise WrongInputError("--etcd-cert and --etcd-key belong together: give both or none")
    advertise = parse_endpoint("--advertise", given["advertise"]) if given["advertise"] else None
    return ControlPlaneSettings(
        data=given["data"],
        listen=(host, port),
        advertise=advertise,
        names=given["names"],
        tenant_domain=_domain_of(given["tenant_domain"], [(advertise or (host, port))[0], *given["names"]]),
        authentication=settings_of(given),
        etcd=_etcd_of(given),
        audit=audit_of(given),
        limits=limits_of(given),
        webhooks=webhooks_of(given),
        kubelets=kubelets_of(given),
        pool=given["pool"],
        streams=stream_limits_of(given),
        admission=given["admission"],
        grants=grants_of(given),
    )


def _domain_of(domain: str, names: Iterable[str]) -> str:
    """Return the domain of tenants' host names.

    Args:
        domain: The value of the option, perhaps nothing.
        names: Host names of the server itself.

    Raises:
        WrongInputError: it is not a domain, or one of the server's own names would be a tenant's.
    """
    if not domain:
        return ""
    if problem := domain_problem(domain):
        raise WrongInputError(f"--tenant-domain {domain!r}: {problem}")
    for name in names:
        if HostNames(domain).covers(name):
            raise WrongInputError(
                f"--tenant-domain {domain!r}: {name!r} would be the host name of a tenant, and it is one of this server; "
                "give tenants a domain of their own"
            )
    return domain


def _etcd_of(given: Mapping[str, Any]) -> Etcd | None:
    if not given["etcd"]:
        return None
    files = (given["etcd_cacert"], given["etcd_cert"], given["etcd_key"])
    return Etcd(given["etcd"], given["etcd_prefix"], *files)
