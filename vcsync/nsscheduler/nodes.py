"""Deletes the virtual nodes that a super cluster leaves in tenants when it is removed from the pool.

No syncer reports the end of their Pods any more. Without the nodes, Pod garbage collection deletes the Pods.
"""

from collections.abc import Awaitable, Callable, Container
from contextlib import aclosing, suppress

import structlog

from vcsync.api import names
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, Forbidden, NotFound
from vcsync.kube.resources import NODES
from vcsync.objects.envelope import Envelope
from vcsync.tenancy.brake import Count

LOOK_AGAIN_SECONDS = 30.0
"""Seconds until the next check after nodes were found: the super cluster's syncer may still run and create new ones."""
MAX_NODES = 500
"""Largest number of nodes that are deleted in one check. A tenant may label any number of Nodes."""

Permit = Callable[[str, str, Count], Awaitable[None]]
"""Permits the removal of a virtual node, or raises Braked: (super cluster, node, count); see `Absence.require_node`."""

_log = structlog.get_logger(__name__)


async def clear_remains(
    tenant: str, client: Client, meta: Client, known: Container[str], permit: Permit
) -> float | None:
    """Delete a tenant's virtual nodes of removed super clusters, if the tenant's roles allow it; see `clear_nodes`.

    Returns:
        Seconds until the next check; None if nothing is left.

    Raises:
        Braked: the remaining nodes wait for an operator.
    """
    try:
        deleted = await clear_nodes(client, meta, known, permit)
    except Forbidden as error:  # the tenant's roles are of an earlier version
        _log.warning("virtual nodes of removed super clusters may stay", tenant=tenant, error=str(error))
        return None
    if not deleted:
        return None
    _log.info("virtual nodes of removed super clusters deleted", tenant=tenant, nodes=len(deleted))
    return LOOK_AGAIN_SECONDS


async def clear_nodes(tenant: Client, meta: Client, known: Container[str], permit: Permit) -> list[str]:
    """Delete virtual nodes of super clusters that are not in the pool, at most `MAX_NODES`, and return their names.

    Only a list of the meta cluster that is read after the tenant's list proves that a super cluster is gone: one that
    cannot be reached is still in the list. The meta cluster may have lost objects, so each node needs permission.

    Args:
        tenant: the tenant's control plane.
        meta: the meta cluster.
        known: ids of super clusters that are in the cached pool.
        permit: permits the removal of a node.

    Raises:
        Braked: too many nodes would be deleted. Some may have been deleted already.
        KubeError: one of the two did not answer. Some nodes may have been deleted already.
    """
    unknown, seen = await _unknown(tenant, known)
    if not unknown:
        return []
    pool = {found.name for found in await meta.list(SUPER_CLUSTERS)}
    left = [node for node in unknown if _left_by(node) not in pool]
    gone: list[str] = []

    async def count() -> tuple[int, int]:
        return len(left) - len(gone), seen - len(gone)

    for node in left:
        await permit(_left_by(node), node.name, count)
        with suppress(NotFound, Conflict):
            await tenant.delete(NODES, node.name, uid=node.uid)
            gone.append(node.name)
    return gone


async def _unknown(tenant: Client, known: Container[str]) -> tuple[list[Envelope], int]:
    """Return at most `MAX_NODES` virtual nodes of unknown super clusters, and the number of nodes that were examined."""
    found: list[Envelope] = []
    seen = 0
    pages = tenant.metadata_only().pages(NODES, label_selector=f"{names.VIRTUAL_NODE}={names.TRUE}")
    async with aclosing(pages) as each:
        async for page in each:
            seen += sum(bool(_left_by(node)) for node in page.items)
            found += [node for node in page.items if (left_by := _left_by(node)) and left_by not in known]
            if len(found) >= MAX_NODES:
                break
    return found[:MAX_NODES], seen


def _left_by(node: Envelope) -> str:
    """Return the super cluster of a virtual node; "" for other Nodes and those being deleted."""
    super_id = node.labels.get(names.SUPER_CLUSTER_ID, "")
    ours = not node.deleting and names.split_virtual_node(node.name, super_id) is not None
    return super_id if ours else ""
