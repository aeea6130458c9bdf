"""Preparations of `vcsync up` and `vcsync setup` before roles start: spaces, registrations and credentials.

They can be repeated: the next start continues an interrupted one, and certificates are made again each time.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from vcsync.api import crd, rbac
from vcsync.api.objects import VirtualCluster, cluster_key
from vcsync.api.resources import SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from vcsync.cli.command.common import admin_client, note
from vcsync.cli.registration.install import wait_established, write_private
from vcsync.cli.super import commands as supers
from vcsync.cli.up.members import Members
from vcsync.cli.up.memory import Registered
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists, NotFound
from vcsync.registration import accounts, manifests, registered, tenants
from vcsync.registration.clients import stored_client
from vcsync.registration.issued import TENANTS, kubeconfig, role_kubeconfig, role_secrets, super_kubeconfigs
from vcsync.registration.kubeconfigs import Admin

SYSTEM = "system"
SPEC: Mapping[str, Any] = {"weight": 1, "heartbeatSeconds": 120}
"""Fields of tenants. Leases of virtual nodes are renewed rarely, because the syncers share the control plane's process."""


class _Keys(msgspec.Struct):
    files: dict[str, str]


class _Aside(msgspec.Struct):
    aside: str = ""


async def install(server: Client) -> None:
    """Install vcsync's API and the roles' permissions into the system space, which is the meta cluster."""
    definitions = crd.crds()
    await manifests.apply(server, definitions)
    await wait_established(server, [definition["metadata"]["name"] for definition in definitions])
    await manifests.apply(server, rbac.meta_manifests())


async def registered_now(server: Client) -> Registered:
    """Return the registered tenants and super clusters."""
    pool = await server.list(SUPER_CLUSTERS)
    served = [VirtualCluster.from_envelope(each) for each in await server.list(VIRTUAL_CLUSTERS)]
    return Registered(
        tenants=tuple(each.spec.tenant or each.name for each in served if not each.deleting),
        super_clusters=tuple(each.name for each in pool if not each.deleting),
    )


async def add_members(server: Client, members: Members, data: Path, say: Callable[[str], None]) -> None:
    """Register every super cluster and every tenant; write the kubeconfigs of hollow super clusters and tenants.

    A tenant that is set aside stays as it is.
    """
    for super_id in members.hollow:
        write_kubeconfig(data, super_id, await add_embedded_super(server, super_id))
        say(f"super cluster {super_id}: hollow")
    for super_id, admin in members.real.items():
        await add_real_super(server, super_id, admin)
        say(f"super cluster {super_id}: {admin.cluster.server}")
    for tenant in members.tenants:
        if why := await _why_aside(server, tenant):
            say(f"tenant {tenant} is set aside: {why}; 'vcsync tenant release {tenant}' ends that")
            continue
        write_kubeconfig(data, tenant, await add_tenant(server, tenant, {**SPEC, **members.limits}))
        say(f"tenant {tenant}")


async def _why_aside(server: Client, tenant: str) -> str:
    """Return why a tenant is set aside, or an empty text if it is not, or does not exist."""
    with suppress(NotFound):
        return msgspec.json.decode(await server.request("GET", f"{TENANTS}/{tenant}"), type=_Aside).aside
    return ""


def kubeconfig_path(data: Path, space: str) -> Path:
    """Return the path of the kubeconfig of a space's administrator."""
    return data / f"{space}.kubeconfig"


def write_kubeconfig(data: Path, space: str, content: bytes) -> None:
    """Write the kubeconfig of a space's administrator."""
    write_private(kubeconfig_path(data, space), content)


async def make_space(server: Client, name: str, *, nodes: str = "virtual") -> None:
    """Create a control plane if none of that name exists.

    Args:
        server: client of the control plane.
        name: name of the space.
        nodes: `own` for a cluster, `virtual` for a tenant.
    """
    with suppress(AlreadyExists):
        await server.request("POST", TENANTS, body=msgspec.json.encode({"name": name, "nodes": nodes}))


async def keys(server: Client, space: str) -> Mapping[str, str]:
    """Return the keys of a space by file name; their owner can act as anybody in the space."""
    answer = await server.request("GET", f"{TENANTS}/{space}/export")
    return msgspec.json.decode(answer, type=_Keys).files


async def write_role_kubeconfigs(server: Client, folder: Path, roles: Iterable[str]) -> dict[str, str]:
    """Write the roles' kubeconfigs of the meta cluster into an existing folder; return their paths by role."""
    paths: dict[str, str] = {}
    for role in roles:
        path = folder / f"{role}.kubeconfig"
        write_private(path, await role_kubeconfig(server, SYSTEM, role))
        paths[role] = str(path)
    return paths


async def add_embedded_super(
    server: Client, super_id: str, through: Callable[[bytes], bytes] = lambda kubeconfig: kubeconfig
) -> bytes:
    """Register a space as a super cluster of the pool; return its administrator's kubeconfig.

    Args:
        server: client of the control plane.
        super_id: id of the super cluster.
        through: changes the kubeconfig of its syncer.
    """
    await make_space(server, super_id, nodes="own")
    admin = await kubeconfig(server, super_id)

    async def credentials() -> accounts.SuperKubeconfigs:
        made = await super_kubeconfigs(server, super_id)
        return made._replace(syncer=through(made.syncer))

    async with stored_client(admin, super_id) as super_cluster:
        await manifests.apply(super_cluster, rbac.super_manifests())
        if await registered.find_super_cluster(server, super_id) is None:
            await supers.register(server, super_cluster, super_id, {"id": super_id}, credentials)
        else:
            await accounts.store_super_credentials(server, super_id, await credentials())
    return admin


async def add_real_super(server: Client, super_id: str, admin: Admin) -> None:
    """Register a real cluster as a super cluster of the pool."""
    if await registered.find_super_cluster(server, super_id) is not None:
        return
    async with admin_client(admin.path, super_id) as super_cluster:

        async def credentials() -> accounts.SuperKubeconfigs:
            return await accounts.super_kubeconfigs(super_cluster, super_id, admin.cluster, note)

        await supers.register(server, super_cluster, super_id, {"id": super_id}, credentials)


async def add_tenant(server: Client, tenant: str, spec: Mapping[str, Any]) -> bytes:
    """Register a tenant with its own space; return its administrator's kubeconfig."""
    await make_space(server, tenant)
    admin = await kubeconfig(server, tenant)

    async def secrets(root: str) -> list[dict[str, Any]]:
        return await role_secrets(server, tenant, root)

    async with stored_client(admin, tenant) as control_plane:
        await manifests.apply(control_plane, rbac.tenant_manifests())
        known = await registered.find(server, tenant)
        if known is None or known.status.phase != "Running":
            wanted = {"tenant": tenant, **spec}
            await tenants.register(server, control_plane, tenant, wanted, secrets)
        else:
            await manifests.apply(server, await secrets(cluster_key(known)))
    return admin
