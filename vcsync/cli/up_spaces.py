"""What `vcsync up` and `vcsync setup` set up before roles start: spaces, their registration and everybody's credentials.

All of it can be repeated: a start that was cut off is gone on with by the next, and certificates are made anew each time.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from vcsync.api import crd, names, rbac
from vcsync.cli import manifests, registered, supers, tenants
from vcsync.cli.common import admin_client, stored_client
from vcsync.cli.embedded import TENANTS
from vcsync.cli.install import wait_established, write_private
from vcsync.cli.issued import kubeconfig, role_kubeconfig, role_secrets
from vcsync.cli.kubeconfigs import Admin
from vcsync.cli.up import Members
from vcsync.kube.client import Client
from vcsync.kube.errors import AlreadyExists

SYSTEM = "system"
SPEC: Mapping[str, Any] = {"weight": 1, "heartbeatSeconds": 120}
"""Of tenants. Whoever shows virtual nodes shares the process with their control plane: nobody else could miss a beat."""
ROLES = "roles"
"""Folder of the roles' kubeconfigs, within that of the data."""


class _Keys(msgspec.Struct):
    files: dict[str, str]


async def install(server: Client) -> None:
    """Put our own API and the roles' rights into the system space, which is the meta cluster."""
    definitions = crd.crds()
    await manifests.apply(server, definitions)
    await wait_established(server, [definition["metadata"]["name"] for definition in definitions])
    await manifests.apply(server, rbac.meta_manifests())


async def add_members(server: Client, members: Members, data: Path, say: Callable[[str], None]) -> None:
    """Have every super cluster in the pool and every tenant served; write the tenants' kubeconfigs."""
    for super_id in members.hollow:
        await add_embedded_super(server, super_id)
        say(f"super cluster {super_id}: hollow")
    for super_id, admin in members.real.items():
        await add_real_super(server, super_id, admin)
        say(f"super cluster {super_id}: {admin.cluster.server}")
    for tenant in members.tenants:
        write_kubeconfig(data, tenant, await add_tenant(server, tenant, dict(SPEC)))
        say(f"tenant {tenant}")


def kubeconfig_path(data: Path, space: str) -> Path:
    """Return where the kubeconfig of a space's administrator is."""
    return data / f"{space}.kubeconfig"


def write_kubeconfig(data: Path, space: str, content: bytes) -> None:
    """Write the kubeconfig of a space's administrator."""
    write_private(kubeconfig_path(data, space), content)


async def make_space(server: Client, name: str, *, nodes: str = "virtual") -> None:
    """Make a control plane of its own, if there is none of that name.

    Args:
        server: client of the control plane.
        name: of the space.
        nodes: `own` for a cluster, `virtual` for a tenant.
    """
    with suppress(AlreadyExists):
        await server.request("POST", TENANTS, body=msgspec.json.encode({"name": name, "nodes": nodes}))


async def keys(server: Client, space: str) -> Mapping[str, str]:
    """Return the keys of a space, by the names of their files; who has them can be anybody there."""
    answer = await server.request("GET", f"{TENANTS}/{space}/export")
    return msgspec.json.decode(answer, type=_Keys).files


async def write_role_kubeconfigs(server: Client, folder: Path, roles: Iterable[str]) -> dict[str, str]:
    """Write the roles' kubeconfigs of the meta cluster into a folder that is there; return their paths by role."""
    paths: dict[str, str] = {}
    for role in roles:
        path = folder / f"{role}.kubeconfig"
        write_private(path, await role_kubeconfig(server, SYSTEM, role))
        paths[role] = str(path)
    return paths


async def add_embedded_super(
    server: Client, super_id: str, through: Callable[[bytes], bytes] = lambda kubeconfig: kubeconfig
) -> None:
    """Have a space be a super cluster of the pool; `through` changes the kubeconfig by which its syncer reaches it."""
    await make_space(server, super_id, nodes="own")
    admin = await kubeconfig(server, super_id)

    async def credentials() -> bytes:
        return through(await role_kubeconfig(server, super_id, names.ROLE_SYNCER))

    async with stored_client(admin, super_id) as super_cluster:
        await manifests.apply(super_cluster, rbac.super_manifests())
        if await supers.find(server, super_id) is None:
            await supers.register(server, super_cluster, super_id, {"id": super_id}, credentials)
        else:
            await supers.store_credentials(server, super_id, await credentials())


async def add_real_super(server: Client, super_id: str, admin: Admin) -> None:
    """Have a real cluster be a super cluster of the pool."""
    if await supers.find(server, super_id) is not None:
        return
    async with admin_client(admin.path, super_id) as super_cluster:

        async def credentials() -> bytes:
            return await supers.make_credentials(super_cluster, super_id, admin.cluster)

        await supers.register(server, super_cluster, super_id, {"id": super_id}, credentials)


async def add_tenant(server: Client, tenant: str, spec: Mapping[str, Any]) -> bytes:
    """Have a tenant with a space of its own served; return its administrator's kubeconfig."""
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
            await manifests.apply(server, await secrets(names.cluster_key(known)))
    return admin
