"""Settings of the Pod scheduler."""

from msgspec import Struct

from vcsync.api.specs import STAY, Failover
from vcsync.tenancy.failure import Patience
from vcsync.tenancy.memory import TENANT_MEMORY_BYTES


class WebhookSettings(Struct, frozen=True):
    """The address of the placement webhook of external control planes.

    Attributes:
        host: address to listen on.
        port: port to listen on.
        endpoint: IP address of this process, to which the Service of the webhook leads while it leads; empty: the Service,
            if there is one, is somebody else's.
    """

    host: str
    port: int
    endpoint: str = ""


class Settings(Struct, frozen=True):
    """Settings of the Pod scheduler.

    Attributes:
        workers: number of Pods that are scheduled concurrently.
        per_tenant: number of Pods of one tenant that are scheduled concurrently.
        patience: limits of silence after which a super cluster is suspect or lost.
        failover: policy for lost super clusters of tenants that have none.
        webhook: where external control planes ask about new Pods; None: they do not.
        memory_per_tenant: bytes that the objects of one tenant may take in the caches.
    """

    workers: int = 64
    per_tenant: int = 16
    patience: Patience = Patience()
    failover: Failover = STAY
    webhook: WebhookSettings | None = None
    memory_per_tenant: int = TENANT_MEMORY_BYTES
