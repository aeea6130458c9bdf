"""`vcsync tenant ...`: tenants with control planes of their own."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from vcsync.api import names, rbac
from vcsync.api.fields import PositiveQuantity, Quantity
from vcsync.api.names import InvalidName, cluster_key, is_dns_label, new_cluster_key
from vcsync.api.objects import VirtualCluster, to_wire
from vcsync.api.resources import TENANTS, VIRTUAL_CLUSTERS
from vcsync.cli import departures, embedded, manifests, rotation
from vcsync.cli.common import (
    admin_client,
    as_given_option,
    kubeconfig_option,
    meta_client,
    meta_option,
    output_option,
    parse_amounts,
    parse_endpoint,
    require_slice,
    stored_client,
    timestamp,
)
from vcsync.cli.errors import FailedError, WrongInputError
from vcsync.cli.help import example
from vcsync.cli.identity import cluster_uid, super_cluster_info
from vcsync.cli.kubeconfigs import Admin, read_admin, with_token
from vcsync.cli.output import amounts, print_objects
from vcsync.cli.registered import require_tenant, super_cluster_of, virtual_clusters
from vcsync.cli.tokens import tokens_of, wait_until_usable
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists
from vcsync.kube.kubeconfig import Cluster
from vcsync.kube.resources import NAMESPACES
from vcsync.tenancy.credentials import CredentialsReader

RUNNING_REASON = "TenantControlPlaneRunning"
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
    embedded.show,
    embedded.set_,
    embedded.kubeconfig,
    rotation.rotate,
    embedded.revoke,
    embedded.export,
    departures.remove,
    departures.delete,
):
    tenants.add_command(command)


@dataclass(frozen=True)
class Wish:
    """What the operator wants of a new tenant."""

    name: str
    admin: Admin
    as_given: bool
    spec: dict[str, Any]
    """Of the VirtualCluster."""


@tenants.command(
    epilog=example(
        "vcsync tenant add acme --kubeconfig acme.kubeconfig --weight 2 --default-quota cpu=2,memory=4Gi",
    )
)
@tenant_argument
@kubeconfig_option
@click.option(
    "--weight",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Share of the syncers' work, relative to other tenants.",
)
@click.option(
    "--default-quota",
    multiple=True,
    metavar="RESOURCE=AMOUNT",
    help="Quota of namespaces without a ResourceQuota (cpu=2,memory=4Gi); without it they are not placed.",
)
@click.option(
    "--quota",
    multiple=True,
    metavar="RESOURCE=AMOUNT",
    help="Cap over all namespaces together, whatever the tenant asks for.",
)
@click.option(
    "--slice-size", multiple=True, metavar="RESOURCE=AMOUNT", help="Default slice (cpu=2,memory=4Gi)."
)
@click.option(
    "--api-endpoint",
    metavar="HOST:PORT",
    help="Where Pods find the tenant's API, if not at the kubeconfig's server.",
)
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
    api_endpoint: str | None,
    as_given: bool,
    meta: str | None,
) -> None:
    """Add a tenant under NAME (a DNS label) with the control plane that the kubeconfig leads to.

    In the tenant's control plane this makes the namespace vcsync-system with one ServiceAccount for each
    role; in the meta cluster the Tenant, its VirtualCluster and a namespace with the roles' credentials. If
    it is cut off half way, run it again.
    """
    check_name(tenant)
    spec: dict[str, Any] = {"tenant": tenant, "weight": weight}
    for field, option, texts, kind in (
        ("defaultQuota", "--default-quota", default_quota, Quantity),
        ("quota", "--quota", quota, Quantity),
        ("sliceSize", "--slice-size", slice_size, PositiveQuantity),
    ):
        if texts:
            spec[field] = parse_amounts(option, texts, kind=kind)
    if slice_size:
        require_slice("--slice-size", spec["sliceSize"])
    if api_endpoint:
        host, port = parse_endpoint("--api-endpoint", api_endpoint)
        spec["apiEndpoint"] = {"host": host, "port": port}
    admin = read_admin(kubeconfig, as_given=as_given)
    asyncio.run(_add(Wish(tenant, admin, as_given, spec), meta))


def check_name(tenant: str) -> None:
    """Refuse a name that would not do for all the objects named after the tenant.

    Raises:
        InvalidName: It would not; the text says why.
    """
    if not is_dns_label(tenant):
        raise InvalidName(
            f"{tenant!r} is no tenant name: use lower case letters, digits and '-', at most 63 of them"
        )
    new_cluster_key(names.DEFAULT_VC_NAMESPACE, tenant, "any")  # the hash has the same length for every UID


async def _add(wish: Wish, meta: str | None) -> None:
    cluster = wish.admin.cluster
    async with meta_client(meta) as meta_cluster, admin_client(wish.admin.path, wish.name) as control_plane:

        async def secrets(root: str) -> list[dict[str, Any]]:
            if not wish.as_given:
                return await _make_credentials(control_plane, wish.name, root, cluster)
            name = names.ADMIN_KUBECONFIG_SECRET  # of its key, too (VirtualCluster's convention)
            return [manifests.secret(root, name, name, wish.admin.content)]

        version, root = await register(meta_cluster, control_plane, wish.name, wish.spec, secrets)
    click.echo(f"tenant {wish.name} ({version}, {cluster.server}) is served; its root namespace is {root}")
    if "defaultQuota" not in wish.spec:
        click.echo(
            "next: the tenant puts a ResourceQuota with cpu and memory into a namespace to have it placed"
        )


async def register(
    meta_cluster: Client,
    control_plane: Client,
    tenant: str,
    spec: dict[str, Any],
    secrets: Callable[[str], Awaitable[list[dict[str, Any]]]],
) -> tuple[str, str]:
    """Have a tenant served; return its control plane's version and its root namespace.

    Args:
        meta_cluster: where tenants are recorded.
        control_plane: the tenant's, as its administrator.
        tenant: its name.
        spec: of the VirtualCluster.
        secrets: makes the Secrets with the roles' credentials, for the root namespace.

    Raises:
        FailedError: it is registered already, or the control plane is something else.
    """
    version: str = (await control_plane.version()).get("gitVersion", "")
    uid = await cluster_uid(control_plane)
    await _check_control_plane(meta_cluster, control_plane, tenant, uid)
    vc = await _ensure_records(meta_cluster, tenant, spec, uid)
    root = cluster_key(vc)
    await manifests.apply(meta_cluster, [_root_namespace(vc, root), *await secrets(root)])
    await _set_running(meta_cluster, vc, root)
    return version, root


async def _check_control_plane(meta_cluster: Client, control_plane: Client, tenant: str, uid: str) -> None:
    """Refuse a control plane that already is something else: roles of two tenants would fight over it."""
    if uid == await cluster_uid(meta_cluster):
        raise FailedError(
            "the kubeconfig leads to the meta cluster; a tenant is administrator of its control plane and "
            "could rewrite the ledger: give the tenant a control plane of its own"
        )
    found = await super_cluster_info(control_plane)
    if found is not None and found[1].get(names.SUPER_CLUSTER_INFO_KEY):
        raise FailedError(
            f"the kubeconfig leads to super cluster {found[1][names.SUPER_CLUSTER_INFO_KEY]!r}; a tenant is "
            "administrator of its control plane: give the tenant one of its own"
        )
    other = await super_cluster_of(meta_cluster, uid)
    if other is not None:
        raise FailedError(
            f"the kubeconfig leads to super cluster {other!r}; a tenant is administrator of its control plane: "
            "give the tenant one of its own"
        )
    for vc in await virtual_clusters(meta_cluster):
        same = vc.annotations.get(names.CONTROL_PLANE_UID) == uid
        if same and (vc.namespace, vc.name) != (names.DEFAULT_VC_NAMESPACE, tenant):
            raise FailedError(
                f"the kubeconfig leads to the control plane of tenant {vc.spec.tenant or vc.name}"
            )


async def _ensure_records(
    meta_cluster: Client, tenant: str, spec: dict[str, Any], uid: str
) -> VirtualCluster:
    """Create Tenant and VirtualCluster, or go on with those of an attempt that was cut off."""
    tenant_spec = {"weight": spec["weight"]}
    if "quota" in spec:
        tenant_spec["quota"] = spec["quota"]
    body = {
        "metadata": {
            "name": tenant,
            "namespace": names.DEFAULT_VC_NAMESPACE,
            "annotations": {names.CONTROL_PLANE_UID: uid},
            "finalizers": [names.VIRTUAL_CLUSTER_DRAIN_FINALIZER],
        },
        "spec": spec,
    }
    try:
        await meta_cluster.create(TENANTS, {"metadata": {"name": tenant}, "spec": tenant_spec})
    except AlreadyExists:
        await meta_cluster.patch(TENANTS, tenant, {"spec": tenant_spec})
    try:
        return VirtualCluster.from_envelope(
            await meta_cluster.create(VIRTUAL_CLUSTERS, body, names.DEFAULT_VC_NAMESPACE)
        )
    except AlreadyExists:
        pass
    vc = await require_tenant(meta_cluster, tenant)
    if vc.deleting:
        raise FailedError(
            f"tenant {tenant} is being removed; wait for 'vcsync tenant remove {tenant}' to end"
        )
    if vc.status.phase == "Running":
        raise FailedError(
            f"tenant {tenant} is registered already; 'vcsync tenant remove {tenant}' removes it"
        )
    if vc.annotations.get(names.CONTROL_PLANE_UID, uid) != uid:
        raise FailedError(
            f"an earlier 'tenant add {tenant}' was cut off and had another control plane; "
            f"run 'vcsync tenant remove {tenant}' first"
        )
    patch = {"metadata": {"annotations": {names.CONTROL_PLANE_UID: uid}}, "spec": spec}
    return VirtualCluster.from_envelope(
        await meta_cluster.patch(VIRTUAL_CLUSTERS, tenant, patch, names.DEFAULT_VC_NAMESPACE)
    )


def _root_namespace(vc: VirtualCluster, root: str) -> dict[str, Any]:
    annotations = {
        names.VC_NAME: vc.name,
        names.VC_NAMESPACE: vc.namespace,
        names.VC_UID: vc.uid,
        names.VC_ROOT_NAMESPACE: names.TRUE,
    }
    return manifests.namespace(root, annotations)


async def _make_credentials(
    control_plane: Client, tenant: str, root: str, cluster: Cluster
) -> list[dict[str, Any]]:
    """Make the roles' ServiceAccounts in the control plane and return the Secrets with their kubeconfigs."""
    await manifests.apply(control_plane, rbac.tenant_manifests())
    accounts = {role: names.service_account(role) for role in names.ROLES}
    tokens = await tokens_of(control_plane, list(accounts.values()), names.SYSTEM_NAMESPACE)
    secrets = []
    for role, account in accounts.items():
        kubeconfig = with_token(cluster, name=tenant, user=account, token=tokens[account])
        async with stored_client(kubeconfig, f"{tenant} with the credentials of {role}") as client:
            await wait_until_usable(client, NAMESPACES.path())
        secrets.append(manifests.secret(root, names.role_secret(role), names.KUBECONFIG_KEY, kubeconfig))
    return secrets


async def _set_running(meta_cluster: Client, vc: VirtualCluster, root: str) -> None:
    message = "credentials are stored and accepted"
    now = timestamp()
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": RUNNING_REASON,
        "message": message,
        "lastTransitionTime": now,
    }
    status = {
        "phase": "Running",
        "clusterNamespace": root,
        "reason": RUNNING_REASON,
        "message": message,
        "conditions": [condition],
    }
    await meta_cluster.patch(
        VIRTUAL_CLUSTERS, vc.name, {"status": status}, vc.namespace, subresource="status"
    )


@tenants.command(epilog=example("vcsync tenant accept acme"))
@tenant_argument
@meta_option
def accept(tenant: str, meta: str | None) -> None:
    """Take the control plane that NAME's credentials lead to now for the tenant's own.

    Its roles serve no other control plane than the one that was registered. After it has been replaced on purpose, or made
    anew without its data, this says that it is right. What the new one does not have then goes from super clusters, as far
    as 'vcsync brake release' lets it.
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
            await _check_control_plane(meta_cluster, control_plane, vc.name, uid)
        if uid == vc.annotations.get(names.CONTROL_PLANE_UID):
            click.echo(f"tenant {tenant}: it is the control plane that was registered; nothing to do")
            return
        patch = {"metadata": {"annotations": {names.CONTROL_PLANE_UID: uid}}}
        await meta_cluster.patch(VIRTUAL_CLUSTERS, vc.name, patch, vc.namespace)
    click.echo(f"tenant {tenant}: the control plane with UID {uid} is its own from now on")


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
        raise WrongInputError("--all is about the spaces of an embedded control plane: give --data")
    asyncio.run(
        _list(form, meta) if data is None else embedded.list_(form, data, meta, everything=everything)
    )


HEADER = ("NAME", "PHASE", "WEIGHT", "QUOTA", "DEFAULT QUOTA", "ROOT NAMESPACE")


async def _list(form: str, meta: str | None) -> None:
    async with meta_client(meta) as client:
        found = await virtual_clusters(client)
    print_objects([as_plain(vc) for vc in found], form, HEADER, [row(vc) for vc in found])


def as_plain(vc: VirtualCluster) -> dict[str, Any]:
    """Return a tenant as plain values for JSON and YAML."""
    return {
        "name": vc.spec.tenant or vc.name,
        "virtualCluster": f"{vc.namespace}/{vc.name}",
        "deleting": vc.deleting,
        "spec": to_wire(vc.spec),
        "status": to_wire(vc.status),
    }


def row(vc: VirtualCluster) -> tuple[str, ...]:
    """Return a tenant as a line of the table."""
    return (
        vc.spec.tenant or vc.name,
        "Removing" if vc.deleting else vc.status.phase or "Pending",
        str(vc.spec.weight),
        amounts(vc.spec.quota),
        amounts(vc.spec.default_quota),
        vc.status.cluster_namespace,
    )
