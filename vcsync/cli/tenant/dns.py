"""`vcsync tenant dns`: runs an unmodified CoreDNS as the name server of a tenant, upgrades and removes it."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from vcsync.api import names
from vcsync.api.objects import VirtualCluster
from vcsync.api.rbac import PART_OF, PROJECT
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.api.specs import VirtualClusterSpec
from vcsync.cli.command.common import admin_client, kubeconfig_option, meta_client, meta_option, note
from vcsync.cli.command.errors import FailedError, WrongInputError
from vcsync.cli.command.help import example
from vcsync.cli.command.terminal import say
from vcsync.cli.tenant.service_cidr import ensure_allocated
from vcsync.kube.client import Client
from vcsync.kube.errors import NotFound
from vcsync.kube.resources import NAMESPACES, RESOURCE_QUOTAS
from vcsync.registration import manifests, name_server
from vcsync.registration.cluster_identity import cluster_uid
from vcsync.registration.kubeconfigs import read_admin
from vcsync.registration.name_server import NameServer
from vcsync.registration.registered import require_tenant
from vcsync.scheduling.slices import DIMENSIONS
from vcsync.tenancy.proof import recorded_uid

MOST_REPLICAS = 10
MOST_IMAGE = 512
"""Characters of an image."""

with_dns_option = click.option(
    "--dns",
    "with_dns",
    is_flag=True,
    help="Also run CoreDNS in its kube-system, as 'vcsync tenant dns' does.",
)
dns_image_option = click.option(
    "--dns-image",
    metavar="IMAGE",
    help=f"With --dns: image of CoreDNS (default: {name_server.DEFAULT_IMAGE}).",
)


def new_name_server(*, with_dns: bool, image: str | None) -> NameServer | None:
    """Return the name server that the options for a new tenant ask for; None: none.

    Raises:
        WrongInputError: an image is given for no name server, or none is in it.
    """
    if not with_dns:
        if image is not None:
            raise WrongInputError("--dns-image is the image of the tenant's name server: give --dns, too")
        return None
    return NameServer() if image is None else NameServer(image=_checked_image(image))


def _checked_image(image: str) -> str:
    """Return an image.

    Raises:
        WrongInputError: it names none.
    """
    if not image or len(image) > MOST_IMAGE or any(each.isspace() for each in image):
        raise WrongInputError(
            f"{image!r} is no image of CoreDNS: give one such as {name_server.DEFAULT_IMAGE}"
        )
    return image


@click.command(
    epilog=example(
        "vcsync tenant dns acme --kubeconfig acme.kubeconfig",
        "vcsync tenant dns acme --kubeconfig acme.kubeconfig --image registry.example.com/coredns:v1.14.2 --replicas 3",
        "vcsync tenant dns acme --kubeconfig acme.kubeconfig --off",
    ),
)
@click.argument("tenant", metavar="NAME")
@kubeconfig_option
@click.option(
    "--image", default=name_server.DEFAULT_IMAGE, show_default=True, metavar="IMAGE", help="Image of CoreDNS."
)
@click.option(
    "--replicas",
    type=click.IntRange(1, MOST_REPLICAS),
    default=name_server.DEFAULT_REPLICAS,
    show_default=True,
    help="Number of its Pods.",
)
@click.option("--off", is_flag=True, help="Remove it.")
@meta_option
def dns(*, tenant: str, kubeconfig: Path, image: str, replicas: int, off: bool, meta: str | None) -> None:
    """Run CoreDNS in kube-system of the tenant NAME, as the name server of its Pods. Run it again to upgrade.

    It gets a ResourceQuota in kube-system, unless there is one or the tenant has a default quota. The VirtualCluster's
    clusterDomain is its domain, cluster.local unless set.
    """
    admin = read_admin(kubeconfig)
    wanted = NameServer(image=_checked_image(image), replicas=replicas)
    asyncio.run(_dns(tenant, admin.path, wanted, meta, off=off))


async def _dns(tenant: str, kubeconfig: Path, wanted: NameServer, meta: str | None, *, off: bool) -> None:
    async with meta_client(meta) as meta_cluster, admin_client(kubeconfig, tenant) as control_plane:
        vc = await require_tenant(meta_cluster, tenant)
        await _require_its_own(control_plane, vc, tenant)
        if off:
            await _remove(control_plane, tenant, wanted)
        else:
            await install(meta_cluster, control_plane, tenant, vc, wanted)


async def _require_its_own(control_plane: Client, vc: VirtualCluster, tenant: str) -> None:
    """Refuse a kubeconfig that leads to another cluster.

    Raises:
        FailedError: it does.
    """
    known = recorded_uid(vc)
    if known and await cluster_uid(control_plane) != known:
        raise FailedError(f"the kubeconfig does not lead to the control plane of tenant {tenant}")


async def install(
    meta_cluster: Client,
    control_plane: Client,
    tenant: str,
    vc: VirtualCluster | None,
    wanted: NameServer,
) -> None:
    """Create a tenant's name server, or make it as wanted.

    Args:
        meta_cluster: client of the meta cluster.
        control_plane: client of the tenant's control plane, as its administrator.
        tenant: name of the tenant.
        vc: the tenant's VirtualCluster; None: the tenant is in no pool yet. It gets the domain when it is registered.
        wanted: the operator's choices; the domain is that of the VirtualCluster if it has one.

    Raises:
        FailedError: the tenant has a name server of its own. Nothing was changed.
        KubeError: a cluster refused a write. Repeat the call to continue.
    """
    spec = VirtualClusterSpec() if vc is None else vc.spec
    wanted = replace(wanted, domain=spec.cluster_domain or wanted.domain)
    objects = name_server.manifests(wanted)
    if others := await _others(control_plane, objects):
        raise FailedError(
            f"tenant {tenant} has a name server of its own, which stays: {', '.join(others)}; delete these objects first to "
            "replace it"
        )
    if vc is not None and not spec.cluster_domain:
        patch = {"spec": {"clusterDomain": wanted.domain}}
        await meta_cluster.patch(VIRTUAL_CLUSTERS, vc.name, patch, vc.namespace)
    if await _needs_quota(control_plane, spec.default_quota):
        await _slice(control_plane)
        objects = [name_server.quota(wanted), *objects]
    if spec.service_cidr:
        await ensure_allocated(control_plane, spec.service_cidr)
    await manifests.apply(control_plane, objects)
    say(f"tenant {tenant} has the name server {wanted.image} for {wanted.domain}")
    if not spec.service_cidr:
        note(
            f"tenant {tenant} has no range of cluster IPs: addresses of its Services are wrong in super clusters until it has "
            f"one: 'vcsync tenant {'add' if vc is None else 'set'} --service-cidr'"
        )


async def _others(control_plane: Client, objects: Iterable[name_server.Manifest]) -> list[str]:
    """Return the objects of the name server's names that somebody else has made, as KIND NAME."""
    found = []
    for each in objects:
        metadata = each["metadata"]
        with suppress(NotFound):
            live = await control_plane.get(
                manifests.resource_of(each), metadata["name"], metadata.get("namespace", "")
            )
            if live.labels.get(PART_OF) != PROJECT:
                found.append(f"{each['kind']} {live.name}")
    return found


async def _needs_quota(control_plane: Client, default_quota: Mapping[str, object]) -> bool:
    """Return whether nothing else gives slices to kube-system."""
    if set(DIMENSIONS) <= set(default_quota):
        return False
    quotas = await control_plane.list(RESOURCE_QUOTAS, names.TENANT_DNS_NAMESPACE)
    return all(each.labels.get(PART_OF) == PROJECT for each in quotas)


async def _slice(control_plane: Client) -> None:
    """Have slices of kube-system be as large as a Pod of the name server, unless the tenant has chosen their size."""
    namespace = await control_plane.get(NAMESPACES, names.TENANT_DNS_NAMESPACE)
    if names.SLICE not in namespace.annotations:
        annotations = {names.SLICE: _slice_text()}
        patch = {"metadata": {"uid": namespace.uid, "annotations": annotations}}
        await control_plane.patch(NAMESPACES, namespace.name, patch)


def _slice_text() -> str:
    return msgspec.json.encode(name_server.slice_size()).decode()


async def _remove(control_plane: Client, tenant: str, wanted: NameServer) -> None:
    objects = [name_server.quota(wanted), *name_server.manifests(wanted)]
    left = await manifests.delete_marked(control_plane, objects, PART_OF, PROJECT)
    namespace = await control_plane.get(NAMESPACES, names.TENANT_DNS_NAMESPACE)
    if namespace.annotations.get(names.SLICE) == _slice_text():
        patch = {"metadata": {"uid": namespace.uid, "annotations": {names.SLICE: None}}}
        await control_plane.patch(NAMESPACES, namespace.name, patch)
    say(f"the name server of tenant {tenant} is removed")
    if left:
        note(f"left alone, as others have made them: {', '.join(left)}")
