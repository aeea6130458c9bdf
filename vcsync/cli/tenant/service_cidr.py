"""A tenant's range of cluster IPs: the option `--service-cidr`, and the ServiceCIDR in its control plane."""

import re
from collections.abc import Iterable
from typing import Any

import click
from msgspec import Struct

from vcsync.api.objects import VirtualCluster
from vcsync.api.rbac import PART_OF, PROJECT
from vcsync.cli.command.common import note
from vcsync.cli.command.errors import FailedError
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import SERVICE_CIDRS
from vcsync.objects.address_ranges import address_ranges
from vcsync.objects.envelope import Envelope, decode
from vcsync.registration import manifests
from vcsync.registration.registered import virtual_clusters


class _Cidrs(Struct):
    cidrs: tuple[str, ...] = ()


def _parsed(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Check a range.

    Raises:
        BadParameter: it is no range.
    """
    if text and not address_ranges(text):
        raise click.BadParameter(
            f"{text!r} is no range of addresses: give one such as 10.64.0.0/20, or one of each IP family with a comma between"
        )
    return text


service_cidr_option = click.option(
    "--service-cidr",
    metavar="CIDR[,CIDR]",
    callback=_parsed,
    help="Range of the cluster IPs of the tenant's control plane, or one of each IP family, no address of which another tenant "
    "has: copies of its Services keep them in super clusters that publish a ServiceCIDR with the range. '' for none.",
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
    wanted = address_ranges(cidr)
    for vc in found:
        name = vc.spec.tenant or vc.name
        if name == tenant:
            continue
        for other in address_ranges(vc.spec.service_cidr):
            if any(each.version == other.version and each.overlaps(other) for each in wanted):
                return f"tenant {name} has {other}"
    return ""


async def ensure_allocated(control_plane: Client, cidr: str) -> None:
    """Have a tenant's control plane allocate cluster IPs from its range, and no longer from one that it had before.

    Raises:
        KubeError: the control plane refuses it.
    """
    try:
        found = await control_plane.list(SERVICE_CIDRS)
    except NotFound:
        note(
            f"the control plane has no ServiceCIDRs: --service-cluster-ip-range of its kube-apiserver must be {cidr}"
        )
        return
    for each in found:
        if each.labels.get(PART_OF) == PROJECT and ranges_of(each) != tuple(cidr.split(",")):
            await manifests.delete_if_there(control_plane, SERVICE_CIDRS, each.name)
    if not has_range(found, cidr):
        await manifests.apply(control_plane, [manifest(cidr)])


def ranges_of(service_cidr: Envelope) -> tuple[str, ...]:
    """Return the ranges of a ServiceCIDR. Pure."""
    return decode(service_cidr.spec, _Cidrs).cidrs if service_cidr.spec else ()


def has_range(service_cidrs: Iterable[Envelope], cidr: str) -> bool:
    """Return whether a control plane allocates from exactly a range. From a larger one, it would choose other addresses. Pure."""
    wanted = set(address_ranges(cidr))
    return any(
        wanted <= {one for text in ranges_of(each) for one in address_ranges(text)}
        for each in service_cidrs
        if not each.deleting
    )


def manifest(cidr: str) -> dict[str, Any]:
    """Return the ServiceCIDR of a tenant's range. Its ranges cannot change, so its name contains them. Pure."""
    name = "vcsync-" + re.sub("[^0-9a-f]+", "-", cidr.lower())
    return {
        "apiVersion": SERVICE_CIDRS.api_version,
        "kind": SERVICE_CIDRS.kind,
        "metadata": {"name": name, "labels": {PART_OF: PROJECT}},
        "spec": {"cidrs": cidr.split(",")},
    }
