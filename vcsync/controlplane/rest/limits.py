"""What one process serves at most, and what each tenant may keep of it."""

from dataclasses import dataclass, field

from vcsync.controlplane.flow.gate import Bounds
from vcsync.controlplane.rest.connections import MAX_CONNECTIONS
from vcsync.controlplane.rest.history import MOST_BYTES
from vcsync.controlplane.rest.listener import RATE
from vcsync.controlplane.rest.storage_limit import MAX_BYTES, MAX_OBJECTS


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a control plane.

    Attributes:
        flow: how much goes on at once.
        connections: how many there may be.
        connection_rate: how many one address may open per second; 0: any number.
        storage_bytes: that a tenant may keep; 0: any number.
        storage_objects: that a tenant may keep; 0: any number.
        history_bytes: that a tenant may overwrite and delete while history is kept; 0: any number.
    """

    flow: Bounds = field(default_factory=Bounds)
    connections: int = MAX_CONNECTIONS
    connection_rate: float = RATE
    storage_bytes: int = MAX_BYTES
    storage_objects: int = MAX_OBJECTS
    history_bytes: int = MOST_BYTES
