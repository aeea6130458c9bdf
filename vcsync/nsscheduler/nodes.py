"""Takes away what a super cluster that left the pool leaves in a tenant: its virtual nodes, which nobody looks after.

As long as they stand, their Pods do, for nobody tells that these have ended; without them Pod garbage collection ends
them.
"""

from collections.abc import Container
from contextlib import aclosing, suppress

import structlog

from vcsync.api import names
from vcsync.api.resources import SUPER_CLUSTERS
from vcsync.kube.client import Client
from vcsync.kube.envelope import Envelope
from vcsync.kube.errors import Conflict, Forbidden, NotFound
from vcsync.kube.resources import NODES

LOOK_AGAIN_SECONDS = 30.0
"""After something was found: the syncer of a removed super cluster may run for a while, and make nodes anew."""
MOST_AT_ONCE = 500
"""Nodes that are taken away before the next look: a tenant may label as many as it likes."""

_log = structlog.get_logger(__name__)


async def clear_remains(tenant: str, client: Client, meta: Client, known: Container[str]) -> float | None:
    """Take a tenant's virtual nodes of removed super clusters away, as far as the tenant lets us; see `clear_nodes`.

    Returns:
        seconds until the next look; None: nothing is left.
    """
    try:
        gone = await clear_nodes(client, meta, known)
    except Forbidden as error:  # the tenant's roles are of an earlier version
        _log.warning("virtual nodes of removed super clusters may stay", tenant=tenant, error=str(error))
        return None
    if not gone:
        return None
    _log.info("virtual nodes of removed super clusters are taken away", tenant=tenant, nodes=len(gone))
    return LOOK_AGAIN_SECONDS


async def clear_nodes(tenant: Client, meta: Client, known: Container[str]) -> list[str]:
    """Delete virtual nodes of super clusters that the pool has no longer, `MOST_AT_ONCE` at most; return their names.

    Only a list of the meta cluster's, read after the tenant's, counts as proof that a super cluster is gone: one that
    cannot be reached is still in it.

    Args:
        tenant: the tenant's control plane.
        meta: the meta cluster.
        known: ids of super clusters that are in the pool for all that is known here.

    Raises:
        KubeError: one of the two did not answer; what is gone is gone.
    """
    unknown = await _unknown(tenant, known)
    if not unknown:
        return []
    pool = {found.name for found in await meta.list(SUPER_CLUSTERS)}
    gone = []
    for node in unknown:
        if _left_by(node) not in pool:
            with suppress(NotFound, Conflict):
                await tenant.delete(NODES, node.name, uid=node.uid)
                gone.append(node.name)
    return gone


async def _unknown(tenant: Client, known: Container[str]) -> list[Envelope]:
    """Return virtual nodes of super clusters that are not known, `MOST_AT_ONCE` at most."""
    found: list[Envelope] = []
    pages = tenant.metadata_only().pages(NODES, label_selector=f"{names.VIRTUAL_NODE}={names.TRUE}")
    async with aclosing(pages) as each:
        async for page in each:
            found += [node for node in page.items if (left_by := _left_by(node)) and left_by not in known]
            if len(found) >= MOST_AT_ONCE:
                break
    return found[:MOST_AT_ONCE]


def _left_by(node: Envelope) -> str:
    """Return the super cluster that a Node stands for; "" if it is no virtual node, or on its way out."""
    super_id = node.labels.get(names.SUPER_CLUSTER_ID, "")
    ours = not node.deleting and names.split_virtual_node(node.name, super_id) is not None
    return super_id if ours else ""
