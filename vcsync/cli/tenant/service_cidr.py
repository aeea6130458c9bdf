"""The option `--service-cidr` of commands that add or change a tenant: its range of cluster IPs."""

from collections.abc import Iterable

import click

from vcsync.api.objects import VirtualCluster
from vcsync.cli.command.errors import FailedError
from vcsync.kube.client import Client
from vcsync.objects.address_ranges import address_range
from vcsync.registration.registered import virtual_clusters


def _parsed(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Check a range.

    Raises:
        BadParameter: it is no range.
    """
    if text and address_range(text) is None:
        raise click.BadParameter(f"{text!r} is no range of addresses: give one such as 10.64.0.0/20")
    return text


service_cidr_option = click.option(
    "--service-cidr",
    metavar="CIDR",
    callback=_parsed,
    help="Range of the cluster IPs of the tenant's control plane, no address of which another tenant has: copies of its "
    "Services keep them in super clusters that publish a ServiceCIDR with the range. '' for none.",
)


async def require_free(meta_cluster: Client, tenant: str, cidr: str) -> None:
    """Refuse a range that another tenant has addresses of.

    Raises:
        FailedError: one has; the text names it.
        KubeError: the meta cluster cannot be asked.
    """
    if owner := owner_of(cidr, tenant, await virtual_clusters(meta_cluster)):
        raise FailedError(f"--service-cidr {cidr}: {owner}; choose a range that does not overlap it")


def owner_of(cidr: str, tenant: str, found: Iterable[VirtualCluster]) -> str:
    """Return which other tenant has addresses of a range, and its range; "" if none has. Pure."""
    wanted = address_range(cidr)
    for vc in found:
        name, other = vc.spec.tenant or vc.name, address_range(vc.spec.service_cidr)
        if wanted is None or other is None or name == tenant or wanted.version != other.version:
            continue
        if wanted.overlaps(other):
            return f"tenant {name} has {other}"
    return ""
