"""Leads the Service of the placement webhook to this process while it leads, by the EndpointSlice of the Service."""

import asyncio
from collections.abc import Callable

import structlog

from vcsync.api import names
from vcsync.kube.client import Client
from vcsync.kube.errors import KubeError, NotFound
from vcsync.kube.resources import ENDPOINT_SLICES

WRITE_SECONDS = 30.0
"""Seconds between two writes. One that changes nothing stores nothing, and one undoes what somebody else has written."""
RETRY_SECONDS = 2.0
"""Seconds until the next write after one that failed."""
_WHERE = f"EndpointSlice {names.SYSTEM_NAMESPACE}/{names.PLACEMENT_SERVICE}"
_log = structlog.get_logger(__name__)


async def lead_service(meta: Client, address: str, still_held: Callable[[], bool]) -> None:
    """Name this process as the only endpoint of the Service until cancelled.

    The address stays when a term ends: the next leader replaces it. Removing it could undo what that leader has written.

    Args:
        meta: client of the meta cluster.
        address: IP address of this process.
        still_held: returns whether no other process can lead yet. A process that was suspended may have been replaced, and must
            not write before it knows.
    """
    endpoints = {"endpoints": [{"addresses": [address], "conditions": {"ready": True}}]}
    told = ""
    while True:
        if not still_held():
            await asyncio.sleep(RETRY_SECONDS)
            continue
        try:
            await meta.patch(ENDPOINT_SLICES, names.PLACEMENT_SERVICE, endpoints, names.SYSTEM_NAMESPACE)
            problem = ""
        except NotFound:
            problem = f"{_WHERE} does not exist; config/deploy/placement-webhook has it"
        except KubeError as error:
            problem = f"{_WHERE}: {error}"
        if problem and problem != told:
            _log.warning("the Service of the placement webhook may lead elsewhere", error=problem)
        told = problem
        await asyncio.sleep(RETRY_SECONDS if problem else WRITE_SECONDS)
