"""Clients from kubeconfigs that are stored in Secrets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vcsync.kube.client import Client
from vcsync.kube.connection import Connection

FIELD_MANAGER = "vcsync/cli"
CALL_TIMEOUT = 15.0
"""Timeout of a single API call, in seconds."""


@asynccontextmanager
async def stored_client(kubeconfig: bytes, name: str) -> AsyncIterator[Client]:
    """Open a client from a kubeconfig that is, or will be, in a Secret.

    Args:
        kubeconfig: the kubeconfig.
        name: name of the cluster in errors.
    """
    connection = Connection.from_kubeconfig_bytes(kubeconfig)
    async with Client(connection, name=name, field_manager=FIELD_MANAGER, timeout=CALL_TIMEOUT) as client:
        yield client
