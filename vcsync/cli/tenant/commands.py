"""`vcsync tenant ...`: manages tenants with control planes of their own."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from vcsync.api import names
from vcsync.api.conditions import Condition
from vcsync.api.names import InvalidName, is_dns_label, new_cluster_key
from vcsync.api.objects import VirtualCluster, to_wire
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.cli.command.common import (
    admin_client,
    as_given_option,
    kubeconfig_option,
    meta_client,
    meta_option,
    note,
    output_option,
    parse_endpoint,
)
from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.command.failover import fail_back_option, failover_option, pod_replacement_option
from vcsync.cli.command.help import example
from vcsync.cli.command.output import amounts, print_objects
from vcsync.cli.command.terminal import say
from vcsync.cli.registration import placement_webhook
from vcsync.cli.registration.renewal import renew_tenant
from vcsync.cli.tenant import archive as archives
from vcsync.cli.tenant import embedded
from vcsync.cli.tenant import kubeconfig as kubeconfigs
from vcsync.cli.tenant import leave as departures
from vcsync.cli.tenant import release as releases
from vcsync.cli.tenant import rotate as rotation
from vcsync.cli.tenant import suspend as suspension
from vcsync.cli.tenant.aside import set_aside
from vcsync.cli.tenant.connect import connect
from vcsync.cli.tenant.dns import dns, dns_image_option, install, new_name_server, with_dns_option
from vcsync.cli.tenant.limits import (
    DEFAULT_QUOTA_HELP,
    FAIL_BACK_HELP,
    FAILOVER_HELP,
    POD_REPLACEMENT_HELP,
    QUOTA_HELP,
    SLICE_HELP,
    WEIGHT_HELP,
    amounts_option,
    failover_of,
    limits_of,
    shown_failover,
)
from vcsync.cli.tenant.metrics import tenant_metrics
from vcsync.cli.tenant.service_cidr import ensure_allocated, require_free, service_cidr_option
from vcsync.cli.tenant.set import set_
from vcsync.registration import manifests
from vcsync.registration.accounts import tenant_secrets
from vcsync.registration.clients import stored_client
from vcsync.registration.cluster_identity import cluster_uid
from vcsync.registration.kubeconfigs import Admin, read_admin
from vcsync.registration.name_server import NameServer
from vcsync.registration.name_server_domain import with_domain
from vcsync.registration.registered import require_tenant, virtual_clusters
from vcsync.registration.tenants import check_control_plane, register
from vcsync.tenancy.credentials import CredentialsReader
from vcsync.tenancy.proof import recorded_uid

CREATING_REASON = "ClusterCreating"
POLL_SECONDS = 1.0

tenant_argument = click.argument("tenant", metavar="NAME")


@click.group(
    name="tenant",
    epilog=example(
        "vcsync tenant create acme --data /var/lib/vcsync",
        "vcsync tenant add umbrella --kubeconfig umbrella.kubeconfig",
        "vcsync tenant list",
    ),
)
def tenants() -> None:
    """Create tenants with embedded control planes; register, list and remove tenants of the pool."""


for command in (
    embedded.create,
    connect,
    embedded.show,
    set_,
    kubeconfigs.kubeconfig,
    rotation.rotate,
    renew_tenant,
    tenant_metrics,
    dns,
    embedded.revoke,
    archives.export,
    archives.import_,
    suspension.suspend,
    suspension.resume,
    releases.release,
    departures.remove,
    departures.delete,
):
    tenants.add_command(command)


@dataclass(frozen=True)
class NewTenant:
    """The operator's options for a new tenant."""

    name: str
    admin: Admin
    as_given: bool
    name_server: NameServer | None
    spec: dict[str, Any]
    """Spec of the VirtualCluster."""
    placement: str | None = None
    """HOST:PORT of the Pod scheduler that its control plane asks about new Pods."""


@tenants.command(
    epilog=example(
        "vcsync tenant add acme --kubeconfig acme.kubeconfig --weight 2 --default-quota cpu=2,memory=4Gi",
        "vcsync tenant add acme --kubeconfig acme.kubeconfig --placement-webhook pods.pool.example:9443",
    )
)
@tenant_argument
@kubeconfig_option
@click.option("--weight", type=click.IntRange(1, 1000), default=1, show_default=True, help=WEIGHT_HELP)
@amounts_option("--default-quota", DEFAULT_QUOTA_HELP)
@amounts_option("--quota", QUOTA_HELP)
@amounts_option("--slice-size", SLICE_HELP)
@failover_option(FAILOVER_HELP)
@fail_back_option(FAIL_BACK_HELP)
@pod_replacement_option(POD_REPLACEMENT_HELP)
@click.option(
    "--api-endpoint",
    metavar="HOST:PORT",
    help="Address of the tenant's API for Pods, if it is not the kubeconfig's server.",
)
@service_cidr_option
@with_dns_option
@dns_image_option
@placement_webhook.placement_webhook_option
@as_given_option
@meta_option
def add(
    *,
    tenant: str,
    kubeconfig: Path,
    weight: int,
    default_quota: tuple[str, ...],
    quota: tuple[str, ...],
    slice_size: tuple[str, ...],
    failover: str | None,
    fail_back: str | None,
    pod_replacement: str | None,
    api_endpoint: str | None,
    service_cidr: str | None,
    with_dns: bool,
    dns_image: str | None,
    placement: str | None,
    as_given: bool,
    meta: str | None,
) -> None:
    """Add a tenant under NAME (a DNS label) with the control plane that the kubeconfig leads to.

    In the tenant's control plane this creates the namespace vcsync-system with one ServiceAccount per role, and in
    the meta cluster the Tenant, its VirtualCluster and a namespace with the roles' credentials. If it is
    interrupted, run it again.
    """
    check_name(tenant)
    spec: dict[str, Any] = {"tenant": tenant, "weight": weight}
    spec |= limits_of(default_quota=default_quota, quota=quota, slice_size=slice_size)
    spec |= failover_of(failover or None)
    if fail_back:
        spec["failBack"] = fail_back
    if pod_replacement:
        spec["podReplacementPolicy"] = pod_replacement
    if api_endpoint:
        host, port = parse_endpoint("--api-endpoint", api_endpoint)
        spec["apiEndpoint"] = {"host": host, "port": port}
    if service_cidr:
        spec["serviceCidr"] = service_cidr
    wanted = new_name_server(with_dns=with_dns, image=dns_image)
    admin = read_admin(kubeconfig, as_given=as_given)
    address = placement_webhook.parse_placement(placement)
    asyncio.run(_add(NewTenant(tenant, admin, as_given, wanted, spec, address), meta))


def check_name(tenant: str) -> None:
    """Refuse a name that is invalid for the objects named after the tenant.

    Raises:
        InvalidName: The name is invalid; the text says why.
    """
    if not is_dns_label(tenant):
        raise InvalidName(
            f"{tenant!r} is not a tenant name: use lower case letters, digits and '-', at most 63 characters"
        )
    # The hash has the same length for every UID.
    new_cluster_key(names.DEFAULT_VC_NAMESPACE, tenant, "any")


async def _add(new: NewTenant, meta: str | None) -> None:
    cluster = new.admin.cluster
    async with meta_client(meta) as meta_cluster, admin_client(new.admin.path, new.name) as control_plane:

        async def secrets(root: str) -> list[dict[str, Any]]:
            if not new.as_given:
                return await tenant_secrets(control_plane, new.name, root, cluster, note)
            # The Secret and its key have the same name (VirtualCluster's convention).
            name = names.ADMIN_KUBECONFIG_SECRET
            return [manifests.secret(root, name, name, new.admin.content)]

        if cidr := new.spec.get("serviceCidr"):
            await require_free(meta_cluster, new.name, cidr)
            await ensure_allocated(control_plane, cidr)

        spec = await with_domain(control_plane, new.spec)
        version, root = await register(meta_cluster, control_plane, new.name, spec, secrets)
        if new.placement is not None:
            await placement_webhook.install(meta_cluster, control_plane, root, new.placement)
        say(f"tenant {new.name} ({version}, {cluster.server}) is served; its root namespace is {root}")
        if new.name_server is not None:
            vc = await require_tenant(meta_cluster, new.name)
            await install(meta_cluster, control_plane, new.name, vc, new.name_server)
    if "defaultQuota" not in new.spec:
        say(
            "next: the tenant creates a ResourceQuota with cpu and memory in a namespace to have it placed, and a LimitRange "
            "with default requests of containers; or set a default quota with 'vcsync tenant set --default-quota'"
        )


@tenants.command(epilog=example("vcsync tenant accept acme"))
@tenant_argument
@meta_option
def accept(tenant: str, meta: str | None) -> None:
    """Accept the control plane that NAME's credentials lead to as the tenant's own.

    The roles serve only the control plane that was registered. Use this command after you have replaced it on purpose,
    or recreated it without its data. Objects that the new one lacks are then deleted from super clusters, as far as
    'vcsync brake release' allows it.
    """
    asyncio.run(_accept(tenant, meta))


async def _accept(tenant: str, meta: str | None) -> None:
    async with meta_client(meta) as meta_cluster:
        vc = await require_tenant(meta_cluster, tenant)
        kubeconfig = await CredentialsReader(meta_cluster, names.ROLE_SYNCER).read(vc)
        async with stored_client(
            kubeconfig, f"{tenant} with the credentials of its syncers"
        ) as control_plane:
            uid = await cluster_uid(control_plane)
            await check_control_plane(meta_cluster, control_plane, vc.name, uid)
        if uid == recorded_uid(vc):
            say(f"tenant {tenant}: this control plane is the registered one; nothing to do")
            return
        patch = {"metadata": {"annotations": {names.CONTROL_PLANE_UID: uid}}}
        await meta_cluster.patch(VIRTUAL_CLUSTERS, vc.name, patch, vc.namespace)
    say(f"tenant {tenant}: the control plane with UID {uid} is its own from now on")


@tenants.command(
    name="list",
    epilog=example(
        "vcsync tenant list -o yaml",
    ),
)
@output_option
@click.option(
    "--all", "everything", is_flag=True, help="With --data: also the operator's space and hollow clusters."
)
@embedded.data_option
@meta_option
def list_(form: str, everything: bool, data: Path | None, meta: str | None) -> None:
    """List the tenants of the pool, or with --data those of an embedded control plane."""
    if everything and data is None:
        raise WrongInputError("--all lists the spaces of an embedded control plane: give --data")
    asyncio.run(
        _list(form, meta) if data is None else embedded.list_(form, data, meta, everything=everything)
    )


HEADER = ("NAME", "PHASE", "WEIGHT", "QUOTA", "DEFAULT QUOTA", "ROOT NAMESPACE")


async def _list(form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        found = await virtual_clusters(client)
        aside = await set_aside(client)
    print_objects(
        [as_plain(vc, aside) for vc in found],
        form,
        HEADER,
        [row(vc, aside) for vc in found],
        names=[name_of(vc) for vc in found],
        more=(WIDE_HEADER, [wide_row(vc, aside) for vc in found]),
    )
    if form == "table":
        for name in sorted({vc.spec.tenant or vc.name for vc in found} & aside.keys()):
            note(f"tenant {name}: {aside[name].message}")


WIDE_HEADER = ("VIRTUALCLUSTER", "SLICE SIZE", "FAILOVER", "FAIL BACK", "MESSAGE")


def name_of(vc: VirtualCluster) -> str:
    """Return the name of a tenant as KIND/NAME."""
    return f"tenant/{vc.spec.tenant or vc.name}"


def wide_row(vc: VirtualCluster, aside: Mapping[str, Condition]) -> tuple[str, ...]:
    """Return the additional columns of a wide table."""
    return (
        f"{vc.namespace}/{vc.name}",
        amounts(vc.spec.slice_size or {}),
        shown_failover(vc.spec.failover),
        vc.spec.fail_back or "",
        _why_aside(vc, aside) or vc.status.message,
    )


def as_plain(vc: VirtualCluster, aside: Mapping[str, Condition]) -> dict[str, Any]:
    """Return a tenant as plain values for JSON and YAML."""
    return {
        "name": vc.spec.tenant or vc.name,
        "virtualCluster": f"{vc.namespace}/{vc.name}",
        "deleting": vc.deleting,
        "aside": _why_aside(vc, aside),
        "spec": to_wire(vc.spec),
        "status": to_wire(vc.status),
    }


def _why_aside(vc: VirtualCluster, aside: Mapping[str, Condition]) -> str:
    """Return why a tenant is set aside; empty: it is not."""
    why = aside.get(vc.spec.tenant or vc.name)
    return "" if why is None else why.message


def _phase(vc: VirtualCluster, aside: Mapping[str, Condition]) -> str:
    if vc.deleting:
        return "Removing"
    if _why_aside(vc, aside):
        return names.SET_ASIDE
    return names.SUSPENDED if vc.spec.suspended else vc.status.phase or "Pending"


def row(vc: VirtualCluster, aside: Mapping[str, Condition]) -> tuple[str, ...]:
    """Format a tenant as a row of the table. `aside`: see `set_aside`."""
    return (
        vc.spec.tenant or vc.name,
        _phase(vc, aside),
        str(vc.spec.weight),
        amounts(vc.spec.quota),
        amounts(vc.spec.default_quota),
        vc.status.cluster_namespace,
    )
