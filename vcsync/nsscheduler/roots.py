"""Removes the objects of a former tenant from the meta cluster: its Tenant, and its root namespace with kubeconfigs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from vcsync.api import names
from vcsync.api.resources import TENANTS, VIRTUAL_CLUSTERS
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, Forbidden, NotFound
from vcsync.kube.resources import NAMESPACES
from vcsync.objects.envelope import Envelope

Permit = Callable[[str], Awaitable[None]]
"""Permits the removal of a tenant, by the UID of its former VirtualCluster, or raises Braked.

See `Absence.require_tenant`.
"""

_log = structlog.get_logger(__name__)


async def remove_root(meta: Client, tenant: str, uid: str) -> None:
    """Delete the root namespace that was created for a VirtualCluster. Another namespace of that name is kept.

    Args:
        meta: client of the meta cluster.
        tenant: cluster key, which is the namespace's name.
        uid: UID of the VirtualCluster.

    Raises:
        KubeError: to be retried.
    """
    root = await _read(meta, tenant)
    if root is not None and root.annotations.get(names.VC_UID) == uid:
        await _remove(meta, root)


async def remove_orphaned_root(meta: Client, tenant: str, permit: Permit) -> None:
    """Delete a root namespace whose VirtualCluster was deleted without a finalizer. Its absence is read live.

    Args:
        meta: client of the meta cluster.
        tenant: cluster key.
        permit: permits the removal.

    Raises:
        Braked: the removal waits for an operator.
        KubeError: to be retried.
    """
    root = await _read(meta, tenant)
    if root is None:
        return
    owner = root.annotations
    name, namespace = owner.get(names.VC_NAME, ""), owner.get(names.VC_NAMESPACE, "")
    if not name or not namespace or not owner.get(names.VC_UID):
        return
    try:
        if (await meta.get(VIRTUAL_CLUSTERS, name, namespace)).uid == owner[names.VC_UID]:
            return
    except NotFound:
        pass
    await permit(owner[names.VC_UID])
    await remove_record(meta, name, owner[names.VC_UID])
    await _remove(meta, root)


async def remove_record(meta: Client, name: str, uid: str) -> None:
    """Delete the Tenant that was created for a VirtualCluster. Another Tenant of that name is kept.

    Args:
        meta: client of the meta cluster.
        name: the Tenant's name.
        uid: UID of the VirtualCluster, which `vcsync tenant add` notes on the Tenant.

    Raises:
        KubeError: to be retried.
    """
    try:
        record = await meta.get(TENANTS, name)
        if record.annotations.get(names.VC_UID) != uid or record.deleting:
            return
        await meta.delete(TENANTS, name, uid=record.uid)
    except (NotFound, Conflict):
        return
    except Forbidden as error:
        _log.warning(
            "Tenant not removed: outdated permissions; run 'vcsync install' again, then delete the Tenant",
            tenant=name,
            error=str(error),
        )
        return
    _log.info("Tenant removed", tenant=name)


async def _read(meta: Client, tenant: str) -> Envelope | None:
    try:
        root = await meta.get(NAMESPACES, tenant)
    except NotFound:
        return None
    except Forbidden as error:
        _log.warning(
            "root namespace not removed: outdated permissions; run 'vcsync install' again, then delete the namespace",
            tenant=tenant,
            error=str(error),
        )
        return None
    return root if root.annotations.get(names.VC_ROOT_NAMESPACE) == names.TRUE and not root.deleting else None


async def _remove(meta: Client, root: Envelope) -> None:
    try:
        await meta.delete(NAMESPACES, root.name, uid=root.uid)
    except (NotFound, Conflict):
        return
    except Forbidden as error:
        _log.warning(
            "root namespace not removed: outdated permissions; run 'vcsync install' again, then delete the namespace",
            tenant=root.name,
            error=str(error),
        )
        return
    _log.info("root namespace removed", tenant=root.name)
