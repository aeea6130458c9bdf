"""Settings of the Pod scheduler."""

from msgspec import Struct

from vcsync.tenancy.failure import Patience


class Settings(Struct, frozen=True):
    """Settings of the Pod scheduler.

    Attributes:
        workers: number of Pods that are scheduled concurrently.
        per_tenant: number of Pods of one tenant that are scheduled concurrently.
        patience: limits of silence after which a super cluster is suspect or lost.
    """

    workers: int = 64
    per_tenant: int = 16
    patience: Patience = Patience()
