"""Limits of one process and of the storage of each tenant."""

from dataclasses import dataclass, field

from vcsync.apiserver.flow.dispatcher import Bounds
from vcsync.apiserver.registry.history_limit import MAX_HISTORY_BYTES
from vcsync.apiserver.registry.storage_limit import MAX_BYTES, MAX_OBJECTS
from vcsync.apiserver.serving.connections import MAX_CONNECTIONS
from vcsync.process.listener import CONNECTIONS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a control plane.

    Attributes:
        flow: Limits of concurrent requests.
        connections: Connections of the process.
        connection_rate: Connections that one address may open per second. 0: unlimited.
        storage_bytes: Bytes that a tenant may store. 0: unlimited.
        storage_objects: Objects that a tenant may store. 0: unlimited.
        history_bytes: Bytes that a tenant may overwrite and delete while the store keeps history. 0: unlimited.
    """

    flow: Bounds = field(default_factory=Bounds)
    connections: int = MAX_CONNECTIONS
    connection_rate: float = CONNECTIONS_PER_SECOND
    storage_bytes: int = MAX_BYTES
    storage_objects: int = MAX_OBJECTS
    history_bytes: int = MAX_HISTORY_BYTES
