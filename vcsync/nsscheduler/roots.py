"""Removes the root namespace of a tenant that has left, and with it the kubeconfigs that the roles had of it."""

from __future__ import annotations

import structlog

from vcsync.api import names
from vcsync.api.resources import VIRTUAL_CLUSTERS
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import Conflict, Forbidden, NotFound
from vcsync.kube.resources import NAMESPACES

_log = structlog.get_logger(__name__)


async def remove_root(meta: Client, tenant: str, uid: str) -> None:
    """Delete the root namespace that was made for a VirtualCluster; any other of that name is left alone.

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


async def remove_root_of_none(meta: Client, tenant: str) -> None:
    """Delete a root namespace whose VirtualCluster went without a finalizer; that it has gone is read live.

    Args:
        meta: client of the meta cluster.
        tenant: cluster key.

    Raises:
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
    await _remove(meta, root)


async def _read(meta: Client, tenant: str) -> Envelope | None:
    try:
        root = await meta.get(NAMESPACES, tenant)
    except NotFound:
        return None
    except Forbidden as error:
        _log.warning(
            "root namespace stays: rights of an earlier version; run 'vcsync install' again, then delete the namespace",
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
            "root namespace stays: rights of an earlier version; run 'vcsync install' again, then delete the namespace",
            tenant=root.name,
            error=str(error),
        )
        return
    _log.info("root namespace removed", tenant=root.name)
